//! The faults of this store, and what they are to the domain. Nothing of the driver leaves the store: its message is kept as the cause,
//! for the log.

use tokio::time::error::Elapsed;
use tokio_postgres::error::SqlState;

use super::super::prelude::*;
use sessiond_metrics::SqlError;
use sessiond_store::group::Failure;

/// Why the database gave no answer, or none that can be used.
#[derive(Debug, thiserror::Error)]
pub(in super::super) enum Fault {
    /// It stayed silent for longer than it may.
    #[error("the database does not answer")]
    Elapsed(#[from] Elapsed),
    /// It went back: it lacks commits of this many writers that were acknowledged.
    #[error("the database lacks acknowledged commits of {writers} writers")]
    Behind { writers: u64 },
    #[error(transparent)]
    Driver(#[from] tokio_postgres::Error),
    #[error(transparent)]
    Domain(#[from] Error),
}

impl Fault {
    /// Whether the connection cannot be used any more, or leads to a server that does not write.
    pub(in super::super) fn is_lost(&self) -> bool {
        match self {
            Self::Elapsed(_) | Self::Behind { .. } => true,
            Self::Driver(error) => is_lost(error),
            Self::Domain(_) => false,
        }
    }

    /// Whether the transaction may have been committed by the statement that failed.
    pub(in super::super) fn is_outcome_unknown(&self) -> bool {
        self.is_lost() || self.code() == Some(&SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN)
    }

    /// Whether the engine does not know the statement.
    pub(in super::super) fn is_unsupported(&self) -> bool {
        let unsupported = [SqlState::SYNTAX_ERROR, SqlState::FEATURE_NOT_SUPPORTED];
        self.code().is_some_and(|code| unsupported.contains(code))
    }

    /// As the answer to what needs a connection, and got none by this.
    pub(in super::super) fn not_connected(self) -> Error {
        match self {
            Self::Behind { .. } | Self::Domain(Error::StoreBehind) => Error::StoreBehind,
            fault => Error::StoreUnavailable(Cause::new(fault)),
        }
    }

    /// The database's own code of an error.
    pub(in super::super) fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Driver(error) => error.code(),
            Self::Elapsed(_) | Self::Behind { .. } | Self::Domain(_) => None,
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let error = match fault {
            Fault::Domain(error) => return error,
            Fault::Behind { .. } => return Self::StoreBehind,
            Fault::Elapsed(elapsed) => return Self::StoreUnavailable(Cause::new(elapsed)),
            Fault::Driver(error) => error,
        };
        let Some(code) = error.code() else {
            // A value that is not what this program writes, or a connection that failed.
            return match is_lost(&error) {
                true => Self::StoreUnavailable(Cause::new(error)),
                false => Self::damaged(Damage::Row, error),
            };
        };
        match &code.code()[..2] {
            _ if *code == SqlState::DISK_FULL => Self::DiskFull,
            _ if is_lost(&error) => Self::StoreUnavailable(Cause::new(error)),
            "XX" if *code != SqlState::INTERNAL_ERROR => Self::damaged(Damage::Pages, error),
            // Connections, resources, an operator's intervention, a standby, and limits of time.
            "08" | "53" | "57" | "58" | "25" | "40" | "55" => {
                Self::StoreUnavailable(Cause::new(error))
            }
            _ => Self::internal(error),
        }
    }
}

/// Of a transaction whose commit was not sent: it ends with its connection. If another one was in the way, it may succeed now: after a
/// serialization failure, a deadlock, or a row that was not there when it was looked for.
impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        let is_again = match &fault {
            Fault::Elapsed(_) => true,
            Fault::Driver(error) => kind(error) != SqlError::Other,
            Fault::Domain(_) | Fault::Behind { .. } => false,
        };
        match is_again {
            true => Self::Again(Cause::new(fault)),
            false => Self::Error(fault.into()),
        }
    }
}

/// As metrics tell errors apart.
pub(super) fn kind(error: &tokio_postgres::Error) -> SqlError {
    match error.code().map(SqlState::code) {
        Some("40001") => SqlError::SerializationFailure,
        Some("40P01") => SqlError::Deadlock,
        Some("23505") => SqlError::UniqueViolation,
        Some("XX000") if says(error, "duplicate key value") => SqlError::UniqueViolation,
        _ if is_lost(error) => SqlError::ConnectionLost,
        _ => SqlError::Other,
    }
}

pub(super) fn is_lost(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        Some(code) => {
            matches!(&code.code()[..2], "08" | "57") && *code != SqlState::QUERY_CANCELED
                || *code == SqlState::READ_ONLY_SQL_TRANSACTION
                || *code == SqlState::INTERNAL_ERROR && says(error, "connection")
        }
        None => error.is_closed() || is_io(error),
    }
}

/// Engines of several servers have no code for what one of them says: Citus calls all of it XX000.
fn says(error: &tokio_postgres::Error, text: &str) -> bool {
    error.as_db_error().is_some_and(|error| error.message().contains(text))
}

/// TLS that failed for the server's certificate is no lost connection: another attempt fails as well.
fn is_io(error: &tokio_postgres::Error) -> bool {
    let source = std::error::Error::source(error);
    let io = source.and_then(|source| source.downcast_ref::<std::io::Error>());
    io.is_some_and(|io| io.kind() != std::io::ErrorKind::InvalidData)
}
