//! What was measured: latencies, errors, and the table they are printed in.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::super::{failure::Failure, output};

/// Latencies are kept in microseconds with three digits; slower than a minute counts as one.
const SLOWEST_MICROS: u64 = 60_000_000;

/// What one or several workers measured.
#[derive(Debug)]
pub struct Tally {
    latencies: Histogram<u64>,
    errors: u64,
    first_error: Option<String>,
}

impl Tally {
    /// Nothing yet.
    pub fn new() -> Self {
        let latencies = Histogram::new_with_bounds(1, SLOWEST_MICROS, 3);
        #[expect(clippy::expect_used, reason = "the bounds are constants that the crate takes")]
        let latencies = latencies.expect("bounds are in order");
        Self { latencies, errors: 0, first_error: None }
    }

    /// One call that was answered.
    pub fn answered(&mut self, after: Duration) {
        self.latencies.saturating_record(u64::try_from(after.as_micros()).unwrap_or(u64::MAX));
    }

    /// One call that was refused or lost.
    pub fn failed(&mut self, error: impl FnOnce() -> String) {
        self.errors += 1;
        self.first_error.get_or_insert_with(error);
    }

    /// Takes over what another worker measured.
    pub fn add(&mut self, other: Self) {
        // Both have the same bounds, so nothing can be out of them.
        let _ = self.latencies.add(&other.latencies);
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
    }

    /// The first error, as a sample.
    pub fn first_error(&self) -> Option<&str> {
        self.first_error.as_deref()
    }
}

/// One line of the table.
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

/// Under what circumstances a line was measured.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Setting {
    /// Calls under way at the same time; of a stream, the unanswered ones of each.
    pub in_flight: usize,
    /// Streams at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<usize>,
    /// Events in the session before the measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// Sessions in the application.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<u64>,
}

impl Row {
    /// A line of what was measured within `elapsed`.
    pub fn new(workload: &'static str, setting: Setting, elapsed: Duration, tally: &Tally) -> Self {
        let at = |quantile| tally.latencies.value_at_quantile(quantile);
        let operations = tally.latencies.len();
        #[expect(clippy::cast_precision_loss, reason = "a rate of less than 2^53 operations")]
        let per_second = operations as f64 / elapsed.as_secs_f64().max(f64::EPSILON);
        Self {
            workload,
            setting,
            seconds: elapsed.as_secs_f64(),
            operations,
            per_second,
            p50_micros: at(0.5),
            p99_micros: at(0.99),
            p99_9_micros: at(0.999),
            max_micros: tally.latencies.max(),
            errors: tally.errors,
        }
    }

    fn cells(&self) -> [String; 9] {
        let micros = |micros: u64| {
            #[expect(clippy::cast_precision_loss, reason = "less than a minute")]
            let millis = micros as f64 / 1000.0;
            format!("{millis:.2}")
        };
        let Setting { in_flight, streams, events, sessions } = self.setting;
        let setting = match (streams, events, sessions) {
            (Some(streams), _, _) => format!("{streams} streams x {in_flight}"),
            (_, Some(events), _) => format!("{events} events"),
            (_, _, Some(sessions)) => format!("{sessions} sessions"),
            (None, None, None) => format!("{in_flight} in flight"),
        };
        [
            self.workload.to_owned(),
            setting,
            self.operations.to_string(),
            format!("{:.0}", self.per_second),
            micros(self.p50_micros),
            micros(self.p99_micros),
            micros(self.p99_9_micros),
            micros(self.max_micros),
            self.errors.to_string(),
        ]
    }
}

const HEADINGS: [&str; 9] =
    ["workload", "setting", "calls", "per s", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "errors"];
/// Wide enough for everything that comes later, as lines are printed one by one.
const WIDTHS: [usize; 9] = [14, 18, 10, 10, 9, 9, 9, 9, 7];

/// Prints the lines when they come, for people or for programs.
#[derive(Debug)]
pub struct Table {
    json: bool,
    begun: bool,
}

impl Table {
    /// A table for people, or a JSON object per line.
    pub fn new(json: bool) -> Self {
        Self { json, begun: false }
    }

    /// Prints one more line.
    ///
    /// # Errors
    ///
    /// When the output is closed or full.
    pub fn row(&mut self, row: &Row) -> Result<(), Failure> {
        if self.json {
            return output::print(row);
        }
        let mut text = String::new();
        if !std::mem::replace(&mut self.begun, true) {
            text.push_str(&line(&HEADINGS.map(str::to_owned)));
        }
        text.push_str(&line(&row.cells()));
        let mut output = output::Output::stdout();
        output.text(&text)?;
        output.flush()
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

    fn tally() -> Tally {
        let mut tally = Tally::new();
        (1..=1000).for_each(|micros| tally.answered(Duration::from_micros(micros)));
        tally
    }

    #[test]
    fn a_row_sums_up_what_all_workers_measured() {
        let mut all = tally();
        let mut other = tally();
        other.failed(|| "gone".to_owned());
        other.failed(|| "again".to_owned());
        all.add(other);
        assert_eq!(all.first_error(), Some("gone"));
        let setting = Setting { in_flight: 4, ..Setting::default() };
        let row = Row::new("append", setting, Duration::from_secs(2), &all);
        assert_eq!((row.operations, row.errors), (2000, 2));
        assert!((row.per_second - 1000.0).abs() < f64::EPSILON);
        assert_eq!((row.p50_micros, row.p99_micros, row.max_micros), (500, 990, 1000));
    }

    #[test]
    fn what_took_for_ever_counts_as_a_minute() {
        let mut tally = Tally::new();
        tally.answered(Duration::from_secs(3600));
        let row = Row::new("x", Setting::default(), Duration::from_secs(1), &tally);
        assert!((SLOWEST_MICROS..SLOWEST_MICROS * 2).contains(&row.max_micros), "{row:?}");
    }

    #[test]
    fn columns_stand_below_their_headings() {
        let setting = Setting { in_flight: 32, streams: Some(16), ..Setting::default() };
        let row = Row::new("stream", setting, Duration::from_secs(1), &tally());
        let (heading, text) = (line(&HEADINGS.map(str::to_owned)), line(&row.cells()));
        assert_eq!(heading.len(), text.len());
        assert!(text.starts_with("stream        16 streams x 32"), "{text}");
        assert_eq!(heading.find("p50 ms").map(|at| at + 6), text.find("0.50").map(|at| at + 4));
    }

    #[test]
    fn figures_for_programs_name_their_units() {
        let setting = Setting { in_flight: 1, events: Some(7), ..Setting::default() };
        let row = Row::new("read", setting, Duration::from_secs(1), &tally());
        let json = serde_json::to_value(&row).unwrap();
        assert_eq!((&json["in_flight"], &json["events"]), (&1.into(), &7.into()));
        assert_eq!((&json["p99_9_micros"], &json["sessions"]), (&999.into(), &().into()));
    }
}
