//! The wire: the server from outside, over a real socket, with the generated client. What every store promises is in `tests/conformance`.
//!
//! Each test starts a server of its own through `sessiond::server::start`, as the program does, and stops it in the end; requests
//! that are in flight then, or a stop that takes too long, fails the test. Every answer that passes through the harness is held to its
//! size, and every refusal to the table of errors, whatever the test itself is about.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::too_many_lines,
    reason = "a test fails by panicking, uses time and environment freely, and may be long"
)]

mod addresses;
mod admin;
mod answers;
mod catching_up;
mod cursors;
mod deadlines;
mod endings;
mod errors;
mod expiry;
mod faults;
mod forks;
mod guide;
mod harness;
mod health;
mod hostile;
mod http;
mod idempotency;
mod json_struct;
mod json_text;
mod judge;
mod limits_bounds;
mod limits_names;
mod limits_rates;
mod limits_sizes;
mod lists;
mod make;
mod operations;
mod pages;
mod partial;
mod past;
mod preconditions;
mod protobuf;
mod read;
mod restarts;
mod rewinds;
mod sessions;
mod state;
mod streams;
mod uids;
mod watches;
mod watching;
mod writers;

use sessiond_test_support::raw;
