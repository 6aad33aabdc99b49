//! Names that most files of this folder use. `Result<T>` is this store's, `Result<T, Error>` the domain's.

pub(super) use tokio_postgres::types::Type;

pub(super) use super::{
    columns::Columns,
    connect::{connection::Connection, error::Fault},
    row::Row,
};
pub(super) use sessiond_core::{
    domain::{error::Damage, prelude::*},
    read::Node,
};

/// The result of what asks the database.
pub(super) type Result<T, E = Fault> = std::result::Result<T, E>;
