//! Keeping the indexes: of logs, and of event ids.

use hashbrown::hash_map::Entry;

use super::{
    keys::{ID_BYTES, KnownIds, id_hash, is_indexed, part_of, parts_due},
    log::{Log, Unindexed},
    prelude::*,
    schema::{KEY_STEP, LOG_STEP},
    writer::Writer,
};

/// Bytes in memory, about, of a log's unindexed rows.
const UNINDEXED_BYTES: usize = 1024;

impl Writer {
    /// The unindexed rows of a log, whose node has a head or gets one.
    pub(super) fn unindexed_of(&mut self, log: Log) -> Result<&mut Unindexed> {
        match self.unindexed.entry(log.node) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(vacant) => {
                self.grown += UNINDEXED_BYTES;
                let (_, rows) = self.tables.unindexed(log)?;
                let sql = "SELECT id_hash FROM event WHERE id = ?1";
                let hash = |row| match log.kind {
                    // The hashes of the others stay in their places if an event is lost.
                    ScopeKind::Session => Ok(Some(self.tables.value(sql, [row])?.unwrap_or(0))),
                    ScopeKind::Application | ScopeKind::User => Ok::<_, rusqlite::Error>(None),
                };
                let mut unindexed = Unindexed::default();
                for row in rows {
                    unindexed.push(row, hash(row)?);
                }
                Ok(vacant.insert(unindexed))
            }
        }
    }

    /// Notes the row that was just inserted into a log, and the hash of its event id.
    pub(super) fn note_row(&mut self, log: Log, version: Version, hash: Option<i64>) -> Result<()> {
        let row = self.tables.0.last_insert_rowid();
        let unindexed = self.unindexed_of(log)?;
        unindexed.push(row, hash);
        if unindexed.len() >= LOG_STEP {
            self.index_rows(log, version)?;
        }
        Ok(())
    }

    /// Puts the unindexed rows of a log of this version into the index. The head of its node is written afterwards.
    pub(super) fn index_rows(&mut self, log: Log, version: Version) -> Result<()> {
        self.unindexed_of(log)?;
        let Some(unindexed) = self.unindexed.get_mut(&log.node) else { return Ok(()) };
        self.tables.index_run(log.node, version, unindexed)
    }

    /// The ids of a session's newest events.
    fn known_of(&mut self, session: Incarnation, last: Sequence) -> Result<&KnownIds> {
        match self.known.entry(session) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(vacant) => {
                let mut known = KnownIds::new(last);
                let (_, unindexed) = self.tables.unindexed(Log::of_session(session))?;
                self.tables.each_hash(session, (known.after, last), |sequence, hash| {
                    if !is_indexed(sequence, hash, last) {
                        known.insert(hash, sequence);
                    }
                })?;
                let sql = "SELECT id_hash, sequence FROM event WHERE id = ?1";
                for row in unindexed {
                    let found = self.tables.one(sql, [row], |row| row.try_into())?;
                    if let Some((hash, sequence)) = found {
                        known.insert(hash, sequence);
                    }
                }
                self.grown += ID_BYTES * known.len();
                Ok(vacant.insert(known))
            }
        }
    }

    /// The events of a session whose ids may be this one: they have its hash, or half of it.
    pub(super) fn alike(
        &mut self,
        session: Incarnation,
        last: Sequence,
        id: &EventId,
    ) -> Result<Vec<Sequence>> {
        let hash = id_hash(id);
        let known = self.known_of(session, last)?;
        let (mut alike, has_indexed) =
            (known.with_hash(hash).collect::<Vec<_>>(), known.has_indexed);
        if has_indexed {
            let sql = "SELECT sequence FROM event_key WHERE session = ?1 AND id_hash = ?2";
            alike.extend(self.tables.all(sql, (session.0, hash), |row| row.get::<_, Sequence>(0))?);
        }
        Ok(alike)
    }

    /// Notes the id of an event that was just inserted, and whose row was noted.
    pub(super) fn note_id(
        &mut self,
        session: Incarnation,
        sequence: Sequence,
        hash: i64,
    ) -> Result<()> {
        if let Some(known) = self.known.get_mut(&session) {
            known.insert(hash, sequence);
            self.grown += ID_BYTES;
        }
        self.index_ids(session, sequence - 1, sequence)
    }

    /// Puts the parts into `event_key` that enter with the events in `(after, up_to]`.
    pub(super) fn index_ids(
        &self,
        session: Incarnation,
        after: Sequence,
        up_to: Sequence,
    ) -> Result<()> {
        for (step, part) in parts_due(after, up_to) {
            let mut ids = Vec::new();
            self.tables.each_hash(session, (step - KEY_STEP, step), |sequence, hash| {
                if part_of(hash) == part {
                    ids.push((hash, sequence));
                }
            })?;
            ids.sort_unstable();
            // A file that was migrated has some of them.
            let sql = "INSERT OR IGNORE INTO event_key VALUES (?1, ?2, ?3)";
            let mut insert = self.tables.prepare(sql)?;
            for (hash, sequence) in ids {
                insert.execute((session.0, hash, sequence))?;
            }
        }
        Ok(())
    }
}
