//! Calls by method and code.

use std::{collections::HashMap, sync::Arc, time::Duration};

use super::{CallMetrics, GaugeShare, Refusals, register::Register};

/// The method of every call whose path is not that of a method.
const OTHER: &str = "other";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodKind {
    Unary,
    /// The client or the server sends any number of messages.
    Streaming,
}

/// The methods of a server.
pub struct Calls {
    /// By path, such as `/sessiond.v1.EventService/AppendEvent`.
    methods: HashMap<String, MethodKind>,
    metrics: CallMetrics,
    refusals: Refusals,
}

/// A call that has begun, in the gauges of those that have not ended.
pub struct MeasuredCall {
    calls: Arc<Calls>,
    method: Box<str>,
    _in_flight: GaugeShare,
    stream: Option<GaugeShare>,
}

impl Calls {
    pub(super) fn new(
        register: Register<'_>,
        methods: impl IntoIterator<Item = (String, MethodKind)>,
        refusals: &Refusals,
    ) -> Self {
        let (methods, metrics) = (HashMap::from_iter(methods), CallMetrics::new(register));
        for (path, kind) in &methods {
            let name = name(path);
            // A method that was never called is shown as well.
            match kind {
                MethodKind::Unary => drop(metrics.durations.with_label_values(&[name, "OK"])),
                MethodKind::Streaming => {
                    metrics.open_streams.with_label_values(&[name]);
                    metrics.streams.with_label_values(&[name, "OK"]);
                }
            }
        }
        metrics.durations.with_label_values(&[OTHER, "OK"]);
        Self { methods, metrics, refusals: refusals.clone() }
    }

    /// All paths that are not a method's count as one.
    pub fn begin(self: &Arc<Self>, path: &str) -> MeasuredCall {
        let kind = self.methods.get(path);
        let method = kind.map_or(OTHER, |_| name(path));
        let is_stream = kind == Some(&MethodKind::Streaming);
        let open = || self.metrics.open_streams.with_label_values(&[method]);
        MeasuredCall {
            calls: Arc::clone(self),
            method: method.into(),
            _in_flight: GaugeShare::new(&self.metrics.in_flight, 1),
            stream: is_stream.then(|| GaugeShare::new(&open(), 1)),
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
        let (metrics, labels) = (&self.calls.metrics, [&*self.method, code]);
        match self.stream {
            Some(_) => metrics.streams.with_label_values(&labels).inc(),
            None => metrics.durations.with_label_values(&labels).observe(elapsed.as_secs_f64()),
        }
    }
}

fn name(path: &str) -> &str {
    path.trim_start_matches('/')
}
