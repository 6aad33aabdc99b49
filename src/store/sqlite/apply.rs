//! Writing a change set. Each of its parts is rows of one table. The index of event ids and the snapshots follow.

use rusqlite::{Connection, params};

use super::{
    known::{ENTRY_BYTES, id_hash},
    row::{labels_text, removed_text},
    schema::{KEY_STEP, NodeId, PURGED},
    snapshot::{Log, Past},
    writer::Writer,
};
use crate::{
    commit::{
        ChangeSet, CopiedEvents, EventRow, FORK_LEASE_SECS, KEY_BYTES, RequestRow, ScopeChange,
        ScopeKey, ScopeLogRow, SessionRow,
    },
    domain::{
        error::Error, id::InvocationId, json::Json, scope::ScopeKind, session::Incarnation,
        time::Time,
    },
};

/// Rows, and bytes of events, that one piece of a sweep removes: a millisecond or two of the writer's time.
const PURGED_ROWS: usize = 512;
const PURGED_BYTES: usize = 1 << 20;

/// Pages that one piece of a sweep gives back to the file system: more than it empties.
const FREED_PAGES: usize = 512;

/// Tables with short rows of a session, with the column of its number.
const TABLES: [(&str, &str); 6] = [
    ("event_key", "session"),
    ("marker", "session"),
    ("state", "node"),
    ("removed", "node"),
    ("request", "node"),
    ("tombstone", "id"),
];

impl Writer<'_> {
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
        } = changes;
        // First, so that an address is free for the next session there.
        for info in removed {
            let id = node(info.incarnation);
            self.writes.delete_session.execute([id])?;
            self.writes.put_tombstone.execute((id, PURGED))?;
            self.known.remove(&info.incarnation);
        }
        for row in sessions.values() {
            self.put_session(row)?;
        }
        for row in events {
            self.insert_event(row)?;
        }
        for (key, change) in scopes {
            self.put_scope(key, change)?;
        }
        for RequestRow { scope, id, fingerprint } in requests {
            let scope = self.node_of(scope)?;
            self.writes.insert_request.execute((
                scope,
                id.as_str(),
                fingerprint.0.to_le_bytes(),
            ))?;
        }
        for fork in begun_forks {
            self.lease(*fork)?;
        }
        for piece in copied {
            self.copy_events(piece)?;
        }
        for fork in finished_forks {
            self.finish_fork(*fork)?;
        }
        if let Some(incarnation) = purged {
            self.purge(node(*incarnation))?;
        }
        Ok(())
    }

    /// The number of a scope, which gets a row if it has none.
    fn node_of(&mut self, key: &ScopeKey) -> Result<NodeId, Error> {
        let (app, user) = match key {
            ScopeKey::Session(incarnation) => return Ok(node(*incarnation)),
            ScopeKey::Application(app) => (app, ""),
            ScopeKey::User(app, user) => (app, user.as_str()),
        };
        let known = self.loaded.scope(key).map_or(0, |scope| scope.row);
        if known != 0 {
            return Ok(known);
        }
        let id = self.loaded.take_id().cast_signed();
        self.writes.insert_scope.execute((id, app.as_str(), user))?;
        if let Some(scope) = self.loaded.scope_mut(key) {
            scope.row = id;
        }
        Ok(id)
    }

    fn put_session(&mut self, row: &SessionRow) -> Result<(), Error> {
        let SessionRow { is_new, metadata, info, state_bytes, initial } = row;
        let id = node(info.incarnation);
        let expire = info.expire_time;
        if !is_new {
            // Touches no index but those of lists.
            self.writes.touch_session.execute(params![
                id,
                info.last_sequence.cast_signed(),
                size(*state_bytes),
                info.last_event_time.secs(),
                info.last_event_time.nanos(),
                info.update_time.secs(),
                info.update_time.nanos(),
            ])?;
            if *metadata {
                self.writes.update_metadata.execute(params![
                    id,
                    expire.map(Time::secs),
                    expire.map(Time::nanos),
                    info.display_name.as_str(),
                    labels_text(&info.labels),
                ])?;
            }
            return Ok(());
        }
        let key = &info.key;
        let app = self.node_of(&ScopeKey::Application(key.app_name.clone()))?;
        let user = self.node_of(&ScopeKey::User(key.app_name.clone(), key.user_id.clone()))?;
        let origin = info.forked_from.as_ref();
        self.writes.insert_session.execute(params![
            id,
            app,
            user,
            key.user_id.as_str(),
            key.session_id.as_str(),
            info.last_sequence.cast_signed(),
            size(*state_bytes),
            info.last_event_time.secs(),
            info.last_event_time.nanos(),
            info.update_time.secs(),
            info.update_time.nanos(),
            info.create_time.secs(),
            info.create_time.nanos(),
            expire.map(Time::secs),
            expire.map(Time::nanos),
            info.created_versions.application.cast_signed(),
            info.created_versions.user.cast_signed(),
            info.display_name.as_str(),
            labels_text(&info.labels),
            origin.map(|origin| origin.key.session_id.as_str()),
            origin.map(|origin| origin.sequence.cast_signed()),
        ])?;
        if let Some(session) = self.loaded.sessions.get_mut(&info.incarnation) {
            session.own.row = id;
        }
        if !initial.is_empty() {
            let state = initial.iter().map(|(name, value)| (name.clone(), (value.clone(), 0)));
            let state = Past { state: state.collect(), ..Past::default() };
            self.writes.insert_snapshot.execute((id, 0, state.to_stored()?))?;
        }
        Ok(())
    }

    fn insert_event(&mut self, row: &EventRow) -> Result<(), Error> {
        let EventRow { incarnation, event, fingerprint } = row;
        let (session, sequence) = (node(*incarnation), event.sequence);
        let hash = id_hash(event.event_id.as_str());
        let rewind_to = event.rewind_to.map(u64::cast_signed);
        self.writes.insert_event.execute(params![
            session,
            hash,
            sequence.cast_signed(),
            event.event_id.as_str(),
            event.invocation_id.as_ref().map(InvocationId::as_str),
            event.author.as_str(),
            event.branch.as_str(),
            event.event_time.secs(),
            event.event_time.nanos(),
            event.commit_time.secs(),
            event.commit_time.nanos(),
            event.versions.application.cast_signed(),
            event.versions.user.cast_signed(),
            rewind_to,
            removed_text(&event.changes.remove),
            event.changes.set.as_ref().map(Json::as_str),
            event.body.as_ref().map(Json::as_str),
            fingerprint.0.to_le_bytes(),
        ])?;
        if let Some(to) = rewind_to {
            self.writes.insert_marker.execute((session, sequence.cast_signed(), to))?;
        }
        if let Some(known) = self.known.get_mut(incarnation) {
            known.add(hash, sequence);
            self.grown += ENTRY_BYTES;
        }
        self.index_step(session, sequence)
    }

    /// Indexes the ids of a step of events that ends with this one.
    fn index_step(&mut self, session: NodeId, sequence: u64) -> Result<(), Error> {
        if sequence.is_multiple_of(KEY_STEP) {
            let step = (session, (sequence - KEY_STEP).cast_signed(), sequence.cast_signed());
            self.writes.insert_keys.execute(step)?;
        }
        Ok(())
    }

    fn put_scope(&mut self, key: &ScopeKey, change: &ScopeChange) -> Result<(), Error> {
        let ScopeChange { before, version, state_bytes, state, log } = change;
        let node = self.node_of(key)?;
        for row in log {
            self.insert_log(node, key.kind(), row)?;
        }
        for (name, (value, version)) in state {
            let version = version.cast_signed();
            self.grown += KEY_BYTES + name.len() + value.as_ref().map_or(0, Json::len);
            match value {
                Some(value) => {
                    let row = (node, &**name, value.as_str(), version);
                    if self.writes.update_state.execute(row)? == 0 {
                        self.writes.insert_state.execute(row)?;
                        self.writes.delete_removed.execute((node, &**name))?;
                    }
                }
                None => {
                    self.writes.delete_state.execute((node, &**name))?;
                    self.writes.put_removed.execute((node, &**name, version))?;
                }
            }
        }
        let log = Log { node, kind: key.kind(), version: *version };
        self.snapshot_if_due(log, *before, *state_bytes)
    }

    fn insert_log(
        &mut self,
        node: NodeId,
        kind: ScopeKind,
        row: &ScopeLogRow,
    ) -> Result<(), Error> {
        let ScopeLogRow { version, commit_time, author, source, changes, state_bytes } = row;
        // A user's log is that user's.
        let user = source.as_ref().filter(|_| kind == ScopeKind::Application);
        self.writes.insert_log.execute(params![
            node,
            version.cast_signed(),
            size(*state_bytes),
            commit_time.secs(),
            commit_time.nanos(),
            author.as_str(),
            source.as_ref().map(|source| self::node(source.incarnation)),
            user.map(|source| source.key.user_id.as_str()),
            source.as_ref().map(|source| source.key.session_id.as_str()),
            source.as_ref().map(|source| source.sequence.cast_signed()),
            removed_text(&changes.remove),
            changes.set.as_ref().map(Json::as_str),
        ])?;
        Ok(())
    }

    fn lease(&mut self, fork: Incarnation) -> Result<(), Error> {
        let until = self.loaded.now.secs() + FORK_LEASE_SECS;
        self.writes.put_tombstone.execute((node(fork), until))?;
        Ok(())
    }

    fn copy_events(&mut self, piece: &CopiedEvents) -> Result<(), Error> {
        let CopiedEvents { from, to, after, up_to } = *piece;
        self.lease(to)?;
        let (from, to) = (node(from), node(to));
        let range = (to, from, after.cast_signed(), up_to.cast_signed());
        self.writes.copy_events.execute(range)?;
        self.writes.copy_markers.execute(range)?;
        // The first piece also copies the state at creation, which is the snapshot of version 0.
        let snapshots_after = if after == 0 { -1 } else { after.cast_signed() };
        self.writes.copy_snapshots.execute((to, from, snapshots_after, up_to.cast_signed()))?;
        for sequence in after + 1..=up_to {
            self.index_step(to, sequence)?;
        }
        Ok(())
    }

    /// Writes the rest of a fork whose row and state are written.
    fn finish_fork(&mut self, fork: Incarnation) -> Result<(), Error> {
        let id = node(fork);
        self.writes.delete_tombstone.execute([id])?;
        let Some(session) = self.loaded.sessions.get(&fork) else { return Ok(()) };
        let version = session.info.last_sequence;
        let log = Log { node: id, kind: ScopeKind::Session, version };
        for (name, version) in self.reads.past(log, version)?.removed {
            self.writes.put_removed.execute((id, &*name, version.cast_signed()))?;
        }
        Ok(())
    }

    /// Removes some rows of a session that is gone, and its tombstone when nothing else is left.
    fn purge(&mut self, id: NodeId) -> Result<(), Error> {
        // A fork cannot go on without these rows.
        self.writes.put_tombstone.execute((id, PURGED))?;
        let Self { connection, reads, writes, .. } = self;
        for (sizes, delete) in [
            (&mut reads.event_sizes, &mut writes.delete_events),
            (&mut reads.snapshot_sizes, &mut writes.delete_snapshots),
        ] {
            let mut rows = sizes.query((id, -1, i64::MAX, PURGED_ROWS as i64))?;
            let (mut last, mut bytes) = (None, 0);
            while bytes < PURGED_BYTES
                && let Some(row) = rows.next()?
            {
                last = Some(row.get::<_, i64>(0)?);
                bytes += super::row::bytes(row, 1)?;
            }
            drop(rows);
            if let Some(last) = last {
                delete.execute((id, last))?;
                return free_pages(connection);
            }
        }
        for (table, column) in TABLES {
            let delete = match table {
                "tombstone" => format!("DELETE FROM {table} WHERE {column} = ?1"),
                _ => {
                    let order = match table {
                        "event_key" => "id_hash, sequence",
                        "marker" => "sequence",
                        "request" => "request_id",
                        _ => "name",
                    };
                    format!(
                        "DELETE FROM {table} WHERE {column} = ?1 AND ({order}) IN
                         (SELECT {order} FROM {table} WHERE {column} = ?1 LIMIT {PURGED_ROWS})"
                    )
                }
            };
            if self.connection.prepare_cached(&delete)?.execute([id])? == PURGED_ROWS {
                break;
            }
        }
        free_pages(self.connection)
    }
}

/// Gives pages that nothing uses back to the file system.
fn free_pages(connection: &Connection) -> Result<(), Error> {
    let pragma = format!("PRAGMA incremental_vacuum({FREED_PAGES})");
    let mut statement = connection.prepare_cached(&pragma)?;
    let mut rows = statement.query(())?;
    while rows.next()?.is_some() {}
    Ok(())
}

fn node(incarnation: Incarnation) -> NodeId {
    incarnation.0.cast_signed()
}

fn size(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
