//! ADK's published tests with sessiond on SQLite.

// The published tests import their types from this name.
extern crate self as adk_session;

pub use upstream::*;

sessiond_adk_contract::stand_in!(durable: true);

include!(concat!(env!("OUT_DIR"), "/published.rs"));
