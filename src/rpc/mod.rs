//! The services: each handler decodes its request, calls the engine and encodes the answer.
//!
//! Of the layers below [`crate::server`], only this one knows tonic and prost.

mod append_stream;
mod call;
pub mod codec;
pub mod convert;
mod large;
mod prelude;
mod routes;
mod services;
pub mod status;

use std::sync::Arc;

use crate::engine::Engine;
pub use call::ConnectionId;
pub use convert::decode::BareIds;
pub use routes::{Method, OPEN_REQUEST_BYTES, SERVICE_NAMES, methods, names, routes};

/// The first items whose bytes all together are within a budget.
fn within<I: Iterator>(
    items: I,
    mut budget: usize,
    bytes: impl Fn(&I::Item) -> usize,
) -> impl Iterator<Item = I::Item> {
    items.take_while(move |item| match budget.checked_sub(bytes(item)) {
        Some(rest) => {
            budget = rest;
            true
        }
        None => false,
    })
}

#[derive(Clone)]
struct Handlers {
    engine: Arc<Engine>,
    bare: BareIds,
}

#[cfg(test)]
mod tests;
