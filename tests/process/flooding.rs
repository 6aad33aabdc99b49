//! Clients of raw HTTP/2 that open what they can and take nothing: what the server holds for them is bounded, and others are served.

use std::{fs, path::PathBuf, time::Duration};

use h2::{
    Reason,
    client::{Builder, ResponseFuture, SendRequest},
};
use prost::{Message as _, bytes::Bytes};
use sessiond::proto::v1::{AppendEventRequest, AppendEventStreamRequest, JsonForm};
use tempfile::TempDir;
use tokio::{
    net::TcpStream,
    time::{sleep, timeout},
};
use tonic::{codegen::http, transport::Channel};

use crate::{
    admin::send,
    harness::{PATIENCE, Server, append, create, event, key},
    identity::{call, token},
};

const WATCH_HEALTH: &str = "/grpc.health.v1.Health/Watch";
const CHECK_HEALTH: &str = "/grpc.health.v1.Health/Check";
const REFLECT: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const GET: &str = "/sessiond.v1.SessionService/GetSession";
const APPEND_STREAM: &str = "/sessiond.v1.EventService/AppendEventStream";

/// The default of `--max-buffer-bytes`, of which a connection has a quarter.
const BUFFERS: usize = 384 << 20;

struct Setting {
    folder: TempDir,
    server: Server,
}

impl Setting {
    fn start(flags: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let listen = format!("unix:{}", socket(&folder).display());
        let flags = [&["--admin-listen", &listen], flags].concat();
        let server = Server::start_with(folder.path(), &flags);
        Self { folder, server }
    }

    /// A metric without labels.
    fn metric(&self, name: &str) -> usize {
        let (_, text) = send(&socket(&self.folder), "GET", "/metrics");
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap().parse::<f64>().unwrap() as usize
    }

    fn buffered(&self) -> usize {
        self.metric("sessiond_buffered_bytes")
    }

    async fn connect(&self, window: u32) -> Client {
        let stream = TcpStream::connect(self.server.address()).await.unwrap();
        let mut builder = Builder::new();
        builder.initial_window_size(window).initial_max_send_streams(1000);
        let (requests, connection) = builder.handshake::<_, Bytes>(stream).await.unwrap();
        tokio::spawn(connection);
        Client { requests, answers: Vec::new() }
    }
}

fn socket(folder: &TempDir) -> PathBuf {
    folder.path().join("admin.sock")
}

struct Client {
    requests: SendRequest<Bytes>,
    answers: Vec<(ResponseFuture, h2::SendStream<Bytes>)>,
}

impl Client {
    /// Opens a stream whose request does not end, and sends what the server takes of a message.
    async fn open(&mut self, path: &str, token: Option<&str>, message: &[u8]) {
        self.send(path, token, message, false).await;
    }

    /// Opens a stream whose request is one message.
    async fn ask(&mut self, path: &str, token: Option<&str>) {
        self.send(path, token, &framed(b""), true).await;
    }

    async fn send(&mut self, path: &str, token: Option<&str>, message: &[u8], ends: bool) {
        let mut request = http::Request::post(format!("http://here{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let mut requests = self.requests.clone().ready().await.unwrap();
        let (answer, mut stream) = requests.send_request(request.body(()).unwrap(), false).unwrap();
        if !message.is_empty() {
            // Where nothing more fits, the server has refused the stream.
            let _ = stream.send_data(Bytes::copy_from_slice(message), ends);
        }
        self.answers.push((answer, stream));
    }

    /// The status of the answer to the last stream; `None`: it goes on.
    async fn status(&mut self) -> Option<String> {
        let (answer, _) = self.answers.last_mut().unwrap();
        let answer = timeout(PATIENCE, answer).await.unwrap().unwrap();
        Some(answer.headers().get("grpc-status")?.to_str().unwrap().to_owned())
    }

    /// Gives up a stream.
    fn reset(&mut self, at: usize) {
        self.answers.remove(at).1.send_reset(Reason::CANCEL);
    }
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0], &length[..], message].concat()
}

/// Waits until a figure is what it should be.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            // Bounded poll: metrics are read again until PATIENCE ends.
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{what}"));
}

async fn is_served(channel: &Channel) {
    let served = timeout(Duration::from_secs(10), append(channel, "s", event("", "{}", "{}")));
    served.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_shows_no_credential_has_few_open_calls() {
    let folder = TempDir::new().unwrap();
    let (token, entry) = token("ci", &[]);
    let tokens = folder.path().join("tokens.toml");
    fs::write(&tokens, entry).unwrap();
    let setting = Setting::start(&["--token-hashes", tokens.to_str().unwrap()]);
    let mut client = setting.connect(1 << 16).await;
    for _ in 0..16 {
        client.ask(WATCH_HEALTH, None).await;
        assert_eq!(client.status().await, None);
    }
    let resource_exhausted = Some("8".to_owned());
    for path in [WATCH_HEALTH, CHECK_HEALTH, GET, REFLECT] {
        client.open(path, None, &framed(b"")).await;
        assert_eq!(client.status().await, resource_exhausted, "{path}");
    }
    client.reset(0);
    until("its place is free", || setting.buffered() < 16 * (16 << 10)).await;
    client.ask(WATCH_HEALTH, None).await;
    assert_eq!(client.status().await, None);
    // A valid token ends the rule, whatever the call it comes with.
    client.reset(0);
    until("its place is free", || setting.buffered() < 16 * (16 << 10)).await;
    client.open(REFLECT, Some(&token), b"").await;
    for _ in 0..100 {
        client.ask(WATCH_HEALTH, None).await;
        assert_eq!(client.status().await, None);
    }
    client.open(REFLECT, None, b"").await;
    assert_eq!(client.status().await, Some("16".to_owned()), "reflection asks for a credential");
    call(&setting.server.channel().await, Some(&token)).await.unwrap();
    drop(client);
    until("nothing is held", || setting.buffered() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_without_an_end_are_charged_and_no_more_than_a_connection_may_have() {
    let setting = Setting::start(&[]);
    let mut client = setting.connect(0).await;
    for at in 0..250 {
        let path = [WATCH_HEALTH, CHECK_HEALTH, REFLECT, GET, APPEND_STREAM][at % 5];
        client.open(path, None, b"\0").await;
    }
    until("250 are open", || setting.metric("rpc_server_in_flight_requests") == 250).await;
    assert!(setting.buffered() >= 250 * (16 << 10), "each is charged: {}", setting.buffered());
    let mut more = client.requests.clone().ready().await.unwrap();
    for _ in 0..6 {
        let request = http::Request::post(format!("http://here{WATCH_HEALTH}")).body(()).unwrap();
        client.answers.push(more.send_request(request, false).unwrap());
        more = more.ready().await.unwrap();
    }
    until("256 are open", || setting.metric("rpc_server_in_flight_requests") == 256).await;
    drop((client, more));
    until("nothing is held", || setting.buffered() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_that_never_come_whole_are_bounded_and_others_are_served() {
    let setting = Setting::start(&[]);
    let channel = setting.server.channel().await;
    create(&channel, "s", "{}").await;
    let mut client = setting.connect(1 << 16).await;
    let mut half = framed(&vec![0; (4 << 20) - 200]);
    half.truncate(half.len() - 1);
    for _ in 0..100 {
        client.open(APPEND_STREAM, None, &half).await;
    }
    // All of it would be 400 MiB.
    until("a quarter is full", || setting.buffered() > BUFFERS / 4 - (8 << 20)).await;
    for _ in 0..20 {
        is_served(&channel).await;
        assert!(setting.buffered() <= BUFFERS / 4 + (1 << 20), "{}", setting.buffered());
    }
    assert!(setting.metric("process_resident_memory_bytes") < 512 << 20);
    drop(client);
    until("nothing is held", || setting.buffered() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_are_not_taken_are_bounded_and_others_are_served() {
    let setting = Setting::start(&[]);
    let channel = setting.server.channel().await;
    create(&channel, "s", "{}").await;
    create(&channel, "large", "{}").await;
    for scope in ["app:", "user:", ""] {
        for at in 0..4 {
            let value = "x".repeat(250_000);
            let set = format!("{{\"{scope}k{at}\":\"{value}\"}}");
            append(&channel, "large", event("", &set, "{}")).await.unwrap();
        }
    }
    let item = AppendEventStreamRequest {
        append: Some(AppendEventRequest {
            key: Some(key("large")),
            event: Some(event("", "{}", "{}")),
            json_form: JsonForm::Text.into(),
            return_state: true,
            ..AppendEventRequest::default()
        }),
    };
    let items = framed(&item.encode_to_vec()).repeat(16);
    let mut client = setting.connect(0).await;
    for _ in 0..120 {
        client.open(APPEND_STREAM, None, &items).await;
    }
    // All of them would be 5.6 GiB.
    until("a quarter is full", || setting.buffered() > BUFFERS / 4).await;
    for _ in 0..20 {
        is_served(&channel).await;
        assert!(setting.buffered() <= BUFFERS / 4 + (32 << 20), "{}", setting.buffered());
    }
    assert!(setting.metric("process_resident_memory_bytes") < 512 << 20);
    drop(client);
    until("nothing is held", || setting.buffered() == 0).await;
}
