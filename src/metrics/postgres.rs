//! The connections of a store on PostgreSQL.

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use super::{register::Register, share::signed};

/// An error of the database, as far as the program tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlError {
    SerializationFailure,
    Deadlock,
    UniqueViolation,
    ConnectionLost,
    Other,
}

#[derive(Clone)]
pub struct PostgresMetrics {
    pub statements: IntCounter,
    errors: IntCounterVec,
    pub connects: IntCounter,
    pub failed_connects: IntCounter,
    pub listener_reconnects: IntCounter,
    pub pool_idle: IntGauge,
    pub pool_in_use: IntGauge,
    lanes: IntGaugeVec,
}

impl PostgresMetrics {
    pub(super) fn new(register: Register<'_>) -> Self {
        let connects = register.counters(
            "sessiond_postgres_connects_total",
            "Attempts to connect to the database.",
            &["outcome"],
        );
        let pool = register.gauges(
            "sessiond_postgres_pool_connections",
            "Connections of the pool for reads.",
            "state",
        );
        let metrics = Self {
            statements: register.counter(
                "sessiond_postgres_statements_total",
                "Statements that the database answered. Several of them share a round trip.",
            ),
            errors: register.counters(
                "sessiond_postgres_errors_total",
                "Statements that failed. A group of writes that met 40001, 40P01, 23505 or a lost connection is decided again.",
                &["sqlstate"],
            ),
            connects: connects.with_label_values(&["connected"]),
            failed_connects: connects.with_label_values(&["failed"]),
            listener_reconnects: register.counter(
                "sessiond_postgres_listener_reconnects_total",
                "Times that the connection for notifications was lost or not made.",
            ),
            pool_idle: pool.with_label_values(&["idle"]),
            pool_in_use: pool.with_label_values(&["in_use"]),
            lanes: register.gauges(
                "sessiond_postgres_lane_requests",
                "Writes that wait in the queue of a lane.",
                "lane",
            ),
        };
        // So that each is there before the first one happens.
        for error in [
            SqlError::SerializationFailure,
            SqlError::Deadlock,
            SqlError::UniqueViolation,
            SqlError::ConnectionLost,
            SqlError::Other,
        ] {
            metrics.error(error);
        }
        metrics
    }

    pub fn error(&self, error: SqlError) -> IntCounter {
        self.errors.with_label_values(&[match error {
            SqlError::SerializationFailure => "40001",
            SqlError::Deadlock => "40P01",
            SqlError::UniqueViolation => "23505",
            SqlError::ConnectionLost => "connection_lost",
            SqlError::Other => "other",
        }])
    }

    pub fn set_lane(&self, lane: usize, requests: usize) {
        self.lanes.with_label_values(&[&lane.to_string()]).set(signed(requests));
    }
}
