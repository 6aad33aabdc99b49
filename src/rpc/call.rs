//! A call at the edge: its context, and how its error becomes a status and a log line.

use std::{future::Future, panic::AssertUnwindSafe, time::Duration};

use futures_util::FutureExt as _;
use tokio::time::Instant;
use tonic::{Request, Status};

use super::status::stream_status;
use crate::{
    access::Principal,
    domain::{error::Error, trace::TraceParent},
    store::{CallId, CallerId, RequestContext, Work, instant, spans::Spans},
};

/// The number of a connection, in the extensions of its requests.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionId(pub u64);

/// A call, or one item of a stream of them.
#[derive(Clone, Debug)]
pub struct Call {
    method: &'static str,
    pub context: RequestContext,
}

impl Call {
    /// Reads the deadline and the trace from the request's metadata, where values that cannot be read are ignored. The id is that of the
    /// line in the log of calls, if there is one. The principal is the one that the listener has established.
    pub fn new<T>(method: &'static str, request: &Request<T>) -> Self {
        let text = |name| request.metadata().get(name)?.to_str().ok();
        let request_id = request.extensions().get().copied().unwrap_or_else(CallId::next);
        let parent = text("traceparent").and_then(TraceParent::parse);
        let principal = request.extensions().get().cloned().unwrap_or(Principal::Local);
        let connection = request.extensions().get().map_or(0, |ConnectionId(id)| *id);
        let context = RequestContext {
            caller: CallerId::new(&principal, connection),
            principal,
            deadline: text("grpc-timeout").and_then(timeout).and_then(deadline),
            trace_id: parent.map(|parent| parent.trace_id),
            spans: request.extensions().get().cloned(),
            account: request.extensions().get().cloned().unwrap_or_default(),
            request_id,
            work: Work::default(),
        };
        Self { method, context }
    }

    /// An item of this stream: a call with an id and an account of its own, and the stream's trace and deadline.
    pub fn item(&self) -> Self {
        let spans = self.context.spans.as_ref().map(Spans::item);
        let (account, request_id) = (self.context.account.item(), CallId::next());
        let context = RequestContext { request_id, spans, account, ..self.context.clone() };
        Self { method: self.method, context }
    }

    /// Notes the end of decoding.
    pub fn decoded<T>(&self, decoded: Result<T, Error>) -> Result<T, Error> {
        self.context.spans.iter().for_each(Spans::decoded);
        decoded
    }

    /// Runs the call. A panic becomes [`Error::Internal`] like any other defect. An `async fn` would hold `work` twice, as its parameter
    /// and where it is awaited: some kilobytes that each call allocates and copies.
    pub fn run<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> impl Future<Output = Result<T, Status>> {
        AssertUnwindSafe(work).catch_unwind().map(|answer| {
            let answer = answer.unwrap_or_else(|_| Err(Error::internal("the handler panicked")));
            answer.map_err(|error| self.status(&error))
        })
    }

    pub fn status(&self, error: &Error) -> Status {
        self.stream_status(error, None)
    }

    /// The status that ends a stream, with the position at which it can be resumed. The cause of an internal error is logged, since the
    /// caller does not see it.
    pub fn stream_status(&self, error: &Error, at: Option<(&'static str, &str)>) -> Status {
        let Self { method, context: RequestContext { request_id, trace_id, .. } } = self;
        if let Error::Internal(cause) = error {
            let trace_id = trace_id.map(|id| id.to_string());
            tracing::error!(method, %request_id, trace_id, cause = cause.0, "internal error");
        }
        stream_status(error, *request_id, at)
    }
}

/// Reads `grpc-timeout`: at most eight digits and a unit.
fn timeout(header: &str) -> Option<Duration> {
    let (digits, unit) = header.split_at_checked(header.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

/// Counted from the call's arrival.
fn deadline(timeout: Duration) -> Option<Instant> {
    instant().checked_add(timeout)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Seek as _},
        sync::Arc,
    };

    use tonic::Code;
    use tonic_types::StatusExt as _;

    use super::*;
    use crate::{access::Identity, domain::trace::TraceId};

    #[tokio::test]
    async fn a_call_that_panics_is_refused_like_any_other() {
        let call = Call::new("Test", &Request::new(()));
        let work = async { panic!("a defect") };
        let status = call.run::<()>(work).await.unwrap_err();
        assert_eq!(status.code(), Code::Internal);
        assert_eq!(status.get_details_error_info().unwrap().reason, "INTERNAL");
    }

    #[tokio::test(start_paused = true)]
    async fn a_context_is_read_from_the_metadata() {
        let mut request = Request::new(());
        let metadata = request.metadata_mut();
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        metadata.insert("grpc-timeout", "1500m".parse().unwrap());
        metadata.insert("traceparent", trace.parse().unwrap());
        let call = Call::new("Test", &request);
        let item = call.item();
        for context in [&call.context, &item.context] {
            assert_eq!(context.deadline, deadline(Duration::from_millis(1500)));
            assert_eq!(context.trace_id, TraceId::new(0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736));
        }
        assert_ne!(call.context.request_id, item.context.request_id);
        let mut plain = Request::new(());
        assert!(matches!(Call::new("Test", &plain).context.principal, Principal::Local));
        let principal = Principal::Identified(Arc::new(Identity::new("jwt:alice")));
        plain.extensions_mut().insert(principal.clone());
        let listened = CallId::next();
        plain.extensions_mut().insert(listened);
        let plain = Call::new("Test", &plain);
        assert_eq!((plain.context.deadline, plain.context.trace_id), (None, None));
        assert_eq!(plain.context.request_id, listened);
        assert_eq!(plain.item().context.principal.name(), principal.name());
    }

    #[test]
    fn timeouts_are_read_as_the_protocol_writes_them() {
        for (header, expected) in [
            ("2H", Some(Duration::from_secs(7200))),
            ("3M", Some(Duration::from_secs(180))),
            ("00000004S", Some(Duration::from_secs(4))),
            ("5m", Some(Duration::from_millis(5))),
            ("6u", Some(Duration::from_micros(6))),
            ("99999999n", Some(Duration::from_nanos(99_999_999))),
            ("123456789S", None),
            ("-1S", None),
            ("S", None),
            ("1", None),
            ("1é", None),
            ("", None),
        ] {
            assert_eq!(timeout(header), expected, "{header}");
        }
    }

    #[test]
    fn an_internal_error_is_found_in_the_log_by_its_request_id() {
        let mut request = Request::new(());
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        request.metadata_mut().insert("traceparent", trace.parse().unwrap());
        let call = Call::new("Test", &request);
        let mut log = tempfile::tempfile().unwrap();
        let writer = Arc::new(log.try_clone().unwrap());
        let subscriber = tracing_subscriber::fmt().json().with_writer(writer).finish();
        let status = tracing::subscriber::with_default(subscriber, || {
            call.status(&Error::internal("the cause"))
        });
        let request_id = &status.get_details_error_info().unwrap().metadata["request_id"];
        assert_eq!(*request_id, call.context.request_id.to_string());
        assert!(!format!("{status:?}").contains("the cause"));
        let mut line = String::new();
        log.rewind().unwrap();
        log.read_to_string(&mut line).unwrap();
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        let expected = serde_json::json!({
            "message": "internal error",
            "method": "Test",
            "request_id": request_id,
            "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
            "cause": "the cause",
        });
        assert_eq!(line["fields"], expected);
    }
}
