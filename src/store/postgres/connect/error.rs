//! The driver's errors as the domain's. Nothing of the driver leaves the store: its message is kept as the cause, for the log.

use tokio::time::error::Elapsed;
use tokio_postgres::error::SqlState;

use super::super::prelude::*;
use crate::{metrics::SqlError, store::group::Failure};

/// Why the database gave no answer.
#[derive(Debug, thiserror::Error)]
pub(in super::super) enum Unanswered {
    /// It stayed silent for longer than it may.
    #[error("the database does not answer")]
    Elapsed(#[from] Elapsed),
    #[error(transparent)]
    Failed(#[from] tokio_postgres::Error),
}

impl Unanswered {
    /// Whether another attempt to connect may succeed.
    pub(in super::super) fn is_lost(&self) -> bool {
        match self {
            Self::Elapsed(_) => true,
            Self::Failed(error) => is_lost(error),
        }
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(code) = error.code() else {
            // A value that is not what this program writes, or a connection that failed.
            return match is_lost(&error) {
                true => Self::StoreUnavailable(Cause::new(error)),
                false => Self::damaged(Damage::Row, error),
            };
        };
        match &code.code()[..2] {
            _ if *code == SqlState::DISK_FULL => Self::DiskFull,
            "XX" if *code != SqlState::INTERNAL_ERROR => Self::damaged(Damage::Pages, error),
            // Connections, resources, an operator's intervention, a standby, and limits of time.
            "08" | "53" | "57" | "58" | "25" | "40" | "55" => {
                Self::StoreUnavailable(Cause::new(error))
            }
            _ => Self::internal(error),
        }
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        // Before its commit is sent, a transaction ends with its connection.
        match is_contention(&error) || is_lost(&error) {
            true => Self::Again(Cause::new(error)),
            false => Self::Error(error.into()),
        }
    }
}

/// Of a read, which is not decided again.
impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Again(cause) => Self::StoreUnavailable(cause),
            Failure::Error(error) => error,
        }
    }
}

/// Whether another transaction was in the way, so that the same transaction may succeed now: a serialization failure, a deadlock, or a
/// row that was not there when it was looked for.
fn is_contention(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| {
        [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::UNIQUE_VIOLATION,
        ]
        .contains(code)
    })
}

/// As metrics tell errors apart.
pub(super) fn kind(error: &tokio_postgres::Error) -> SqlError {
    match error.code() {
        Some(code) if *code == SqlState::T_R_SERIALIZATION_FAILURE => {
            SqlError::SerializationFailure
        }
        Some(code) if *code == SqlState::T_R_DEADLOCK_DETECTED => SqlError::Deadlock,
        Some(code) if *code == SqlState::UNIQUE_VIOLATION => SqlError::UniqueViolation,
        _ if is_lost(error) => SqlError::ConnectionLost,
        _ => SqlError::Other,
    }
}

/// Whether the connection cannot be used any more, or leads to a server that does not write.
pub(in super::super) fn is_lost(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        Some(code) => {
            matches!(&code.code()[..2], "08" | "57") && *code != SqlState::QUERY_CANCELED
                || *code == SqlState::READ_ONLY_SQL_TRANSACTION
        }
        None => error.is_closed() || is_io(error),
    }
}

/// TLS that failed for the server's certificate is no lost connection: another attempt fails as well.
fn is_io(error: &tokio_postgres::Error) -> bool {
    let source = std::error::Error::source(error);
    let io = source.and_then(|source| source.downcast_ref::<std::io::Error>());
    io.is_some_and(|io| io.kind() != std::io::ErrorKind::InvalidData)
}
