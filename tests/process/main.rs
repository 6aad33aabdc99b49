//! The program as a process: started, killed, stopped and started again, with what a machine can do to it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::too_many_lines,
    reason = "a test fails by panicking, uses time and environment freely, and may be long"
)]

mod admin;
mod commands;
mod crash;
mod damaged;
mod damaged_text;
mod disk_full;
mod drain;
mod every_call;
mod file_lost;
mod files;
mod flooding;
mod hidden;
mod identity;
mod imports;
mod leftovers;
mod limits;
mod metrics;
mod migrate;
mod modes;
mod mutual_tls;
mod newcomer;
mod omitted;
mod policy;
mod ready;
mod refuse;
mod replicas;
mod shell;
mod store_files;
mod terminal;
mod tls;
mod traces;

use sessiond_test_support::{certificates, cluster, harness, jwt, pty};
