//! The log of each scope: its positions, and its changes against the state and the snapshots.

use std::collections::BTreeMap;

use super::{
    super::{
        log::Log,
        prelude::*,
        read::CHANGES,
        row::{BODY, CHANGED},
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
    let next = "SELECT s.id, 0, s.last_sequence, s.state_bytes, coalesce(a.app, ''), s.user_id, s.session_id
        FROM session s LEFT JOIN scope a ON a.id = s.app_scope WHERE s.id > ?1 ORDER BY s.id LIMIT 1";
    each_scope(tables, report, next)
}

/// Every application and every user: their changes and their state.
pub(super) fn shared_scopes(tables: &Tables, report: &mut Report<'_>) -> Result<()> {
    report.begin(Part::ApplicationsAndUsers, rows(tables, "version", "scope"));
    let next = "SELECT id, base, version, state_bytes, app, nullif(user, ''), NULL
        FROM scope WHERE id > ?1 ORDER BY id LIMIT 1";
    each_scope(tables, report, next)
}

/// Rows of all logs, by what their nodes say. Damage makes it unknown, and is found later.
fn rows(tables: &Tables, of_scope: &str, table: &str) -> Option<u64> {
    let total = format!("SELECT coalesce(sum({of_scope}), 0) FROM {table}");
    tables.value(&total, ()).ok().flatten()
}

fn each_scope(tables: &Tables, report: &mut Report<'_>, next: &str) -> Result<()> {
    let mut node: NodeId = 0;
    while let Some((base, last, state_bytes, place)) = tables.one(next, [node], |row| {
        node = row.get(0)?;
        let (app_name, user_id, session_id) = (row.get(4)?, row.get(5)?, row.get(6)?);
        Ok((row.get(1)?, row.get(2)?, row.get(3)?, Location { app_name, user_id, session_id }))
    })? {
        let (kind, count) = match &place {
            Location { session_id: Some(_), .. } => {
                (ScopeKind::Session, &mut report.summary.sessions)
            }
            Location { user_id: Some(_), .. } => {
                (ScopeKind::User, &mut report.summary.applications_and_users)
            }
            _ => (ScopeKind::Application, &mut report.summary.applications_and_users),
        };
        *count += 1;
        let labels = match kind {
            ScopeKind::Session => {
                tables.one("SELECT labels FROM session WHERE id = ?1", [node], |row| {
                    row::parsed::<BTreeMap<String, String>>(row, 0)
                })
            }
            _ => Ok(None),
        };
        let log = Log { node, kind };
        let (past, snapshots) = (Past::default(), Vec::new());
        let mut walk = Walk {
            tables,
            log,
            base,
            last,
            state_bytes,
            place: &place,
            past,
            at: base,
            is_whole: true,
            snapshots,
            report,
        };
        let checked = walk.check();
        for error in [labels.err(), checked.err()].into_iter().flatten() {
            report.unreadable(Some(&place), &error);
        }
    }
    Ok(())
}

/// A walk through the log of a scope.
struct Walk<'w, 'o> {
    tables: &'w Tables,
    report: &'w mut Report<'o>,
    place: &'w Location,
    log: Log,
    /// The log begins behind it.
    base: Version,
    /// As the scope's row says, like `state_bytes`.
    last: Version,
    state_bytes: usize,
    /// What the rows up to `at` add up to.
    past: Past,
    at: Version,
    /// No row was missing or damaged.
    is_whole: bool,
    /// Versions of the snapshots on the rest of the way, the next one last.
    snapshots: Vec<Version>,
}

impl Walk<'_, '_> {
    fn add(&mut self, check: Check, position: Option<Version>, message: impl Into<String>) {
        self.report.add(check, Some(self.place), position, message);
    }

    /// Folds the log from its beginning, and compares the result with every snapshot on the way and with the state at the end.
    fn check(&mut self) -> Result<()> {
        let Self { tables, log, base, last, .. } = *self;
        // A session begins with the state that it was created with; a shared scope is empty.
        self.past = tables.snapshot(log.node, base)?.0;
        let snapshots = "SELECT version FROM snapshot WHERE node = ?1 AND version > ?2
            ORDER BY version DESC";
        self.snapshots = tables.all(snapshots, (log.node, base), |row| row.get(0))?;
        let columns = match log.kind {
            ScopeKind::Session => EVENT_COLUMNS.to_owned(),
            ScopeKind::Application | ScopeKind::User => format!("version, {CHANGES}"),
        };
        tables.every_row(log, &columns, |row| self.check_row(row))?;
        if self.at > last {
            self.add(Check::Sequence, Some(last), format!("Rows follow the last one, {last}."));
            self.is_whole = false;
        } else if self.at < last {
            self.missing(self.at + 1, last);
        }
        if let Some(version) = self.snapshots.last().copied().filter(|_| self.is_whole) {
            let message = "A snapshot has a version that the log does not have.";
            self.add(Check::State, Some(version), message);
        }
        self.check_runs()?;
        // What a hole took with it cannot be folded.
        if self.is_whole { self.check_state() } else { Ok(()) }
    }

    fn check_row(&mut self, row: &Row<'_>) -> Result<()> {
        self.report.row();
        let at = row.get(0)?;
        let changed = if self.log.kind == ScopeKind::Session { CHANGED } else { 1 };
        if self.log.kind == ScopeKind::Session {
            self.check_event(row, at)?;
        }
        let before = std::mem::replace(&mut self.at, at);
        if at > self.last {
            return Ok(());
        }
        if at != before + 1 {
            self.missing(before + 1, at - 1);
        }
        let Ok(changes) = row::changes(row, changed) else {
            let message = "The changes are not a JSON object, or a list of removed keys.";
            self.add(Check::Json, Some(at), message);
            self.is_whole = false;
            return Ok(());
        };
        fold(&mut self.past, self.log.kind, at, &changes);
        if self.snapshots.pop_if(|version| *version == at).is_some()
            && self.is_whole
            && self.tables.snapshot(self.log.node, at)?.0 != self.past
        {
            self.add(Check::State, Some(at), "The snapshot is not what the log adds up to.");
        }
        Ok(())
    }

    /// Reads an event whole. Its changes are read with those of every log.
    fn check_event(&mut self, row: &Row<'_>, at: Sequence) -> Result<()> {
        self.report.summary.events += 1;
        if row::object(row, BODY).is_err() {
            self.add(Check::Json, Some(at), "The body is not a JSON object.");
        } else if row::changes(row, CHANGED).is_ok() {
            row::event(row)?;
        }
        Ok(())
    }

    /// Compares the versions of the runs with the rows that they name.
    fn check_runs(&mut self) -> Result<()> {
        let last = match self.log.kind {
            ScopeKind::Session => "SELECT sequence FROM event WHERE id = ?1",
            ScopeKind::Application | ScopeKind::User => {
                "SELECT version FROM scope_log WHERE id = ?1"
            }
        };
        let runs = "SELECT version, rows FROM log_index WHERE node = ?1 ORDER BY version";
        let tables = self.tables;
        tables.each(runs, [self.log.node], |run| {
            let (version, rows): (Version, Vec<i64>) = (run.get(0)?, row::parsed(run, 1)?);
            // A row that is missing is found where the log is read.
            if tables.value(last, [rows.last()])?.is_some_and(|last: Version| last != version) {
                let message = "The index of the log has another version.";
                self.add(Check::Index, Some(version), message);
            }
            Ok(true)
        })?;
        Ok(())
    }

    fn missing(&mut self, first: Version, last: Version) {
        let what = if self.log.kind == ScopeKind::Session { "Event" } else { "Change" };
        let message = match first == last {
            true => format!("{what} {first} is missing."),
            false => format!("{what}s {first} to {last} are missing."),
        };
        self.add(Check::Sequence, Some(first), message);
        self.is_whole = false;
    }

    fn check_state(&mut self) -> Result<()> {
        let sql = "SELECT name, value, version FROM state WHERE node = ?1
            UNION ALL SELECT name, NULL, version FROM removed WHERE node = ?1";
        let (mut bytes, mut wrong) = (0, Vec::new());
        self.tables.each(sql, [self.log.node], |row| {
            let (name, version): (Box<str>, Version) = (row.get(0)?, row.get(2)?);
            let value = row::optional_value(row, 1)?;
            bytes += value.as_ref().map_or(0, |value| entry_bytes(&name, value));
            if self.past.remove(&name) != Some((value, version)) {
                wrong.push(name);
            }
            Ok(true)
        })?;
        wrong.extend(std::mem::take(&mut self.past).into_keys());
        for name in wrong {
            let message = format!("Key {name:?} is not what the log adds up to.");
            self.add(Check::State, None, message);
        }
        if bytes != self.state_bytes {
            let message = format!("The state has {bytes} bytes, not {}.", self.state_bytes);
            self.add(Check::State, None, message);
        }
        Ok(())
    }
}
