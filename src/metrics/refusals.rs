//! Statuses other than OK, by the reason in their details.

use std::collections::HashMap;

use prometheus::IntCounter;

use super::register::Register;
use crate::domain::reason::Reason;

/// Statuses without a reason of ours, which the transport makes.
const NO_REASON: &str = "none";

/// Counters by reason.
pub struct Refusals {
    reasons: HashMap<&'static str, IntCounter>,
    none: IntCounter,
}

impl Refusals {
    pub(super) fn new(register: Register<'_>) -> Self {
        let refusals = register.counters(
            "sessiond_refusals_total",
            "Calls, and items of AppendEventStream, that ended with an error, by the reason in its details.",
            &["reason"],
        );
        let counter = |reason: &'static str| refusals.with_label_values(&[reason]);
        let reasons = Reason::ALL.iter().map(|reason| reason.as_str());
        Self {
            reasons: reasons.map(|reason| (reason, counter(reason))).collect(),
            none: counter(NO_REASON),
        }
    }

    pub fn count(&self, reason: Option<&str>) {
        let counter = reason.and_then(|reason| self.reasons.get(reason));
        counter.unwrap_or(&self.none).inc();
    }
}
