//! ADK's published tests with sessiond in memory.

// The published tests import their types from this name.
extern crate self as adk_session;

pub use upstream::*;

sessiond_adk_contract::stand_in!(durable: false);

include!(concat!(env!("OUT_DIR"), "/published.rs"));
