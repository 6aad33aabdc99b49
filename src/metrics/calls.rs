//! Calls by method and code.

use std::{collections::HashMap, sync::Arc, time::Duration};

use prometheus::{Histogram, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec};

use super::{GaugeShare, Refusals, register::Register};

/// The method of every call whose path is not that of a method.
const OTHER: &str = "other";

/// The code whose histogram is at hand, because most calls end with it.
const OK: &str = "OK";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodKind {
    Unary,
    /// The client or the server sends any number of messages. How long it lasts says nothing about latency, so it has no histogram.
    Streaming,
}

/// The methods of a server.
pub struct Calls {
    methods: HashMap<String, Arc<MethodMetrics>>,
    other: Arc<MethodMetrics>,
}

/// The calls of one method.
pub struct MethodMetrics {
    name: String,
    durations: HistogramVec,
    /// Of unary calls that ended with OK.
    ok: Option<Histogram>,
    streams: IntCounterVec,
    open_streams: IntGaugeVec,
    in_flight: IntGauge,
    refusals: Arc<Refusals>,
}

/// A call that has begun, in the gauges of those that have not ended.
pub struct CallShare {
    _in_flight: GaugeShare,
    _stream: Option<GaugeShare>,
}

impl Calls {
    pub(super) fn new(
        register: Register<'_>,
        methods: impl IntoIterator<Item = (String, MethodKind)>,
        refusals: &Arc<Refusals>,
    ) -> Self {
        let durations = register.labelled_durations(
            "rpc_server_call_duration_seconds",
            "Duration of unary calls, from their headers to the end of their answer.",
            &["method", "code"],
        );
        let streams = register.counters(
            "rpc_server_streams_total",
            "Streams that have ended.",
            &["method", "code"],
        );
        let open_streams = register.gauges("rpc_server_streams", "Open streams.", "method");
        let in_flight =
            register.gauge("rpc_server_in_flight_requests", "Requests that have not ended.");
        let metrics = |name: &str, kind| {
            let is_unary = kind == MethodKind::Unary;
            if !is_unary {
                // A stream that was never opened is shown as well.
                open_streams.with_label_values(&[name]);
                streams.with_label_values(&[name, OK]);
            }
            Arc::new(MethodMetrics {
                name: name.to_owned(),
                durations: durations.clone(),
                ok: is_unary.then(|| durations.with_label_values(&[name, OK])),
                streams: streams.clone(),
                open_streams: open_streams.clone(),
                in_flight: in_flight.clone(),
                refusals: Arc::clone(refusals),
            })
        };
        let named = |(path, kind): (String, MethodKind)| {
            let method = metrics(path.trim_start_matches('/'), kind);
            (path, method)
        };
        let methods = methods.into_iter().map(named).collect();
        Self { methods, other: metrics(OTHER, MethodKind::Unary) }
    }

    /// The method of a path such as `/sessiond.v1.EventService/AppendEvent`. All paths that are not a method's count as one.
    pub fn method(&self, path: &str) -> Arc<MethodMetrics> {
        Arc::clone(self.methods.get(path).unwrap_or(&self.other))
    }
}

impl MethodMetrics {
    pub fn begin(&self) -> CallShare {
        let open = || self.open_streams.with_label_values(&[&self.name]);
        CallShare {
            _in_flight: GaugeShare::new(&self.in_flight, 1),
            _stream: self.ok.is_none().then(|| GaugeShare::new(&open(), 1)),
        }
    }

    /// A call is answered with an error, for this reason if it has one.
    pub fn refuse(&self, reason: Option<&str>) {
        self.refusals.count(reason);
    }

    /// A call has ended with a code of gRPC, by its name.
    pub fn end(&self, code: &str, elapsed: Duration) {
        match &self.ok {
            Some(ok) if code == OK => ok.observe(elapsed.as_secs_f64()),
            Some(_) => {
                let durations = self.durations.with_label_values(&[self.name.as_str(), code]);
                durations.observe(elapsed.as_secs_f64());
            }
            None => self.streams.with_label_values(&[self.name.as_str(), code]).inc(),
        }
    }
}
