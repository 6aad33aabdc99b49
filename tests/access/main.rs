//! Proof of isolation: every RPC by every kind of caller, random calls of one tenant at the data of another, and rights that end.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and looks around where the program must not"
)]

mod calls;
mod cases;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../certificates/mod.rs"]
mod certificates;
#[path = "../cluster/mod.rs"]
mod cluster;
mod credentials;
mod generate;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../process/harness.rs"]
mod harness;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../jwt/mod.rs"]
mod jwt;
mod limits;
mod markers;
mod matrix;
#[path = "../raw/mod.rs"]
mod raw;
mod reloads;
mod setting;
mod tenants;
mod twins;
