//! Names that most files of this folder use.

use std::result;

pub(super) use super::{
    connection::{Tables, driver},
    row::{self, Column, Row},
};
pub(super) use sessiond_core::domain::{error::Damage, prelude::*};

/// Errors of the driver become the domain's where a statement is executed or a column is read.
pub(super) type Result<T, E = Error> = result::Result<T, E>;

/// Number of an application, a user or a session.
pub(super) type NodeId = u64;
