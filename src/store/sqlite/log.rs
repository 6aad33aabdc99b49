//! Reading a log: the events of a session, or the changes of an application or a user.

use super::{connection::Tables, prelude::*};

/// A log, whose changes add up to the state of a scope.
#[derive(Clone, Copy, Debug)]
pub(super) struct Log {
    pub(super) node: NodeId,
    pub(super) kind: ScopeKind,
}

impl Log {
    pub(super) fn of_session(session: Incarnation) -> Self {
        Self { node: session.0, kind: ScopeKind::Session }
    }

    /// The column of the version.
    pub(super) fn version(self) -> &'static str {
        match self.kind {
            ScopeKind::Session => "sequence",
            ScopeKind::Application | ScopeKind::User => "version",
        }
    }

    /// The table of the rows, and its column of the node.
    fn table(self) -> (&'static str, &'static str) {
        match self.kind {
            ScopeKind::Session => ("event", "session"),
            ScopeKind::Application | ScopeKind::User => ("scope_log", "scope"),
        }
    }

    /// The version of its node.
    fn last(self) -> &'static str {
        match self.kind {
            ScopeKind::Session => "SELECT last_sequence FROM session WHERE id = ?1",
            ScopeKind::Application | ScopeKind::User => "SELECT version FROM scope WHERE id = ?1",
        }
    }
}

impl Tables {
    /// Goes through the rows of a log in `(after, up_to]` until `take` refuses one. Returns whether it took all. The first column is the
    /// version. A version that is missing is damage, which SQLite does not see.
    pub(super) fn each_row(
        &self,
        log: Log,
        columns: &str,
        (after, up_to): (Version, Version),
        descending: bool,
        mut take: impl FnMut(&Row<'_>) -> Result<bool>,
    ) -> Result<bool> {
        // Nothing was written to a log whose node has no row.
        let last = self.value(log.last(), [log.node])?.unwrap_or(0);
        let mut expected = Dense { after, up_to: up_to.min(last), descending };
        let ((table, node), version) = (log.table(), log.version());
        let order = if descending { "DESC" } else { "ASC" };
        let sql = format!(
            "SELECT {columns} FROM {table} WHERE {node} = ?1 AND {version} > ?2 AND {version} <= ?3
             ORDER BY {version} {order}"
        );
        let is_whole = self.each(&sql, (log.node, after, expected.up_to), |row| {
            let version = row.get(0)?;
            expected.next(version)?;
            take(row).map_err(|error| error.in_row(Damage::in_log(log.kind), version))
        })?;
        if is_whole {
            expected.end()?;
        }
        Ok(is_whole)
    }

    /// Goes through every row of a log, whatever its node says of it, and however many are missing.
    pub(super) fn every_row(
        &self,
        log: Log,
        columns: &str,
        mut take: impl FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let ((table, node), version) = (log.table(), log.version());
        let sql = format!("SELECT {columns} FROM {table} WHERE {node} = ?1 ORDER BY {version}");
        self.each(&sql, [log.node], |row| take(row).map(|()| true))?;
        Ok(())
    }
}

/// The versions that a read has still to find.
struct Dense {
    after: Version,
    up_to: Version,
    descending: bool,
}

impl Dense {
    /// The next row has this version.
    fn next(&mut self, version: Version) -> Result<()> {
        if self.after >= self.up_to || version != self.expected() {
            return Err(self.missing());
        }
        match self.descending {
            true => self.up_to -= 1,
            false => self.after += 1,
        }
        Ok(())
    }

    /// No row follows.
    fn end(&self) -> Result<()> {
        if self.after >= self.up_to { Ok(()) } else { Err(self.missing()) }
    }

    fn expected(&self) -> Version {
        if self.descending { self.up_to } else { self.after + 1 }
    }

    fn missing(&self) -> Error {
        Error::damaged(Damage::Log, format!("position {} is missing", self.expected()))
    }
}
