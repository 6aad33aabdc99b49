//! Making metrics: each type in its way, and registered under its name.

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, core::Collector,
};

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

/// Name and help. Metrics of one family differ in their labels.
pub(super) type Family = (&'static str, &'static str);

#[derive(Clone, Copy)]
pub(super) enum Label<'t> {
    /// Of this value.
    Is(&'t str, &'t str),
    /// Of values that come with what is counted.
    By(&'t str),
    /// The same, and these values are shown before they are counted.
    Of(&'t str, &'t [&'t str]),
}

pub(super) trait Metric: Sized {
    fn make(register: Register<'_>, family: Family, labels: &[Label<'_>]) -> Self;
}

/// How metrics of these types are made from their options and the names of their variable labels.
macro_rules! metrics {
    ($($type:ty: |$options:ident, $names:ident| $made:expr;)*) => {$(
        impl Metric for $type {
            fn make(register: Register<'_>, family: Family, labels: &[Label<'_>]) -> Self {
                let ($options, $names) = options(family, labels);
                register.registered($made)
            }
        }
    )*};
}

metrics! {
    IntCounter: |options, _names| Self::with_opts(options);
    IntGauge: |options, _names| Self::with_opts(options);
    IntGaugeVec: |options, names| Self::new(options, &names);
    Histogram: |options, _names| Self::with_opts(with_buckets(options));
    HistogramVec: |options, names| Self::new(with_buckets(options), &names);
}

impl Metric for IntCounterVec {
    fn make(register: Register<'_>, family: Family, labels: &[Label<'_>]) -> Self {
        let (options, names) = options(family, labels);
        let counters: Self = register.registered(Self::new(options, &names));
        if let [Label::Of(_, known)] = labels {
            known.iter().for_each(|value| drop(counters.with_label_values(&[value])));
        }
        counters
    }
}

fn options<'t>((name, help): Family, labels: &[Label<'t>]) -> (Opts, Vec<&'t str>) {
    let (mut options, mut names) = (Opts::new(name, help), Vec::new());
    for label in labels {
        match label {
            Label::Is(name, value) => options = options.const_label(*name, *value),
            Label::By(name) | Label::Of(name, _) => names.push(*name),
        }
    }
    (options, names)
}

fn with_buckets(options: Opts) -> HistogramOpts {
    let is_time = options.name.ends_with("_seconds");
    let bounds = if is_time { SECONDS.to_vec() } else { REQUESTS.to_vec() };
    HistogramOpts::from(options).buckets(bounds)
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
}
