//! The PostgreSQL store: any number of processes on one database.
//!
//! * A write waits in the queue of a lane (`write`), a thread with a connection of its own. It executes the requests that wait as one
//!   group: it `load`s what their decisions need and locks what they change, and `apply`s the change set that they leave.
//! * A read is one snapshot on a connection of the `pool` (`read`).
//! * After a commit `notify` wakes the watchers of other replicas.
//! * `schema` says what the tables hold.
//! * `fence` refuses a database that went back.
//! * Nothing of the driver leaves this folder: `connect/error.rs` turns its errors into the domain's.

mod columns;
mod connect;
mod fence;
mod log;
mod migrate;
mod notify;
mod open_error;
mod options;
mod postgres_store;
mod prelude;
mod probes;
mod read;
mod row;
mod schema;
mod shared;
mod write;

#[cfg(test)]
mod tests;

pub use open_error::OpenError;
pub use options::{Partitions, PostgresOptions, PostgresSettings};
pub use postgres_store::{PostgresStore, accept_loss, migrate, open, public_url};
