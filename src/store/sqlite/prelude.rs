//! Names that most files of this folder use. `Result<T>` is the driver's, `Result<T, Error>` the domain's.

pub(super) use rusqlite::{Result, Row};

pub(super) use crate::domain::{error::Damage, prelude::*};

/// Number of an application, a user or a session.
pub(super) type NodeId = u64;
