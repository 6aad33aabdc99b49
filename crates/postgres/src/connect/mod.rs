//! Connecting to the database: addresses, TLS, statements, the driver's errors and the clock.

pub(super) mod address;
pub(super) mod clock;
pub(super) mod connection;
pub(super) mod error;
mod tls;
