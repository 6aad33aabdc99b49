//! Graceful shutdown: requests in flight complete, and streams end with DRAINING.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::Stdio,
};

use rusqlite::Connection;
use sessiond::proto::v1::{
    AppendEventRequest, AppendEventStreamRequest, JsonForm, Scope, WatchRequest, WatchResponse,
    WatchStart, append_event_stream_response::Outcome, event_service_client::EventServiceClient,
    watch_response::Kind, watch_service_client::WatchServiceClient,
};
use tempfile::TempDir;
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Streaming, transport::Channel};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::harness::{
    Guarded, PATIENCE, Server, append, create, event, key, read, reason, serve_on, signal,
};

async fn watch(channel: &Channel, cursor: &str) -> Streaming<WatchResponse> {
    let request = WatchRequest {
        scope: Some(Scope {
            app_name: "app".into(),
            user_id: "alice".into(),
            session_id: "s".into(),
        }),
        cursor: cursor.into(),
        start: WatchStart::Beginning.into(),
        json_form: JsonForm::Text.into(),
    };
    WatchServiceClient::new(channel.clone()).watch(request).await.unwrap().into_inner()
}

/// The next message that is no heartbeat.
async fn next(watch: &mut Streaming<WatchResponse>) -> Result<WatchResponse, tonic::Status> {
    loop {
        let message = timeout(PATIENCE, watch.message()).await.expect("a message in time");
        let message = message?.expect("the stream goes on");
        if !matches!(message.kind, Some(Kind::Heartbeat(_))) {
            return Ok(message);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_watches_and_streams_finishes_calls_and_exits_with_zero() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path());
    let channel = server.channel().await;
    create(&channel, "s", "{}").await;

    let mut health = HealthClient::new(channel.clone())
        .watch(HealthCheckRequest { service: String::new() })
        .await
        .unwrap()
        .into_inner();
    let first = health.message().await.unwrap().unwrap();
    assert_eq!(first.status(), ServingStatus::Serving);

    let mut watch = watch(&channel, "").await;
    assert!(matches!(next(&mut watch).await.unwrap().kind, Some(Kind::CaughtUp(_))));

    let (requests, stream) = mpsc::channel(8);
    let mut answers = EventServiceClient::new(channel.clone())
        .append_event_stream(ReceiverStream::new(stream))
        .await
        .unwrap()
        .into_inner();
    let item = AppendEventRequest {
        key: Some(key("s")),
        event: Some(event("one", "{}", "{}")),
        ..AppendEventRequest::default()
    };
    requests.send(AppendEventStreamRequest { append: Some(item) }).await.unwrap();
    let answer = answers.message().await.unwrap().unwrap();
    assert!(matches!(answer.outcome, Some(Outcome::Appended(_))));
    assert!(matches!(next(&mut watch).await.unwrap().kind, Some(Kind::Event(_))));

    server.signal("TERM");
    let second = timeout(PATIENCE, health.message()).await.unwrap().unwrap().unwrap();
    assert_eq!(second.status(), ServingStatus::NotServing);
    let status = timeout(PATIENCE, health.message()).await.unwrap().unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::Unavailable, "DRAINING"));
    let status = next(&mut watch).await.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::Unavailable, "DRAINING"));
    let status = timeout(PATIENCE, answers.message()).await.unwrap().unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::Unavailable, "DRAINING"));

    // Everything of the client's is still open: none of it may hold up the end.
    let ended = server.wait();
    drop((health, watch, answers, requests, channel));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.log);
    assert!(ended.log.contains("every call was answered"), "{}", ended.log);
}

/// A client that hangs without a request in flight does not delay the shutdown, whatever its timeout.
#[test]
fn a_connection_that_never_answers_does_not_hold_up_a_stop() {
    let folder = TempDir::new().unwrap();
    let server = Server::start_with(folder.path(), &["--drain-timeout", "3600"]);
    let mut silent = TcpStream::connect(server.address()).unwrap();
    // What every client of HTTP/2 begins with, and an empty frame of settings. Then nothing: no acknowledgement, no answer to a ping.
    silent.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    // The server's settings: it has taken the connection for one of HTTP/2.
    silent.read_exact(&mut [0; 9]).unwrap();
    let ended = server.stop();
    assert!(ended.status.success(), "{}", ended.log);
    assert!(ended.log.contains("every call was answered"), "{}", ended.log);
    drop(silent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_resumes_by_its_cursor_across_a_kill_and_a_stop() {
    let folder = TempDir::new().unwrap();
    let mut cursor = String::new();
    let mut seen = Vec::new();
    for round in 0..4 {
        let server = Server::start(folder.path());
        let channel = server.channel().await;
        create(&channel, "s", "{}").await;
        let mut watch = watch(&channel, &cursor).await;
        for step in 0..3 {
            let id = format!("event-{round}-{step}");
            append(&channel, "s", event(&id, "{}", "{}")).await.unwrap();
        }
        // Leaves one event unread, which the next round has to begin with.
        let wanted = 3 * (round + 1) - 1;
        while seen.len() < wanted {
            let message = next(&mut watch).await.unwrap();
            cursor = message.cursor;
            if let Some(Kind::Event(event)) = message.kind {
                seen.push(event.sequence);
            }
        }
        drop((watch, channel));
        if round % 2 == 0 {
            server.kill();
        } else {
            assert!(server.stop().status.success());
        }
    }
    let expected: Vec<i64> = (1..=seen.len() as i64).collect();
    assert_eq!(seen, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unix_socket_is_served_replaced_when_stale_and_removed_in_the_end() {
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("sessiond.sock");
    let listen = format!("unix:{}", socket.display());
    let start = || Server::start_with(folder.path(), &["--listen", &listen]);
    // Killed, so that its socket stays behind.
    start().kill();
    assert!(socket.exists());
    let server = start();
    assert_eq!(server.address(), listen);
    let health = std::process::Command::new(crate::harness::program())
        .args(["health", "--server", &listen])
        .output()
        .unwrap();
    assert!(health.status.success(), "{}", String::from_utf8_lossy(&health.stderr));
    assert!(server.stop().status.success());
    assert!(!socket.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn temp_state_never_reaches_the_disk() {
    use sessiond::proto::v1::{StateDelta, state_delta::SetForm};
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path());
    let channel = server.channel().await;
    create(&channel, "s", "{\"temp:a\":\"secret-at-creation\",\"a\":\"plain-at-creation\"}").await;
    let mut event = event("one", "{}", "{}");
    event.invocation_id = "turn".into();
    event.state_delta = Some(StateDelta {
        set_form: Some(SetForm::SetJson(
            "{\"temp:b\":\"secret-in-event\",\"b\":\"plain-in-event\"}".into(),
        )),
        ..StateDelta::default()
    });
    append(&channel, "s", event).await.unwrap();
    read(&channel, "s").await;
    drop(channel);
    // In the log of a store that runs, of one that was killed, and in the file of one that was closed.
    search_files(folder.path());
    server.kill();
    search_files(folder.path());
    assert!(Server::start(folder.path()).stop().status.success());
    search_files(folder.path());
}

/// Searches every file of a store.
fn search_files(folder: &std::path::Path) {
    let bytes: Vec<u8> = std::fs::read_dir(folder)
        .unwrap()
        .flat_map(|file| std::fs::read(file.unwrap().path()).unwrap())
        .collect();
    let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(
        holds("plain-at-creation") && holds("plain-in-event"),
        "the search finds what is there"
    );
    assert!(!holds("secret-at-creation") && !holds("secret-in-event"));
}

/// A database that takes connections and says nothing.
#[test]
fn a_signal_ends_a_server_that_is_opening_its_store() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let mut serve = serve_on(&format!("postgres://nobody@{address}/nothing?sslmode=disable"));
    let mut server = Guarded(serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    // It handles signals before it connects.
    let _connection = silent.accept().unwrap();
    signal(&server.0, "TERM");
    assert_eq!(server.0.wait().unwrap().code(), Some(0));
}

#[test]
fn a_store_that_cannot_be_closed_does_not_hold_up_a_stop() {
    let folder = TempDir::new().unwrap();
    let server = Server::start_with(folder.path(), &["--drain-timeout", "1"]);
    let other = Connection::open(folder.path().join("test.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let ended = server.stop();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.log);
    assert!(ended.log.contains("the store is not closed"), "{}", ended.log);
}
