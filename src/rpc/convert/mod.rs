//! Converts between the contract's messages and the model. No other code reads or writes their fields.
//!
//! Every message is destructured completely, so that a new field does not compile until it is handled.

pub mod decode;
pub mod encode;

/// The form of free-form JSON in an answer. [`decode`] makes the default explicit.
pub use crate::proto::v1::JsonForm as Form;
pub use encode::Mode;
