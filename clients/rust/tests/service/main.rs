//! The service against a running server, on each of its stores.

mod errors;
mod fidelity;
mod foreign;
mod harness;
mod lists;
mod more;
mod points;
mod retries;
mod rewinds;
mod temporary;
mod watches;
