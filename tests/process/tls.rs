//! TLS of the listener and of the client: whom each of them refuses, and certificates that change under load.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Certificate, Channel, ClientTlsConfig};

use crate::{
    certificates::{Authority, Pair},
    harness::{Ended, PATIENCE, Server, append, create, event, last_sequence, program},
};

pub const LOCAL: [&str; 2] = ["localhost", "127.0.0.1"];

/// A folder with an authority, and the files of a server.
pub struct Files {
    pub folder: TempDir,
    pub authority: Authority,
}

impl Files {
    pub fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let authority = Authority::new(folder.path(), "ca.pem");
        Self { folder, authority }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a pair as `NAME.pem` and `NAME.key`.
    pub fn write(&self, name: &str, (certificate, key): &Pair) {
        // In two steps, as the tools that renew certificates do.
        fs::write(self.path(&format!("{name}.pem")), certificate).unwrap();
        fs::write(self.path(&format!("{name}.key")), key).unwrap();
    }

    /// The flags of a pair.
    pub fn flags(&self, name: &str) -> [String; 4] {
        let path = |ending| self.path(&format!("{name}.{ending}")).display().to_string();
        ["--tls-cert".into(), path("pem"), "--tls-key".into(), path("key")]
    }

    /// Starts a server with a pair, and with more arguments.
    fn serve(&self, pair: &Pair, more: &[&str]) -> Server {
        self.write("server", pair);
        let flags = self.flags("server");
        let arguments: Vec<_> =
            flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
        Server::start_with(self.folder.path(), &arguments)
    }

    pub fn serve_local(&self, more: &[&str]) -> Server {
        self.serve(&self.authority.issue("server", &LOCAL), more)
    }

    /// Asks a server for its health, trusting an authority.
    fn ask(&self, server: &str, authority: &Path, more: &[String]) -> Output {
        Command::new(program())
            .args(["health", "--server", server, "--tls-ca"])
            .arg(authority)
            .args(more)
            .output()
            .unwrap()
    }

    fn assert_answers(&self, server: &Server, more: &[String]) {
        let output = self.ask(server.address(), &self.authority.file, more);
        assert!(output.status.success(), "{}", text(&output));
    }

    /// The client may see why, or only that the connection has ended.
    fn assert_refused(&self, server: &Server, more: &[String]) {
        let output = self.ask(server.address(), &self.authority.file, more);
        let said = text(&output);
        assert!(output.status.code() == Some(3) && said.contains("--tls-cert"), "{said}");
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_client_refuses_a_server_that_it_cannot_trust() {
    let files = Files::new();
    let other = Authority::new(files.folder.path(), "other.pem");
    let issue =
        |names: &[&str], first, last| files.authority.issue_for_years("server", names, first, last);
    for (pair, says) in [
        (other.issue("server", &LOCAL), "UnknownIssuer"),
        (issue(&LOCAL, 2001, 2002), "expired"),
        (issue(&LOCAL, 4000, 4001), "not valid yet"),
        (issue(&["example.org"], 1975, 4096), "not valid for name"),
    ] {
        let server = files.serve(&pair, &[]);
        let output = files.ask(server.address(), &files.authority.file, &[]);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains(says) && said.contains("--tls-ca"), "{says}: {said}");
        server.kill();
    }
    let server = files.serve_local(&[]);
    files.assert_answers(&server, &[]);
    // Nothing says that this machine trusts the authority.
    let output = Command::new(program()).args(["health", "--server", server.address()]).output();
    assert_eq!(output.unwrap().status.code(), Some(3));
    server.stop();
}

#[test]
fn a_server_refuses_clients_without_a_certificate_that_it_trusts() {
    let files = Files::new();
    let ca = files.authority.file.display().to_string();
    let server = files.serve_local(&["--tls-client-ca", &ca, "--log", "sessiond=debug"]);
    let other = Authority::new(files.folder.path(), "other.pem");
    files.write("good", &files.authority.issue("agent", &[]));
    files.write("foreign", &other.issue("agent", &[]));
    files.write("expired", &files.authority.issue_for_years("agent", &[], 2001, 2002));
    files.write("early", &files.authority.issue_for_years("agent", &[], 4000, 4001));
    files.assert_refused(&server, &[]);
    for pair in ["foreign", "expired", "early"] {
        files.assert_refused(&server, &files.flags(pair));
    }
    files.assert_answers(&server, &files.flags("good"));
    let Ended { status, log } = server.stop();
    assert!(status.success());
    let causes = ["sent no certificates", "UnknownIssuer", "expired", "not valid yet"];
    let refusals = log.lines().filter(|line| line.contains("could not begin TLS"));
    let mut found: Vec<_> = refusals
        .map(|line| *causes.iter().find(|cause| line.contains(**cause)).expect(line))
        .collect();
    // A client may try again.
    found.dedup();
    assert_eq!(found, causes);
}

#[tokio::test]
async fn plain_text_and_tls_do_not_mix() {
    let files = Files::new();
    let server = files.serve_local(&[]);
    let plain = server.address().replace("https://", "http://");
    let arguments = ["session", "list", "--app", "a", "--server", &plain];
    let output = Command::new(program()).args(arguments).output().unwrap();
    let said = text(&output);
    assert!(output.status.code() == Some(3) && said.contains("https://HOST:PORT"), "{said}");
    files.assert_answers(&server, &[]);
    server.stop();

    let server = Server::start_with(files.folder.path(), &[]);
    let encrypted = format!("https://{}", server.address());
    let output = files.ask(&encrypted, &files.authority.file, &[]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    // A file that the address does not use is a mistake.
    let output = files.ask(server.address(), &files.authority.file, &[]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("https://HOST:PORT"), "{}", text(&output));
    server.stop();
}

/// A channel of its own: a connection that begins now.
async fn connect(server: &str, authority: &str) -> Channel {
    let config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authority));
    let endpoint = Channel::from_shared(server.to_owned()).unwrap().tls_config(config).unwrap();
    endpoint.connect().await.unwrap()
}

/// The certificate that the server shows to a new connection.
async fn shown(server: &str, authority: &str) -> CertificateDer<'static> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(server.strip_prefix("https://").unwrap()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_reloaded_under_load_and_no_call_fails() {
    let files = Files::new();
    let server = files.serve_local(&["--reload-interval", "1"]);
    let (address, authority) =
        (server.address().to_owned(), fs::read_to_string(&files.authority.file).unwrap());
    let first = shown(&address, &authority).await;
    create(&connect(&address, &authority).await, "s", "{}").await;

    let (stop, appended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let load = {
        let (stop, appended) = (Arc::clone(&stop), Arc::clone(&appended));
        let (address, authority) = (address.clone(), authority.clone());
        tokio::spawn(async move {
            let lasting = connect(&address, &authority).await;
            while !stop.load(Relaxed) {
                let at = appended.fetch_add(2, Relaxed);
                let fresh = connect(&address, &authority).await;
                append(&fresh, "s", event(&format!("e{at}"), "{}", "{}")).await.unwrap();
                append(&lasting, "s", event(&format!("l{at}"), "{}", "{}")).await.unwrap();
            }
            lasting
        })
    };
    let changed = async |from: &CertificateDer<'static>| {
        let waiting = async {
            loop {
                let now = shown(&address, &authority).await;
                if now != *from {
                    return now;
                }
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.expect("the new certificate is not shown")
    };
    files.write("server", &files.authority.issue("server", &LOCAL));
    let second = changed(&first).await;
    files.write("server", &files.authority.issue("server", &LOCAL));
    changed(&second).await;

    stop.store(true, Relaxed);
    let lasting = load.await.unwrap();
    assert_eq!(last_sequence(&lasting, "s").await as u64, appended.load(Relaxed));
    server.stop();
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let files = Files::new();
    let pair = files.authority.issue("server", &LOCAL);
    files.write("server", &pair);
    for (broken, says) in [("server.key", "--tls-key"), ("server.pem", "--tls-cert")] {
        files.write("server", &pair);
        fs::write(files.path(broken), "nothing").unwrap();
        let flags = files.flags("server");
        let arguments =
            ["serve", "--http-listen", "off", "--listen", "127.0.0.1:0", "--store", "memory:"];
        let output = Command::new(program()).args(arguments).args(&flags).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(
            text(&output).contains(says) && text(&output).contains(broken),
            "{}",
            text(&output)
        );
    }
    files.write("server", &pair);
    let flags = files.flags("server");
    let arguments =
        ["serve", "--http-listen", "off", "--listen", "unix:socket", "--store", "memory:"];
    let output = Command::new(program()).args(arguments).args(&flags).output().unwrap();
    assert!(text(&output).contains("TCP"), "{}", text(&output));
    let output = Command::new(program()).args(["serve"]).args(&flags[..2]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "a key belongs to it");
}
