//! JSON as text: one type that keeps a value byte for byte, and what is computed from it.
//!
//! Text is validated once, in [`Json::parse`]. Everything after that reads it in one pass and trusts it.

mod compare;
mod escape;
mod fault;
mod fingerprint;
mod merge;
mod number;
mod operate;
mod read;
mod scan;
mod value;
mod write;

#[cfg(test)]
mod tests;

pub use super::limits::MAX_NESTING;
pub use compare::{same_tokens, same_value};
pub use escape::{push_string, text_bytes};
pub use fault::{JsonFault, JsonType, OperationFault};
pub use fingerprint::fingerprint;
pub use merge::merge_patch;
pub use operate::{Amount, increment, list_append};
pub use read::{Head, RawString, Reader};
pub use value::Json;
pub use write::{ObjectWriter, object_text};
