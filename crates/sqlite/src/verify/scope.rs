//! The log of each scope: its positions, and its changes against the state and the snapshots.

use std::collections::BTreeMap;

use super::{
    super::{
        connection::Tables,
        log::Log,
        prelude::*,
        read::CHANGES,
        row::{self, BODY, CHANGED},
    },
    report::{Check, Location, Part, Report},
};
use sessiond_core::{
    commit::entry_bytes,
    read::{Past, fold},
};
use sessiond_store::rows::EVENT_COLUMNS;

/// Every session: its events and its state.
pub(super) fn sessions(tables: &Tables, report: &mut Report<'_>) -> Result<()> {
    report.begin(Part::Sessions, rows(tables, "last_sequence", "session"));
    let next = "SELECT s.id, s.last_sequence, s.state_bytes, s.user_id, s.session_id, a.app
        FROM session s LEFT JOIN scope a ON a.id = s.app_scope WHERE s.id > ?1 ORDER BY s.id LIMIT 1";
    let mut after = 0;
    while let Some((subject, place)) = tables.one(next, [after], |row| {
        let place = Location {
            app_name: row.get::<Option<_>>(5)?.unwrap_or_default(),
            user_id: Some(row.get(3)?),
            session_id: Some(row.get(4)?),
        };
        let log = Log { node: row.get(0)?, kind: ScopeKind::Session };
        Ok((Subject { log, base: 0, last: row.get(1)?, state_bytes: row.get(2)? }, place))
    })? {
        after = subject.log.node;
        report.summary.sessions += 1;
        let labels = tables.one("SELECT labels FROM session WHERE id = ?1", [after], |row| {
            row::parsed::<BTreeMap<String, String>>(row, 0)
        });
        if let Err(error) = labels {
            report.unreadable(Some(&place), &error);
        }
        if let Err(error) = subject.check(tables, report, &place) {
            report.unreadable(Some(&place), &error);
        }
    }
    Ok(())
}

/// Every application and every user: their changes and their state.
pub(super) fn shared_scopes(tables: &Tables, report: &mut Report<'_>) -> Result<()> {
    report.begin(Part::ApplicationsAndUsers, rows(tables, "version", "scope"));
    let next = "SELECT id, app, user, version, state_bytes, base
        FROM scope WHERE id > ?1 ORDER BY id LIMIT 1";
    let mut after: NodeId = 0;
    while let Some((node, app_name, user, last, state_bytes, base)) =
        tables.one(next, [after], |row| {
            row.all::<(NodeId, String, String, Version, usize, Version)>()
        })?
    {
        after = node;
        report.summary.applications_and_users += 1;
        let is_user = !user.is_empty();
        let kind = if is_user { ScopeKind::User } else { ScopeKind::Application };
        let place = Location { app_name, user_id: is_user.then_some(user), session_id: None };
        let subject = Subject { log: Log { node, kind }, base, last, state_bytes };
        if let Err(error) = subject.check(tables, report, &place) {
            report.unreadable(Some(&place), &error);
        }
    }
    Ok(())
}

/// Rows of all logs, by what their nodes say. Damage makes it unknown, and is found later.
fn rows(tables: &Tables, of_scope: &str, table: &str) -> Option<u64> {
    let total = format!("SELECT coalesce(sum({of_scope}), 0) FROM {table}");
    tables.value(&total, ()).ok().flatten()
}

/// A scope, and what its row says of it.
struct Subject {
    log: Log,
    /// The log begins behind it.
    base: Version,
    last: Version,
    state_bytes: usize,
}

/// A walk through a log: what its rows add up to so far.
struct Walk {
    past: Past,
    at: Version,
    /// No row was missing or damaged.
    is_whole: bool,
    /// Versions of the snapshots on the rest of the way, the next one last.
    snapshots: Vec<Version>,
}

impl Subject {
    /// Folds the log from its beginning, and compares the result with every snapshot on the way and with the state at the end.
    fn check(&self, tables: &Tables, report: &mut Report<'_>, place: &Location) -> Result<()> {
        let Log { node, kind } = self.log;
        // A session begins with the state that it was created with; a shared scope is empty.
        let (past, _) = tables.snapshot(self.log.node, self.base)?;
        let snapshots = "SELECT version FROM snapshot WHERE node = ?1 AND version > ?2
            ORDER BY version DESC";
        let snapshots = tables.all(snapshots, (node, self.base), |row| row.get(0))?;
        let mut walk = Walk { past, at: self.base, is_whole: true, snapshots };
        let columns = match kind {
            ScopeKind::Session => EVENT_COLUMNS.to_owned(),
            ScopeKind::Application | ScopeKind::User => format!("version, {CHANGES}"),
        };
        tables.every_row(self.log, &columns, |row| {
            report.row();
            self.check_row(row, &mut walk, tables, report, place)
        })?;
        let Walk { past, at, mut is_whole, snapshots } = walk;
        if at > self.last {
            let message = format!("Rows follow the last one, {}.", self.last);
            report.add(Check::Sequence, Some(place), Some(self.last), message);
            is_whole = false;
        }
        if at < self.last {
            self.missing(report, place, at + 1, self.last);
            is_whole = false;
        }
        if let Some(version) = snapshots.last().filter(|_| is_whole) {
            let message = "A snapshot has a version that the log does not have.";
            report.add(Check::State, Some(place), Some(*version), message);
        }
        self.check_runs(tables, report, place)?;
        // What a hole took with it cannot be folded.
        if is_whole { self.check_state(tables, report, place, past) } else { Ok(()) }
    }

    fn check_row(
        &self,
        row: &Row<'_>,
        walk: &mut Walk,
        tables: &Tables,
        report: &mut Report<'_>,
        place: &Location,
    ) -> Result<()> {
        let (kind, at) = (self.log.kind, row.get(0)?);
        let changed = match kind {
            ScopeKind::Session => {
                check_event(row, report, place)?;
                CHANGED
            }
            ScopeKind::Application | ScopeKind::User => 1,
        };
        let before = std::mem::replace(&mut walk.at, at);
        if at > self.last {
            return Ok(());
        }
        if at != before + 1 {
            self.missing(report, place, before + 1, at - 1);
            walk.is_whole = false;
        }
        let Ok(changes) = row::changes(row, changed) else {
            let message = "The changes are not a JSON object, or a list of removed keys.";
            report.add(Check::Json, Some(place), Some(at), message);
            walk.is_whole = false;
            return Ok(());
        };
        fold(&mut walk.past, kind, at, &changes);
        if walk.snapshots.pop_if(|version| *version == at).is_some()
            && walk.is_whole
            && tables.snapshot(self.log.node, at)?.0 != walk.past
        {
            let message = "The snapshot is not what the log adds up to.";
            report.add(Check::State, Some(place), Some(at), message);
        }
        Ok(())
    }

    /// Compares the versions of the runs with the rows that they name.
    fn check_runs(&self, tables: &Tables, report: &mut Report<'_>, place: &Location) -> Result<()> {
        let last = match self.log.kind {
            ScopeKind::Session => "SELECT sequence FROM event WHERE id = ?1",
            ScopeKind::Application | ScopeKind::User => {
                "SELECT version FROM scope_log WHERE id = ?1"
            }
        };
        let runs = "SELECT version, rows FROM log_index WHERE node = ?1 ORDER BY version";
        tables.each(runs, [self.log.node], |run| {
            let (version, rows): (Version, Vec<i64>) = (run.get(0)?, row::parsed(run, 1)?);
            // A row that is missing is found where the log is read.
            if tables.value(last, [rows.last()])?.is_some_and(|last: Version| last != version) {
                let message = "The index of the log has another version.";
                report.add(Check::Index, Some(place), Some(version), message);
            }
            Ok(true)
        })?;
        Ok(())
    }

    fn missing(&self, report: &mut Report<'_>, place: &Location, first: Version, last: Version) {
        let what = if self.log.kind == ScopeKind::Session { "Event" } else { "Change" };
        let message = match first == last {
            true => format!("{what} {first} is missing."),
            false => format!("{what}s {first} to {last} are missing."),
        };
        report.add(Check::Sequence, Some(place), Some(first), message);
    }

    fn check_state(
        &self,
        tables: &Tables,
        report: &mut Report<'_>,
        place: &Location,
        mut expected: Past,
    ) -> Result<()> {
        let sql = "SELECT name, value, version FROM state WHERE node = ?1
            UNION ALL SELECT name, NULL, version FROM removed WHERE node = ?1";
        let mut bytes = 0;
        let mut wrong = Vec::new();
        tables.each(sql, [self.log.node], |row| {
            let (name, version): (Box<str>, Version) = (row.get(0)?, row.get(2)?);
            let value = row::optional_value(row, 1)?;
            bytes += value.as_ref().map_or(0, |value| entry_bytes(&name, value));
            if expected.remove(&name) != Some((value, version)) {
                wrong.push(name);
            }
            Ok(true)
        })?;
        wrong.extend(expected.into_keys());
        for name in wrong {
            let message = format!("Key {name:?} is not what the log adds up to.");
            report.add(Check::State, Some(place), None, message);
        }
        if bytes != self.state_bytes {
            let message = format!("The state has {bytes} bytes, not {}.", self.state_bytes);
            report.add(Check::State, Some(place), None, message);
        }
        Ok(())
    }
}

/// Reads an event whole. Its changes are read with those of every log.
fn check_event(row: &Row<'_>, report: &mut Report<'_>, place: &Location) -> Result<()> {
    report.summary.events += 1;
    if row::object(row, BODY).is_err() {
        let at = row.get(0)?;
        report.add(Check::Json, Some(place), Some(at), "The body is not a JSON object.");
    } else if row::changes(row, CHANGED).is_ok() {
        row::event(row)?;
    }
    Ok(())
}
