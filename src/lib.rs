//! sessiond

pub mod domain;
pub mod proto;
pub mod store;
