//! Reading and writing snapshots of the state of a node.

use std::collections::BTreeMap;

use super::{log::Log, prelude::*};
use sessiond_core::read::Past;
use sessiond_store::past::{is_due, is_step};

impl Tables {
    /// The newest snapshot up to a version, with its version. Without a snapshot: no keys, version 0.
    pub(super) fn snapshot(&self, node: NodeId, at: Version) -> Result<(Past, Version)> {
        let sql = "SELECT version, state FROM snapshot WHERE node = ?1 AND version <= ?2
            ORDER BY version DESC LIMIT 1";
        let found = self.one(sql, (node, at), |row| {
            let keys: BTreeMap<Box<str>, (Option<String>, Version)> = row::parsed(row, 1)?;
            Ok((keys, row.get(0)?))
        })?;
        let (keys, version) = found.unwrap_or_default();
        let past = keys.into_iter().map(|(name, (value, version))| {
            (name, (value.map(|text| Json::stored_or_damaged(&text)), version))
        });
        Ok((past.collect(), version))
    }

    /// Writes a snapshot if one is due after changes from version `before` to `version`. Everything else has been written.
    pub(super) fn snapshot_if_due(
        &self,
        log: Log,
        before: Version,
        version: Version,
        state_bytes: usize,
    ) -> Result<()> {
        if !is_step(before, version) {
            return Ok(());
        }
        let last = "SELECT version, octet_length(state) FROM snapshot WHERE node = ?1
            ORDER BY version DESC LIMIT 1";
        let last = self.one(last, [log.node], |row| row.all())?;
        let (since, bytes): (Version, usize) = last.unwrap_or((0, 0));
        // Removed keys count as well, which a state does not have.
        let bytes = bytes.max(state_bytes);
        let changed = || {
            let columns = format!(
                "{}, coalesce(octet_length(set_json), 0) + coalesce(octet_length(removed), 0)",
                log.version()
            );
            let mut changed = 0;
            self.each_row(log, &columns, (since, version), false, |row| {
                changed += row.get::<u64>(1)?;
                Ok(true)
            })?;
            Ok(changed)
        };
        match is_due(version - since, bytes, changed) {
            Ok(true) => {}
            // The reads that meet the damage tell of it. A write does without the snapshot.
            Ok(false) | Err(Error::Damaged(..)) => return Ok(()),
            Err(error) => return Err(error),
        }
        let snapshot = "INSERT INTO snapshot
            SELECT ?1, ?2, json_group_object(name, json_array(value, version)) FROM
                (SELECT name, value, version FROM state WHERE node = ?1
                 UNION ALL SELECT name, NULL, version FROM removed WHERE node = ?1)";
        self.run(snapshot, (log.node, version))?;
        Ok(())
    }
}
