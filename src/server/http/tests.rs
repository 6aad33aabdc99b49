//! Hosts and origins.

use super::*;

fn hosts(is_loopback: bool) -> Hosts {
    let named = ["localhost", "127.0.0.1", "sessions.example"].map(str::to_owned).to_vec();
    Hosts { named, is_loopback }
}

fn shared(origins: &[&str]) -> Shared {
    let (_, phase) = watch::channel(Phase::Starting);
    let origins = origins.iter().map(|&it| it.to_owned()).collect();
    Shared {
        hosts: Some(hosts(true)),
        origins,
        is_read_only: false,
        inspector: Inspector::new(false, false),
        openapi: OnceLock::new(),
        phase,
    }
}

fn request(headers: &[(HeaderName, &str)]) -> Request<()> {
    let mut request = Request::new(());
    for (name, value) in headers {
        request.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
    }
    request
}

#[test]
fn a_name_that_leads_here_without_being_meant_is_refused() {
    for (host, on_loopback, beyond) in [
        ("localhost", true, true),
        ("LOCALHOST", true, true),
        ("localhost.", true, true),
        ("127.0.0.1", true, true),
        ("sessions.example", true, true),
        ("127.0.0.2", false, true),
        ("[::1]", false, true),
        ("attacker.example", false, false),
        ("localhost.attacker.example", false, false),
        ("", false, false),
    ] {
        assert_eq!(
            (hosts(true).contain(host), hosts(false).contain(host)),
            (on_loopback, beyond),
            "{host}"
        );
    }
    let shared = shared(&[]);
    for (host, is_meant) in [
        ("localhost:8380", true),
        ("127.0.0.1", true),
        ("evil.example:8380", false),
        ("a b", false),
        ("localhost..", false),
    ] {
        assert_eq!(shared.is_meant(&request(&[(HOST, host)])), is_meant, "{host}");
    }
    assert!(!shared.is_meant(&request(&[])), "HTTP/1.0 names none");
    let mut twice = request(&[(HOST, "localhost")]);
    twice.headers_mut().append(HOST, HeaderValue::from_static("evil.example"));
    assert!(!shared.is_meant(&twice));
}

#[test]
fn only_pages_of_this_server_and_of_those_that_are_named_may_call() {
    let shared = shared(&["https://app.example"]);
    let judge = |origin: &str| {
        let request = request(&[(HOST, "localhost:8380"), (ORIGIN, origin)]);
        shared.other_origin(&request).map(|it| it.is_some())
    };
    assert_eq!(shared.other_origin(&request(&[(HOST, "localhost:8380")])), Ok(None));
    assert_eq!(judge("http://localhost:8380"), Ok(false));
    assert_eq!(judge("https://app.example"), Ok(true));
    assert_eq!(judge("https://APP.example"), Ok(true));
    for foreign in [
        "null",
        "http://localhost",
        "gopher://localhost:8380",
        "localhost:8380",
        "http://localhost:8381",
        "http://app.example",
        "https://app.example.evil",
    ] {
        assert_eq!(judge(foreign), Err(()), "{foreign}");
    }
}
