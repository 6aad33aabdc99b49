//! Names that most files of this folder use. `Result<T>` is the driver's, `Result<T, Error>` the domain's.

pub(super) use tokio_postgres::{Row, types::Type};

pub(super) use crate::domain::{error::Damage, prelude::*};

/// The driver's result.
pub(super) type Result<T, E = tokio_postgres::Error> = std::result::Result<T, E>;
