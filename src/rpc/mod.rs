//! The wire: decodes requests, calls the engine, encodes answers. The only layer that knows tonic and prost.

pub mod convert;
pub mod status;
