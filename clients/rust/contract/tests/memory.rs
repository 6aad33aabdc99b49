//! The kit's published tests with sessiond, whose store is memory.

// The name by which the published tests know where their types come from.
extern crate self as adk_session;

pub use kit::*;

sessiond_adk_contract::stand_in!(sessiond_adk_testing::Store::Memory);

include!(concat!(env!("OUT_DIR"), "/published.rs"));
