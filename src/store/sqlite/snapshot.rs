//! The past: a node's state as of a version, and the versions that changed a key.
//!
//! A snapshot holds a node's keys with their versions, and the removed ones with the version of their removal. The state as of a version
//! is the newest snapshot up to it and the few changes that follow, so its cost depends neither on how long the log is nor on how many
//! keys there ever were.

use std::collections::BTreeMap;

use rusqlite::OptionalExtension;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{row, schema::NodeId, statements::Reads, writer::Writer};
use crate::domain::{
    Version,
    error::Error,
    json::Json,
    scope::{ScopeKind, StateKey},
};

/// Versions between two snapshots: as many changes a read of the past goes through at most, for a small state.
pub(super) const SNAPSHOT_STEP: Version = 64;

/// Bytes of state above which a snapshot has to be worth its size: the changes since the last one weigh an eighth of it.
const LARGE_STATE_BYTES: usize = 4096;

/// Versions after which a snapshot is taken in any case, so that a read of the past goes through at most as many changes.
const SNAPSHOT_VERSIONS_MAX: Version = 4096;

/// A log, whose changes add up to the state of a scope.
#[derive(Clone, Copy, Debug)]
pub(super) struct Log {
    pub(super) node: NodeId,
    pub(super) kind: ScopeKind,
    /// The newest.
    pub(super) version: Version,
}

/// Keys as of a version, by name without prefix.
#[derive(Debug, Default)]
pub(super) struct Past {
    pub(super) state: BTreeMap<Box<str>, (Json, Version)>,
    pub(super) removed: BTreeMap<Box<str>, Version>,
}

/// A snapshot as it is stored.
#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    #[serde(borrow)]
    set: BTreeMap<String, (Version, &'a RawValue)>,
    removed: BTreeMap<String, Version>,
}

impl Reads<'_> {
    /// A node's keys as of a version.
    pub(super) fn past(&mut self, log: Log, at: Version) -> Result<Past, Error> {
        let (mut past, from) = self.snapshot_before(log.node, at)?;
        let statement = match log.kind {
            ScopeKind::Session => &mut self.event_changes,
            ScopeKind::Application | ScopeKind::User => &mut self.scope_changes,
        };
        let mut rows = statement.query((log.node, from.cast_signed(), at.cast_signed()))?;
        while let Some(row) = rows.next()? {
            let version = row::count(row, 0)?;
            for (key, value) in changed_keys(row, log.kind)? {
                let name: Box<str> = key.name().into();
                match value {
                    Some(value) => {
                        past.removed.remove(&name);
                        past.state.insert(name, (value, version));
                    }
                    None => {
                        past.state.remove(&name);
                        past.removed.insert(name, version);
                    }
                }
            }
        }
        Ok(past)
    }

    /// The newest snapshot up to a version, with its version; version 0 without any key if there is none.
    fn snapshot_before(&mut self, node: NodeId, at: Version) -> Result<(Past, Version), Error> {
        let mut rows = self.snapshot.query((node, at.cast_signed()))?;
        let Some(row) = rows.next()? else {
            return Ok((Past::default(), 0));
        };
        let stored: Stored<'_> = serde_json::from_str(row::text(row, 1)?)
            .map_err(|error| row::not_as_written(1, error))?;
        let state = stored.set.into_iter().map(|(name, (version, value))| {
            (name.into(), (Json::from_stored(value.get().to_owned()), version))
        });
        let removed = stored.removed.into_iter().map(|(name, version)| (name.into(), version));
        Ok((Past { state: state.collect(), removed: removed.collect() }, row::count(row, 0)?))
    }

    /// The versions below `before` that changed a key, newest first, at most `limit`; 0 is the creation of a session.
    ///
    /// One snapshot tells the change before it, and serves all the changes that follow it.
    pub(super) fn changes_of(
        &mut self,
        log: Log,
        name: &str,
        before: Version,
        limit: usize,
    ) -> Result<Vec<Version>, Error> {
        let mut versions = Vec::new();
        let Some(mut at) = before.checked_sub(1) else {
            return Ok(versions);
        };
        if at >= log.version {
            match self.newest_change(log.node, name)? {
                None => return Ok(versions),
                Some(newest) => at = newest,
            }
        }
        while at > 0 && versions.len() < limit {
            let (past, from) = self.snapshot_before(log.node, at - 1)?;
            let statement = match log.kind {
                ScopeKind::Session => &mut self.event_changes_down,
                ScopeKind::Application | ScopeKind::User => &mut self.scope_changes_down,
            };
            let mut rows = statement.query((log.node, from.cast_signed(), at.cast_signed()))?;
            while let Some(row) = rows.next()? {
                if changed_keys(row, log.kind)?.iter().any(|(key, _)| key.name() == name) {
                    versions.push(row::count(row, 0)?);
                }
            }
            let of_state = past.state.get(name).map(|(_, version)| *version);
            match of_state.or_else(|| past.removed.get(name).copied()) {
                None => return Ok(versions),
                Some(earlier) => at = earlier,
            }
        }
        if at == 0 && self.snapshot_before(log.node, 0)?.0.state.contains_key(name) {
            versions.push(0);
        }
        versions.truncate(limit);
        Ok(versions)
    }

    /// The newest version that changed a key.
    pub(super) fn newest_change(
        &mut self,
        node: NodeId,
        name: &str,
    ) -> Result<Option<Version>, Error> {
        let version = |row: &rusqlite::Row<'_>| row::count(row, 0);
        if let Some(found) = self.state_version.query_row((node, name), version).optional()? {
            return Ok(Some(found));
        }
        Ok(self.removed_version.query_row((node, name), version).optional()?)
    }
}

/// The keys of one scope that a row of `version, removed, set_json` changed, with their values; `None`: removed.
pub(super) fn changed_keys(
    row: &rusqlite::Row<'_>,
    kind: ScopeKind,
) -> rusqlite::Result<Vec<(StateKey, Option<Json>)>> {
    let removed = row::removed(row, 1)?.into_iter().map(|key| (key, None));
    let set = row::optional_json(row, 2)?.map(|set| set.members()).unwrap_or_default();
    let set = set.into_iter().map(|(key, value)| (StateKey::from_stored(key), Some(value)));
    Ok(removed.chain(set).filter(|(key, _)| key.scope() == Some(kind)).collect())
}

impl Writer<'_> {
    /// Writes a snapshot if one is due after changes from version `before` to `log.version`. Everything else has been written.
    pub(super) fn snapshot_if_due(
        &mut self,
        log: Log,
        before: Version,
        state_bytes: usize,
    ) -> Result<(), Error> {
        if log.version / SNAPSHOT_STEP == before / SNAPSHOT_STEP {
            return Ok(());
        }
        if state_bytes > LARGE_STATE_BYTES {
            let last = self
                .reads
                .snapshot_version
                .query_row([log.node], |row| Ok((row::count(row, 0)?, row::bytes(row, 1)?)));
            let (since, bytes) = last.optional()?.unwrap_or((0, state_bytes));
            let changed = self.changed_bytes(log, since)?;
            if changed < bytes.max(state_bytes) / 8 && log.version - since < SNAPSHOT_VERSIONS_MAX {
                return Ok(());
            }
        }
        let mut past = Past::default();
        let mut rows = self.reads.state.query([log.node])?;
        while let Some(row) = rows.next()? {
            past.state.insert(row::text(row, 0)?.into(), (row::json(row, 1)?, row::count(row, 2)?));
        }
        drop(rows);
        let mut rows = self.reads.removed.query([log.node])?;
        while let Some(row) = rows.next()? {
            past.removed.insert(row::text(row, 0)?.into(), row::count(row, 1)?);
        }
        drop(rows);
        let text = past.to_stored()?;
        self.writes.insert_snapshot.execute((log.node, log.version.cast_signed(), text))?;
        Ok(())
    }

    /// Bytes of the changes behind a version.
    fn changed_bytes(&self, log: Log, since: Version) -> Result<usize, Error> {
        let (table, node, version) = match log.kind {
            ScopeKind::Session => ("event", "session", "sequence"),
            ScopeKind::Application | ScopeKind::User => ("scope_log", "scope", "version"),
        };
        let mut statement = self.connection.prepare_cached(&format!(
            "SELECT sum(coalesce(octet_length(set_json), 0) + coalesce(octet_length(removed), 0))
             FROM {table} WHERE {node} = ?1 AND {version} > ?2"
        ))?;
        let sum = |row: &rusqlite::Row<'_>| row.get::<_, Option<i64>>(0);
        let bytes = statement.query_row((log.node, since.cast_signed()), sum)?;
        Ok(usize::try_from(bytes.unwrap_or(0)).unwrap_or(usize::MAX))
    }
}

impl Past {
    pub(super) fn to_stored(&self) -> Result<String, Error> {
        let mut set = BTreeMap::new();
        for (name, (value, version)) in &self.state {
            let value: &RawValue = serde_json::from_str(value.as_str()).map_err(Error::internal)?;
            set.insert(String::from(&**name), (*version, value));
        }
        let removed = self.removed.iter().map(|(name, version)| ((**name).into(), *version));
        let stored = Stored { set, removed: removed.collect() };
        serde_json::to_string(&stored).map_err(Error::internal)
    }
}
