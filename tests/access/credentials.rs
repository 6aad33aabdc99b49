//! Every RPC by every kind of credential: named by the policy, not named by it, expired, and without one.

use std::fs;

use sessiond::domain::permission::Right;
use tonic::transport::Endpoint;

use crate::{
    calls::Client,
    cases::{CASES, Case, Names, at},
    certificates::Authority,
    harness::{Server, serve_on},
    jwt::Issuer,
    setting::{Setting, rule, token},
};

/// Gives the callers of this kind all rights on their user of one application.
fn policy(principal: &str) -> String {
    // A JWT and a token name their user, a certificate and a process do not.
    let users = if principal.starts_with("jwt:") { "\"self\"" } else { "[\"alice\"]" };
    rule(principal, "shop", users, &Right::ALL)
}

/// Calls every RPC; each has to be answered with one of these codes, for a session that is there as for one that is not.
async fn calls_answer(client: &Client, kind: &str, code: impl Fn(&Case) -> &'static str) {
    for (place, case) in CASES.iter().enumerate() {
        let mut refusals = Vec::new();
        let expected = code(case);
        for session in ["there", "missing"] {
            let session = format!("{kind}-{session}-{place}");
            let json = (case.request)(&at("shop", "alice", &session));
            let answer = client.ask(case.method, &json).await;
            if expected != "OK" || session.contains("there") {
                assert_eq!(answer.code(), expected, "{} ({}) by {kind}", case.method, case.about);
            }
            refusals.extend(answer.refusal.map(|it| {
                (it.code, it.message.replace(&session, "ID"), it.rest.replace(&session, "ID"))
            }));
        }
        assert!(expected == "OK" || refusals[0] == refusals[1], "{refusals:?}");
    }
}

/// Sessions for the calls of some kinds, made while everybody may do everything.
async fn prepare(setting: &Setting, kinds: &[&str]) {
    let server = setting.start_open();
    let local = Client::new(server.channel().await);
    for kind in kinds {
        for place in 0..CASES.len() {
            let key = at("shop", "alice", &format!("{kind}-there-{place}")).key();
            assert_eq!(local.ask("CreateSession", &key).await.refusal, None);
        }
    }
    server.stop();
}

/// The code for a caller whom no rule names.
fn denied(case: &Case) -> &'static str {
    if case.names == Names::BareId { "NOT_FOUND" } else { "PERMISSION_DENIED" }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_policy_everybody_may_do_everything() {
    let setting = Setting::on_sqlite();
    prepare(&setting, &["local"]).await;
    let server = setting.start_open();
    calls_answer(&Client::new(server.channel().await), "local", |_| "OK").await;
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_policy_bare_ids_are_refused_unless_the_flag_says_otherwise() {
    let setting = Setting::on_sqlite();
    setting.set_policy(&policy("token:alice"));
    setting.set_tokens(&["alice"]);
    for (flag, bare) in [
        (None, "INVALID_ARGUMENT"),
        (Some("--require-full-keys"), "INVALID_ARGUMENT"),
        (Some("--require-full-keys=true"), "INVALID_ARGUMENT"),
        (Some("--require-full-keys=false"), "OK"),
    ] {
        let server = match flag {
            None => setting.start_by_default(),
            Some(flag) => setting.start_with_tokens(&[flag]),
        };
        let client = Client::new(server.channel().await).with_token(&token("alice"));
        let mut key = at("shop", "alice", "s").key();
        key["allow_existing"] = true.into();
        assert_eq!(client.ask("CreateSession", &key).await.refusal, None);
        let calls = CASES.iter().filter(|case| case.names == Names::BareId);
        for case in calls {
            let answer = client.ask(case.method, &(case.request)(&at("shop", "alice", "s"))).await;
            assert_eq!(answer.code(), bare, "{flag:?}: {} ({})", case.method, case.about);
        }
        server.stop();
    }
}

#[test]
fn a_policy_needs_callers_that_are_identified() {
    let setting = Setting::in_memory();
    setting.set_policy(&policy("token:other"));
    let file = setting.path("policy.toml").display().to_string();
    let refused = Server::run(serve_on("memory:").args(["--policy", &file])).err().unwrap();
    assert!(refused.log.contains("requires an identity source"), "{}", refused.log);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens() {
    let (setting, issuer) = (Setting::on_sqlite(), Issuer::new());
    prepare(&setting, &["jwt", "static", "expired", "none"]).await;
    setting.set_tokens(&["ci", "old"]);
    let tokens = setting.path("tokens.toml");
    // The last entry is that of `old`.
    let entries = fs::read_to_string(&tokens).unwrap() + "expires = 2020-01-01T00:00:00Z\n";
    fs::write(&tokens, entries).unwrap();
    let flags = issuer.publish(&setting.path("keys.json"));
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    for is_named in [false, true] {
        let named = ["jwt:alice", "token:ci", "token:old"].map(policy).concat();
        setting.set_policy(if is_named { &named } else { "" });
        let code = |case: &Case| if is_named { "OK" } else { denied(case) };
        let server = setting.start_with_tokens(&flags);
        let client = Client::new(server.channel().await);
        let by_jwt = client.with_token(&issuer.token("alice", 600));
        calls_answer(&by_jwt, "jwt", code).await;
        calls_answer(&client.with_token(&token("ci")), "static", code).await;
        for expired in [issuer.token("alice", -600), token("old")] {
            calls_answer(&client.with_token(&expired), "expired", |_| "UNAUTHENTICATED").await;
        }
        calls_answer(&client, "none", |_| "UNAUTHENTICATED").await;
        server.stop();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates() {
    let setting = Setting::on_sqlite();
    prepare(&setting, &["certificate", "stranger"]).await;
    let authority = Authority::new(setting.folder(), "ca.pem");
    let (certificate, key) = authority.issue("server", &["127.0.0.1"]);
    let path = |name| setting.path(name).display().to_string();
    fs::write(setting.path("server.pem"), certificate).unwrap();
    fs::write(setting.path("server.key"), key).unwrap();
    let [ca, certificate, key] = ["ca.pem", "server.pem", "server.key"].map(path);
    let flags = ["--tls-client-ca", &ca, "--tls-cert", &certificate, "--tls-key", &key];
    setting.set_policy(&policy("spiffe://example.org/agent"));
    let server = setting.start(&flags);
    let connect = async |pair| Client::new(server.channel_as(&authority.file, pair).await.unwrap());
    let named = authority.issue("agent", &["spiffe://example.org/agent"]);
    let stranger = authority.issue("agent", &["spiffe://example.org/agent-2"]);
    let named = connect(&named).await;
    calls_answer(&named, "certificate", |_| "OK").await;
    let stranger = connect(&stranger).await;
    calls_answer(&stranger, "stranger", denied).await;
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_at_a_unix_socket() {
    let setting = Setting::on_sqlite();
    prepare(&setting, &["named", "stranger"]).await;
    let user = rustix::process::getuid().as_raw();
    let listen = format!("unix:{}", setting.path("s").display());
    let flags = ["--unix-peers", "--listen", &listen];
    for (kind, principal) in
        [("stranger", format!("uid:{}", user + 1)), ("named", format!("uid:{user}"))]
    {
        setting.set_policy(&policy(&principal));
        let server = setting.start(&flags);
        let endpoint = Endpoint::try_from(listen.clone()).unwrap();
        let client = Client::new(endpoint.connect().await.unwrap());
        calls_answer(&client, kind, |case| if kind == "named" { "OK" } else { denied(case) }).await;
        server.stop();
    }
}
