//! Making metrics: each is registered under its name as it is made.

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, core::Collector,
};

use super::families::Applications;

/// Bounds of durations in seconds: from a decision in memory to a database that hangs.
const SECONDS: [f64; 16] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];

/// Bounds of numbers of requests, up to those of the largest group.
const REQUESTS: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

#[derive(Clone, Copy)]
pub(super) struct Register<'r> {
    pub registry: &'r Registry,
    /// Applications whose appends are counted each for itself.
    pub applications: usize,
}

/// Name and help. Metrics of one family differ in their label.
type Family<'t> = (&'t str, &'t str);
type Label<'t> = (&'t str, &'t str);

fn options((name, help): Family<'_>, label: Option<Label<'_>>) -> Opts {
    let options = Opts::new(name, help);
    label.into_iter().fold(options, |options, (name, value)| options.const_label(name, value))
}

#[expect(
    clippy::expect_used,
    reason = "names and bounds are constants, and every test of a server makes all of them"
)]
impl Register<'_> {
    pub(super) fn collector(self, collector: impl Collector + 'static) {
        self.registry.register(Box::new(collector)).expect("another name");
    }

    fn registered<M: Collector + Clone + 'static>(self, made: prometheus::Result<M>) -> M {
        let metric = made.expect("a legal name");
        self.collector(metric.clone());
        metric
    }

    pub(super) fn counter(self, family: Family<'_>, label: Option<Label<'_>>) -> IntCounter {
        self.registered(IntCounter::with_opts(options(family, label)))
    }

    /// By the values of labels. Those that are `known` are shown before they are counted.
    pub(super) fn counters(
        self,
        name: &str,
        help: &str,
        labels: &[&str],
        known: &[&str],
    ) -> IntCounterVec {
        let counters = self.registered(IntCounterVec::new(Opts::new(name, help), labels));
        for value in known {
            counters.with_label_values(&[value]);
        }
        counters
    }

    pub(super) fn gauge(self, name: &str, help: &str) -> IntGauge {
        self.registered(IntGauge::new(name, help))
    }

    pub(super) fn labelled_gauge(self, family: Family<'_>, label: Label<'_>) -> IntGauge {
        self.registered(IntGauge::with_opts(options(family, Some(label))))
    }

    pub(super) fn gauges(self, name: &str, help: &str, label: &str) -> IntGaugeVec {
        self.registered(IntGaugeVec::new(Opts::new(name, help), &[label]))
    }

    pub(super) fn durations(self, family: Family<'_>, label: Option<Label<'_>>) -> Histogram {
        let options = HistogramOpts::from(options(family, label)).buckets(SECONDS.to_vec());
        self.registered(Histogram::with_opts(options))
    }

    pub(super) fn labelled_durations(self, name: &str, help: &str) -> HistogramVec {
        let options = HistogramOpts::new(name, help).buckets(SECONDS.to_vec());
        self.registered(HistogramVec::new(options, &["method", "code"]))
    }

    pub(super) fn sizes(self, name: &str, help: &str) -> Histogram {
        let options = HistogramOpts::new(name, help).buckets(REQUESTS.to_vec());
        self.registered(Histogram::with_opts(options))
    }

    pub(super) fn applications(self) -> Applications {
        Applications::new(self, self.applications)
    }
}
