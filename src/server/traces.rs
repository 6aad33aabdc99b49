//! Spans of calls, exported by OTLP. The standard variables `OTEL_…` turn them on and set everything about them.

mod settings;

use std::{
    ops::Range,
    str::FromStr as _,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use opentelemetry::{
    Context, KeyValue,
    trace::{
        Span as _, SpanContext, SpanId, SpanKind, Status as Outcome, TraceContextExt as _,
        TraceFlags, TraceId, TraceState, Tracer as _, TracerProvider as _,
    },
};
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::{
    Resource,
    trace::{SdkTracer, SdkTracerProvider, Span},
};
use tokio::task::spawn_blocking;
use tonic::{Code, codegen::http};

use crate::{
    domain::trace::TraceParent,
    rpc::{self, SERVICE_NAMES},
    store::spans::{self, Recorder, Spans, Stage, Stages},
};

/// The name of the instrumentation, and of the service unless the environment names another.
const NAME: &str = env!("CARGO_PKG_NAME");

/// Bytes of a method's name. Those of the contract are shorter.
const METHOD_BYTES: usize = 64;

const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes spans of calls, and exports them in batches. Spans that do not fit into its queue are dropped.
#[derive(Clone)]
pub struct Traces {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

impl Traces {
    /// `None` unless the environment names a collector. Settings that cannot be used are logged and leave traces off.
    pub fn from_environment() -> Option<Self> {
        let exporter = settings::exporter(settings::environment).unwrap_or_else(|error| {
            tracing::warn!(error, "traces are off");
            None
        });
        exporter.map(Self::new)
    }

    fn new(exporter: SpanExporter) -> Self {
        let resource = Resource::builder();
        // Without a name in the environment the detectors make one of the executable's.
        let resource = match settings::is_named(settings::environment) {
            true => resource,
            false => resource.with_service_name(NAME),
        };
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let provider = SdkTracerProvider::builder()
            .with_resource(resource.with_attribute(version).build())
            .with_batch_exporter(exporter)
            .build();
        let tracer = provider.tracer(NAME);
        Self { provider, tracer }
    }

    /// The span of a call. `None`: the sampler leaves the call out, or it is not one of the contract's services.
    pub fn begin(&self, request: &http::Request<impl Sized>) -> Option<TracedCall> {
        let (service, method) = rpc::names(request.uri().path())?;
        let is_method =
            method.len() <= METHOD_BYTES && method.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !SERVICE_NAMES.contains(&service) || !is_method {
            return None;
        }
        let clock = Clock::start();
        let builder = self.tracer.span_builder("call").with_kind(SpanKind::Server);
        let parent = parent(request.headers());
        let mut span = builder.with_start_time(clock.at).start_with_context(&self.tracer, &parent);
        if !span.is_recording() {
            return None;
        }
        span.update_name(format!("{service}/{method}"));
        span.set_attributes([
            KeyValue::new("rpc.system", "grpc"),
            KeyValue::new("rpc.service", service.to_owned()),
            KeyValue::new("rpc.method", method.to_owned()),
        ]);
        let context = Context::new().with_remote_span_context(span.span_context().clone());
        let recorder = Arc::new(CallRecorder { tracer: self.tracer.clone(), context, clock });
        Some(TracedCall { span, spans: Spans::new(recorder, clock.began), clock })
    }

    /// Exports the spans that wait, for at most `limit`.
    pub async fn shut_down(self, limit: Duration) {
        let shut_down = move || self.provider.shutdown_with_timeout(limit.min(FLUSH_TIMEOUT));
        match spawn_blocking(shut_down).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the last spans were not exported"),
            Err(error) => tracing::warn!(%error, "the last spans were not exported"),
        }
    }
}

/// The span of a sampled call, from its arrival to the end of its answer, or until the client leaves.
pub struct TracedCall {
    span: Span,
    /// What the services note their stages in.
    pub spans: Spans,
    clock: Clock,
}

impl TracedCall {
    pub fn end(mut self, code: Code) {
        self.span.set_attribute(KeyValue::new("rpc.grpc.status_code", i64::from(code as i32)));
        if is_servers_fault(code) {
            self.span.set_status(Outcome::error(""));
        }
        self.spans.replied();
        self.span.end_with_timestamp(self.clock.time(spans::now()));
    }
}

/// The codes for which the span of a server is an error, by the conventions for gRPC.
fn is_servers_fault(code: Code) -> bool {
    matches!(
        code,
        Code::Unknown
            | Code::DeadlineExceeded
            | Code::Unimplemented
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss
    )
}

/// The arrival of a call by both clocks. All spans of a call are timed from there, so that none leaves the one above it when the wall
/// clock is set.
#[derive(Clone, Copy)]
struct Clock {
    began: Instant,
    at: SystemTime,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "spans have the time of the process's clock")]
    fn start() -> Self {
        Self { began: spans::now(), at: SystemTime::now() }
    }

    fn time(self, instant: Instant) -> SystemTime {
        self.at + instant.saturating_duration_since(self.began)
    }
}

/// Makes spans of the stages of a call and of its items, below the call's span.
struct CallRecorder {
    tracer: SdkTracer,
    context: Context,
    clock: Clock,
}

impl CallRecorder {
    /// Records a span, and returns the context for those below it.
    fn span(&self, name: &'static str, period: Range<Instant>, parent: &Context) -> Context {
        let [start, end] = [period.start, period.end].map(|instant| self.clock.time(instant));
        let builder = self.tracer.span_builder(name).with_start_time(start);
        let mut span = builder.start_with_context(&self.tracer, parent);
        span.end_with_timestamp(end);
        Context::new().with_remote_span_context(span.span_context().clone())
    }
}

impl Recorder for CallRecorder {
    fn record(&self, item: Option<Range<Instant>>, stages: Stages) {
        let item = item.map(|period| self.span("item", period, &self.context));
        let parent = item.as_ref().unwrap_or(&self.context);
        let mut commit = None;
        for (stage, period) in stages {
            match stage {
                Stage::Decode => drop(self.span("decode", period, parent)),
                Stage::Queue => drop(self.span("queue", period, parent)),
                Stage::Commit => commit = Some(self.span("commit", period, parent)),
                Stage::Flush => {
                    drop(self.span("flush", period, commit.as_ref().unwrap_or(parent)));
                }
                Stage::Reply => drop(self.span("reply", period, parent)),
            }
        }
    }
}

fn parent(headers: &http::HeaderMap) -> Context {
    let text = |name| headers.get(name)?.to_str().ok();
    let parent = text("traceparent").and_then(TraceParent::parse);
    let Some(TraceParent { trace_id, span_id, sampled }) = parent else { return Context::new() };
    let state = text("tracestate").and_then(|text| TraceState::from_str(text).ok());
    Context::new().with_remote_span_context(SpanContext::new(
        TraceId::from_bytes(trace_id.to_bytes()),
        SpanId::from_bytes(span_id.get().to_be_bytes()),
        TraceFlags::default().with_sampled(sampled),
        true,
        state.unwrap_or_default(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callers_span_is_the_parent() {
        let mut headers = http::HeaderMap::new();
        assert!(!parent(&headers).has_active_span());
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        headers.insert("traceparent", header.parse().unwrap());
        headers.insert("tracestate", "vendor=1".parse().unwrap());
        let context = parent(&headers);
        let span = context.span();
        let span = span.span_context();
        assert_eq!(span.trace_id().to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(span.span_id().to_string(), "00f067aa0ba902b7");
        assert!(span.is_remote() && span.is_sampled());
        assert_eq!(span.trace_state().header(), "vendor=1");
    }
}
