//! Proof of isolation: every RPC by every kind of caller, random calls of one tenant at the data of another, and rights that end.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::too_many_lines,
    reason = "a test fails by panicking, uses time and environment freely, and may be long"
)]

mod calls;
mod cases;
mod credentials;
mod generate;
mod limits;
mod markers;
mod matrix;
mod over_http;
mod reloads;
mod setting;
mod tenants;
mod twins;

use sessiond_test_support::{certificates, cluster, harness, jwt, raw};
