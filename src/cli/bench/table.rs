//! The table of results, or a JSON object for each of its rows.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;

use super::load::Results;

#[derive(Debug, Default, Serialize)]
pub struct Setting {
    /// Calls in flight; of a stream, its unanswered requests.
    pub in_flight: usize,
    /// Other parameters, such as `streams`.
    #[serde(flatten)]
    pub others: BTreeMap<&'static str, usize>,
}

impl Setting {
    pub fn in_flight(in_flight: usize) -> Self {
        Self { in_flight, ..Self::default() }
    }

    /// In the table, at most 17 characters.
    fn label(&self) -> String {
        let n = self.in_flight;
        match self.others.iter().map(|(name, value)| (*name, *value)).collect::<Vec<_>>()[..] {
            [("active", active), ("sessions", all)] => format!("{active}/{all} x {n}"),
            [("streams", streams)] => format!("{streams} streams x {n}"),
            [(name, value), ..] => format!("{value} {name}"),
            [] => format!("{n} in flight"),
        }
    }
}

pub const HEADINGS: &str =
    "workload setting              calls   per s p50 ms p99 ms  p99.9 max ms errors\n";

#[derive(Debug, Serialize)]
pub struct Row {
    workload: &'static str,
    #[serde(flatten)]
    setting: Setting,
    seconds: f64,
    operations: u64,
    pub per_second: f64,
    p50_micros: u64,
    p99_micros: u64,
    p99_9_micros: u64,
    max_micros: u64,
    pub errors: u64,
}

impl Row {
    pub fn new(
        workload: &'static str,
        setting: Setting,
        elapsed: Duration,
        results: &Results,
    ) -> Self {
        let (latencies, seconds) = (&results.latencies, elapsed.as_secs_f64());
        let operations = latencies.len();
        Self {
            workload,
            setting,
            seconds,
            operations,
            per_second: operations as f64 / seconds.max(f64::EPSILON),
            p50_micros: latencies.value_at_quantile(0.5),
            p99_micros: latencies.value_at_quantile(0.99),
            p99_9_micros: latencies.value_at_quantile(0.999),
            max_micros: latencies.max(),
            errors: results.errors,
        }
    }

    /// Wide enough for all rows, because each is printed before the next is known.
    pub fn line(&self) -> String {
        let Self { workload, setting, operations, per_second, .. } = self;
        let label = setting.label();
        let micros = [self.p50_micros, self.p99_micros, self.p99_9_micros, self.max_micros];
        let millis = micros.map(|micros| format!("{:>6}", millis(micros))).join(" ");
        let errors = self.errors;
        format!("{workload:<9}{label:<17} {operations:>8} {per_second:>7.0} {millis} {errors:>6}\n")
    }
}

/// Milliseconds in at most six characters, up to an hour and a half.
fn millis(micros: u64) -> String {
    let millis = micros as f64 / 1000.0;
    let decimals = if micros < 1_000_000 { 2 } else { usize::from(micros < 10_000_000) };
    format!("{millis:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        let mut results = Results::default();
        (1..=1000).for_each(|micros| results.add(Ok(Duration::from_micros(micros))));
        results
    }

    #[test]
    fn a_row_sums_up_the_results() {
        let mut results = results();
        results.add(Err("gone".to_owned()));
        let setting = Setting::in_flight(4);
        let row = Row::new("append", setting, Duration::from_secs(2), &results);
        assert_eq!((row.operations, row.errors), (1000, 1));
        assert!((row.per_second - 500.0).abs() < f64::EPSILON);
        assert_eq!((row.p50_micros, row.p99_micros, row.max_micros), (500, 990, 1000));
    }

    #[test]
    fn columns_stand_below_their_headings() {
        let setting = Setting { in_flight: 32, others: [("streams", 16)].into() };
        let row = Row::new("stream", setting, Duration::from_secs(1), &results());
        let (heading, text) = (HEADINGS, row.line());
        assert_eq!(heading.len(), text.len());
        assert!(heading.len() <= 80, "a line and its end on the usual terminal");
        assert!(text.starts_with("stream   16 streams x 32 "), "{text}");
        assert_eq!(heading.find("p50 ms").map(|at| at + 6), text.find("0.50").map(|at| at + 4));
        let others = [("active", 10_000), ("sessions", 100_000)].into();
        let setting = Setting { in_flight: 64, others };
        let row = Row::new("spread", setting, Duration::from_secs(1), &results());
        assert_eq!(heading.len(), row.line().len());
    }

    #[test]
    fn milliseconds_fit_into_their_column() {
        for (micros, shown) in [
            (0, "0.00"),
            (999_990, "999.99"),
            (1_000_000, "1000.0"),
            (9_999_900, "9999.9"),
            (60_000_000, "60000"),
        ] {
            assert_eq!(millis(micros), shown);
        }
    }

    #[test]
    fn figures_for_programs_name_their_units() {
        let setting = Setting { others: [("events", 7)].into(), ..Setting::in_flight(1) };
        let row = Row::new("read", setting, Duration::from_secs(1), &results());
        let json = serde_json::to_value(&row).unwrap();
        assert_eq!((&json["in_flight"], &json["events"]), (&1.into(), &7.into()));
        assert_eq!((&json["p99_9_micros"], &json["sessions"]), (&999.into(), &().into()));
    }
}
