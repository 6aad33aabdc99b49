//! The admin listener: probes over HTTP, in each condition of the server.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::Path,
};

use serde_json::Value;
use tempfile::TempDir;
use tonic_health::pb::health_check_response::ServingStatus;

use crate::harness::{Server, append, create, event, read, serve, wait_for_health};

/// Sends a request; the status and the body of the answer.
pub fn send(socket: &Path, method: &str, path: &str) -> (u16, String) {
    send_with(socket, method, path, "\r\n")
}

/// The same, with more headers, the end of them, and a body. Over a Unix socket any host counts.
fn send_with(socket: &Path, method: &str, path: &str, rest: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(socket).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nhost: any.example.org\r\n{rest}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_answer_in_each_condition_and_say_why_they_are_not_ready() {
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("admin.sock");
    let listen = format!("unix:{}", socket.display());
    let server = Server::start_with(folder.path(), &["--admin-listen", &listen]);
    let get = |path| send(&socket, "GET", path);
    assert_eq!(get("/livez"), (200, "ok\n".to_owned()));
    assert_eq!(get("/readyz"), (200, "ok\n".to_owned()));
    assert_eq!(get("/version"), (200, concat!(env!("CARGO_PKG_VERSION"), "\n").to_owned()));
    assert_eq!(get("/").0, 404);
    assert_eq!(send(&socket, "POST", "/readyz").0, 405);

    // A request that never ends does not delay others.
    let mut slow = UnixStream::connect(&socket).unwrap();
    slow.write_all(b"GET /livez HTTP/1.1\r\n").unwrap();
    assert_eq!(get("/livez").0, 200);

    let channel = server.channel().await;
    create(&channel, "s", "{}").await;
    fs::remove_file(folder.path().join("test.db")).unwrap();
    append(&channel, "s", event("one", "{}", "{}")).await.unwrap_err();
    wait_for_health(&channel, "", ServingStatus::NotServing).await;
    let (status, body) = get("/readyz");
    assert_eq!(status, 503);
    assert!(body.contains("file lost") && body.contains("Restart"), "{body}");
    assert_eq!(get("/livez").0, 200);
    drop((channel, slow));
    server.stop();
    assert!(!socket.exists(), "the socket goes with its server");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_logged_without_their_content_and_as_long_as_the_filter_says() {
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("admin.sock");
    let listen = format!("unix:{}", socket.display());
    let arguments = ["--admin-listen", &listen, "--log-calls", "--log-format", "json"];
    let server = Server::start_with(folder.path(), &arguments);
    let set_filter = |filter: &str| {
        let body = format!("content-length: {}\r\n\r\n{filter}", filter.len());
        send_with(&socket, "PUT", "/log", &body)
    };
    let channel = server.channel().await;
    create(&channel, "secret-session", r#"{"secret-key":"secret-value"}"#).await;
    append(&channel, "secret-session", event("secret-event", "{}", r#"{"text":"secret"}"#))
        .await
        .unwrap();
    append(&channel, "secret-absent", event("e", "{}", "{}")).await.unwrap_err();
    assert_eq!(set_filter("warn"), (200, "ok\n".to_owned()));
    create(&channel, "secret-unseen", "{}").await;
    assert_eq!(set_filter("sessiond::calls=info"), (200, "ok\n".to_owned()));
    read(&channel, "secret-session").await;
    let (status, body) = set_filter("sessiond=loud");
    assert!(status == 400 && body.contains("sessiond=loud"), "{body}");
    assert_eq!(set_filter(&"x".repeat(10_000)).0, 413);
    // The filter until now decides whether the line about the new one appears.
    assert_eq!(set_filter("info"), (200, "ok\n".to_owned()));
    assert_eq!(set_filter("off"), (200, "ok\n".to_owned()));
    drop(channel);

    let server_address = server.address().to_owned();
    let log = server.stop().log;
    assert!(!log.contains("secret"), "{log}");
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lines: Vec<_> = lines.collect();
    let replaced = lines.iter().filter(|line| line["message"] == "replacing the filter of the log");
    let filters: Vec<_> = replaced.map(|line| line["filter"].as_str().unwrap()).collect();
    assert_eq!(filters, ["warn", "off"], "{log}");
    let lines = lines.into_iter();
    let calls: Vec<_> = lines.filter(|line| line["target"] == "sessiond::calls").collect();
    let told = calls.iter().map(|call| {
        let method = call["method"].as_str().unwrap().rsplit('/').next().unwrap();
        (method, call["code"].as_str().unwrap())
    });
    let expected = [
        ("CreateSession", "OK"),
        ("AppendEvent", "OK"),
        ("AppendEvent", "NOT_FOUND"),
        ("GetSession", "OK"),
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    let ids: BTreeSet<_> = calls.iter().map(|call| call["request_id"].to_string()).collect();
    assert_eq!(ids.len(), calls.len());
    for call in &calls {
        assert!(call["received_bytes"].as_u64().unwrap() > 5, "{call}");
        assert!(call["micros"].as_u64().unwrap() > 0, "{call}");
        assert_eq!(call["sent_bytes"].as_u64().unwrap() > 5, call["code"] == "OK", "{call}");
        assert_eq!(call["principal"], "local");
        let peer = call["peer"].as_str().unwrap();
        assert!(peer.starts_with("127.0.0.1:") && !server_address.ends_with(peer), "{call}");
    }
}

#[test]
fn the_admin_listener_is_not_open_to_other_machines() {
    let folder = TempDir::new().unwrap();
    let ended =
        Server::run(serve(folder.path()).args(["--admin-listen", "0.0.0.0:0", "--insecure"]));
    let log = ended.err().expect("it does not start").log;
    assert!(log.contains("0.0.0.0") && log.contains("--admin-listen 127.0.0.1"), "{log}");
    assert!(log.contains("--admin-insecure"), "{log}");
}

#[test]
fn plain_probes_of_other_machines_are_answered_if_the_flag_says_so() {
    let folder = TempDir::new().unwrap();
    let taken = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let address = taken.local_addr().unwrap();
    drop(taken);
    let flags = ["--admin-listen", &address.to_string(), "--admin-insecure"];
    let server = Server::start_with(folder.path(), &flags);
    let ask = |request: &str| {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", address.port())).unwrap();
        let head = "host: sessiond.default.svc\r\ncontent-length: 4\r\n\r\nwarn";
        stream.write_all(format!("{request} HTTP/1.1\r\n{head}").as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    for path in ["/livez", "/readyz", "/readyz?writes=false", "/version", "/metrics"] {
        assert_eq!(ask(&format!("GET {path}")), 200, "{path}");
    }
    assert_eq!(ask("PUT /log"), 403);
    server.stop();
}
