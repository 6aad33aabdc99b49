//! Writing a change set. Each of its parts is rows of one table. The snapshots follow.

use std::{collections::BTreeMap, sync::LazyLock};

use rusqlite::params;

use super::{
    load::names,
    log::{LOG_STEP, Log, rows_text},
    prelude::*,
    purge::PURGED_ROWS,
    read::Snapshot,
    schema::PURGED,
    writer::Writer,
};
use sessiond_core::{
    commit::{
        ChangeSet, CopiedEvents, EventRow, FORK_LEASE_SECS, KeyRow, RequestRow, ScopeChange,
        ScopeKey, ScopeLogRow, SessionRow,
    },
    read::{Node, finish, past},
};
use sessiond_store::rows::{EVENT_COLUMNS, labels_text, removed_text};

static INSERT_EVENT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "INSERT INTO event (session, {EVENT_COLUMNS})
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)"
    )
});

const PUT_REMOVED: &str = "INSERT OR REPLACE INTO removed VALUES (?1, ?2, ?3)";

impl Writer {
    pub(super) fn apply_changes(&mut self, changes: &ChangeSet) -> Result<()> {
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
            self.put_tombstone(info.incarnation, PURGED)?;
        }
        self.insert_events(events)?;
        for info in removed {
            self.index_rows(Log::of_session(info.incarnation), info.last_sequence)?;
            self.unindexed.remove(&info.incarnation.0);
        }
        sessions.values().try_for_each(|row| self.put_session(row))?;
        scopes.iter().try_for_each(|(key, change)| self.put_scope(key, change))?;
        for RequestRow { scope, id, fingerprint } in requests {
            let row = (self.node_of(scope)?, id.as_str(), fingerprint.0.to_le_bytes());
            self.tables.run("INSERT INTO request VALUES (?1, ?2, ?3)", row)?;
        }
        begun_forks.iter().try_for_each(|(fork, _)| self.lease(*fork))?;
        copied.iter().try_for_each(|piece| self.copy_events(piece))?;
        finished_forks.iter().try_for_each(|fork| self.finish_fork(*fork))?;
        self.purge(purged)?;
        self.apply_emptied(emptied, looked_at)?;
        let mut rows = 0;
        for user in unnamed {
            if rows >= PURGED_ROWS {
                break;
            }
            rows += self.remove_name(user)?;
        }
        ended.iter().try_for_each(|(key, version)| self.end_scope(key, *version))
    }

    /// The number of a scope, which gets a row if it has none.
    fn node_of(&mut self, key: &ScopeKey) -> Result<NodeId> {
        if let ScopeKey::Session(incarnation) = key {
            return Ok(incarnation.0);
        }
        let known = self.loaded.scope(key).map_or(0, |scope| scope.row);
        if known != 0 {
            return Ok(known);
        }
        let id = self.loaded.take_id();
        let (app, user) = names(key);
        self.tables.run("INSERT INTO scope VALUES (?1, ?2, ?3, 0, 0, 0, '[]')", (id, app, user))?;
        if let Some(scope) = self.loaded.scope_mut(key) {
            scope.row = id;
        }
        Ok(id)
    }

    fn put_session(&mut self, row: &SessionRow) -> Result<()> {
        let SessionRow { is_new, metadata, info, state_bytes, initial } = row;
        if *is_new {
            return self.insert_session(info, *state_bytes, initial);
        }
        let sql = "UPDATE session SET last_sequence = ?2, state_bytes = ?3, last_event_secs = ?4,
            last_event_nanos = ?5, update_secs = ?6, update_nanos = ?7, unindexed = ?8 WHERE id = ?1";
        let id = info.incarnation.0;
        let unindexed = rows_text(self.unindexed_of(Log::of_session(info.incarnation))?);
        let (last, updated) = (info.last_event_time, info.update_time);
        self.tables.run_groups(
            sql,
            &[
                params![id, info.last_sequence, state_bytes],
                params![last.secs(), last.nanos(), updated.secs(), updated.nanos()],
                params![unindexed],
            ],
        )?;
        if *metadata {
            let sql = "UPDATE session SET expire_secs = ?2, expire_nanos = ?3,
                display_name = ?4, labels = ?5 WHERE id = ?1";
            let SessionInfo { expire_time: expire, display_name, labels, .. } = info;
            let expire = (expire.map(Time::secs), expire.map(Time::nanos));
            let row = (id, expire.0, expire.1, display_name.as_str(), labels_text(labels));
            self.tables.run(sql, row)?;
        }
        Ok(())
    }

    /// Of a new session, with the snapshot of the state that it was created with.
    fn insert_session(
        &mut self,
        info: &SessionInfo,
        state_bytes: usize,
        initial: &[(Box<str>, Json)],
    ) -> Result<()> {
        let SessionInfo { key, last_event_time: last, update_time: updated, .. } = info;
        let (id, created, expire) = (info.incarnation.0, info.create_time, info.expire_time);
        let app = self.node_of(&ScopeKey::Application(key.app_name.clone()))?;
        let user = self.node_of(&ScopeKey::User(key.app_name.clone(), key.user_id.clone()))?;
        let origin = info.forked_from.as_ref();
        let origin = origin.map(|origin| (origin.key.session_id.as_str(), origin.sequence)).unzip();
        // The events of a fork are there already.
        let unindexed = rows_text(self.unindexed.entry(id).or_default());
        let versions = info.created_versions;
        let insert =
            "INSERT INTO session VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,
            ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?9, ?10)";
        self.tables.run_groups(
            insert,
            &[
                params![id, app, user, key.user_id.as_str(), key.session_id.as_str()],
                params![info.last_sequence, state_bytes, unindexed],
                params![last.secs(), last.nanos(), updated.secs(), updated.nanos()],
                params![created.secs(), created.nanos()],
                params![expire.map(Time::secs), expire.map(Time::nanos)],
                params![versions.application, versions.user],
                params![info.display_name.as_str(), labels_text(&info.labels), origin.0, origin.1],
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

    fn insert_events(&mut self, events: &[EventRow]) -> Result<()> {
        self.unlisted += events.len() as u64;
        for EventRow { incarnation, event: it, fingerprint } in events {
            let invocation = it.invocation_id.as_ref().map(InvocationId::as_str);
            let (happened, committed, versions) = (it.event_time, it.commit_time, it.versions);
            let set = it.changes.set.as_ref().map(Json::as_str);
            self.tables.run_groups(
                &INSERT_EVENT,
                &[
                    params![incarnation.0, it.sequence, it.event_id.as_str(), invocation],
                    params![it.author.as_str(), it.branch.as_str()],
                    params![happened.secs(), happened.nanos()],
                    params![committed.secs(), committed.nanos()],
                    params![versions.application, versions.user, it.rewind_to],
                    params![removed_text(&it.changes.remove), set],
                    params![it.body.as_ref().map(Json::as_str)],
                    params![it.trace_id.map(TraceId::to_bytes), fingerprint.0.to_le_bytes()],
                ],
            )?;
            self.track_row(Log::of_session(*incarnation), it.sequence)?;
        }
        Ok(())
    }

    fn put_scope(&mut self, key: &ScopeKey, change: &ScopeChange) -> Result<()> {
        let ScopeChange { before, base, version, state_bytes, state, log: rows } = change;
        let log = Log { node: self.node_of(key)?, kind: key.kind() };
        if *before == 0 && *base > 0 {
            self.tables.run("UPDATE scope SET base = ?2 WHERE id = ?1", (log.node, base))?;
            // Nothing to go through before its log begins.
            self.tables.run("INSERT INTO snapshot VALUES (?1, ?2, '{}')", (log.node, base))?;
        }
        for row in rows {
            let ScopeLogRow { version, commit_time: time, author, source, changes } = row;
            let key = source.as_ref().map(|source| &source.key);
            // A user's log is that user's.
            let user = key.filter(|_| log.kind == ScopeKind::Application);
            let (user, session) = (user.map(|it| &it.user_id), key.map(|it| &it.session_id));
            let event = source.as_ref().map(|it| (it.incarnation.0, it.sequence)).unzip();
            let set = changes.set.as_ref().map(Json::as_str);
            self.tables.run_groups(
                "INSERT INTO scope_log VALUES (NULL, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0, ?10, ?11)",
                &[
                    params![log.node, version, time.secs(), time.nanos(), author.as_str(), event.0],
                    params![user.map(UserId::as_str), session.map(SessionId::as_str), event.1],
                    params![removed_text(&changes.remove), set],
                ],
            )?;
            self.track_row(log, *version)?;
        }
        if log.kind != ScopeKind::Session {
            let unindexed = rows_text(self.unindexed_of(log)?);
            let sql =
                "UPDATE scope SET version = ?2, state_bytes = ?3, unindexed = ?4 WHERE id = ?1";
            self.tables.run(sql, (log.node, version, state_bytes, unindexed))?;
        }
        let (Self { tables, grown, .. }, node) = (self, log.node);
        for (name, KeyRow { is_new, value, version }) in state {
            *grown += ENTRY_BYTES + name.len() + value.as_ref().map_or(0, Json::len);
            match value {
                None => {
                    tables.run("DELETE FROM state WHERE node = ?1 AND name = ?2", (node, name))?;
                    tables.run(PUT_REMOVED, (node, name, version))?;
                }
                Some(value) => {
                    let put = "INSERT OR REPLACE INTO state VALUES (?1, ?2, ?3, ?4)";
                    tables.run(put, (node, name, value.as_str(), version))?;
                    if *is_new {
                        let delete = "DELETE FROM removed WHERE node = ?1 AND name = ?2";
                        tables.run(delete, (node, name))?;
                    }
                }
            }
        }
        tables.snapshot_if_due(log, *before.max(base), *version, *state_bytes)
    }

    pub(super) fn put_tombstone(&self, incarnation: Incarnation, lease_until: i64) -> Result<()> {
        let put = "INSERT OR REPLACE INTO tombstone VALUES (?1, ?2)";
        self.tables.run(put, (incarnation.0, lease_until))?;
        Ok(())
    }

    fn lease(&self, fork: Incarnation) -> Result<()> {
        self.put_tombstone(fork, self.loaded.now.secs() + FORK_LEASE_SECS)
    }

    fn copy_events(&mut self, piece: &CopiedEvents) -> Result<()> {
        let CopiedEvents { from, to, after, up_to } = *piece;
        self.lease(to)?;
        let version = self.loaded.sessions.get(&from).map_or(0, |it| it.info.last_sequence);
        self.index_rows(Log::of_session(from), version)?;
        self.tables.run("UPDATE session SET unindexed = '[]' WHERE id = ?1", [from.0])?;
        let events = format!(
            "INSERT INTO event (session, {EVENT_COLUMNS}) SELECT ?1, {EVENT_COLUMNS}
             FROM log_index i JOIN json_each(i.rows) JOIN event t ON t.id = json_each.value AND t.session = ?2
             WHERE i.node = ?2 AND i.version > ?3 AND i.version < ?4 + {LOG_STEP}
                 AND t.sequence > ?3 AND t.sequence <= ?4
             ORDER BY t.sequence"
        );
        let last = self.tables.value::<i64>("SELECT coalesce(max(id), 0) FROM event", ())?;
        self.unlisted += self.tables.run(&events, (to.0, from.0, after, up_to))? as u64;
        let copied = "SELECT id FROM event WHERE id > ?1 ORDER BY id";
        let copied: Vec<i64> = self.tables.all(copied, [last], |row| row.get(0))?;
        let mut version = after;
        for rows in copied.chunks(LOG_STEP) {
            version += rows.len() as u64;
            self.tables.index_run(to.0, version, rows)?;
        }
        // The first piece also copies the state at creation, which is the snapshot of version 0.
        let snapshots = "INSERT INTO snapshot SELECT ?1, version, state FROM snapshot
            WHERE node = ?2 AND version >= ?3 AND version <= ?4";
        let first = if after == 0 { 0 } else { after + 1 };
        self.tables.run(snapshots, (to.0, from.0, first, up_to)).map(drop)
    }

    /// Writes the rest of a fork whose row and state are written.
    fn finish_fork(&mut self, fork: Incarnation) -> Result<()> {
        self.tables.run("DELETE FROM tombstone WHERE id = ?1", [fork.0])?;
        let Some(session) = self.loaded.sessions.get(&fork) else { return Ok(()) };
        let node = Node::session(&session.info.key, fork);
        let clock = &*self.options.clock;
        let rows = Snapshot { tables: &self.tables, now: self.loaded.now, clock };
        let past = finish(past(&rows, &node, 0, session.info.last_sequence))?;
        for (name, (value, version)) in past {
            if value.is_none() {
                self.tables.run(PUT_REMOVED, (fork.0, name, version))?;
            }
        }
        Ok(())
    }
}
