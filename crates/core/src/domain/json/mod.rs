//! JSON as text: one type that keeps a value byte for byte, and what is computed from it.
//!
//! Text is validated once, in [`Json::parse`]. Everything after that reads it in one pass and trusts it.

mod equal;
mod operate;
mod read;
mod value;

#[cfg(test)]
mod tests;

pub use super::limits::MAX_NESTING;
pub use equal::{fingerprint, minified, same_tokens, same_value};
pub use operate::{Amount, increment, is_empty_list, list_append, merge_patch};
pub use read::{Head, RawString, Reader};
pub use value::{Json, JsonType, object_text, push_string, text_bytes};
