//! Between the contract's messages and the model's words: the only place that reads and writes fields.
//!
//! Every message is destructured completely, so that a new field does not compile until somebody has decided about it.

pub mod decode;
pub mod encode;

/// How an answer writes free-form JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As `google.protobuf.Struct`.
    Struct,
    /// As text.
    Text,
}
