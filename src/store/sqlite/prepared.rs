//! The writer's connection with the statements of an append, which stay at hand: a connection finds a statement by its text, which cost a
//! lone append a twentieth of the writer's instructions.

use std::{cell::RefCell, ops::Deref, ptr};

use rusqlite::{Params, Statement};
use self_cell::self_cell;

use super::{connection::Tables, prelude::*};

/// Prepared statements, each with its text: one for each place that calls [`WriterTables::execute`]. A statement keeps its last values, a
/// few MiB at most, until it is executed again.
type Statements<'t> = RefCell<Vec<(&'static str, Statement<'t>)>>;

self_cell!(
    /// The writer's connection, and the statements that it keeps.
    pub(super) struct WriterTables {
        owner: Tables,
        #[not_covariant]
        dependent: Statements,
    }
);

impl WriterTables {
    /// As [`Tables::run`], for a statement of most appends.
    pub(super) fn execute(&self, sql: &'static str, parameters: impl Params) -> Result<usize> {
        self.with_dependent(|tables, statements| {
            let mut statements = statements.borrow_mut();
            let known = statements.iter().position(|(text, _)| ptr::eq(*text, sql));
            let at = match known {
                Some(at) => at,
                None => {
                    statements.push((sql, tables.prepare_kept(sql)?));
                    statements.len() - 1
                }
            };
            statements[at].1.execute(parameters)
        })
    }
}

impl From<Tables> for WriterTables {
    fn from(tables: Tables) -> Self {
        Self::new(tables, |_| Statements::default())
    }
}

impl Deref for WriterTables {
    type Target = Tables;

    fn deref(&self) -> &Tables {
        self.borrow_owner()
    }
}
