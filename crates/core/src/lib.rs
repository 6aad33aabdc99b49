//! The pure part of sessiond: its model, and the decisions about every write and read.
//!
//! Nothing here reads a clock, makes a random number, does input or output, or needs an async runtime.

pub mod commit;
pub mod domain;
pub mod read;
