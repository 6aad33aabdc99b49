//! The services: each handler decodes its request, calls the engine and encodes the answer.
//!
//! Of the layers below [`crate::server`], only this one knows tonic and prost.

mod append_stream;
mod call;
pub mod convert;
mod methods;
mod prelude;
mod routes;
mod services;
pub mod status;

use std::sync::Arc;

use crate::engine::Engine;
pub use convert::decode::BareIds;
pub use methods::methods;
pub use routes::{OPEN_REQUEST_BYTES, SERVICE_NAMES, names, routes};

#[derive(Clone)]
struct Handlers {
    engine: Arc<Engine>,
    bare: BareIds,
}

#[cfg(test)]
mod tests;
