//! Calls by method and code.

use std::{collections::HashMap, sync::Arc, time::Duration};

use prometheus::{Histogram, IntGauge};

use super::{CallMetrics, GaugeShare, Refusals, register::Register};

/// The method of every call whose path is not that of a method.
const OTHER: &str = "other";

const OK: &str = "OK";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodKind {
    Unary,
    /// The client or the server sends any number of messages.
    Streaming,
}

/// The methods of a server.
pub struct Calls {
    /// By path, such as `/sessiond.v1.EventService/AppendEvent`.
    methods: HashMap<String, Arc<Method>>,
    other: Arc<Method>,
    metrics: CallMetrics,
    refusals: Refusals,
}

/// A method, with the handle that each of its calls needs.
struct Method {
    name: String,
    handle: Handle,
}

enum Handle {
    /// Durations of calls that ended well, which are most.
    Unary(Histogram),
    /// Open streams.
    Streaming(IntGauge),
}

/// A call that has begun, in the gauges of those that have not ended.
pub struct MeasuredCall {
    calls: Arc<Calls>,
    method: Arc<Method>,
    _in_flight: GaugeShare,
    _stream: Option<GaugeShare>,
}

impl Calls {
    pub(super) fn new(
        register: Register<'_>,
        methods: impl IntoIterator<Item = (String, MethodKind)>,
        refusals: &Refusals,
    ) -> Self {
        let metrics = CallMetrics::new(register);
        // A method that was never called is shown as well.
        let method = |name: &str, kind| {
            let handle = match kind {
                MethodKind::Unary => {
                    Handle::Unary(metrics.durations.with_label_values(&[name, OK]))
                }
                MethodKind::Streaming => {
                    metrics.streams.with_label_values(&[name, OK]);
                    Handle::Streaming(metrics.open_streams.with_label_values(&[name]))
                }
            };
            Arc::new(Method { name: name.to_owned(), handle })
        };
        let by_path = |(path, kind): (String, _)| {
            let method = method(path.trim_start_matches('/'), kind);
            (path, method)
        };
        let methods = methods.into_iter().map(by_path).collect();
        let other = method(OTHER, MethodKind::Unary);
        Self { methods, other, metrics, refusals: refusals.clone() }
    }

    /// All paths that are not a method's count as one.
    pub fn begin(self: &Arc<Self>, path: &str) -> MeasuredCall {
        let method = self.methods.get(path).unwrap_or(&self.other);
        let stream = match &method.handle {
            Handle::Unary(_) => None,
            Handle::Streaming(open) => Some(GaugeShare::new(open, 1)),
        };
        MeasuredCall {
            calls: Arc::clone(self),
            method: Arc::clone(method),
            _in_flight: GaugeShare::new(&self.metrics.in_flight, 1),
            _stream: stream,
        }
    }
}

impl MeasuredCall {
    /// It is answered with an error, for this reason if it has one.
    pub fn refuse(&self, reason: Option<&str>) {
        self.calls.refusals.count(reason);
    }

    /// It has ended with a code of gRPC, by its name.
    pub fn end(self, code: &str, elapsed: Duration) {
        let (metrics, labels) = (&self.calls.metrics, [&*self.method.name, code]);
        match &self.method.handle {
            Handle::Streaming(_) => metrics.streams.with_label_values(&labels).inc(),
            Handle::Unary(ended_well) if code == OK => ended_well.observe(elapsed.as_secs_f64()),
            Handle::Unary(_) => {
                metrics.durations.with_label_values(&labels).observe(elapsed.as_secs_f64());
            }
        }
    }
}
