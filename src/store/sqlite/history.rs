//! The past: what keys were, and which versions changed them.
//!
//! The cost depends on how many keys a node ever had, not on how long its log is: for each key the newest change up to a version is
//! one step down an index. What the index does not hold yet is the last few rows of the log.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{OptionalExtension, Row};

use super::{
    head::{LastRows, RowId},
    row,
    schema::{NodeId, indexed},
    statements::Reads,
};
use crate::domain::{
    Version,
    delta::KeyResult,
    json::Json,
    scope::{ScopeKind, StateKey},
    session::StateEntry,
};

/// A node with a log, at its newest version or at an earlier one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Log {
    pub(super) node: NodeId,
    pub(super) kind: ScopeKind,
    /// Its newest version in this snapshot.
    pub(super) version: Version,
}

/// A row of a log's end, with the names that it changed in that log's own scope.
#[derive(Clone, Debug)]
pub(super) struct TailEntry {
    pub(super) version: Version,
    /// Where the row lies.
    pub(super) row: RowId,
    pub(super) names: Vec<Box<str>>,
    /// For a session: the event's id.
    pub(super) event_id: Option<Box<str>>,
}

impl TailEntry {
    /// Bytes in memory, about.
    pub(super) fn weight(&self) -> usize {
        let names = self.names.iter().map(|name| size_of::<Box<str>>() + name.len());
        size_of::<Self>() + names.sum::<usize>() + self.event_id.as_ref().map_or(0, |id| id.len())
    }
}

/// Names of one scope among what keys became.
pub(super) fn names_of(kind: ScopeKind, results: &[KeyResult]) -> Vec<Box<str>> {
    let keys = results.iter().map(|(key, _)| key);
    keys.filter(|key| key.scope() == Some(kind)).map(|key| key.name().into()).collect()
}

/// Names of one scope among the keys of a stored change.
pub(super) fn names_in(kind: ScopeKind, set: Option<&Json>, removed: &[StateKey]) -> Vec<Box<str>> {
    let set = set.map(Json::members).unwrap_or_default();
    let set = set.into_iter().map(|(key, _)| StateKey::from_stored(key));
    let keys = set.chain(removed.iter().cloned());
    keys.filter(|key| key.scope() == Some(kind)).map(|key| key.name().into()).collect()
}

/// What of an event goes into the indexes, from the columns that `statements` has for that.
pub(super) fn index_entry(row: &Row<'_>) -> rusqlite::Result<TailEntry> {
    let (removed, set) = (row::removed(row, 2)?, row::optional_json(row, 3)?);
    Ok(TailEntry {
        version: row::count(row, 1)?,
        row: row.get(0)?,
        names: names_in(ScopeKind::Session, set.as_ref(), &removed),
        event_id: Some(row::text(row, 4)?.into()),
    })
}

/// Whether a name is among sorted ones. An event may have changed as many as a scope holds.
fn has(names: &[String], name: &str) -> bool {
    names.binary_search_by(|other| other.as_str().cmp(name)).is_ok()
}

/// The newest change of each name in the end of a log.
pub(super) fn newest_in(tail: Vec<TailEntry>) -> HashMap<Box<str>, Version> {
    let entries = tail.into_iter();
    entries.flat_map(|entry| entry.names.into_iter().map(move |it| (it, entry.version))).collect()
}

impl Reads<'_> {
    /// The end of a log, which the indexes do not hold yet, up to a version.
    pub(super) fn tail(
        &mut self,
        log: Log,
        last: &LastRows,
        up_to: Version,
    ) -> rusqlite::Result<Vec<TailEntry>> {
        let (from, kind) = (indexed(log.version), log.kind);
        let up_to = up_to.min(log.version);
        let mut tail = Vec::new();
        for version in from + 1..=up_to {
            let row = last.row_of(version).ok_or(rusqlite::Error::QueryReturnedNoRows)?;
            let entry = match kind {
                ScopeKind::Session => self.event_index.query_row([row], index_entry),
                ScopeKind::Application | ScopeKind::User => self.log.query_row([row], |it| {
                    let (removed, set) = (row::removed(it, 1)?, row::optional_json(it, 2)?);
                    let names = names_in(kind, set.as_ref(), &removed);
                    Ok(TailEntry { version, row, names, event_id: None })
                }),
            };
            tail.push(entry?);
        }
        Ok(tail)
    }

    /// The versions below `before` that changed a key, newest first, at most so many. The version 0 of a creation is not among them.
    /// `tail` is the end of the log.
    pub(super) fn changes_of(
        &mut self,
        log: Log,
        tail: &[TailEntry],
        name: &str,
        before: Version,
        limit: usize,
    ) -> rusqlite::Result<Vec<Version>> {
        let late = tail
            .iter()
            .rev()
            .filter(|entry| entry.version < before && entry.names.iter().any(|it| **it == *name));
        let mut versions: Vec<_> = late.map(|entry| entry.version).take(limit).collect();
        let left = limit - versions.len();
        if left > 0 {
            let before = i64::try_from(before).unwrap_or(i64::MAX);
            let parameters = (log.node, name, before, i64::try_from(left).unwrap_or(i64::MAX));
            let mut rows = self.change_before.query(parameters)?;
            while let Some(row) = rows.next()? {
                versions.push(row::count(row, 0)?);
            }
        }
        Ok(versions)
    }

    /// The newest version up to `at` that changed a key, in what is indexed.
    pub(super) fn newest_indexed(
        &mut self,
        node: NodeId,
        name: &str,
        at: Version,
    ) -> rusqlite::Result<Option<Version>> {
        let newest = (node, name, at.cast_signed() + 1, 1);
        self.change_before.query_row(newest, |row| row::count(row, 0)).optional()
    }

    /// A node's state as it was at a version. Costs as much as reading the present where the version is the newest.
    pub(super) fn state_as_of(
        &mut self,
        log: Log,
        at: Version,
        out: &mut Vec<StateEntry>,
    ) -> rusqlite::Result<()> {
        if at >= log.version {
            return self.state_of(log.node, log.kind, out);
        }
        // What has not changed since is as it is.
        let mut then: BTreeMap<String, Option<(Json, Version)>> = BTreeMap::new();
        let mut rows = self.state.query([log.node])?;
        while let Some(row) = rows.next()? {
            let version = row::count(row, 2)?;
            if version <= at {
                then.insert(row::text(row, 0)?.to_owned(), Some((row::json(row, 1)?, version)));
            }
        }
        drop(rows);
        let changed = self.newest_changes(log, at, &then)?;
        for (version, names) in changed {
            let set = self.set_at(log, version)?;
            for (key, value) in set.as_ref().map(Json::members).unwrap_or_default() {
                let key = StateKey::from_stored(key);
                if key.scope() == Some(log.kind) && has(&names, key.name()) {
                    then.insert(key.name().to_owned(), Some((value, version)));
                }
            }
            // A key that this version changed and did not set was removed by it.
            for name in names {
                then.entry(name).or_insert(None);
            }
        }
        if log.kind == ScopeKind::Session {
            for (name, value) in self.initial_state(log.node)? {
                then.entry(name).or_insert(Some((value, 0)));
            }
        }
        out.extend(then.into_iter().filter_map(|(name, entry)| {
            let (value, version) = entry?;
            Some(StateEntry { key: StateKey::in_scope(log.kind, &name), value, version })
        }));
        Ok(())
    }

    /// For each name that is not in `known`, its newest change up to a version; by version, and then by name.
    fn newest_changes(
        &mut self,
        log: Log,
        at: Version,
        known: &BTreeMap<String, Option<(Json, Version)>>,
    ) -> rusqlite::Result<BTreeMap<Version, Vec<String>>> {
        let mut newest: BTreeMap<String, Version> = BTreeMap::new();
        let mut from = String::new();
        loop {
            let next = self.next_changed_name.query_row((log.node, &from), |row| row.get(0));
            let Some(name): Option<String> = next.optional()? else {
                break;
            };
            if !known.contains_key(&name)
                && let Some(version) = self.newest_indexed(log.node, &name, at)?
            {
                newest.insert(name.clone(), version);
            }
            // The smallest text behind this one, for no name holds a NUL.
            from = name;
            from.push('\0');
        }
        let last = self.last_rows(log.node)?;
        let late = newest_in(self.tail(log, &last, at)?).into_iter();
        let late = late.map(|(name, version)| (String::from(name), version));
        newest.extend(late.filter(|(name, _)| !known.contains_key(name)));
        let mut by_version: BTreeMap<Version, Vec<String>> = BTreeMap::new();
        for (name, version) in newest {
            by_version.entry(version).or_default().push(name);
        }
        Ok(by_version)
    }

    /// What a version of a log set, in all scopes.
    fn set_at(&mut self, log: Log, version: Version) -> rusqlite::Result<Option<Json>> {
        let row = self.row_of(log.node, version)?;
        let change = match log.kind {
            ScopeKind::Session => &mut self.event_change,
            ScopeKind::Application | ScopeKind::User => &mut self.log_change,
        };
        change.query_row([row], |row| row::optional_json(row, 0))
    }

    /// The own state that a session was created with, names without prefix.
    pub(super) fn initial_state(
        &mut self,
        session: NodeId,
    ) -> rusqlite::Result<Vec<(String, Json)>> {
        let state = self.initial.query_row([session], |row| row::json(row, 0)).optional()?;
        Ok(state.as_ref().map(Json::members).unwrap_or_default())
    }
}
