//! Authentication: bearer tokens, client certificates and processes at a Unix socket, and that no log has a credential.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use futures_util::stream;
use serde_json::{Value, json};
use sessiond::proto::v1::{
    AppendEventStreamRequest, GetSessionRequest, WatchRequest,
    event_service_client::EventServiceClient, session_service_client::SessionServiceClient,
    watch_service_client::WatchServiceClient,
};
use tempfile::TempDir;
use tonic::{Code, Status, transport::Channel};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::{
    harness::{Ended, PATIENCE, Server, key, program, reason, replace, serve_on, with_token},
    jwt::{AUDIENCE, ISSUER, Issuer, now, token_file},
};

/// Of libraries as well, which a level alone leaves at `info`.
const LEVELS: &str = "trace,h2=trace,hyper=trace,hyper_util=trace,rustls=trace,tokio_rustls=trace,tonic=trace,tower=trace";
const LOG: [&str; 5] = ["--log-calls", "--log-format", "json", "--log", LEVELS];

/// Runs the program with something on its standard input.
fn run(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(program())
        .args(arguments)
        .env_remove("SESSIOND_TOKEN_FILE")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A new token, and its entry.
pub fn token(name: &str, more: &[&str]) -> (String, String) {
    let token = stdout(&run(&["token", "new"], ""));
    let entry = run(&[&["token", "hash", name], more].concat(), &token);
    (token.trim().to_owned(), stdout(&entry))
}

/// A server that takes static tokens and JWTs.
struct Setting {
    folder: TempDir,
    issuer: Issuer,
    token: String,
    entry: String,
}

impl Setting {
    fn new() -> Self {
        let (token, entry) = token("ci", &[]);
        let setting = Self { folder: TempDir::new().unwrap(), issuer: Issuer::new(), token, entry };
        fs::write(setting.tokens(), &setting.entry).unwrap();
        setting
    }

    fn tokens(&self) -> PathBuf {
        self.folder.path().join("tokens.toml")
    }

    fn start(&self, more: &[&str]) -> Server {
        let mut flags = self.issuer.publish(&self.folder.path().join("keys.json"));
        flags.extend(["--token-hashes".into(), self.tokens().display().to_string()]);
        let flags: Vec<_> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
        Server::start_with(self.folder.path(), &flags)
    }
}

/// Reads a session that is not there. `Ok`: the call came as far as that.
pub async fn call(channel: &Channel, token: Option<&str>) -> Result<(), Status> {
    let request = GetSessionRequest { key: Some(key("none")), ..GetSessionRequest::default() };
    let status = SessionServiceClient::new(channel.clone())
        .get_session(with_token(token, request))
        .await
        .expect_err("no such session");
    if status.code() == Code::NotFound { Ok(()) } else { Err(status) }
}

/// The refusal's reason and fault.
pub async fn refusal(channel: &Channel, token: Option<&str>) -> (String, String) {
    use tonic_types::StatusExt as _;
    let status = call(channel, token).await.expect_err("it is refused");
    assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
    let info = status.get_details_error_info().unwrap();
    assert_eq!(info.metadata["retryable"], "no");
    (info.reason, info.metadata.get("fault").cloned().unwrap_or_default())
}

/// The names of principals in the log of calls, with their methods and codes.
pub fn principals(log: &str) -> BTreeSet<(String, String, String)> {
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
    let calls = lines.filter(|line| line["target"] == "sessiond::calls");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    calls
        .map(|call| {
            let method = text(&call["method"]);
            let method = method.rsplit('/').next().unwrap().to_owned();
            (method, text(&call["principal"]), text(&call["code"]))
        })
        .collect()
}

pub fn names(found: &[(&str, &str, &str)]) -> BTreeSet<(String, String, String)> {
    found.iter().map(|(a, b, c)| ((*a).to_owned(), (*b).to_owned(), (*c).to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_identifies_its_holder_and_is_in_no_log() {
    let setting = Setting::new();
    let server = setting.start(&LOG);
    let channel = server.channel().await;
    let (alice, stranger) = (setting.issuer.token("alice", 600), Issuer::new().token("alice", 600));
    call(&channel, Some(&setting.token)).await.unwrap();
    call(&channel, Some(&alice)).await.unwrap();
    // Within the skew of clocks, and beyond it.
    call(&channel, Some(&setting.issuer.token("alice", -30))).await.unwrap();
    let expired = setting.issuer.token("alice", -61);
    let early = setting.issuer.sign(&json!({
        "iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": now() + 600, "nbf": now() + 300,
    }));
    let other = setting.issuer.sign(&json!({
        "iss": ISSUER, "aud": "other", "sub": "alice", "exp": now() + 600,
    }));
    let unsigned = format!("eyJhbGciOiJub25lIn0.{}.", alice.split('.').nth(1).unwrap());
    let long = "x".repeat(16 * 1024 + 1);
    let unknown = "sessiond_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0";
    let refused = [
        (None, "CREDENTIAL_MISSING", ""),
        (Some(expired.as_str()), "CREDENTIAL_EXPIRED", ""),
        (Some(&early), "CREDENTIAL_INVALID", "not_yet_valid"),
        (Some(&other), "CREDENTIAL_INVALID", "audience"),
        (Some(&stranger), "CREDENTIAL_INVALID", "signature"),
        (Some(&unsigned), "CREDENTIAL_INVALID", "algorithm"),
        (Some(&long), "CREDENTIAL_INVALID", "too_long"),
        (Some(unknown), "CREDENTIAL_INVALID", "unknown_token"),
    ];
    for (token, reason, fault) in refused {
        assert_eq!(refusal(&channel, token).await, (reason.to_owned(), fault.to_owned()));
    }
    // Health tells everybody.
    HealthClient::new(channel.clone()).check(HealthCheckRequest::default()).await.unwrap();
    drop(channel);
    let Ended { status, log } = server.stop();
    assert!(status.success());
    assert_eq!(
        principals(&log),
        names(&[
            ("GetSession", "token:ci", "NOT_FOUND"),
            ("GetSession", "jwt:alice", "NOT_FOUND"),
            ("GetSession", "none", "UNAUTHENTICATED"),
            ("Check", "local", "OK"),
        ])
    );
    assert!(log.contains("h2::"), "the libraries log as well");
    let tokens = refused.iter().filter_map(|(token, ..)| *token);
    for token in tokens.chain([&*setting.token, &*alice]) {
        // Every piece of eight bytes, but for what all JWTs and all tokens begin with.
        let parts = token.split('.').map(|part| part.trim_start_matches("sessiond_"));
        for piece in parts.flat_map(|part| part.as_bytes().windows(8)) {
            let piece = std::str::from_utf8(piece).unwrap();
            assert!(!log.contains(piece), "the log has {piece} of {token}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_need_a_credential_as_well() {
    let setting = Setting::new();
    let server = setting.start(&[]);
    let channel = server.channel().await;
    for (token, expected) in [(None, Some("CREDENTIAL_MISSING")), (Some(&*setting.token), None)] {
        let watch = WatchRequest {
            scope: Some(sessiond::proto::v1::Scope {
                app_name: "app".into(),
                user_id: "alice".into(),
                ..Default::default()
            }),
            ..WatchRequest::default()
        };
        let watch = WatchServiceClient::new(channel.clone()).watch(with_token(token, watch)).await;
        let items = stream::iter([AppendEventStreamRequest::default()]);
        let append = EventServiceClient::new(channel.clone());
        let append = append.clone().append_event_stream(with_token(token, items)).await;
        assert_eq!(watch.as_ref().err().map(reason).as_deref(), expected);
        assert_eq!(append.as_ref().err().map(reason).as_deref(), expected);
    }
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_beyond_all_limits_harms_no_other_call() {
    let setting = Setting::new();
    let server = setting.start(&[]);
    let channel = server.channel().await;
    // Within what headers may have, beyond it, and so far beyond it that the connection is closed: the last two by the transport.
    for (bytes, expected) in [(20 * 1024, "CREDENTIAL_INVALID"), (40 * 1024, ""), (1024 * 1024, "")]
    {
        let huge = "x".repeat(bytes);
        let connection = server.channel().await;
        let refused = call(&connection, Some(&huge)).await.unwrap_err();
        assert_eq!(reason(&refused), expected, "{bytes}: {refused:?}");
        assert!(!refused.message().contains("xxxx"), "{refused:?}");
        call(&channel, Some(&setting.token)).await.unwrap();
    }
    server.stop();
}

/// Calls with a token until the answer is `wanted`: `None` for an answer, or a reason.
async fn until(channel: &Channel, token: &str, wanted: Option<&str>) {
    let waiting = async {
        while call(channel, Some(token)).await.err().as_ref().map(reason).as_deref() != wanted {}
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("the files are read again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_are_reloaded_and_a_broken_file_changes_nothing() {
    let setting = Setting::new();
    let server = setting.start(&["--reload-interval", "1"]);
    let channel = server.channel().await;
    let (added, entry) = token("added", &["--user", "bob"]);
    assert_eq!(refusal(&channel, Some(&added)).await.1, "unknown_token");

    // In a round the tokens come before the keys. With other keys the tokens of the first ones end, also those that were verified.
    let alice = setting.issuer.token("alice", 600);
    call(&channel, Some(&alice)).await.unwrap();
    replace(&setting.tokens(), "s3cret-broken");
    let other = Issuer::new();
    other.publish(&setting.folder.path().join("keys.json"));
    until(&channel, &alice, Some("CREDENTIAL_INVALID")).await;
    call(&channel, Some(&other.token("alice", 600))).await.unwrap();
    call(&channel, Some(&setting.token)).await.unwrap();

    replace(&setting.tokens(), &(setting.entry.clone() + &entry));
    until(&channel, &added, None).await;
    call(&channel, Some(&setting.token)).await.unwrap();
    // Without its entry a token is refused at once, also on connections that are open.
    replace(&setting.tokens(), &entry);
    until(&channel, &setting.token, Some("CREDENTIAL_INVALID")).await;
    call(&channel, Some(&added)).await.unwrap();
    let Ended { log, .. } = server.stop();
    let failures: Vec<_> = log.lines().filter(|line| line.contains("not reloaded")).collect();
    assert_eq!(failures.len(), 1, "once, however often it was read: {failures:?}");
    assert!(failures[0].contains("--token-hashes") && !log.contains("s3cret"), "{failures:?}");
}

#[test]
fn settings_that_cannot_be_used_are_named_without_their_content() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "s3cret-that-is-no-setting").unwrap();
    let file = path.display().to_string();
    let jwt = ["--jwt-issuer", "i", "--jwt-audience", "a"];
    for (flags, code, says) in [
        (&["--token-hashes", &file][..], 1, "--token-hashes"),
        (&["--token-hashes", "missing"], 1, "missing"),
        (&[&["--jwt-keys", &file][..], &jwt].concat(), 1, "--jwt-keys"),
        (&["--jwt-keys", &file], 2, "--jwt-issuer"),
        (&jwt, 2, "--jwt-keys"),
        (&["--unix-peers"], 1, "--listen unix:"),
    ] {
        let output = serve_on("memory:").args(flags).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{flags:?}: {said}");
        assert!(said.contains(says) && !said.contains("s3cret"), "{flags:?}: {said}");
    }
}

#[test]
fn the_command_line_sends_the_token_of_a_file() {
    let setting = Setting::new();
    let server = setting.start(&LOG);
    let list = |token: Option<&Path>| {
        let arguments = ["session", "list", "--app", "app", "--server", server.address()];
        let mut command = Command::new(program());
        command.args(arguments).env_remove("SESSIOND_TOKEN_FILE");
        if let Some(path) = token {
            command.arg("--token-file").arg(path);
        }
        command.output().unwrap()
    };
    let refused = list(None);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("CREDENTIAL_MISSING"), "{}", stderr(&refused));
    let folder = setting.folder.path();
    for token in [format!("{}\n", setting.token), setting.issuer.token("alice", 600)] {
        let path = token_file(folder, "token", &token);
        stdout(&list(Some(&path)));
        let by_environment = Command::new(program())
            .args(["app", "list", "--server", server.address()])
            .env("SESSIOND_TOKEN_FILE", &path)
            .output();
        stdout(&by_environment.unwrap());
    }
    let wrong = list(Some(&token_file(folder, "wrong", "two words")));
    assert_eq!(wrong.status.code(), Some(2));
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_of_the_command_line_goes_on_with_the_token_that_replaced_its_own() {
    let setting = Setting::new();
    let server = setting.start(&["--reload-interval", "1"]);
    let channel = server.channel().await;
    let (next, entry) = token("next", &[]);
    replace(&setting.tokens(), &(setting.entry.clone() + &entry));
    until(&channel, &next, None).await;
    let path = token_file(setting.folder.path(), "token", &setting.token);
    // It would wait for a server that a failed test has ended.
    let mut watch = Command::new("timeout")
        .args([&PATIENCE.as_secs().to_string(), program()])
        .args(["watch", "--app", "app", "--user", "ada", "--output", "json", "--no-heartbeats"])
        .args(["--start", "now", "--server", server.address(), "--token-file"])
        .arg(&path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut says = |text: &str| {
        let line = lines.next().expect("the watch goes on").unwrap();
        assert!(line.contains(text), "{line}");
    };
    let set = |value: &str| {
        let set = ["state", "set", "--app", "app", "--user", "ada", "--set", value];
        let call = ["--server", server.address(), "--token-file"];
        stdout(&run(&[&set[..], &call, &[path.to_str().unwrap()]].concat(), ""));
    };
    says("caught_up");
    set("user:n=1");
    says("user:n");
    replace(&path, &next);
    replace(&setting.tokens(), &entry);
    // Connected again.
    says("caught_up");
    set("user:m=2");
    says("user:m");
    // It has not been replaced.
    replace(&setting.tokens(), &setting.entry);
    let ended = watch.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(stderr(&ended).contains("CREDENTIAL_INVALID"), "{}", stderr(&ended));
    server.stop();
}

#[test]
fn a_process_at_a_unix_socket_is_its_user() {
    let folder = TempDir::new().unwrap();
    let listen = format!("unix:{}", folder.path().join("s").display());
    let flags = [&["--unix-peers", "--listen", &listen][..], &LOG].concat();
    let server = Server::start_with(folder.path(), &flags);
    stdout(&run(&["app", "list", "--server", server.address()], ""));
    let Ended { log, .. } = server.stop();
    let user = format!("uid:{}", rustix::process::getuid().as_raw());
    assert_eq!(principals(&log), names(&[("ListApplications", &user, "OK")]));
}

#[test]
fn a_doctor_tells_whether_the_credential_is_accepted() {
    let setting = Setting::new();
    let server = setting.start(&[]);
    let examine = |more: &[&str]| {
        let arguments =
            ["doctor", "--server", server.address(), "--store", "memory:", "-o", "json"];
        let output = run(&[&arguments, more].concat(), "");
        let printed = String::from_utf8(output.stdout).unwrap();
        let found = printed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let found = found.filter(|found| found["check"] == "credential").collect::<Vec<_>>();
        (output.status.code(), found[0].clone())
    };
    let (code, found) = examine(&[]);
    assert_eq!((code, &found["result"]), (Some(1), &json!("error")));
    let detail = found["detail"].as_str().unwrap();
    assert!(detail.contains("CREDENTIAL_MISSING") && detail.contains("--token-file"), "{detail}");
    let path = token_file(setting.folder.path(), "token", &setting.token);
    let (code, found) = examine(&["--token-file", path.to_str().unwrap()]);
    assert_eq!((code, &found["result"]), (Some(0), &json!("ok")));
    server.stop();
}
