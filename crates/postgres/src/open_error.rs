//! Why a database cannot be opened: whole sentences that say what to do.

use tokio_postgres::error::SqlState;

use super::{connect::address::AddressError, prelude::*};

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error(
        "The database has version {version}, and this sessiond knows versions up to {newest}. Use a newer sessiond."
    )]
    Newer { version: i32, newest: i32 },
    #[error(
        "The tables of the database are not this build's: their table 'meta' is another program's, or of a build that was not released. Use another database, or give the role a schema of its own by `ALTER ROLE … SET search_path`. `sessiond export` of the build that made them saves its sessions."
    )]
    OtherLayout,
    #[error(
        "The migration of the database to version {version} failed ({cause}), and the database is unchanged. Use the earlier sessiond, and report this."
    )]
    Migration { version: i32, cause: String },
    #[error(
        "The tables of the database have {present} partitions instead of {wanted}, and keep them. Leave out the number of partitions, or use another database."
    )]
    OtherPartitions { present: u16, wanted: u16 },
    #[error(
        "The encoding of the database is {0}, and sessiond needs UTF8. Create the database with `CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0`."
    )]
    Encoding(String),
    #[error(
        "A thread of the store cannot be started ({0}). Raise the limits of threads and of open files."
    )]
    Threads(String),
    #[error(
        "The server of the database has no TLS. Turn it on there, or add sslmode=disable to the URL if you trust the network in between."
    )]
    NoTls,
    #[error(
        "The database forgets prepared statements, or has those of others: there is a pooler in transaction mode before it. Pass --postgres-unnamed-statements."
    )]
    Pooler,
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The driver's message has no password.
    #[error("The database cannot be opened ({0}). Look at the address and at the database's log.")]
    Failed(String),
}

impl From<Fault> for OpenError {
    fn from(fault: Fault) -> Self {
        if fault.code() == Some(&SqlState::UNDEFINED_COLUMN) {
            return Self::OtherLayout;
        }
        let of_pooler = [SqlState::DUPLICATE_PSTATEMENT, SqlState::INVALID_SQL_STATEMENT_NAME];
        if fault.code().is_some_and(|code| of_pooler.contains(code)) {
            return Self::Pooler;
        }
        let cause = Cause::new(fault).0;
        // The driver has no other sign of it.
        match cause.contains("server does not support TLS") {
            true => Self::NoTls,
            false => Self::Failed(cause),
        }
    }
}
