//! Calls over HTTP, and what keeps pages of others away from them. Requests are written by hand, so that no client mends them.

use std::time::{Duration, Instant};

use prost::Message as _;
use serde_json::{Value, json};
use sessiond::proto::v1::GetSessionRequest;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    harness::{Service, tests},
    make::{APP, USER, create, get},
};

tests! {
    a_call_in_json_is_the_call_over_grpc: ["--http-listen", "127.0.0.1:0"] super::a_call_in_json_is_the_call_over_grpc;
    what_is_no_call_is_refused_with_a_reason: ["--http-listen", "127.0.0.1:0"] super::what_is_no_call_is_refused_with_a_reason;
    another_host_and_another_origin_are_refused: ["--http-listen", "127.0.0.1:0"] super::another_host_and_another_origin_are_refused;
    a_watch_is_a_stream_of_envelopes: ["--http-listen", "127.0.0.1:0"] super::a_watch_is_a_stream_of_envelopes;
    a_watch_ends_at_its_deadline: ["--http-listen", "127.0.0.1:0"] super::a_watch_ends_at_its_deadline;
    many_small_values_are_taken_as_over_grpc: ["--http-listen", "127.0.0.1:0"] super::many_small_values_are_taken_as_over_grpc;
    the_page_is_its_own_and_runs_nothing_else: ["--http-listen", "127.0.0.1:0"] super::the_page_is_its_own_and_runs_nothing_else;
    a_call_of_grpc_web_is_answered: ["--http-listen", "127.0.0.1:0"] super::a_call_of_grpc_web_is_answered;
    the_calls_are_described: ["--http-listen", "127.0.0.1:0"] super::the_calls_are_described;
    named_origins_and_hosts_are_served:
        ["--http-listen", "127.0.0.1:0", "--http-origins", "https://app.example,http://other.example:81", "--http-hosts", "sessions.example"]
        super::named_origins_and_hosts_are_served;
    a_listener_of_reads_changes_nothing:
        ["--http-listen", "127.0.0.1:0", "--http-read-only"] super::a_listener_of_reads_changes_nothing;
    no_listener_is_opened_when_it_is_off: [] super::no_listener_is_opened_when_it_is_off;
}

/// An answer, as it came.
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("{} {:?}", self.head, String::from_utf8_lossy(&self.body)))
    }

    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    /// The reason of a refusal.
    fn reason(&self) -> String {
        let json = self.json();
        json["details"][0]["debug"]["reason"].as_str().unwrap_or_default().to_owned()
    }
}

impl Service {
    fn http(&self) -> &str {
        self.http_address().expect("a listener of HTTP")
    }

    async fn send(&self, head: &str, body: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.http()).await.unwrap();
        let length = body.len();
        let head = format!("{head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        // One that refuses need not read.
        let _ = stream.write_all(body).await;
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        tokio::time::timeout(Duration::from_secs(60), read).await.expect("an answer").unwrap();
        let end = answer.windows(4).position(|it| it == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8(answer[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head, body: answer[end + 4..].to_vec() }
    }

    async fn post(&self, method: &str, body: &Value, more: &str) -> Answer {
        let head = format!(
            "POST /sessiond.v1.{method} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json{more}"
        );
        self.send(&head, body.to_string().as_bytes()).await
    }

    async fn fetch(&self, target: &str, more: &str) -> Answer {
        self.send(&format!("GET {target} HTTP/1.1\r\nhost: localhost{more}"), b"").await
    }
}

fn session() -> Value {
    json!({"appName": APP, "userId": USER, "sessionId": "s"})
}

async fn create_over_http(service: &Service) {
    let mut request = session();
    request["state"] = json!({"n": 7, "user:big": "9007199254740993"});
    let answer = service.post("SessionService/CreateSession", &request, "").await;
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
}

async fn a_call_in_json_is_the_call_over_grpc(service: Service) {
    create_over_http(&service).await;
    let over_grpc = service.get_session(get("s")).await.unwrap().session.unwrap();
    let answer = service.post("SessionService/GetSession", &json!({"key": session()}), "").await;
    let found = &answer.json()["session"];
    assert_eq!(found["state"], json!({"n": 7, "user:big": "9007199254740993"}));
    assert!(!String::from_utf8(answer.body.clone()).unwrap().contains("7.0"));
    assert_eq!(found["uid"], over_grpc.uid);
    for (name, value) in [
        ("content-type", "application/json"),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    // The same by GET, because it changes nothing.
    let message = r#"%7B%22key%22%3A%7B%22appName%22%3A%22my_app%22%2C%22userId%22%3A%22alice%22%2C%22sessionId%22%3A%22s%22%7D%7D"#;
    let path = "/sessiond.v1.SessionService/GetSession?connect=v1&encoding=json";
    let by_get = service.fetch(&format!("{path}&message={message}"), "").await;
    assert_eq!((by_get.status, by_get.json()), (200, answer.json()));
    let event = json!({"key": session(), "event": {"eventId": "e", "bodyJson": "{\"x\":1}"}});
    let appended = service.post("EventService/AppendEvent", &event, "").await;
    assert_eq!(appended.json()["event"]["sequence"], "1");
    let healthy = service.fetch("/healthz", "").await;
    assert_eq!((healthy.status, &*healthy.body), (200, &b"ok\n"[..]));
    service.stop().await;
}

async fn what_is_no_call_is_refused_with_a_reason(service: Service) {
    let missing = service.post("SessionService/GetSession", &json!({"key": session()}), "").await;
    assert_eq!((missing.status, &*missing.reason()), (404, "SESSION_NOT_FOUND"));
    assert_eq!(missing.json()["code"], "not_found");
    let unknown = service.post("SessionService/GetSession", &json!({"name": 1}), "").await;
    assert_eq!((unknown.status, &*unknown.reason()), (400, "BAD_MESSAGE"));
    assert!(unknown.json()["message"].as_str().unwrap().contains("'name'"));
    let stream = service.post("EventService/AppendEventStream", &json!({}), "").await;
    assert_eq!((stream.status, &*stream.reason()), (501, "NOT_OVER_HTTP"));
    assert!(stream.json()["message"].as_str().unwrap().contains("AppendEvents"));
    let large = json!({"key": session(), "event": {"body_json": "x".repeat(5 << 20)}});
    let large = service.post("EventService/AppendEvent", &large, "").await;
    assert_eq!((large.status, &*large.reason()), (429, "MESSAGE_TOO_LARGE"));
    let types = Some(("accept-post", "application/json, application/proto"));
    for (head, more, status, header) in [
        ("POST Nothing", "content-type: application/json", 404, None),
        ("POST GetSession", "content-type: text/plain", 415, types),
        ("POST GetSession", "content-type: application/grpc", 415, types),
        ("POST GetSession", "content-type: application/grpc-web-text", 415, types),
        ("GET CreateSession", "accept: */*", 405, Some(("allow", "POST"))),
        ("PUT GetSession", "accept: */*", 405, Some(("allow", "GET, POST"))),
        ("POST GetSession", "content-type: application/json\r\ncontent-encoding: br", 400, None),
        ("POST GetSession", "content-type: application/json\r\nconnect-timeout-ms: +1", 400, None),
    ] {
        let head = head.replace(' ', " /sessiond.v1.SessionService/");
        let head = format!("{head} HTTP/1.1\r\n{more}");
        let answer = service.send(&format!("{head}\r\nhost: localhost"), b"{}").await;
        assert_eq!(answer.status, status, "{head}");
        assert!(answer.json()["message"].as_str().is_some_and(|it| !it.is_empty()), "{head}");
        if let Some((name, value)) = header {
            assert_eq!(answer.header(name), Some(value), "{head}");
        }
    }
    service.stop().await;
}

/// A page that lets its own name lead to the server, and one that calls it by its address.
async fn another_host_and_another_origin_are_refused(service: Service) {
    create_over_http(&service).await;
    let call =
        "POST /sessiond.v1.SessionService/DeleteSession HTTP/1.1\r\ncontent-type: application/json";
    let body = json!({"key": session()}).to_string();
    let port = service.http().rsplit_once(':').unwrap().1.to_owned();
    for (headers, status) in [
        ("host: attacker.example".to_owned(), 421),
        (format!("host: attacker.example:{port}\r\norigin: http://attacker.example:{port}"), 421),
        ("host: 127.0.0.2".into(), 421),
        ("host: localhost\r\nhost: attacker.example".into(), 421),
        (format!("host: localhost:{port}\r\norigin: http://attacker.example"), 403),
        (format!("host: localhost:{port}\r\norigin: null"), 403),
        (format!("host: localhost:{port}\r\norigin: http://localhost:1"), 403),
    ] {
        let answer = service.send(&format!("{call}\r\n{headers}"), body.as_bytes()).await;
        assert_eq!(answer.status, status, "{headers}");
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    let unnamed = service.send(&call.replace("1.1", "1.0"), body.as_bytes()).await;
    assert_eq!(unnamed.status, 421, "HTTP/1.0 names no host");
    let ask = "OPTIONS /sessiond.v1.SessionService/DeleteSession HTTP/1.1\r\nhost: localhost\r\norigin: http://attacker.example\r\naccess-control-request-method: POST";
    assert_eq!(service.send(ask, b"").await.status, 403);
    // None of them has done anything, and the page of this server may.
    let own = format!("{call}\r\nhost: localhost:{port}\r\norigin: http://localhost:{port}");
    assert_eq!(service.send(&own, body.as_bytes()).await.status, 200);
    // Probes name whatever they like.
    let probe = service.send("GET /healthz HTTP/1.1\r\nhost: 10.0.0.7:8380", b"").await;
    assert_eq!(probe.status, 200);
    service.stop().await;
}

async fn named_origins_and_hosts_are_served(service: Service) {
    create_over_http(&service).await;
    let from = |origin: &str| format!("\r\norigin: {origin}");
    let get = json!({"key": session()});
    for origin in ["https://app.example", "http://other.example:81"] {
        let answer = service.post("SessionService/GetSession", &get, &from(origin)).await;
        assert_eq!(answer.status, 200, "{origin}");
        assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
        assert_eq!(answer.header("vary"), Some("origin"));
    }
    let foreign = from("https://app.example.attacker.example");
    assert_eq!(service.post("SessionService/GetSession", &get, &foreign).await.status, 403);
    let ask = "OPTIONS /sessiond.v1.SessionService/GetSession HTTP/1.1\r\nhost: sessions.example\r\norigin: https://app.example\r\naccess-control-request-method: POST\r\naccess-control-request-headers: authorization,content-type";
    let allowed = service.send(ask, b"").await;
    assert_eq!(allowed.status, 204);
    assert_eq!(allowed.header("access-control-allow-methods"), Some("GET, POST"));
    assert_eq!(allowed.header("access-control-allow-headers"), Some("authorization,content-type"));
    assert_eq!(allowed.header("access-control-allow-credentials"), None);
    service.stop().await;
}

async fn a_watch_is_a_stream_of_envelopes(service: Service) {
    create_over_http(&service).await;
    let event = json!({"key": session(), "event": {"eventId": "e", "stateDelta": {"setJson": "{\"k\": 1}"}}});
    assert_eq!(service.post("EventService/AppendEvent", &event, "").await.status, 200);
    let request = json!({"scope": session(), "start": "WATCH_START_BEGINNING"}).to_string();
    let mut stream = TcpStream::connect(service.http()).await.unwrap();
    let body = [&[0][..], &u32::try_from(request.len()).unwrap().to_be_bytes(), request.as_bytes()]
        .concat();
    let head = format!(
        "POST /sessiond.v1.WatchService/Watch HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/connect+json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), &body].concat()).await.unwrap();
    let mut come = Vec::new();
    let mut wait_for = async |text: &str| {
        while !String::from_utf8_lossy(&come).contains(text) {
            let read = stream.read_buf(&mut come);
            let read = tokio::time::timeout(Duration::from_secs(60), read).await;
            assert!(read.expect(text).unwrap() > 0, "{}", String::from_utf8_lossy(&come));
        }
    };
    wait_for("application/connect+json").await;
    wait_for(r#""eventId":"e""#).await;
    wait_for(r#""caughtUp""#).await;
    let second = json!({"key": session(), "event": {"eventId": "second"}});
    assert_eq!(service.post("EventService/AppendEvent", &second, "").await.status, 200);
    wait_for(r#""eventId":"second""#).await;
    let stopped = tokio::spawn(service.stop());
    wait_for(r#"{"error":{"code":"unavailable""#).await;
    wait_for("DRAINING").await;
    stopped.await.unwrap();
}

async fn a_watch_ends_at_its_deadline(service: Service) {
    create_over_http(&service).await;
    let request = json!({"scope": session()}).to_string();
    let length = u32::try_from(request.len()).unwrap().to_be_bytes();
    let body = [&[0][..], &length, request.as_bytes()].concat();
    let head = "POST /sessiond.v1.WatchService/Watch HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/connect+json\r\nconnect-timeout-ms: 1000";
    let began = Instant::now();
    let answer = service.send(head, &body).await;
    let took = began.elapsed();
    // Heartbeats, at which it would end otherwise, come every ten seconds.
    assert!(took > Duration::from_millis(900) && took < Duration::from_secs(8), "{took:?}");
    let text = String::from_utf8_lossy(&answer.body);
    assert!(text.contains("caughtUp") && text.contains("deadline_exceeded"), "{text}");
    service.stop().await;
}

async fn many_small_values_are_taken_as_over_grpc(service: Service) {
    create_over_http(&service).await;
    let body = json!({"values": vec![1; 300_000]});
    let request = json!({"key": session(), "event": {"eventId": "e", "body": body}});
    assert_eq!(service.post("EventService/AppendEvent", &request, "").await.status, 200);
    let read = service.post("EventService/ListEvents", &json!({"key": session()}), "").await;
    assert!(read.json()["events"][0]["body"] == body);
    // In binary they take more than a message may, and as text they do not.
    let body = json!({"values": vec![1; 400_000]});
    let request = json!({"key": session(), "event": {"eventId": "f", "body": body}});
    let refused = service.post("EventService/AppendEvent", &request, "").await;
    assert_eq!((refused.status, &*refused.reason()), (429, "MESSAGE_TOO_LARGE"));
    let request =
        json!({"key": session(), "event": {"eventId": "f", "bodyJson": body.to_string()}});
    assert_eq!(service.post("EventService/AppendEvent", &request, "").await.status, 200);
    service.stop().await;
}

async fn a_listener_of_reads_changes_nothing(service: Service) {
    let refused = service.post("SessionService/CreateSession", &session(), "").await;
    assert_eq!((refused.status, &*refused.reason()), (403, "READ_ONLY_LISTENER"));
    service.create_session(create("s", "")).await.unwrap();
    let found = service.post("SessionService/GetSession", &json!({"key": session()}), "").await;
    assert_eq!(found.status, 200);
    let deleted =
        service.post("SessionService/DeleteSession", &json!({"key": session()}), "").await;
    assert_eq!((deleted.status, &*deleted.reason()), (403, "READ_ONLY_LISTENER"));
    service.get_session(get("s")).await.unwrap();
    // Health is no change.
    let check = "POST /grpc.health.v1.Health/Check HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/grpc-web";
    let health = service.send(check, &[0; 5]).await;
    assert!(String::from_utf8_lossy(&health.body).contains("grpc-status:0"), "{}", health.head);
    service.stop().await;
}

async fn the_page_is_its_own_and_runs_nothing_else(service: Service) {
    let page = service.fetch("/", "").await;
    assert_eq!((page.status, page.header("cache-control")), (200, Some("no-cache")));
    let policy = page.header("content-security-policy").unwrap();
    for rule in [
        "default-src 'none'",
        "script-src 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    ] {
        assert!(policy.contains(rule), "{policy}");
    }
    let tag = page.header("etag").unwrap();
    let again = service.fetch("/", &format!("\r\nif-none-match: {tag}")).await;
    assert_eq!((again.status, again.body.len()), (304, 0));
    let script = service.fetch("/assets/app.js", "\r\naccept-encoding: gzip, br").await;
    assert_eq!(script.header("content-type"), Some("text/javascript"));
    assert_eq!(
        (script.header("content-encoding"), &script.body[..2]),
        (Some("gzip"), &[0x1f, 0x8b][..])
    );
    assert!(script.body.len() < 60_000, "{} bytes", script.body.len());
    let facts = service.fetch("/inspector.json", "").await.json();
    assert_eq!(facts, json!({"readOnly": false, "needsCredential": false}));
    let foreign = service.send("GET / HTTP/1.1\r\nhost: attacker.example", b"").await;
    assert_eq!(foreign.status, 421);
    assert_eq!(service.fetch("/assets/../Cargo.toml", "").await.status, 404);
    service.stop().await;
}

async fn a_call_of_grpc_web_is_answered(service: Service) {
    create_over_http(&service).await;
    let head = "POST /sessiond.v1.SessionService/GetSession HTTP/1.1\r\nhost: localhost\r\ncontent-type: Application/grpc-web; charset=utf-8";
    let framed = |request: &GetSessionRequest| {
        let message = request.encode_to_vec();
        [&[0][..], &u32::try_from(message.len()).unwrap().to_be_bytes(), &message].concat()
    };
    let found = service.send(head, &framed(&get("s"))).await;
    let text = String::from_utf8_lossy(&found.body);
    assert_eq!(
        (found.status, found.header("content-type")),
        (200, Some("application/grpc-web+proto"))
    );
    assert!(text.contains("user:big") && text.contains("grpc-status:0"), "{text}");
    let missing = service.send(head, &framed(&get("none"))).await;
    let status = missing.header("grpc-status").map(str::to_owned);
    let in_body = String::from_utf8_lossy(&missing.body).contains("grpc-status:5");
    assert!(status.as_deref() == Some("5") || in_body, "{}", missing.head);
    let stream = head.replace("SessionService/GetSession", "EventService/AppendEventStream");
    let refused = service.send(&stream, &[0; 5]).await;
    let text = String::from_utf8_lossy(&refused.body).into_owned() + &refused.head;
    assert!(text.contains("AppendEvents"), "{text}");
    service.stop().await;
}

async fn the_calls_are_described(service: Service) {
    let document = service.fetch("/openapi.json", "").await.json();
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().unwrap();
    let streams = paths.keys().filter(|it| it.ends_with("Stream") || it.ends_with("Watch"));
    assert_eq!((paths.len(), streams.count()), (18, 0), "every method but the streams");
    let reads = paths.values().filter(|it| it.get("get").is_some()).count();
    assert_eq!(reads, 9);
    // Each reference leads to a schema, and each schema and call says what it is.
    let text = document.to_string();
    let references = text.split("#/components/schemas/").skip(1);
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for name in references.map(|rest| rest.split('"').next().unwrap()) {
        assert!(schemas.contains_key(name), "{name}");
    }
    let described = |it: &Value| it["description"].as_str().is_some_and(|it| !it.is_empty());
    for (name, schema) in schemas {
        assert!(described(schema), "{name}");
    }
    for (path, operations) in paths {
        assert!(operations.as_object().unwrap().values().all(described), "{path}");
    }
    assert_eq!(schemas["sessiond.v1.SessionKey"]["required"], json!(["sessionId"]));
    let sequence = &schemas["sessiond.v1.Event"]["properties"]["sequence"];
    assert_eq!((&sequence["type"], described(sequence)), (&json!("string"), true));
    service.stop().await;
}

async fn no_listener_is_opened_when_it_is_off(service: Service) {
    assert_eq!(service.http_address(), None);
    service.stop().await;
}
