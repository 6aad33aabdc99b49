//! The table of results, or a JSON object for each of its rows.

use std::time::Duration;

use serde::Serialize;

use super::load::Results;

/// The parameters of a measurement.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Setting {
    /// Calls in flight; of a stream, its unanswered requests.
    pub in_flight: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<usize>,
    /// Events in the session before the measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<usize>,
    /// Sessions in the application.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<usize>,
    /// Sessions that are appended to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<usize>,
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
        let in_flight = self.setting.in_flight;
        let setting = match self.setting {
            Setting { streams: Some(streams), .. } => format!("{streams} streams x {in_flight}"),
            Setting { events: Some(events), .. } => format!("{events} events"),
            Setting { active: Some(active), sessions: Some(sessions), .. } => {
                format!("{active}/{sessions} x {in_flight}")
            }
            Setting { sessions: Some(sessions), .. } => format!("{sessions} sessions"),
            _ => format!("{in_flight} in flight"),
        };
        let Self { workload, operations, per_second, errors, .. } = self;
        let micros = [self.p50_micros, self.p99_micros, self.p99_9_micros, self.max_micros];
        let [p50, p99, p99_9, max] = micros.map(millis);
        format!(
            "{workload:<9}{setting:<17} {operations:>8} {per_second:>7.0} {p50:>6} {p99:>6} {p99_9:>6} {max:>6} {errors:>6}\n"
        )
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
        let setting = Setting { in_flight: 4, ..Setting::default() };
        let row = Row::new("append", setting, Duration::from_secs(2), &results);
        assert_eq!((row.operations, row.errors), (1000, 1));
        assert!((row.per_second - 500.0).abs() < f64::EPSILON);
        assert_eq!((row.p50_micros, row.p99_micros, row.max_micros), (500, 990, 1000));
    }

    #[test]
    fn columns_stand_below_their_headings() {
        let setting = Setting { in_flight: 32, streams: Some(16), ..Setting::default() };
        let row = Row::new("stream", setting, Duration::from_secs(1), &results());
        let (heading, text) = (HEADINGS, row.line());
        assert_eq!(heading.len(), text.len());
        assert!(heading.len() <= 80, "a line and its end on the usual terminal");
        assert!(text.starts_with("stream   16 streams x 32 "), "{text}");
        assert_eq!(heading.find("p50 ms").map(|at| at + 6), text.find("0.50").map(|at| at + 4));
        let (active, sessions) = (Some(10_000), Some(100_000));
        let setting = Setting { in_flight: 64, sessions, active, ..Setting::default() };
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
        let setting = Setting { in_flight: 1, events: Some(7), ..Setting::default() };
        let row = Row::new("read", setting, Duration::from_secs(1), &results());
        let json = serde_json::to_value(&row).unwrap();
        assert_eq!((&json["in_flight"], &json["events"]), (&1.into(), &7.into()));
        assert_eq!((&json["p99_9_micros"], &json["sessions"]), (&999.into(), &().into()));
    }
}
