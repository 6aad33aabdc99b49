//! The model in plain Rust: no async, no wire types, no SQL, no clock, no randomness.

pub mod json;
pub mod template;
