//! Converts between the contract's messages and the model. No other code reads or writes their fields.
//!
//! Every message is destructured completely, so that a new field does not compile until it is handled.

pub mod decode;
pub mod encode;

use crate::domain::token::StoreId;

/// The form of free-form JSON in an answer. [`decode`] makes the default explicit.
pub use crate::proto::v1::JsonForm as Form;

/// How state is answered.
#[derive(Clone, Copy, Debug)]
pub struct Reply {
    pub form: Form,
    pub with_versions: bool,
    /// Part of every uid.
    pub store: StoreId,
}

#[cfg(test)]
impl From<Form> for Reply {
    fn from(form: Form) -> Self {
        Self { form, with_versions: false, store: StoreId([0; 16]) }
    }
}
