//! Traces: a collector receives the spans of calls, connected with the caller's.

use std::{
    collections::BTreeMap,
    fs,
    process::Command,
    sync::{Arc, Mutex},
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{AnyValue, any_value::Value},
    trace::v1::{Span, span::SpanKind, status::StatusCode},
};
use sessiond::proto::v1::{
    AppendEventRequest, AppendEventStreamRequest, Event, EventSelection, GetSessionRequest,
    RewindSessionRequest, SessionKey, event_service_client::EventServiceClient,
    session_service_client::SessionServiceClient,
};
use tempfile::TempDir;
use tokio::{net::TcpListener, task::AbortHandle};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{
    Request, Response, Status,
    transport::{Channel, Identity, Server as Transport, ServerTlsConfig},
};

use crate::{
    certificates::Authority,
    cluster::{Database, shared_server},
    harness::{Server, create, event, key, program, read, serve, serve_on},
};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

/// A collector that keeps what it receives.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().unwrap().push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

struct Collecting {
    collector: Collector,
    endpoint: String,
    task: AbortHandle,
}

impl Drop for Collecting {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Collecting {
    async fn start() -> Self {
        Self::start_on(Transport::builder(), "http").await
    }

    /// With a certificate for the loopback address.
    async fn start_with_tls(authority: &Authority) -> Self {
        let (certificate, key) = authority.issue("collector", &["127.0.0.1"]);
        let tls = ServerTlsConfig::new().identity(Identity::from_pem(certificate, key));
        Self::start_on(Transport::builder().tls_config(tls).unwrap(), "https").await
    }

    async fn start_on(mut transport: Transport, scheme: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("{scheme}://{}", listener.local_addr().unwrap());
        let collector = Collector::default();
        let service = TraceServiceServer::new(collector.clone());
        let serving =
            transport.add_service(service).serve_with_incoming(TcpListenerStream::new(listener));
        Self { collector, endpoint, task: tokio::spawn(serving).abort_handle() }
    }

    /// The command for a server that exports to it.
    fn serve(&self, folder: &TempDir) -> Command {
        let mut command = serve(folder.path());
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &self.endpoint);
        command
    }

    fn spans(&self) -> Vec<Span> {
        let received = self.collector.0.lock().unwrap();
        let resources = received.iter().flat_map(|request| &request.resource_spans);
        let scopes = resources.flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| scope.spans.clone()).collect()
    }

    /// The attributes of the process that the spans come from.
    fn resource(&self) -> BTreeMap<String, Value> {
        let received = self.collector.0.lock().unwrap();
        let resource = received[0].resource_spans[0].resource.clone().unwrap();
        let value = |value: Option<AnyValue>| value.and_then(|it| it.value);
        let attributes = resource.attributes.into_iter();
        attributes.filter_map(|it| Some((it.key, value(it.value)?))).collect()
    }
}

/// The only span of this name, and those below it.
fn call_of<'s>(spans: &'s [Span], name: &str) -> (&'s Span, Vec<&'s str>) {
    let call = spans.iter().find(|span| span.name == name).expect("the call was sampled");
    let below = spans.iter().filter(|span| span.parent_span_id == call.span_id);
    let mut names: Vec<_> = below.map(|span| span.name.as_str()).collect();
    names.sort_unstable();
    (call, names)
}

/// A call from the span [`CALLER`].
fn traced<T>(message: T, flags: &str) -> Request<T> {
    let mut request = Request::new(message);
    let parent = format!("00-{TRACE}-{CALLER}-{flags}");
    request.metadata_mut().insert("traceparent", parent.parse().unwrap());
    request
}

fn one(session: &str, event: Event) -> AppendEventRequest {
    AppendEventRequest { key: Some(key(session)), event: Some(event), ..Default::default() }
}

async fn append(channel: &Channel, request: Request<AppendEventRequest>) -> Event {
    let mut client = EventServiceClient::new(channel.clone());
    client.append_event(request).await.unwrap().into_inner().event.unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The only span of this name below a parent.
fn only<'s>(spans: &'s [Span], name: &str, parent: &[u8]) -> &'s Span {
    let found: Vec<_> =
        spans.iter().filter(|span| span.name == name && span.parent_span_id == parent).collect();
    assert_eq!(found.len(), 1, "{name} in {spans:#?}");
    found[0]
}

fn assert_within(inner: &Span, outer: &Span) {
    let (from, to) = (inner.start_time_unix_nano, inner.end_time_unix_nano);
    let (began, ended) = (outer.start_time_unix_nano, outer.end_time_unix_nano);
    assert!(from <= to && began <= from && to <= ended, "{inner:?} in {outer:?}");
}

fn attribute(span: &Span, key: &str) -> Option<Value> {
    let found = span.attributes.iter().find(|it| it.key == key)?;
    found.value.clone()?.value
}

fn text(text: &str) -> Option<Value> {
    Some(Value::StringValue(text.into()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trace_leads_from_the_callers_span_to_the_flush_and_an_event_to_its_trace() {
    let collecting = Collecting::start().await;
    let folder = TempDir::new().unwrap();
    let server = Server::run(&mut collecting.serve(&folder)).ok().unwrap();
    let channel = server.channel().await;
    create(&channel, "secret-session", r#"{"secret-key":"secret-value"}"#).await;
    let event = event("secret-event", r#"{"k":"secret-value"}"#, r#"{"text":"secret"}"#);
    let appended = append(&channel, traced(one("secret-session", event), "01")).await;
    assert_eq!(appended.trace_id, TRACE);
    let missing = GetSessionRequest {
        key: Some(SessionKey { session_id: "secret-missing".into(), ..key("s") }),
        ..Default::default()
    };
    let mut sessions = SessionServiceClient::new(channel.clone());
    sessions.get_session(traced(missing, "01")).await.unwrap_err();
    let stored = read(&channel, "secret-session").await.events;
    assert_eq!(stored[0].trace_id, TRACE);
    drop((channel, sessions));
    let ended = server.stop();
    assert!(ended.status.success(), "{}", ended.log);

    let spans = collecting.spans();
    let (ours, others): (Vec<_>, Vec<_>) =
        spans.iter().cloned().partition(|span| hex(&span.trace_id) == TRACE);
    let caller = u64::from_str_radix(CALLER, 16).unwrap().to_be_bytes();
    let call = only(&ours, "sessiond.v1.EventService/AppendEvent", &caller);
    assert_eq!(call.kind(), SpanKind::Server);
    assert_eq!(attribute(call, "rpc.system"), text("grpc"));
    assert_eq!(attribute(call, "rpc.service"), text("sessiond.v1.EventService"));
    assert_eq!(attribute(call, "rpc.method"), text("AppendEvent"));
    assert_eq!(attribute(call, "rpc.grpc.status_code"), Some(Value::IntValue(0)));
    let stages = ["decode", "queue", "commit", "reply"];
    let stages = stages.map(|name| only(&ours, name, &call.span_id));
    stages.iter().for_each(|stage| assert_within(stage, call));
    for (one, next) in stages.iter().zip(&stages[1..]) {
        assert!(one.end_time_unix_nano <= next.start_time_unix_nano, "{one:?} and {next:?}");
    }
    assert_within(only(&ours, "flush", &stages[2].span_id), stages[2]);

    let refused = only(&ours, "sessiond.v1.SessionService/GetSession", &caller);
    assert_eq!(attribute(refused, "rpc.grpc.status_code"), Some(Value::IntValue(5)));
    // A caller's mistake is no error of the server's span.
    assert_eq!(refused.status.clone().unwrap_or_default().code(), StatusCode::Unset);
    // A call without a parent begins a trace of its own.
    assert!(others.iter().any(|span| {
        span.name == "sessiond.v1.SessionService/CreateSession" && span.parent_span_id.is_empty()
    }));
    let resource = collecting.resource();
    assert_eq!(resource["service.name"], Value::StringValue("sessiond".into()));
    assert!(!format!("{spans:?} {resource:?}").contains("secret"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_item_of_a_stream_has_spans_of_its_own() {
    let collecting = Collecting::start().await;
    let folder = TempDir::new().unwrap();
    let mut command = collecting.serve(&folder);
    let command = command.env("OTEL_RESOURCE_ATTRIBUTES", "service.name=memory,zone=a");
    let server = Server::run(command).ok().unwrap();
    let channel = server.channel().await;
    create(&channel, "s", "{}").await;
    let items = ["1", "2"]
        .map(|id| AppendEventStreamRequest { append: Some(one("s", event(id, "{}", "{}"))) });
    let mut client = EventServiceClient::new(channel.clone());
    let request = traced(tokio_stream::iter(items), "01");
    let mut answers = client.append_event_stream(request).await.unwrap().into_inner();
    while answers.message().await.unwrap().is_some() {}
    let stored = read(&channel, "s").await.events;
    assert!(stored.len() == 2 && stored.iter().all(|event| event.trace_id == TRACE));
    drop((channel, client));
    server.stop();

    let spans = collecting.spans();
    let name = "sessiond.v1.EventService/AppendEventStream";
    let call = spans.iter().find(|span| span.name == name).unwrap();
    let items: Vec<_> = spans.iter().filter(|span| span.parent_span_id == call.span_id).collect();
    let items: Vec<_> = items.into_iter().filter(|span| span.name == "item").collect();
    assert_eq!(items.len(), 2);
    for item in items {
        assert_eq!(hex(&item.trace_id), TRACE);
        for stage in ["decode", "queue", "commit", "reply"] {
            only(&spans, stage, &item.span_id);
        }
    }
    let resource = collecting.resource();
    assert_eq!(resource["service.name"], Value::StringValue("memory".into()));
    assert_eq!(resource["zone"], Value::StringValue("a".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_sampled_has_no_spans_and_its_event_still_names_its_trace() {
    for (variables, flags) in [
        (&[("OTEL_TRACES_SAMPLER", "parentbased_always_off")][..], "00"),
        (&[("OTEL_TRACES_SAMPLER", "always_off")], "01"),
        (&[("OTEL_SDK_DISABLED", "true")], "01"),
        (&[("OTEL_TRACES_EXPORTER", "none")], "01"),
        (&[("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")], "01"),
    ] {
        let collecting = Collecting::start().await;
        let folder = TempDir::new().unwrap();
        let mut command = collecting.serve(&folder);
        let server = Server::run(command.envs(variables.iter().copied())).ok().unwrap();
        let channel = server.channel().await;
        create(&channel, "s", "{}").await;
        let appended = append(&channel, traced(one("s", event("1", "{}", "{}")), flags)).await;
        assert_eq!(appended.trace_id, TRACE);
        drop(channel);
        let ended = server.stop();
        assert!(ended.status.success(), "{}", ended.log);
        assert_eq!(collecting.spans(), [], "{variables:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_does_not_answer_delays_no_call_and_no_stop() {
    // It accepts connections and never reads from them.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let folder = TempDir::new().unwrap();
    let mut command = serve(folder.path());
    command.args(["--drain-timeout", "5"]);
    let server = Server::run(command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)).ok().unwrap();
    let channel = server.channel().await;
    create(&channel, "s", "{}").await;
    append(&channel, traced(one("s", event("1", "{}", "{}")), "01")).await;
    drop(channel);
    let ended = server.stop();
    assert!(ended.status.success(), "{}", ended.log);
    assert!(ended.log.contains("the last spans were not exported"), "{}", ended.log);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_and_an_import_keep_the_traces_of_events() {
    let folders = [(); 2].map(|()| TempDir::new().unwrap());
    let [from, to] = folders.each_ref().map(|folder| Server::start(folder.path()));
    let channel = from.channel().await;
    create(&channel, "s", "{}").await;
    append(&channel, traced(one("s", event("1", "{}", "{}")), "00")).await;
    append(&channel, Request::new(one("s", event("2", "{}", "{}")))).await;
    append(&channel, traced(one("s", event("3", "{}", "{}")), "01")).await;
    let rewind =
        RewindSessionRequest { key: Some(key("s")), to_sequence: Some(2), ..Default::default() };
    let mut sessions = SessionServiceClient::new(channel);
    sessions.rewind_session(traced(rewind, "01")).await.unwrap();
    let run = |server: &Server, arguments: &[&str]| {
        let mut command = Command::new(program());
        command.args(arguments).args(["--server", server.address()]);
        let output = command.current_dir(folders[0].path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let written =
        run(&from, &["export", "--app", "app", "--user", "alice", "--format", "sessiond"]);
    fs::write(folders[0].path().join("s.json"), written).unwrap();
    run(&to, &["import", "s.json"]);
    let events = Some(EventSelection { include_rewound: true, ..Default::default() });
    let request = GetSessionRequest { key: Some(key("s")), events, ..Default::default() };
    let mut sessions = SessionServiceClient::new(to.channel().await);
    let imported = sessions.get_session(request).await.unwrap().into_inner().events;
    let traces: Vec<_> = imported.iter().map(|event| event.trace_id.as_str()).collect();
    assert_eq!(traces, [TRACE, "", TRACE, TRACE]);
    drop(sessions);
    from.stop();
    to.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_to_postgres_has_the_same_spans_and_a_read_has_two() {
    if shared_server().is_none() {
        return;
    }
    let database = Database::create();
    let collecting = Collecting::start().await;
    let mut command = serve_on(&database.url);
    let command = command.env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &collecting.endpoint);
    let server = Server::run(command).ok().unwrap();
    let channel = server.channel().await;
    create(&channel, "s", "{}").await;
    append(&channel, traced(one("s", event("1", "{}", "{}")), "01")).await;
    assert_eq!(read(&channel, "s").await.events[0].trace_id, TRACE);
    drop(channel);
    server.stop();
    let spans = collecting.spans();
    let (call, stages) = call_of(&spans, "sessiond.v1.EventService/AppendEvent");
    assert_eq!(hex(&call.trace_id), TRACE);
    assert_eq!(stages, ["commit", "decode", "queue", "reply"]);
    let commit = only(&spans, "commit", &call.span_id);
    assert_within(only(&spans, "flush", &commit.span_id), commit);
    let (_, stages) = call_of(&spans, "sessiond.v1.SessionService/GetSession");
    assert_eq!(stages, ["decode", "reply"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_with_tls_is_trusted_by_its_authority() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new(folder.path(), "ca.pem");
    let other = Authority::new(folder.path(), "other.pem");
    for (trusted, is_trusted) in [(&authority, true), (&other, false)] {
        let collecting = Collecting::start_with_tls(&authority).await;
        let mut command = collecting.serve(&folder);
        let command = command.env("OTEL_EXPORTER_OTLP_CERTIFICATE", &trusted.file);
        let server = Server::run(command).ok().unwrap();
        let channel = server.channel().await;
        create(&channel, "s", "{}").await;
        drop(channel);
        let ended = server.stop();
        assert!(ended.status.success(), "{}", ended.log);
        assert_eq!(!collecting.spans().is_empty(), is_trusted, "{}", ended.log);
    }
}
