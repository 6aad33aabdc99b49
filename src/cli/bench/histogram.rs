//! Latencies and errors of a measurement.

use std::time::Duration;

use hdrhistogram::Histogram;

/// The slowest latency that is kept exactly. Latencies are microseconds with three significant digits.
const SLOWEST_MICROS: u64 = 60_000_000;

#[derive(Debug)]
pub struct Results {
    latencies: Histogram<u64>,
    pub errors: u64,
    /// A sample of the errors.
    pub first_error: Option<String>,
}

impl Results {
    pub fn new() -> Self {
        let latencies = Histogram::new_with_bounds(1, SLOWEST_MICROS, 3);
        #[expect(clippy::expect_used, reason = "the bounds are constants that the crate takes")]
        let latencies = latencies.expect("bounds are in order");
        Self { latencies, errors: 0, first_error: None }
    }

    pub fn success(&mut self, latency: Duration) {
        self.latencies.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
    }

    pub fn error(&mut self, error: impl FnOnce() -> String) {
        self.errors += 1;
        self.first_error.get_or_insert_with(error);
    }

    /// Adds the results of another worker.
    pub fn add(&mut self, other: Self) {
        // Both have the same bounds, so nothing can be out of them.
        let _ = self.latencies.add(&other.latencies);
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
    }

    /// Calls that succeeded.
    pub fn operations(&self) -> u64 {
        self.latencies.len()
    }

    pub fn quantile_micros(&self, quantile: f64) -> u64 {
        self.latencies.value_at_quantile(quantile)
    }

    pub fn max_micros(&self) -> u64 {
        self.latencies.max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_all_workers_add_up() {
        let results = || {
            let mut results = Results::new();
            (1..=1000).for_each(|micros| results.success(Duration::from_micros(micros)));
            results
        };
        let mut all = results();
        let mut other = results();
        other.error(|| "gone".to_owned());
        other.error(|| "again".to_owned());
        all.add(other);
        assert_eq!(all.first_error.as_deref(), Some("gone"));
        assert_eq!((all.operations(), all.errors), (2000, 2));
        assert_eq!((all.quantile_micros(0.5), all.quantile_micros(0.99)), (500, 990));
        assert_eq!(all.max_micros(), 1000);
    }

    #[test]
    fn a_latency_beyond_the_bounds_counts_as_the_slowest() {
        let mut results = Results::new();
        results.success(Duration::from_secs(3600));
        assert!((SLOWEST_MICROS..SLOWEST_MICROS * 2).contains(&results.max_micros()));
    }
}
