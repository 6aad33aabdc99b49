//! Access to each path of the admin listener.

use clap::Parser;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use rustls::crypto::ring;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::{
    config::{Config, Listen, TlsArgs},
    pem,
    server::tls::{Protocol, Tls},
    store::instant,
};

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    config: Config,
}

/// The admin listener of this address. Plain HTTP is allowed everywhere, unless there is TLS.
async fn listener(address: &str, tls: Option<&Tls>) -> Listener {
    let mut flags = vec!["serve", "--admin-listen", address];
    flags.extend(tls.is_none().then_some("--admin-insecure"));
    let config = Program::parse_from(flags).config;
    let listen = Listen::Tcp(address.to_owned());
    Listener::bind(&listen, Protocol::Admin, &config, tls).await.unwrap()
}

#[tokio::test]
async fn what_is_not_ready_says_why() {
    let phases = [
        (Phase::Starting, "starting"),
        (Phase::Open(Condition::DiskFull), "disk full"),
        (Phase::Open(Condition::FileLost), "file lost"),
        (Phase::Open(Condition::Unreachable), "unreachable"),
        (Phase::Open(Condition::Behind), "behind"),
        (Phase::Draining, "draining"),
    ];
    let phase = watch::Sender::new(Phase::Open(Condition::Ready));
    let ask = async |query: &str| {
        let query = (query != "none").then(|| query.to_owned());
        ready(State(phase.subscribe()), RawQuery(query)).await
    };
    for query in ["none", "", "writes=true", "writes=false"] {
        assert_eq!(ask(query).await, (StatusCode::OK, "ok\n"));
    }
    for query in ["writes", "writes=0", "writes=false&writes=true", "reads"] {
        assert_eq!(ask(query).await.0, StatusCode::BAD_REQUEST, "{query}");
    }
    for (now, reason) in phases {
        phase.send_replace(now);
        assert!(Phase::NAMES.iter().any(|(phase, _)| *phase == now), "{now:?}");
        for query in ["none", "writes=true", "writes=false"] {
            let (status, body) = ask(query).await;
            if query == "writes=false" && now == Phase::Open(Condition::DiskFull) {
                assert_eq!(status, StatusCode::OK);
                assert!(body.starts_with("ok") && body.contains("the disk is full"), "{body}");
                continue;
            }
            assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
            assert!(body.starts_with(reason) && body.ends_with('\n'), "{body}");
        }
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
    let builder = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
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
    let listener = listener("127.0.0.1:0", None).await;
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

#[tokio::test]
async fn beyond_loopback_a_plain_listener_answers_probes_of_any_host_and_changes_nothing() {
    let listener = listener("0.0.0.0:0", None).await;
    let port = listener.address().rsplit_once(':').unwrap().1.parse::<u16>().unwrap();
    let phase = watch::Sender::new(Phase::Open(Condition::Ready));
    let serving = tokio::spawn(serve(listener, routes(phase.subscribe(), Arc::default())));
    for (request, status) in [
        ("GET /livez", 200),
        ("GET /readyz", 200),
        ("GET /readyz?writes=false", 200),
        ("GET /version", 200),
        ("GET /metrics", 200),
        ("PUT /log", 403),
    ] {
        // Even from this machine, as which a proxy would come.
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let head = "host: sessiond.default.svc:9464\r\ncontent-length: 4\r\n\r\ninfo";
        stream.write_all(format!("{request} HTTP/1.1\r\n{head}").as_bytes()).await.unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
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
    // On loopback it would be plain.
    let listener = listener("0.0.0.0:0", tls.as_ref()).await;
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

/// An admin listener on loopback, which answers until the handle is dropped, and its address.
async fn serving() -> (AbortOnDropHandle<()>, String) {
    let listener = listener("127.0.0.1:0", None).await;
    let address = listener.address();
    let phase = watch::Sender::new(Phase::Open(Condition::Ready));
    let serving = tokio::spawn(serve(listener, routes(phase.subscribe(), Arc::default())));
    (AbortOnDropHandle::new(serving), address)
}

async fn connect(address: &str, sent: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(sent.as_bytes()).await.unwrap();
    stream
}

/// What comes until the end of a connection.
async fn rest(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    // A connection that is reset has ended as well.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

const LIVEZ: &str = "GET /livez HTTP/1.1\r\n\r\n";

#[tokio::test]
async fn connections_without_a_request_do_not_keep_probes_away() {
    let (_serving, address) = serving().await;
    let mut silent = VecDeque::new();
    for at in 0..3 * CONNECTIONS {
        // Some send a part of a head.
        silent.push_back(connect(&address, ["", "GET /livez HTTP/1.1\r\nhost:"][at % 2]).await);
    }
    for _ in 0..3 {
        let answer = async { rest(connect(&address, LIVEZ).await).await };
        let answer = timeout(Duration::from_secs(1), answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        silent.push_back(connect(&address, "").await);
    }
    // The oldest ones have ended.
    for stream in silent.drain(..2 * CONNECTIONS) {
        assert_eq!(timeout(Duration::from_secs(1), rest(stream)).await.unwrap(), "");
    }
}

#[tokio::test]
async fn a_request_that_is_answered_does_not_make_place_for_silence() {
    let (_serving, address) = serving().await;
    let mut begun =
        connect(&address, "PUT /log HTTP/1.1\r\ncontent-length: 4\r\nexpect: 100-continue\r\n\r\n")
            .await;
    // Its head is there, and its body is waited for.
    let mut go_on = [0; 25];
    begun.read_exact(&mut go_on).await.unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    let mut silent = Vec::new();
    for _ in 0..2 * CONNECTIONS {
        silent.push(connect(&address, "").await);
    }
    assert!(rest(connect(&address, LIVEZ).await).await.starts_with("HTTP/1.1 200 "));
    begun.write_all(b"info").await.unwrap();
    // A test has no log.
    assert!(rest(begun).await.starts_with("HTTP/1.1 400 "));
}

#[tokio::test]
async fn requests_that_do_not_end_do_not_keep_probes_away() {
    let (_serving, address) = serving().await;
    let mut begun = Vec::new();
    for _ in 0..2 * CONNECTIONS {
        let head = "PUT /log HTTP/1.1\r\ncontent-length: 4\r\n\r\n";
        begun.push(connect(&address, head).await);
    }
    let answer = async { rest(connect(&address, LIVEZ).await).await };
    let answer = timeout(Duration::from_secs(1), answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let mut ended: FuturesUnordered<_> = begun.into_iter().map(rest).collect();
    for _ in 0..CONNECTIONS {
        assert!(timeout(Duration::from_secs(1), ended.next()).await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_has_two_seconds_for_the_head_of_its_request() {
    let (_serving, address) = serving().await;
    for sent in ["", "GET /livez HTTP/1.1\r\nhost:"] {
        let began = instant();
        assert_eq!(rest(connect(&address, sent).await).await, "");
        let lasted = began.elapsed();
        assert!(lasted >= HEAD_TIMEOUT && lasted < ANSWER_TIMEOUT, "{lasted:?}");
    }
}
