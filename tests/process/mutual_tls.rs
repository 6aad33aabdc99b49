//! Client certificates: whom they name, and authorities that change under load.

use std::{fs, path::Path};

use crate::{
    certificates::{Authority, Pair},
    harness::{Ended, PATIENCE, Server, append, create, event, last_sequence},
    identity::{call, names, principals, refusal},
    jwt::Issuer,
    tls::Files,
};

impl Files {
    /// Starts a server that asks for certificates of the authorities in `clients.pem`.
    fn serve_mutual(&self, more: &[&str]) -> Server {
        fs::copy(&self.authority.file, self.path("clients.pem")).unwrap();
        let clients = self.path("clients.pem").display().to_string();
        self.serve_local(&[&["--tls-client-ca", &clients][..], more].concat())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_names_its_holder_and_a_token_counts_more() {
    let (files, issuer) = (Files::new(), Issuer::new());
    let jwt = issuer.publish(&files.path("keys.json"));
    let jwt: Vec<_> = jwt.iter().map(String::as_str).collect();
    let flags = [&["--log-calls", "--log-format", "json"][..], &jwt].concat();
    let server = files.serve_mutual(&flags);
    let spiffe = "spiffe://example.org/agent";
    // The subject of a token cannot name the holder of a certificate.
    let (posing, expired) = (issuer.token(spiffe, 600), issuer.token("alice", -600));
    for alternatives in [&[spiffe, "a.example.org"][..], &["a.example.org"], &[]] {
        let pair = files.authority.issue("agent", alternatives);
        let channel = server.channel_as(&files.authority.file, &pair).await.unwrap();
        call(&channel, None).await.unwrap();
        call(&channel, Some(&posing)).await.unwrap();
        assert_eq!(refusal(&channel, Some(&expired)).await.0, "CREDENTIAL_EXPIRED");
    }
    let nameless = files.authority.issue("", &["127.0.0.1"]);
    let channel = server.channel_as(&files.authority.file, &nameless).await.unwrap();
    let expected = ("CREDENTIAL_INVALID".to_owned(), "certificate_name".to_owned());
    assert_eq!(refusal(&channel, None).await, expected);
    let Ended { log, .. } = server.stop();
    assert_eq!(
        principals(&log),
        names(&[
            ("GetSession", spiffe, "NOT_FOUND"),
            ("GetSession", "dns:a.example.org", "NOT_FOUND"),
            ("GetSession", "cn:agent", "NOT_FOUND"),
            ("GetSession", "jwt:spiffe://example.org/agent", "NOT_FOUND"),
            ("GetSession", "none", "UNAUTHENTICATED"),
        ])
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authorities_of_clients_are_reloaded_under_load_and_no_call_fails() {
    let files = Files::new();
    let server = files.serve_mutual(&["--reload-interval", "1"]);
    let other = Authority::new(files.folder.path(), "other.pem");
    let (old, new) = (files.authority.issue("old", &[]), other.issue("new", &[]));
    let lasting = server.channel_as(&files.authority.file, &old).await.unwrap();
    create(&lasting, "s", "{}").await;
    let is_taken = async |pair: &Pair| match server.channel_as(&files.authority.file, pair).await {
        Ok(channel) => call(&channel, None).await.is_ok(),
        Err(_) => false,
    };
    assert!(!is_taken(&new).await);

    let mut appended = 0;
    let mut until = async |pair: &Pair, wanted: bool| {
        let waiting = async {
            loop {
                append(&lasting, "s", event(&format!("e{appended}"), "{}", "{}")).await.unwrap();
                appended += 1;
                if is_taken(pair).await == wanted {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.expect("the authorities are read again");
    };
    let authorities = |paths: &[&Path]| {
        let pem: String = paths.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
        fs::write(files.path("clients.pem"), pem).unwrap();
    };
    authorities(&[&files.authority.file, &other.file]);
    until(&new, true).await;
    assert!(is_taken(&old).await, "both are trusted");
    authorities(&[&other.file]);
    until(&old, false).await;
    assert!(is_taken(&new).await);
    // The connection that is open keeps what it began with.
    assert_eq!(last_sequence(&lasting, "s").await, appended);
    server.stop();
}
