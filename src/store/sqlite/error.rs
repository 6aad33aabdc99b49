//! Mapping of the driver's errors to the domain's. The driver's message is kept as the cause, for the log.

use rusqlite::ErrorCode;

use crate::domain::error::{Cause, Error};

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::internal(error),
            Some(_) => Self::StoreUnavailable(Cause::new(error)),
            // The driver reports that a row does not match the schema.
            None => Self::internal(error),
        }
    }
}

/// The error of a commit. Without space, or without the lock, nothing has reached the log; after any other failure it may hold the
/// commit.
pub(super) fn commit_error(error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            error.into()
        }
        _ => Error::OutcomeUnknown(Cause::new(error)),
    }
}
