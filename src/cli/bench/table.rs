//! The table of results, or a JSON object for each of its rows.

use std::time::Duration;

use serde::Serialize;

use super::histogram::Results;
use crate::cli::{failure::Failure, output};

/// The parameters of a measurement.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Setting {
    /// Calls in flight; of a stream, its unanswered requests.
    pub in_flight: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<usize>,
    /// Events in the session before the measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// Sessions in the application.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<u64>,
    /// Sessions that are appended to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<u64>,
}

#[derive(Debug, Serialize)]
pub struct Row {
    workload: &'static str,
    #[serde(flatten)]
    setting: Setting,
    seconds: f64,
    operations: u64,
    per_second: f64,
    p50_micros: u64,
    p99_micros: u64,
    p99_9_micros: u64,
    max_micros: u64,
    errors: u64,
}

impl Row {
    pub fn new(
        workload: &'static str,
        setting: Setting,
        elapsed: Duration,
        results: &Results,
    ) -> Self {
        let operations = results.operations();
        #[expect(clippy::cast_precision_loss, reason = "a rate of less than 2^53 operations")]
        let per_second = operations as f64 / elapsed.as_secs_f64().max(f64::EPSILON);
        Self {
            workload,
            setting,
            seconds: elapsed.as_secs_f64(),
            operations,
            per_second,
            p50_micros: results.quantile_micros(0.5),
            p99_micros: results.quantile_micros(0.99),
            p99_9_micros: results.quantile_micros(0.999),
            max_micros: results.max_micros(),
            errors: results.errors,
        }
    }

    fn cells(&self) -> [String; 9] {
        let millis = |micros: u64| {
            #[expect(clippy::cast_precision_loss, reason = "less than a minute")]
            let millis = micros as f64 / 1000.0;
            format!("{millis:.2}")
        };
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
        [
            self.workload.to_owned(),
            setting,
            self.operations.to_string(),
            format!("{:.0}", self.per_second),
            millis(self.p50_micros),
            millis(self.p99_micros),
            millis(self.p99_9_micros),
            millis(self.max_micros),
            self.errors.to_string(),
        ]
    }
}

const HEADINGS: [&str; 9] =
    ["workload", "setting", "calls", "per s", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "errors"];
/// Wide enough for all rows, because each is printed before the next is known.
const WIDTHS: [usize; 9] = [14, 18, 10, 10, 9, 9, 9, 9, 7];

/// Prints each row when it is measured.
#[derive(Debug)]
pub struct Table {
    json: bool,
    begun: bool,
}

impl Table {
    pub fn new(json: bool) -> Self {
        Self { json, begun: false }
    }

    pub fn row(&mut self, row: &Row) -> Result<(), Failure> {
        if self.json {
            return output::print(row);
        }
        if !std::mem::replace(&mut self.begun, true) {
            output::print_text(&line(&HEADINGS.map(str::to_owned)))?;
        }
        output::print_text(&line(&row.cells()))
    }
}

/// Words to the left, numbers to the right.
fn line(cells: &[String; 9]) -> String {
    let mut text = String::new();
    for (position, (cell, width)) in cells.iter().zip(WIDTHS).enumerate() {
        if position < 2 {
            text.push_str(&format!("{cell:<width$}"));
        } else {
            text.push_str(&format!(" {cell:>width$}"));
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        let mut results = Results::new();
        (1..=1000).for_each(|micros| results.success(Duration::from_micros(micros)));
        results
    }

    #[test]
    fn a_row_sums_up_the_results() {
        let mut results = results();
        results.error(|| "gone".to_owned());
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
        let (heading, text) = (line(&HEADINGS.map(str::to_owned)), line(&row.cells()));
        assert_eq!(heading.len(), text.len());
        assert!(text.starts_with("stream        16 streams x 32"), "{text}");
        assert_eq!(heading.find("p50 ms").map(|at| at + 6), text.find("0.50").map(|at| at + 4));
        let (active, sessions) = (Some(10_000), Some(100_000));
        let setting = Setting { in_flight: 64, sessions, active, ..Setting::default() };
        let row = Row::new("spread", setting, Duration::from_secs(1), &results());
        assert_eq!(heading.len(), line(&row.cells()).len());
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
