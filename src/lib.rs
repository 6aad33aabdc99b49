//! sessiond

pub mod proto;
