//! The program as a process: started, killed, stopped and started again, with what a machine can do to it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and looks around where the program must not"
)]

mod commands;
mod crash;
mod drain;
mod files;
mod harness;
mod refuse;
mod shell;
mod store_files;
mod terminal;
