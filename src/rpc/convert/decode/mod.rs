//! From requests to the model. Everything at fault in a request is found, in the order of its fields.

mod delta;
mod fields;
pub mod json;
mod read;
mod requests;

pub use read::{BareIds, decode};
pub use requests::*;

#[cfg(test)]
mod tests;
