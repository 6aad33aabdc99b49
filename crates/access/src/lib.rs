//! Callers and their rights.
//!
//! A [`Policy`] is read from a file: [rules](policy::Rule) that give principals rights on users of applications. Everything else is
//! denied. The gate before the store (`sessiond_store::Gate`) checks it at every call.

mod file;
pub mod policy;
mod principal;

pub use file::parse;
pub use policy::{Policies, Policy, SUBJECT};
pub use principal::{Identity, Principal};
