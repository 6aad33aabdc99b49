//! Writing a change set. Each of its parts is rows of one table. The index of event ids and the snapshots follow.

use std::{collections::BTreeMap, sync::LazyLock};

use rusqlite::params;

use super::{
    keys::id_hash,
    load::names,
    log::{Log, Unindexed},
    prelude::*,
    schema::{LOG_STEP, PURGED},
    writer::Writer,
};
use crate::{
    commit::{
        ChangeSet, CopiedEvents, EventRow, FORK_LEASE_SECS, KEY_BYTES, KeyRow, RequestRow,
        ScopeChange, ScopeKey, ScopeLogRow, SessionRow,
    },
    store::rows::{EVENT_COLUMNS, labels_text, removed_text},
};

static INSERT_EVENT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "INSERT INTO event (session, id_hash, {EVENT_COLUMNS})
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)"
    )
});

/// The statement that writes the head of a session.
macro_rules! put_head {
    ($insert:literal) => {
        concat!(
            $insert,
            " INTO state (node, name, version, state_bytes, last_event_secs, last_event_nanos,
                update_secs, update_nanos, unindexed)
            VALUES (?1, 0, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
        )
    };
}

const PUT_REMOVED: &str = "INSERT OR REPLACE INTO removed VALUES (?1, ?2, ?3)";

impl Writer {
    pub(super) fn apply_changes(&mut self, changes: &ChangeSet) -> Result<(), Error> {
        let ChangeSet {
            sessions,
            removed,
            events,
            scopes,
            requests,
            begun_forks,
            copied,
            finished_forks,
            purged,
            emptied,
            looked_at,
            unnamed,
            ended,
        } = changes;
        // First, so that an address is free for the next session there.
        for info in removed {
            self.unindexed_of(Log::of_session(info.incarnation))?;
            self.tables.run("DELETE FROM session WHERE id = ?1", [info.incarnation.0])?;
            self.tables
                .run("DELETE FROM state WHERE node = ?1 AND name = 0", [info.incarnation.0])?;
            self.put_tombstone(info.incarnation, PURGED)?;
            self.known.remove(&info.incarnation);
        }
        self.insert_events(events)?;
        for info in removed {
            self.index_rows(Log::of_session(info.incarnation), info.last_sequence)?;
            self.unindexed.remove(&info.incarnation.0);
        }
        sessions.values().try_for_each(|row| self.put_session(row))?;
        scopes.iter().try_for_each(|(key, change)| self.put_scope(key, change))?;
        for RequestRow { scope, id, fingerprint } in requests {
            let row = (self.node_of(scope)?, id, fingerprint.0.to_le_bytes());
            self.tables.run("INSERT INTO request VALUES (?1, ?2, ?3)", row)?;
        }
        begun_forks.iter().try_for_each(|(fork, _)| self.lease(*fork))?;
        copied.iter().try_for_each(|piece| self.copy_events(piece))?;
        finished_forks.iter().try_for_each(|fork| self.finish_fork(*fork))?;
        purged.map_or(Ok(()), |node| self.purge(node))?;
        self.apply_emptied(emptied, looked_at)?;
        unnamed.iter().try_for_each(|user| self.remove_name(user))?;
        ended.iter().try_for_each(|(key, version)| self.end_scope(key, *version))
    }

    /// The number of a scope, which gets a row and a head if it has none.
    fn node_of(&mut self, key: &ScopeKey) -> Result<NodeId, Error> {
        if let ScopeKey::Session(incarnation) = key {
            return Ok(incarnation.0);
        }
        let known = self.loaded.scope(key).map_or(0, |scope| scope.row);
        if known != 0 {
            return Ok(known);
        }
        let id = self.loaded.take_id();
        let (app, user) = names(key);
        self.tables.run("INSERT INTO scope VALUES (?1, ?2, ?3, 0)", (id, app, user))?;
        let head = "INSERT INTO state (node, name, version, state_bytes, unindexed)
            VALUES (?1, 0, 0, 0, '[]')";
        self.tables.run(head, [id])?;
        if let Some(scope) = self.loaded.scope_mut(key) {
            scope.row = id;
        }
        Ok(id)
    }

    fn put_session(&mut self, row: &SessionRow) -> Result<(), Error> {
        let SessionRow { is_new, metadata, info, state_bytes, initial } = row;
        let id = info.incarnation.0;
        if *is_new {
            self.unindexed.entry(id).or_default();
        }
        let unindexed = self.unindexed_of(Log::of_session(info.incarnation))?.stored();
        let head = params![
            id,
            info.last_sequence,
            state_bytes,
            info.last_event_time.secs(),
            info.last_event_time.nanos(),
            info.update_time.secs(),
            info.update_time.nanos(),
            unindexed,
        ];
        match is_new {
            // Fails if the number is another's.
            true => self.tables.run(put_head!("INSERT"), head)?,
            false => self.tables.run(put_head!("INSERT OR REPLACE"), head)?,
        };
        match (is_new, metadata) {
            (true, _) => self.insert_session(info, initial),
            (false, true) => self.put_metadata(info),
            (false, false) => Ok(()),
        }
    }

    fn put_metadata(&self, info: &SessionInfo) -> Result<(), Error> {
        let SessionInfo { expire_time: expire, display_name, labels, .. } = info;
        let sql = "UPDATE session SET expire_secs = ?2, expire_nanos = ?3,
            display_name = ?4, labels = ?5 WHERE id = ?1";
        let expire = (expire.map(Time::secs), expire.map(Time::nanos));
        let row = (info.incarnation.0, expire.0, expire.1, display_name, labels_text(labels));
        self.tables.run(sql, row)?;
        Ok(())
    }

    /// Of a new session, with the snapshot of the state that it was created with.
    fn insert_session(
        &mut self,
        info: &SessionInfo,
        initial: &[(Box<str>, Json)],
    ) -> Result<(), Error> {
        let (id, expire) = (info.incarnation.0, info.expire_time);
        let key = &info.key;
        let app = self.node_of(&ScopeKey::Application(key.app_name.clone()))?;
        let user = self.node_of(&ScopeKey::User(key.app_name.clone(), key.user_id.clone()))?;
        let origin = info.forked_from.as_ref();
        let insert =
            "INSERT INTO session VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13,
             ?14, ?15, ?16, ?17)";
        self.tables.run(
            insert,
            params![
                id,
                app,
                user,
                key.user_id,
                key.session_id,
                info.create_time.secs(),
                info.create_time.nanos(),
                expire.map(Time::secs),
                expire.map(Time::nanos),
                info.created_versions.application,
                info.created_versions.user,
                info.display_name,
                labels_text(&info.labels),
                origin.map(|origin| &origin.key.session_id),
                origin.map(|origin| origin.sequence),
                info.last_event_time.secs(),
                info.last_event_time.nanos(),
            ],
        )?;
        if let Some(session) = self.loaded.sessions.get_mut(&info.incarnation) {
            session.own.row = id;
        }
        if !initial.is_empty() {
            let keys = initial.iter().map(|(name, value)| (&**name, (value.as_str(), 0)));
            let keys = serde_json::json!(keys.collect::<BTreeMap<_, _>>()).to_string();
            self.tables.run("INSERT INTO snapshot VALUES (?1, 0, ?2)", (id, keys))?;
        }
        Ok(())
    }

    fn insert_events(&mut self, events: &[EventRow]) -> Result<(), Error> {
        if events.is_empty() {
            return Ok(());
        }
        self.unlisted += events.len() as u64;
        for EventRow { incarnation, event, fingerprint } in events {
            let hash = id_hash(&event.event_id);
            let row = params![
                incarnation.0,
                hash,
                event.sequence,
                event.event_id,
                event.invocation_id,
                event.author,
                event.branch,
                event.event_time.secs(),
                event.event_time.nanos(),
                event.commit_time.secs(),
                event.commit_time.nanos(),
                event.versions.application,
                event.versions.user,
                event.rewind_to,
                removed_text(&event.changes.remove),
                event.changes.set,
                event.body,
                event.trace_id.map(TraceId::to_bytes),
                fingerprint.0.to_le_bytes(),
            ];
            self.tables.run(&INSERT_EVENT, row)?;
            self.note_row(Log::of_session(*incarnation), event.sequence, Some(hash))?;
            self.note_id(*incarnation, event.sequence, hash)?;
        }
        Ok(())
    }

    fn put_scope(&mut self, key: &ScopeKey, change: &ScopeChange) -> Result<(), Error> {
        let ScopeChange { before, base, version, state_bytes, state, log: rows } = change;
        let log = Log { node: self.node_of(key)?, kind: key.kind() };
        if *before == 0 && *base > 0 {
            self.tables.run("UPDATE scope SET base = ?2 WHERE id = ?1", (log.node, base))?;
            // Nothing to go through before its log begins.
            self.tables.run("INSERT INTO snapshot VALUES (?1, ?2, '{}')", (log.node, base))?;
        }
        for row in rows {
            let ScopeLogRow { version, commit_time, author, source, changes } = row;
            // A user's log is that user's.
            let user = source.as_ref().filter(|_| log.kind == ScopeKind::Application);
            let insert = "INSERT INTO scope_log
                VALUES (NULL, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
            self.tables.run(
                insert,
                params![
                    log.node,
                    version,
                    commit_time.secs(),
                    commit_time.nanos(),
                    author,
                    source.as_ref().map(|source| source.incarnation.0),
                    user.map(|source| &source.key.user_id),
                    source.as_ref().map(|source| &source.key.session_id),
                    source.as_ref().map(|source| source.sequence),
                    removed_text(&changes.remove),
                    changes.set,
                ],
            )?;
            self.note_row(log, *version, None)?;
        }
        if log.kind != ScopeKind::Session {
            let unindexed = self.unindexed_of(log)?.stored();
            let sql = "INSERT OR REPLACE INTO state (node, name, version, state_bytes, unindexed)
                VALUES (?1, 0, ?2, ?3, ?4)";
            self.tables.run(sql, (log.node, version, state_bytes, unindexed))?;
        }
        let (Self { tables, grown, .. }, node) = (self, log.node);
        for (name, KeyRow { is_new, value, version }) in state {
            *grown += KEY_BYTES + name.len() + value.as_ref().map_or(0, Json::len);
            match value {
                None => {
                    tables.run("DELETE FROM state WHERE node = ?1 AND name = ?2", (node, name))?;
                    tables.run(PUT_REMOVED, (node, name, version))?;
                }
                Some(value) => {
                    let put = "INSERT OR REPLACE INTO state (node, name, value, version)
                        VALUES (?1, ?2, ?3, ?4)";
                    tables.run(put, (node, name, value, version))?;
                    if *is_new {
                        let delete = "DELETE FROM removed WHERE node = ?1 AND name = ?2";
                        tables.run(delete, (node, name))?;
                    }
                }
            }
        }
        tables.snapshot_if_due(log, *before.max(base), *version, *state_bytes)
    }

    pub(super) fn put_tombstone(
        &self,
        incarnation: Incarnation,
        lease_until: i64,
    ) -> Result<(), Error> {
        let put = "INSERT OR REPLACE INTO tombstone VALUES (?1, ?2)";
        self.tables.run(put, (incarnation.0, lease_until))?;
        Ok(())
    }

    fn lease(&self, fork: Incarnation) -> Result<(), Error> {
        self.put_tombstone(fork, self.loaded.now.secs() + FORK_LEASE_SECS)
    }

    fn copy_events(&mut self, piece: &CopiedEvents) -> Result<(), Error> {
        let CopiedEvents { from, to, after, up_to } = *piece;
        self.lease(to)?;
        let version = self.loaded.sessions.get(&from).map_or(0, |it| it.info.last_sequence);
        self.index_rows(Log::of_session(from), version)?;
        let all_indexed = "UPDATE state SET unindexed = '[]' WHERE node = ?1 AND name = 0";
        self.tables.run(all_indexed, [from.0])?;
        let events = format!(
            "INSERT INTO event (session, id_hash, {EVENT_COLUMNS})
             SELECT ?1, t.id_hash, {EVENT_COLUMNS}
             FROM log_index i JOIN json_each(i.rows) JOIN event t ON t.id = json_each.value
             WHERE i.node = ?2 AND i.version > ?3 AND i.version < ?4 + {LOG_STEP}
                 AND t.sequence > ?3 AND t.sequence <= ?4
             ORDER BY t.sequence"
        );
        let last = self.tables.value("SELECT coalesce(max(id), 0) FROM event", ())?.unwrap_or(0);
        self.unlisted += self.tables.run(&events, (to.0, from.0, after, up_to))? as u64;
        let copied = "SELECT sequence, id, id_hash FROM event WHERE id > ?1 ORDER BY id";
        let mut unindexed = Unindexed::default();
        self.tables.each(copied, [last], |row| {
            let (sequence, row, hash) = row.try_into()?;
            unindexed.push(row, Some(hash));
            if unindexed.len() == LOG_STEP {
                self.tables.index_run(to.0, sequence, &mut unindexed)?;
            }
            Ok::<_, Error>(true)
        })?;
        self.tables.index_run(to.0, up_to, &mut unindexed)?;
        // The first piece also copies the state at creation, which is the snapshot of version 0.
        let snapshots = "INSERT INTO snapshot SELECT ?1, version, state FROM snapshot
            WHERE node = ?2 AND version >= ?3 AND version <= ?4";
        let first = if after == 0 { 0 } else { after + 1 };
        self.tables.run(snapshots, (to.0, from.0, first, up_to))?;
        Ok(self.index_ids(to, after, up_to)?)
    }

    /// Writes the rest of a fork whose row and state are written.
    fn finish_fork(&mut self, fork: Incarnation) -> Result<(), Error> {
        self.tables.run("DELETE FROM tombstone WHERE id = ?1", [fork.0])?;
        let Some(session) = self.loaded.sessions.get(&fork) else { return Ok(()) };
        let log = Log::of_session(fork);
        for (name, (value, version)) in self.tables.past(log, session.info.last_sequence)? {
            if value.is_none() {
                self.tables.run(PUT_REMOVED, (fork.0, name, version))?;
            }
        }
        Ok(())
    }
}
