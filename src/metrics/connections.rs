//! Connections of clients.

use prometheus::{IntCounter, IntGauge};

use super::register::Register;

#[derive(Clone)]
pub struct ConnectionMetrics {
    pub open: IntGauge,
    pub refused: IntCounter,
    pub ended: IntCounter,
}

impl ConnectionMetrics {
    pub(super) fn new(register: Register<'_>) -> Self {
        Self {
            open: register.gauge("sessiond_connections", "Open connections of clients."),
            refused: register.counter(
                "sessiond_connections_refused_total",
                "Connections that were closed at once, because too many were open.",
            ),
            ended: register.counter(
                "sessiond_connections_ended_total",
                "Connections that were ended, because their clients left too many answers unread.",
            ),
        }
    }
}
