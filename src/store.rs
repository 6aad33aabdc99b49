//! The stores: their contract, their backends, and which one a URL names.

mod open;

pub use sessiond_postgres as postgres;
pub use sessiond_sqlite as sqlite;
pub use sessiond_store::*;

pub use open::{
    StoreOptions, accept_loss, descriptors, migrate, open, public_url, unfinished_bytes,
};
