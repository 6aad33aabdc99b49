//! The PostgreSQL store: any number of processes on one database.
//!
//! * A write waits in the queue of a `lane`, a thread with a connection of its own. It executes the requests that wait as one group: it
//!   `load`s what their decisions need and locks what they change, and `apply`s the change set that they leave.
//! * A read is one snapshot on a connection of the `pool`.
//! * `schema` says what the tables hold, and `snapshot` how the past is read.
//! * Nothing of the driver leaves this folder: `error` turns its errors into the domain's.

mod address;
mod apply;
mod bare;
mod cache;
mod changed;
mod changes;
mod clock;
mod columns;
mod connection;
mod disk;
mod error;
mod events;
mod figures;
mod fill;
mod inbox;
mod lane;
mod lanes;
mod lists;
mod load;
mod log;
mod migrate;
mod names;
mod needed;
mod new_snapshots;
mod node;
mod notify;
mod options;
mod outbox;
mod pieces;
mod pool;
mod prelude;
mod probes;
mod rare;
mod read;
mod reads;
mod refused;
mod routes;
mod row;
mod schema;
mod sessions;
mod shared;
mod snapshot;
mod state;
mod store;
mod stored;
mod tls;
mod writer;

#[cfg(test)]
mod tests;

pub use options::{PostgresOptions, PostgresSettings};
pub use refused::OpenError;
pub use store::{PostgresStore, migrate, open, public_url};
