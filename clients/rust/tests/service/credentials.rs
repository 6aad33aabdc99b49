//! TLS and token files, from settings and from the environment.

use std::{
    collections::HashMap,
    fs,
    fs::FileTimes,
    path::Path,
    time::{Duration, SystemTime},
};

use adk_core::{ErrorCategory, identity::AdkIdentity};
use adk_session::SessionService;
use futures_util::StreamExt;
use prost::Message;
use serde_json::json;
use sessiond_adk::{
    Builder, ChangeKind, Retry, Scope, SessiondSessionService, Since,
    proto::v1::{
        self, ListSessionsRequest, WatchResponse, session_service_client::SessionServiceClient,
    },
};
use sessiond_adk_testing::{Authority, ScriptedServer, Server, Store, TIMEOUT, builder};
use tempfile::TempDir;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::harness::{APP, USER, assert_error, creation, identity, named};

/// A server with TLS, and its address.
fn start_tls(authority: &Authority, more: &[&str]) -> (Server, String) {
    let (certificate, key) = authority.issue("server");
    let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
    let flags = [&["--tls-cert", certificate, "--tls-key", key], more].concat();
    let server = Server::start_with(Store::Memory, &flags);
    let address = format!("https://{}", server.address().trim_start_matches("https://"));
    (server, address)
}

async fn create(settings: Builder) {
    let service = settings.connect().await.unwrap();
    service.create(creation("s1", json!({}))).await.unwrap();
}

async fn assert_unavailable(settings: Builder) {
    let once = Retry { attempts: 1, ..Retry::default() };
    let outcome = settings.retry(once).connect().await;
    assert_error(outcome.map(drop), ErrorCategory::Unavailable, "session.unavailable");
}

#[tokio::test]
async fn the_authority_of_the_server_is_trusted() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new(folder.path());
    let (_server, address) = start_tls(&authority, &[]);
    create(builder(&address).tls_ca(&authority.file)).await;
    let another = TempDir::new().unwrap();
    assert_unavailable(builder(&address).tls_ca(Authority::new(another.path()).file)).await;
}

#[tokio::test]
async fn the_client_shows_its_certificate() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new(folder.path());
    let ca = authority.file.to_str().unwrap();
    let (_server, address) = start_tls(&authority, &["--tls-client-ca", ca]);
    let (certificate, key) = authority.issue("agent");
    create(builder(&address).tls_ca(ca).client_certificate(&certificate, &key)).await;
    assert_unavailable(builder(&address).tls_ca(ca)).await;
}

/// Answers lists with nothing, and ends watches at once.
async fn recorder() -> ScriptedServer {
    let deleted = v1::watch_response::Kind::SessionDeleted(v1::SessionDeleted::default());
    let deleted = WatchResponse { kind: Some(deleted), cursor: "c".into() }.encode_to_vec();
    ScriptedServer::start(move |path| {
        Ok(if path.ends_with("/Watch") { deleted.clone() } else { Vec::new() })
    })
    .await
}

/// One call and one watch.
async fn call_and_watch(service: &SessiondSessionService) {
    let request = adk_session::ListRequest {
        app_name: APP.into(),
        user_id: USER.into(),
        limit: None,
        offset: None,
    };
    service.list(request).await.unwrap();
    let identity: AdkIdentity = identity(APP, USER, "s1");
    let mut watch = service.watch(&Scope::Session(identity), Since::Now);
    let change = watch.next().await.unwrap().unwrap();
    assert!(matches!(change.kind, ChangeKind::Deleted));
}

fn write(path: &Path, token: &str, modified: SystemTime) {
    fs::write(path, token).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_times(FileTimes::new().set_modified(modified)).unwrap();
}

#[tokio::test]
async fn the_token_is_sent_with_calls_and_watches_and_requests_of_the_callers_own() {
    let folder = TempDir::new().unwrap();
    let token = folder.path().join("token");
    write(&token, "secret\n", SystemTime::now());
    let server = recorder().await;
    let service = builder(server.address()).token_file(&token).connect_lazy().unwrap();
    call_and_watch(&service).await;
    let request = service.request(ListSessionsRequest::default());
    SessionServiceClient::new(service.channel()).list_sessions(request).await.unwrap();
    call_and_watch(&builder(server.address()).connect_lazy().unwrap()).await;
    let wanted = ["Bearer secret", "Bearer secret", "Bearer secret", "", ""];
    assert_eq!(server.headers("authorization"), wanted);
}

/// The hash of the token "secret".
const HASHES: &str = r#"[[token]]
name = "agent"
sha256 = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
"#;

#[tokio::test]
async fn a_server_with_tokens_is_used() {
    let folder = TempDir::new().unwrap();
    let (token, hashes) = (folder.path().join("token"), folder.path().join("tokens.toml"));
    write(&token, "secret", SystemTime::now());
    write(&hashes, HASHES, SystemTime::now());
    let flags = ["--token-hashes", hashes.to_str().unwrap()];
    let server = Server::start_with(Store::Memory, &flags);
    let with = builder(server.address()).token_file(&token).connect().await.unwrap();
    with.create(creation("s1", json!({}))).await.unwrap();
    let session = Scope::Session(identity(APP, USER, "s1"));
    let change = with.watch(&session, Since::Snapshot).next().await.unwrap().unwrap();
    assert!(matches!(change.kind, ChangeKind::Snapshot { .. }));

    // Health needs no credential.
    let without = builder(server.address()).connect().await.unwrap();
    let (category, code) = (ErrorCategory::Unauthorized, "session.unauthorized");
    let outcome = without.get_for_identity(&identity(APP, USER, "s1")).await;
    assert_error(outcome.map(drop), category, code);
    let outcome = without.watch(&session, Since::Snapshot).next().await.unwrap();
    assert_error(outcome.map(drop), category, code);
}

/// The hash of the token "fresh".
const FRESH: &str = r#"[[token]]
name = "agent"
sha256 = "d098ab5e44b9aabb755f76d806598f43573c662b35e4a2eab1e312ec9ad195e2"
"#;

#[tokio::test]
async fn a_watch_outlives_its_token_and_ends_without_another() {
    let folder = TempDir::new().unwrap();
    let (token, hashes) = (folder.path().join("token"), folder.path().join("tokens.toml"));
    write(&token, "secret", SystemTime::UNIX_EPOCH);
    write(&hashes, &[HASHES, FRESH].concat(), SystemTime::UNIX_EPOCH);
    let flags = ["--token-hashes", hashes.to_str().unwrap(), "--reload-interval", "1"];
    let server = Server::start_with(Store::Memory, &flags);
    // The adapter looks at the file at most once a second, and shortens a pause by up to a half.
    let two = Duration::from_secs(2);
    let patient = Retry { first_pause: two, longest_pause: two, ..Retry::default() };
    let service =
        builder(server.address()).token_file(&token).retry(patient).connect().await.unwrap();
    service.create(creation("s1", json!({}))).await.unwrap();
    let session = Scope::Session(identity(APP, USER, "s1"));
    let mut watch = service.watch(&session, Since::Now);
    let mut next = async || tokio::time::timeout(TIMEOUT, watch.next()).await.unwrap();
    assert!(matches!(next().await.unwrap().unwrap().kind, ChangeKind::CaughtUp));

    let of_fresh = folder.path().join("fresh");
    write(&of_fresh, "fresh", SystemTime::now());
    let fresh = builder(server.address()).token_file(&of_fresh).connect().await.unwrap();
    write(&token, "fresh", SystemTime::now());
    write(&hashes, FRESH, SystemTime::now());
    // The watch, which has no other call to make, waits for its end.
    let ended = next();
    let appended = async {
        // Once the old token is refused, the watch has ended or is about to.
        let old = folder.path().join("old");
        write(&old, "secret", SystemTime::now());
        let with_old = builder(server.address()).token_file(&old).connect().await.unwrap();
        while with_old.get_for_identity(&identity(APP, USER, "s1")).await.is_ok() {}
        fresh.append_event("s1", named("e1")).await.unwrap();
    };
    let (told, ()) = tokio::join!(ended, appended);
    assert!(matches!(told.unwrap().unwrap().kind, ChangeKind::Event(_)));

    write(&hashes, HASHES, SystemTime::UNIX_EPOCH);
    let refused = next().await.unwrap().map(drop);
    assert_error(refused, ErrorCategory::Unauthorized, "session.unauthorized");
}

#[tokio::test]
async fn a_new_token_is_sent_after_the_file_has_changed() {
    let folder = TempDir::new().unwrap();
    let token = folder.path().join("token");
    write(&token, "old", SystemTime::UNIX_EPOCH);
    let server = recorder().await;
    let service = builder(server.address()).token_file(&token).connect_lazy().unwrap();
    call_and_watch(&service).await;
    write(&token, "new", SystemTime::now());
    let until_new = async {
        while !server.headers("authorization").contains(&"Bearer new".to_owned()) {
            call_and_watch(&service).await;
        }
    };
    tokio::time::timeout(TIMEOUT, until_new).await.unwrap();
    assert_eq!(server.headers("authorization")[0], "Bearer old");
}

#[tokio::test]
async fn wrong_files_are_named() {
    let folder = TempDir::new().unwrap();
    let missing = folder.path().join("missing");
    let empty = folder.path().join("empty");
    fs::write(&empty, "").unwrap();
    for (settings, wanted) in [
        (builder("h:1").tls_ca(&missing), "tls_ca needs TLS, and h:1 has none."),
        (
            builder("h:1").client_certificate(&missing, &missing),
            "client_certificate needs TLS, and h:1 has none.",
        ),
        (builder("https://h:1").tls_ca(&missing), "tls_ca: cannot read"),
        (
            builder("https://h:1").client_certificate(&missing, &missing),
            "client_certificate: cannot read",
        ),
        (builder("https://h:1").client_certificate(&empty, &empty), "The TLS files cannot be used"),
        (builder("https://h:1").token_file(&missing), "token_file: cannot read"),
        (builder("https://h:1").token_file(&empty), "has no token"),
        (builder("h:1").token_file(&empty), "Refusing to send a token to h:1 without TLS."),
    ] {
        let error = settings.connect_lazy().err().unwrap_or_else(|| panic!("{wanted}"));
        assert_eq!(error.code, "session.bad_credentials", "{error}");
        assert!(error.message.contains(wanted), "{error}");
    }
}

#[tokio::test]
async fn refused_credentials_are_not_retried() {
    let (expired, other) = ("CREDENTIAL_EXPIRED", "REASON");
    for (code, reason, category, name) in [
        (Code::Unauthenticated, expired, ErrorCategory::Unauthorized, "session.unauthorized"),
        (Code::PermissionDenied, other, ErrorCategory::Forbidden, "session.forbidden"),
    ] {
        for with_reason in [false, true] {
            let server = ScriptedServer::start(move |_| {
                let metadata = HashMap::from([("retryable".to_owned(), "no".to_owned())]);
                let details = ErrorDetails::with_error_info(reason, "sessiond", metadata);
                Err(match with_reason {
                    true => Status::with_error_details(code, "refused", details),
                    false => Status::new(code, "refused"),
                })
            })
            .await;
            let service = builder(server.address()).connect_lazy().unwrap();
            let outcome = service.state(&Scope::App(APP.try_into().unwrap())).await;
            assert_error(outcome.map(drop), category, name);
            let mut watch = service.watch(&Scope::Session(identity(APP, USER, "s1")), Since::Now);
            assert_error(watch.next().await.unwrap().map(drop), category, name);
            assert_eq!(server.calls().len(), 2, "one attempt each");
        }
    }
}
