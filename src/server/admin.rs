//! The admin listener: HTTP for those who look after the server. Its address is its own, so that callers need not reach it.

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    extract::{DefaultBodyLimit, Request, State},
    http::{
        HeaderName, StatusCode,
        header::{CONTENT_TYPE, HOST},
        uri::Authority,
    },
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Response},
    routing::{get, put},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, join},
    sync::{Semaphore, watch},
    time::{sleep, timeout},
};

use super::{connections::ACCEPT_PAUSE, health::Phase, listener::Listener};
use crate::{
    logging,
    metrics::{Metrics, TEXT_FORMAT},
    store::Condition,
};

/// Connections at once: probes and a collector of metrics need a few.
const CONNECTIONS: usize = 64;

/// Bytes of a filter: levels for more targets than there are.
const FILTER_BYTES: usize = 4096;

/// Seconds that a request and its answer may take.
const REQUEST_TIMEOUT_SECS: u64 = 10;

pub fn routes(phase: watch::Receiver<Phase>, metrics: Arc<Metrics>) -> Router {
    let measured = (phase.clone(), metrics);
    let metrics = Router::new().route("/metrics", get(scrape)).with_state(measured);
    Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/log", put(set_log).layer(DefaultBodyLimit::max(FILTER_BYTES)))
        .route("/version", get(async || concat!(env!("CARGO_PKG_VERSION"), "\n")))
        .with_state(phase)
        .merge(metrics)
}

/// Whether a caller may change something: on this machine, or with a client certificate.
#[derive(Clone, Copy)]
struct MayChange(bool);

/// Replaces the filter of the log until the server ends.
async fn set_log(Extension(may): Extension<MayChange>, filter: String) -> (StatusCode, String) {
    if !may.0 {
        let text = "Show a client certificate of --tls-client-ca, or use a loopback address or a Unix socket.\n";
        return (StatusCode::FORBIDDEN, text.to_owned());
    }
    match logging::set_filter(filter.trim()) {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")),
    }
}

/// Whether a request is meant for this listener, as its `Host` tells: `localhost`, an IP address, or the host that the listener was passed.
///
/// A page in a browser on this machine can have its name resolved to a loopback address, and then reach what listens there without TLS
/// (DNS rebinding). The `Host` is still the page's name. A browser always sends one.
fn is_meant(request: &Request, own_host: &str) -> bool {
    let Some(host) = request.headers().get(HOST) else { return true };
    let Ok(authority) = Authority::try_from(host.as_bytes()) else { return false };
    let host = authority.host();
    host.eq_ignore_ascii_case("localhost")
        || host.eq_ignore_ascii_case(own_host)
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}

/// Passes on what [`is_meant`] for the listener.
async fn check_host(State(own_host): State<Arc<str>>, request: Request, next: Next) -> Response {
    if is_meant(&request, &own_host) {
        return next.run(request).await;
    }
    let text = "The Host of the request is another one. Use localhost, an IP address or the host of --admin-listen.\n";
    (StatusCode::MISDIRECTED_REQUEST, text).into_response()
}

/// All metrics, in Prometheus' text format.
async fn scrape(
    State((phase, metrics)): State<(watch::Receiver<Phase>, Arc<Metrics>)>,
) -> Result<([(HeaderName, &'static str); 1], String), (StatusCode, String)> {
    let current = phase.borrow().name();
    for name in Phase::NAMES {
        metrics.condition.with_label_values(&[name]).set(i64::from(name == current));
    }
    match metrics.scrape().await {
        Ok(text) => Ok(([(CONTENT_TYPE, TEXT_FORMAT)], text)),
        Err(error) => Err((StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n"))),
    }
}

/// Whether calls of every kind are taken, and why not.
async fn ready(State(phase): State<watch::Receiver<Phase>>) -> (StatusCode, &'static str) {
    let reason = match *phase.borrow() {
        Phase::Open(Condition::Ready) => return (StatusCode::OK, "ok\n"),
        Phase::Starting => "starting: the store is not open yet\n",
        Phase::Draining => "draining: the server is shutting down\n",
        Phase::Open(Condition::DiskFull) => {
            "disk full: only reads and deletions are taken. Free space on the disk of the store\n"
        }
        Phase::Open(Condition::FileLost) => {
            "file lost: the database file was removed or replaced, or the disk failed to store it. Restart the server\n"
        }
        Phase::Open(Condition::Unreachable) => {
            "unreachable: the database cannot be reached or does not take writes\n"
        }
    };
    (StatusCode::SERVICE_UNAVAILABLE, reason)
}

/// Accepts connections for ever.
pub async fn serve(listener: Listener, routes: Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let routes = match listener.plain_host() {
        Some(host) => routes.layer(from_fn_with_state(Arc::from(host), check_host)),
        None => routes,
    };
    // It is never closed.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let ((reader, writer), tls) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection of the admin listener");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let routes = routes.clone();
        tokio::spawn(async move {
            let _place = place;
            let answered = timeout(Duration::from_secs(REQUEST_TIMEOUT_SECS), async {
                match tls {
                    None => answer(join(reader, writer), routes, MayChange(true)).await,
                    Some(tls) => match tls.accept(join(reader, writer)).await {
                        Ok(stream) => {
                            let has_certificate = stream.get_ref().1.peer_certificates().is_some();
                            answer(stream, routes, MayChange(has_certificate)).await;
                        }
                        Err(error) => tracing::debug!(%error, "a client could not begin TLS"),
                    },
                }
            });
            if answered.await.is_err() {
                tracing::debug!("a request of the admin listener took too long");
            }
        });
    }
}

/// Answers one request.
async fn answer(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    routes: Router,
    may_change: MayChange,
) {
    let mut http = auto::Builder::new(TokioExecutor::new()).http1_only();
    http.http1().timer(TokioTimer::new()).keep_alive(false);
    let service = TowerToHyperService::new(routes.layer(Extension(may_change)));
    if let Err(error) = http.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(error, "a connection of the admin listener failed");
    }
}

#[cfg(test)]
mod tests {
    use rustls::crypto::ring;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpStream,
    };
    use tokio_rustls::TlsConnector;

    use super::*;
    use crate::{
        config::{Listen, TlsArgs},
        pem,
        server::{
            listener::Access,
            tls::{Protocol, Tls},
        },
    };

    #[tokio::test]
    async fn what_is_not_ready_says_why() {
        let phases = [
            (Phase::Starting, "starting"),
            (Phase::Open(Condition::DiskFull), "disk full"),
            (Phase::Open(Condition::FileLost), "file lost"),
            (Phase::Open(Condition::Unreachable), "unreachable"),
            (Phase::Draining, "draining"),
        ];
        let phase = watch::Sender::new(Phase::Open(Condition::Ready));
        assert_eq!(ready(State(phase.subscribe())).await, (StatusCode::OK, "ok\n"));
        for (now, reason) in phases {
            phase.send_replace(now);
            assert!(Phase::NAMES.contains(&now.name()), "{now:?}");
            let (status, body) = ready(State(phase.subscribe())).await;
            assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
            assert!(body.starts_with(reason) && body.ends_with('\n'), "{body}");
        }
    }

    /// Sends a request over TLS, perhaps with a client certificate, and returns the status.
    async fn status(
        address: &str,
        authority: &str,
        own: Option<(String, String)>,
        request: &str,
    ) -> u16 {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(pem::certificates(authority.as_bytes()).unwrap().remove(0)).unwrap();
        let builder =
            rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots);
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = pem::certificates(certificate.as_bytes()).unwrap();
                let key = pem::private_key(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let stream = TcpStream::connect(address).await.unwrap();
        let name = "localhost".try_into().unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        // Within TLS any host counts.
        let head = "host: any.example.org\r\ncontent-length: 4\r\n\r\ninfo";
        stream.write_all(format!("{request} HTTP/1.1\r\n{head}").as_bytes()).await.unwrap();
        let mut answer = String::new();
        // The server may end the connection without a word of TLS.
        let _ = stream.read_to_string(&mut answer).await;
        answer.split(' ').nth(1).unwrap().parse().unwrap()
    }

    #[tokio::test]
    async fn without_tls_a_request_has_the_host_of_the_listener() {
        let access = Access {
            flag: "--admin-listen",
            protocol: Protocol::Http,
            tls: None,
            plain_on_loopback: true,
            advice: None,
        };
        let listener = Listener::bind(&Listen::Tcp("127.0.0.1:0".into()), access).await.unwrap();
        assert_eq!(listener.plain_host(), Some("127.0.0.1"));
        let address = listener.address();
        let phase = watch::Sender::new(Phase::Open(Condition::Ready));
        let serving = tokio::spawn(serve(listener, routes(phase.subscribe(), Arc::default())));
        for (host, status) in [
            ("host: localhost:9464\r\n", 200),
            ("host: LOCALHOST\r\n", 200),
            ("host: 127.0.0.1\r\n", 200),
            ("host: [::1]:80\r\n", 200),
            ("", 200),
            ("host: rebound.example.org:9464\r\n", 421),
            ("host: localhost.example.org\r\n", 421),
            ("host: user@rebound.example.org\r\n", 421),
            ("host: \r\n", 421),
        ] {
            let mut stream = TcpStream::connect(&address).await.unwrap();
            let request = format!("GET /livez HTTP/1.1\r\n{host}\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{host}: {answer}");
            assert_eq!(status == 421, answer.contains("Use localhost"), "{answer}");
        }
        serving.abort();
    }

    #[test]
    fn a_host_that_the_listener_was_passed_counts() {
        for (host, own, is_meant_for_it) in [
            ("sidecar.internal:9464", "sidecar.internal", true),
            ("Sidecar.Internal", "sidecar.internal", true),
            ("other.internal", "sidecar.internal", false),
            ("sidecar.internal.example.org", "sidecar.internal", false),
        ] {
            let request = Request::builder().header(HOST, host).body(Default::default()).unwrap();
            assert_eq!(is_meant(&request, own), is_meant_for_it, "{host}");
        }
    }

    #[tokio::test]
    async fn within_tls_probes_need_no_certificate_and_changes_do() {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let path = |name| folder.path().join(name);
        std::fs::write(path("cert.pem"), &certificate).unwrap();
        std::fs::write(path("key.pem"), &key).unwrap();
        let args = TlsArgs {
            tls_cert: Some(path("cert.pem")),
            tls_key: Some(path("key.pem")),
            tls_client_ca: Some(path("cert.pem")),
            reload_interval: 10,
        };
        let tls = Tls::load(&args, Metrics::default().tls()).unwrap();
        let access = Access {
            flag: "--admin-listen",
            protocol: Protocol::Http,
            tls: tls.as_ref(),
            // As beyond loopback.
            plain_on_loopback: false,
            advice: None,
        };
        let listen = Listen::Tcp("127.0.0.1:0".into());
        let listener = Listener::bind(&listen, access).await.unwrap();
        let address = listener.address();
        let address = address.strip_prefix("https://").unwrap();
        let phase = watch::Sender::new(Phase::Open(Condition::Ready));
        let serving = tokio::spawn(serve(listener, routes(phase.subscribe(), Arc::default())));
        let ask = async |own, request| status(address, &certificate, own, request).await;
        assert_eq!(ask(None, "GET /livez").await, 200);
        assert_eq!(ask(None, "PUT /log").await, 403);
        // It may, and a test has no log.
        let own = Some((certificate.clone(), key));
        assert_eq!(ask(own, "PUT /log").await, 400);
        serving.abort();
    }
}
