//! Who calls, and what a caller may do.

mod principal;

pub use principal::{Identity, Principal};
