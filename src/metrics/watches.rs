//! Watches, and `temp:` state: what the engine holds in memory.

use prometheus::IntGauge;

use super::register::Register;

#[derive(Clone)]
pub struct WatchMetrics {
    pub open: IntGauge,
    /// Of the slowest watch.
    pub lag_commits: IntGauge,
    pub temp_bytes: IntGauge,
    pub temp_invocations: IntGauge,
}

impl WatchMetrics {
    pub(super) fn new(register: Register<'_>) -> Self {
        Self {
            open: register.gauge("sessiond_watches", "Open watches."),
            lag_commits: register.gauge(
                "sessiond_watch_lag_commits",
                "Group commits to its scopes that the slowest watch has not delivered yet.",
            ),
            temp_bytes: register.gauge("sessiond_temp_bytes", "Size of all temp: state."),
            temp_invocations: register
                .gauge("sessiond_temp_invocations", "Invocations with temp: state."),
        }
    }
}
