//! Where the driver's errors end: they are logged here, and what callers get says what it means to them.

use rusqlite::ErrorCode;
use tracing::error;

use crate::domain::error::Error;

/// Why a piece of work did not succeed.
#[derive(Debug)]
pub(super) enum Fault {
    /// It was refused; nothing is wrong with the store.
    Refused(Error),
    /// The driver failed.
    Driver(rusqlite::Error),
}

/// What work inside of this folder comes to.
pub(super) type Outcome<T> = Result<T, Fault>;

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Driver(error)
    }
}

impl Fault {
    /// What a caller is told. `doing` is for the log, with the driver's words.
    pub(super) fn into_error(self, doing: &'static str) -> Error {
        match self {
            Self::Refused(error) => error,
            Self::Driver(error) => driver_error(&error, doing),
        }
    }
}

/// What a driver's error means to a caller whose work was certainly not applied.
pub(super) fn driver_error(error: &rusqlite::Error, doing: &'static str) -> Error {
    error!(%error, doing, "SQLite failed");
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            Error::Internal("the database file is damaged".into())
        }
        Some(_) => Error::StoreUnavailable,
        // Not the database's word but the driver's: a row is not what the schema says.
        None => Error::Internal("a row in the database file is not what it should be".into()),
    }
}

/// Passes a driver's error through a function that knows the domain's errors alone.
#[derive(Debug, Default)]
pub(super) struct Smuggler(Option<rusqlite::Error>);

impl Smuggler {
    /// Keeps the driver's error and hands on one of the domain's in its place.
    pub(super) fn hide<T>(&mut self, result: rusqlite::Result<T>) -> Result<T, Error> {
        result.map_err(|error| {
            self.0 = Some(error);
            Error::StoreUnavailable
        })
    }

    /// The result of that function, with the driver's error in its place again.
    pub(super) fn reveal<T>(self, result: Result<T, Error>) -> Outcome<T> {
        match (self.0, result) {
            (Some(error), Err(_)) => Err(Fault::Driver(error)),
            (_, result) => result.map_err(Fault::Refused),
        }
    }
}
