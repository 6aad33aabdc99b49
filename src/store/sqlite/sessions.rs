//! Creating, changing and deleting sessions.

use rusqlite::{OptionalExtension, params};

use super::{
    fault::Outcome,
    find::lost,
    history::names_of,
    log::{LogRow, size},
    lookup::Found,
    node::{Node, Trio},
    row::labels_text,
    schema::NodeId,
    writer::Writer,
};
use crate::{
    domain::{
        delta::{KeyResult, changes_in},
        error::Error,
        event::ScopeVersions,
        id::Author,
        scope::{Scope, ScopeKind, SessionKey, SessionRef},
        session::{Incarnation, SessionInfo},
        time::Time,
    },
    store::{CreateSession, Created, OnExisting, SessionUpdate},
};

impl Writer<'_> {
    pub(super) fn create(&mut self, create: CreateSession) -> Outcome<Created> {
        let CreateSession { key, state, display_name, labels, expire_time, on_existing, now } =
            create;
        if let Some(id) = self.make_way(&key, now)? {
            return match on_existing {
                OnExisting::Refuse => Err(Error::SessionExists(key).into()),
                OnExisting::Return => {
                    let state = self.visible_from(id)?;
                    let (live, _, _) = self.cache.open(id).ok_or_else(lost)?;
                    Ok(Created { info: live.found.info.clone(), state, created: false })
                }
            };
        }
        let app = self.scope(&key.app_name, None)?;
        let user = self.scope(&key.app_name, Some(&key.user_id))?;
        let id = self.new_node()?;
        let results: Vec<KeyResult> =
            state.into_iter().map(|(key, value)| (key, Some(value))).collect();
        let scope = Scope::Session(key.clone());
        let mut own = Node::new(id, scope, 0, true);
        let trio = self.cache.open_scopes(app, Some(user)).ok_or_else(lost)?;
        let mut trio = Trio { own: Some(&mut own), ..trio };
        let sizes = trio.sizes_after(&mut self.reads, &results)??;
        for kind in [ScopeKind::Application, ScopeKind::User] {
            let changes = changes_in(&results, kind);
            if changes.is_empty() {
                continue;
            }
            let node = trio.node(kind);
            node.version += 1;
            node.bytes = sizes[kind as usize];
            let row = LogRow {
                version: node.version,
                time: now,
                author: &Author::from_stored(""),
                source: None,
                changes: &changes,
            };
            self.writes.store_log(node, &row, names_of(kind, &results))?;
            self.changed.push(node.id);
        }
        let initial = changes_in(&results, ScopeKind::Session).set;
        if let Some(initial) = &initial {
            self.writes.insert_initial.execute((id, initial.as_str()))?;
        }
        let bytes = sizes[ScopeKind::Session as usize];
        let versions = ScopeVersions {
            application: trio.node(ScopeKind::Application).version,
            user: trio.node(ScopeKind::User).version,
        };
        trio.put_all(results).for_each(drop);
        own.bytes = bytes;
        self.unwritten.extend([app, user, id]);
        let info = SessionInfo {
            key,
            incarnation: Incarnation(id.cast_unsigned()),
            last_sequence: 0,
            create_time: now,
            update_time: now,
            last_event_time: now,
            expire_time,
            display_name,
            labels,
            forked_from: None,
            created_versions: versions,
        };
        let found = Found { info: info.clone(), app, user, bytes };
        self.store_session(&found, bytes)?;
        self.cache.keep_session(found, own, false);
        self.changed.push(id);
        Ok(Created { info, state: self.visible_from(id)?, created: true })
    }

    /// Writes a session's row. `initial_bytes` is the size of the state that it was created with.
    pub(super) fn store_session(&mut self, found: &Found, initial_bytes: usize) -> Outcome<()> {
        let info = &found.info;
        let origin = info.forked_from.as_ref();
        self.writes.insert_session.execute(params![
            found.id(),
            found.app,
            found.user,
            info.key.user_id.as_str(),
            info.key.session_id.as_str(),
            info.last_event_time.secs(),
            info.last_event_time.nanos(),
            info.create_time.secs(),
            info.create_time.nanos(),
            info.update_time.secs(),
            info.update_time.nanos(),
            info.expire_time.map(Time::secs),
            info.expire_time.map(Time::nanos),
            info.created_versions.application.cast_signed(),
            info.created_versions.user.cast_signed(),
            size(initial_bytes),
            info.display_name.as_str(),
            labels_text(&info.labels),
            origin.map(|origin| origin.key.session_id.as_str()),
            origin.map(|origin| origin.sequence.cast_signed()),
        ])?;
        Ok(())
    }

    /// The live session of an address, open; one that has expired is deleted.
    pub(super) fn make_way(&mut self, key: &SessionKey, now: Time) -> Outcome<Option<NodeId>> {
        let found = match self.cache.find(key) {
            Some(live) => Some(live.found.clone()),
            None => self.reads.session(key)?,
        };
        match found {
            None => Ok(None),
            Some(found) if found.info.expired(now) => {
                self.bury(&found)?;
                Ok(None)
            }
            Some(_) => self.find(&SessionRef::Full(key.clone()), now).map(Some),
        }
    }

    pub(super) fn update_session(&mut self, update: SessionUpdate) -> Outcome<SessionInfo> {
        let SessionUpdate { key, display_name, labels, expire_time, now } = update;
        let id = self.find(&SessionRef::Full(key), now)?;
        let (live, _, _) = self.cache.open(id).ok_or_else(lost)?;
        let info = &mut live.found.info;
        info.update_time = info.update_time.max(now);
        info.display_name = display_name.unwrap_or_else(|| info.display_name.clone());
        info.labels = labels.unwrap_or_else(|| info.labels.clone());
        info.expire_time = expire_time.unwrap_or(info.expire_time);
        self.writes.update_session.execute(params![
            id,
            info.update_time.secs(),
            info.update_time.nanos(),
            info.expire_time.map(Time::secs),
            info.expire_time.map(Time::nanos),
            info.display_name.as_str(),
            labels_text(&info.labels),
        ])?;
        let info = info.clone();
        self.changed.push(id);
        Ok(info)
    }

    pub(super) fn delete(&mut self, key: &SessionKey, now: Time) -> Outcome<bool> {
        let found = match self.cache.find(key) {
            Some(live) => Some(live.found.clone()),
            None => self.reads.session(key)?,
        };
        // One that has expired is not there any more; the sweep sees to its rows.
        match found.filter(|found| !found.info.expired(now)) {
            None => Ok(false),
            Some(found) => self.bury(&found).map(|()| true),
        }
    }

    /// Takes a session away from everybody at once, and leaves its rows to the sweep.
    pub(super) fn bury(&mut self, found: &Found) -> Outcome<()> {
        let id = found.id();
        // The sweep finds its events through its head.
        self.flush()?;
        self.writes.delete_session.execute([id])?;
        self.writes.delete_moved.execute((found.app, found.user, id))?;
        self.writes.insert_garbage.execute([id])?;
        self.cache.forget(id);
        self.gone.push(found.info.key.clone());
        Ok(())
    }

    /// A life of a session, as the database has it.
    pub(super) fn still_there(&mut self, id: NodeId) -> Outcome<bool> {
        let found = self.reads.session_exists.query_row([id], |_| Ok(())).optional()?;
        Ok(found.is_some())
    }
}
