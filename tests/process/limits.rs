//! Limits of each caller: the caller that floods is refused, and the other one is not.

use std::{fs, process::Command};

use sessiond::proto::v1::{
    AppendEventsRequest, CreateSessionRequest, JsonForm, Scope, WatchRequest, WatchResponse,
    event_service_client::EventServiceClient, session_service_client::SessionServiceClient,
    watch_service_client::WatchServiceClient,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tonic::{Code, Status, Streaming, transport::Channel};
use tonic_types::StatusExt as _;

use crate::{
    harness::{PATIENCE, Server, event, key, list, serve, with_token},
    identity::token,
};

/// A caller with a token and a session of its own.
struct Caller {
    channel: Channel,
    token: String,
    session: String,
}

impl Caller {
    async fn create(&self, session: &str) -> Result<(), Status> {
        let request = CreateSessionRequest {
            app_name: "app".into(),
            user_id: "alice".into(),
            session_id: session.into(),
            ..CreateSessionRequest::default()
        };
        let mut client = SessionServiceClient::new(self.channel.clone());
        client.create_session(with_token(Some(&self.token), request)).await.map(drop)
    }

    async fn append(&self, events: usize) -> Result<(), Status> {
        let request = AppendEventsRequest {
            key: Some(key(&self.session)),
            events: vec![event("", "{}", "{}"); events],
            json_form: JsonForm::Text.into(),
            ..AppendEventsRequest::default()
        };
        let mut client = EventServiceClient::new(self.channel.clone());
        client.append_events(with_token(Some(&self.token), request)).await.map(drop)
    }

    async fn watch(&self) -> Result<Streaming<WatchResponse>, Status> {
        let scope = Scope { app_name: "app".into(), ..Scope::default() };
        let request = WatchRequest { scope: Some(scope), ..WatchRequest::default() };
        let mut client = WatchServiceClient::new(self.channel.clone());
        Ok(client.watch(with_token(Some(&self.token), request)).await?.into_inner())
    }
}

/// A server that knows two callers.
async fn start(folder: &TempDir, flags: &[&str]) -> (Server, [Caller; 2]) {
    let path = folder.path().join("tokens.toml");
    let [(one, first), (other, second)] = ["one", "other"].map(|name| token(name, &[]));
    fs::write(&path, first + &second).unwrap();
    let path = path.display().to_string();
    let server =
        Server::start_with(folder.path(), &[&["--token-hashes", &path][..], flags].concat());
    let channel = server.channel().await;
    let caller = |token: String, session: &str| Caller {
        channel: channel.clone(),
        token,
        session: session.into(),
    };
    let callers = [caller(one, "s1"), caller(other, "s2")];
    (server, callers)
}

/// Sees that a call was refused by this limit. Returns the delay after which it may be retried.
fn limited<T>(answer: Result<T, Status>, what: &str, limit: &str) -> std::time::Duration {
    let status = answer.err().expect("it is refused");
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    let info = status.get_details_error_info().unwrap();
    assert_eq!(info.reason, "RATE_LIMITED");
    assert_eq!((&*info.metadata["what"], &*info.metadata["limit"]), (what, limit));
    assert_eq!(info.metadata["retryable"], "yes");
    let delay = status.get_details_retry_info().unwrap().retry_delay.unwrap();
    assert_eq!(delay.as_millis().to_string(), info.metadata["retry_after_millis"]);
    delay
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_caller_that_floods_is_refused_and_the_other_is_not() {
    let folder = TempDir::new().unwrap();
    let (server, [one, other]) = start(&folder, &["--max-appends-per-principal", "3"]).await;
    other.create("s1").await.unwrap();
    other.create("s2").await.unwrap();
    // A batch counts as many as it has events: these use up a minute.
    one.append(180).await.unwrap();
    for _ in 0..10 {
        let delay = limited(one.append(1).await, "principal_appends", "3");
        assert!(delay.as_secs() < 60, "{delay:?}");
    }
    other.append(1).await.unwrap();
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_has_its_watches_and_the_other_has_its_own() {
    let folder = TempDir::new().unwrap();
    let (server, [one, other]) = start(&folder, &["--max-watches-per-principal", "1"]).await;
    let watch = one.watch().await.unwrap();
    limited(one.watch().await, "principal_watches", "1");
    let _others = other.watch().await.unwrap();
    drop(watch);
    let reopened = async {
        loop {
            match one.watch().await {
                Ok(watch) => return watch,
                refused => drop(limited(refused, "principal_watches", "1")),
            }
        }
    };
    let _watch = timeout(PATIENCE, reopened).await.expect("its place comes back");
    server.stop();
}

/// Whether the server keeps a new connection open. It closes one too many at once, and says nothing on one that it keeps until it is asked.
async fn is_kept(server: &Server) -> (bool, TcpStream) {
    let mut connection = TcpStream::connect(server.address()).await.unwrap();
    // An HTTP/2 client begins so, and is answered with the settings of the server.
    let begin = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let _ = connection.write_all(begin).await;
    let answer =
        timeout(PATIENCE, connection.read(&mut [0; 9])).await.expect("an answer or the end");
    (answer.is_ok_and(|bytes| bytes > 0), connection)
}

/// A connection that has had a call.
async fn known(server: &Server) -> Channel {
    let channel = server.channel().await;
    assert!(list(&channel).await.is_empty());
    channel
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_too_many_is_closed_at_once() {
    let folder = TempDir::new().unwrap();
    let server = Server::start_with(folder.path(), &["--max-connections", "2"]);
    let (first, second) = (known(&server).await, known(&server).await);
    assert!(!is_kept(&server).await.0 && !is_kept(&server).await.0);
    drop(first);
    let again = async { while !is_kept(&server).await.0 {} };
    timeout(PATIENCE, again).await.expect("its place comes back");
    drop(second);
    assert!(server.stop().log.contains("refusing connections"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_have_shown_nothing_keep_nobody_away() {
    let folder = TempDir::new().unwrap();
    let server = Server::start_with(folder.path(), &["--max-connections", "2"]);
    let mut silent = vec![is_kept(&server).await, is_kept(&server).await];
    for _ in 0..3 {
        silent.push(is_kept(&server).await);
        assert!(silent.iter().all(|(is_kept, _)| *is_kept));
    }
    let first = known(&server).await;
    silent.push(is_kept(&server).await);
    let second = known(&server).await;
    assert!(list(&first).await.is_empty() && list(&second).await.is_empty());
    assert!(!server.stop().log.contains("refusing connections"));
}

/// The log of a server that is started with a limit of open files.
fn log_with(ulimit: &str, flags: &[&str]) -> String {
    let folder = TempDir::new().unwrap();
    let mut limited = Command::new("sh");
    let program = serve(folder.path());
    let command = format!("ulimit {ulimit} && exec \"$0\" \"$@\"");
    limited.args(["-c", &command]).arg(program.get_program());
    limited.args(program.get_args()).args(flags).env_remove("SESSIOND_SERVER");
    let server = Server::run(&mut limited).unwrap_or_else(|ended| panic!("{}", ended.log));
    server.stop().log
}

#[test]
fn open_files_that_do_not_suffice_are_named_at_the_start() {
    let log = log_with("-n 300", &[]);
    assert!(log.contains("open_files=300") && log.contains("connections=32"), "{log}");
    // The limit may be raised up to the hard one.
    let log = log_with("-S -n 300", &["--max-connections", "100"]);
    assert!(!log.contains("open_files"), "{log}");
}
