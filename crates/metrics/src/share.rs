//! A part of a gauge that goes with its owner, so that no way of ending it can be forgotten.

use prometheus::IntGauge;

/// One owner's part of a gauge. Dropping it takes that off.
#[derive(Debug)]
pub struct GaugeShare {
    gauge: IntGauge,
    amount: usize,
}

impl GaugeShare {
    pub fn new(gauge: &IntGauge, amount: usize) -> Self {
        gauge.add(signed(amount));
        Self { gauge: gauge.clone(), amount }
    }

    pub fn set(&mut self, amount: usize) {
        self.gauge.add(signed(amount) - signed(self.amount));
        self.amount = amount;
    }
}

impl Drop for GaugeShare {
    fn drop(&mut self) {
        self.gauge.sub(signed(self.amount));
    }
}

/// As gauges count.
pub(super) fn signed(amount: impl TryInto<i64>) -> i64 {
    amount.try_into().unwrap_or(i64::MAX)
}
