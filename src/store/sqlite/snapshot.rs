//! The past: a node's state as of a version.
//!
//! A snapshot holds a node's keys with their versions, and the removed ones with the version of their removal. The state as of a version
//! is the newest snapshot up to it and the few changes that follow, so its cost does not depend on how long the log is.

use std::collections::BTreeMap;

use super::{connection::Tables, log::Log, prelude::*, row};

/// Versions between two snapshots: as many changes a read of the past goes through at most, for a small state.
pub(super) const SNAPSHOT_STEP: Version = 64;

/// Bytes of a snapshot above which it has to be worth its size: the changes since the last one weigh an eighth of it.
const LARGE_BYTES: usize = 4096;

/// Versions after which a snapshot is taken in any case, so that a read of the past goes through at most as many changes.
const SNAPSHOT_VERSIONS_MAX: Version = 4096;

/// Bytes of a snapshot for each version since the last one. One with more than a mebibyte, for the names of very many removed keys, waits
/// longer for that.
const BYTES_PER_VERSION: u64 = 256;

/// Keys as of a version, by name without prefix; `None`: removed by that version.
pub(super) type Past = BTreeMap<Box<str>, (Option<Json>, Version)>;

/// The columns of a row's changes, in either log.
pub(super) const CHANGES: &str = "removed, set_json";

/// Applies the changes that made a version to the keys of one scope.
pub(super) fn fold(past: &mut Past, kind: ScopeKind, version: Version, changes: Changes) {
    for (key, value) in changes.results().filter(|(key, _)| key.scope() == Some(kind)) {
        past.insert(key.name().into(), (value, version));
    }
}

impl Tables {
    /// A node's keys as of a version.
    pub(super) fn past(&self, log: Log, at: Version) -> Result<Past, Error> {
        let (mut past, from) = self.snapshot_before(log.node, at)?;
        let columns = format!("{}, {CHANGES}", log.version());
        self.each_row(log, &columns, (from, at), false, |row| {
            fold(&mut past, log.kind, row.get(0)?, row::changes(row, 1)?);
            Ok(true)
        })?;
        Ok(past)
    }

    /// The newest snapshot up to a version, with its version. Without a snapshot: no keys, version 0.
    pub(super) fn snapshot_before(&self, node: NodeId, at: Version) -> Result<(Past, Version)> {
        let sql = "SELECT version, state FROM snapshot WHERE node = ?1 AND version <= ?2
            ORDER BY version DESC LIMIT 1";
        let found = self.one(sql, (node, at), |row| {
            let keys: BTreeMap<Box<str>, (Option<String>, Version)> = row::parsed(row, 1)?;
            let json = |(value, version): (Option<_>, _)| (value.map(Json::from_stored), version);
            Ok((keys.into_iter().map(|(name, it)| (name, json(it))).collect(), row.get(0)?))
        })?;
        Ok(found.unwrap_or_default())
    }

    /// Writes a snapshot if one is due after changes from version `before` to `version`. Everything else has been written.
    pub(super) fn snapshot_if_due(
        &self,
        log: Log,
        before: Version,
        version: Version,
        state_bytes: usize,
    ) -> Result<(), Error> {
        if version / SNAPSHOT_STEP == before / SNAPSHOT_STEP {
            return Ok(());
        }
        let last = "SELECT version, octet_length(state) FROM snapshot WHERE node = ?1
            ORDER BY version DESC LIMIT 1";
        let last = self.one(last, [log.node], |row| row.try_into())?;
        let (since, bytes): (Version, usize) = last.unwrap_or((0, 0));
        // Removed keys count as well, which a state does not have.
        let bytes = bytes.max(state_bytes);
        let versions = version - since;
        if versions >= SNAPSHOT_VERSIONS_MAX {
            if versions < bytes as u64 / BYTES_PER_VERSION {
                return Ok(());
            }
        } else if bytes > LARGE_BYTES {
            let columns = format!(
                "{}, coalesce(octet_length(set_json), 0) + coalesce(octet_length(removed), 0)",
                log.version()
            );
            let mut changed = 0;
            let read = self.each_row(log, &columns, (since, version), false, |row| {
                changed += row.get::<_, usize>(1)?;
                Ok(true)
            });
            match read {
                // The reads that meet the damage tell of it. A write does without the snapshot.
                Err(Error::Damaged(..)) => return Ok(()),
                read => read?,
            };
            if changed < bytes / 8 {
                return Ok(());
            }
        }
        let snapshot = "INSERT INTO snapshot
            SELECT ?1, ?2, json_group_object(name, json_array(value, version)) FROM
                (SELECT name, value, version FROM state WHERE node = ?1
                 UNION ALL SELECT name, NULL, version FROM removed WHERE node = ?1)";
        self.run(snapshot, (log.node, version))?;
        Ok(())
    }
}
