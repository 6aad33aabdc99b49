//! Addresses, and connections that fail.

mod late_answers;

use super::*;

#[test]
fn every_form_of_an_address_is_understood() {
    for (text, address) in [
        ("localhost:50051", "http://localhost:50051"),
        ("localhost", "http://localhost:50051"),
        ("https://db.internal", "https://db.internal:50051"),
        ("http://[::1]", "http://[::1]:50051"),
        ("127.0.0.1:1", "http://127.0.0.1:1"),
        ("[::1]:50051", "http://[::1]:50051"),
        ("http://db.internal:80", "http://db.internal:80"),
        ("https://db.internal:443", "https://db.internal:443"),
        ("unix:/run/s.sock", "unix:/run/s.sock"),
        ("unix:///run/s.sock", "unix:///run/s.sock"),
        ("", DEFAULT_SERVER),
    ] {
        let parsed = parse_address(text);
        assert_eq!(parsed.as_deref(), Ok(address));
    }
}

#[test]
fn what_is_no_address_is_refused_with_the_forms_that_are() {
    for text in ["localhost:", "unix:", "unix://", "ftp://h:1", ":1", "a b:1", "h:99999999"] {
        let error = parse_address(text).unwrap_err();
        assert!(error.contains("HOST:PORT"), "{text}: {error}");
    }
}

#[tokio::test]
async fn a_connection_that_fails_is_one_sentence_with_the_address() {
    let dir = tempfile::tempdir().unwrap();
    let path = format!("unix:{}", dir.path().join("none.sock").display());
    let timeout = Duration::from_secs(1);
    let (tls, token) = (TlsArgs::default(), TokenArgs::default());
    let args = ConnectArgs { server: path.clone(), timeout, tls, token, output: None };
    let text = Server::connect(&args).await.unwrap_err().text();
    assert!(text.starts_with(&format!("cannot connect to {path}: ")), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}
