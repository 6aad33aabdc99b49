//! What follows a position, for watches, and how a key came to its value.

use std::collections::HashMap;

use rusqlite::OptionalExtension;

use super::{
    fault::Outcome,
    head::{LastRows, Walk},
    history::{Log, newest_in},
    row::{self, EventReader},
    schema::NodeId,
    statements::Reads,
};
use crate::{
    domain::{
        Version,
        error::Error,
        event::Changes,
        id::{AppName, Author, SessionId, UserId},
        json::{Json, ObjectWriter},
        limits::PAGE_SCANNED,
        scope::{Scope, ScopeKind, SessionKey, StateKey},
        session::Incarnation,
        time::Time,
    },
    store::{KeyChange, KeyChangePage, KeyChangeQuery, ScopeChange, WatchPage, WatchQuery},
};

/// What is left of a page.
struct Room {
    items: usize,
    bytes: usize,
    rows: usize,
    empty: bool,
}

impl Room {
    /// Takes room for an item; the first one always fits.
    fn take(&mut self, bytes: usize) -> bool {
        if self.items == 0 || (bytes > self.bytes && !self.empty) {
            return false;
        }
        self.items -= 1;
        self.bytes = self.bytes.saturating_sub(bytes);
        self.empty = false;
        true
    }
}

/// Where a log ends.
struct End {
    log: Log,
    last: LastRows,
    /// The newest change of each key that is not indexed yet, once one was asked for.
    newest: Option<HashMap<Box<str>, Version>>,
}

impl End {
    /// The newest version that changed a key.
    fn newest(&mut self, reads: &mut Reads<'_>, name: &str) -> rusqlite::Result<Option<Version>> {
        let newest = match &mut self.newest {
            Some(newest) => newest,
            none => none.insert(newest_in(reads.tail(self.log, &self.last, Version::MAX)?)),
        };
        match newest.get(name) {
            Some(version) => Ok(Some(*version)),
            None => reads.newest_indexed(self.log.node, name, self.log.version),
        }
    }
}

impl Reads<'_> {
    /// Reads what happened in a scope after a position.
    pub(super) fn read_changes(&mut self, query: &WatchQuery) -> Outcome<WatchPage> {
        let WatchQuery { scope, position: from, max_items, max_bytes, now } = query;
        let mut page = WatchPage {
            events: Vec::new(),
            changes: Vec::new(),
            position: *from,
            complete: false,
            expire_time: None,
        };
        let mut room =
            Room { items: *max_items, bytes: *max_bytes, rows: PAGE_SCANNED, empty: true };
        let mut own = None;
        let (app, user) = match scope {
            Scope::Session(key) => {
                let found = self.live(key, *now)?;
                if found.info.incarnation != from.incarnation {
                    return Err(Error::not_found(key).into());
                }
                page.expire_time = found.info.expire_time;
                if !self.events_after(found.id(), found.info.last_sequence, &mut page, &mut room)? {
                    return Ok(page);
                }
                own = Some(found.id());
                (Some(found.app), Some(found.user))
            }
            Scope::User(app, user) => (self.scope_id(app, None)?, self.scope_id(app, Some(user))?),
            Scope::Application(app) => (self.scope_id(app, None)?, None),
        };
        page.complete = true;
        for (kind, node) in [(ScopeKind::Application, app), (ScopeKind::User, user)] {
            let Some(node) = node else {
                continue;
            };
            page.complete = self.scope_changes_after(node, kind, own, &mut page, &mut room)?;
            if !page.complete {
                break;
            }
        }
        Ok(page)
    }

    /// Puts events into the page; whether all are there.
    fn events_after(
        &mut self,
        session: NodeId,
        last: u64,
        page: &mut WatchPage,
        room: &mut Room,
    ) -> Outcome<bool> {
        let after = page.position.sequence;
        if after >= last {
            return Ok(true);
        }
        let visible = self.visible(session, last)?;
        let mut reader = EventReader::default();
        let rows = self.last_rows(session)?;
        let walk = Walk { range: &mut self.events_up, one: &mut self.event, descending: false };
        walk.rows(session, &rows, (after, last), |row| {
            let rewound = !visible.contains(row::count(row, 0)?);
            let event = reader.event(row, rewound)?;
            if !room.take(event.bytes()) {
                return Ok(false);
            }
            page.position.sequence = event.sequence;
            page.events.push(event);
            Ok(true)
        })
    }

    /// Puts changes of one wider scope into the page; whether all are there.
    fn scope_changes_after(
        &mut self,
        node: NodeId,
        kind: ScopeKind,
        own: Option<NodeId>,
        page: &mut WatchPage,
        room: &mut Room,
    ) -> rusqlite::Result<bool> {
        let last = self.last_rows(node)?;
        let log = Log { node, kind, version: last.version() };
        let mut end = End { log, last, newest: None };
        let versions = &mut page.position.versions;
        let at = match kind {
            ScopeKind::Application => &mut versions.application,
            ScopeKind::User | ScopeKind::Session => &mut versions.user,
        };
        while *at < log.version {
            if room.rows == 0 {
                return Ok(false);
            }
            room.rows -= 1;
            let version = *at + 1;
            let row = match end.last.row_of(version) {
                Some(row) => row,
                None => self.row_of(node, version)?,
            };
            let (changes, commit_time, source) = self.log.query_row([row], |row| {
                let changes =
                    Changes { remove: row::removed(row, 1)?, set: row::optional_json(row, 2)? };
                Ok((changes, row::time(row, 3)?, row.get::<_, Option<NodeId>>(5)?))
            })?;
            let theirs = own.is_none() || source != own;
            let newest = match theirs {
                true => self.still_newest(&mut end, version, changes, room)?,
                false => Changes::default(),
            };
            if !newest.is_empty() {
                if !room.take(newest.text_len()) {
                    return Ok(false);
                }
                page.changes.push(ScopeChange {
                    scope: kind,
                    version,
                    changes: newest,
                    commit_time,
                });
            }
            *at = version;
        }
        Ok(true)
    }

    /// Of what a version changed, the keys that nothing has changed since. Each of them is looked at, which counts as a row.
    fn still_newest(
        &mut self,
        end: &mut End,
        version: Version,
        changes: Changes,
        room: &mut Room,
    ) -> rusqlite::Result<Changes> {
        if version == end.log.version {
            return Ok(changes);
        }
        let members = changes.set.as_ref().map(Json::members).unwrap_or_default();
        room.rows = room.rows.saturating_sub(members.len() + changes.remove.len());
        let mut kept = Vec::with_capacity(members.len());
        for (key, value) in &members {
            let key = StateKey::from_stored(key.as_str());
            let current =
                self.state_version.query_row((end.log.node, key.name()), |row| row::count(row, 0));
            if current.optional()? == Some(version) {
                kept.push((key, value));
            }
        }
        let mut remove = Vec::new();
        for key in changes.remove {
            if end.newest(self, key.name())? == Some(version) {
                remove.push(key);
            }
        }
        let set = if kept.len() == members.len() {
            changes.set
        } else if kept.is_empty() {
            None
        } else {
            let mut object = ObjectWriter::new();
            for (key, value) in kept {
                object.member("", key.as_str(), value.as_str());
            }
            Some(object.finish())
        };
        Ok(Changes { set, remove })
    }

    /// Lists how a key came to its value, newest first.
    pub(super) fn list_key_changes(&mut self, query: &KeyChangeQuery) -> Outcome<KeyChangePage> {
        let KeyChangeQuery { scope, key, before, max_items, max_bytes, now } = query;
        let mut page =
            KeyChangePage { changes: Vec::new(), more: false, incarnation: Incarnation(0) };
        let session = match scope {
            Scope::Session(address) => Some(self.live(address, *now)?),
            Scope::User(..) | Scope::Application(_) => None,
        };
        let app = scope.app_name();
        let log = match (key.scope(), &session) {
            (Some(ScopeKind::Session), Some(found)) => {
                page.incarnation = found.info.incarnation;
                found.log()
            }
            (Some(kind @ ScopeKind::User), _) => {
                let node = match scope.user_id() {
                    None => None,
                    Some(user) => self.scope_id(app, Some(user))?,
                };
                let Some(node) = node else {
                    return Ok(page);
                };
                Log { node, kind, version: self.scope_head(Some(node))?.version }
            }
            (Some(kind @ ScopeKind::Application), _) => {
                let Some(node) = self.scope_id(app, None)? else {
                    return Ok(page);
                };
                Log { node, kind, version: self.scope_head(Some(node))?.version }
            }
            (Some(ScopeKind::Session), None) | (None, _) => return Ok(page),
        };
        let mut room =
            Room { items: *max_items, bytes: *max_bytes, rows: PAGE_SCANNED, empty: true };
        let before = before.unwrap_or(Version::MAX);
        let last = self.last_rows(log.node)?;
        let tail = self.tail(log, &last, before.saturating_sub(1))?;
        let limit = max_items.saturating_add(1);
        for version in self.changes_of(log, &tail, key.name(), before, limit)? {
            let own = session.as_ref().map(|found| &found.info.key);
            let change = self.key_change(log, key, version, app, scope.user_id(), own)?;
            if !room.take(change.value.as_ref().map_or(0, Json::len)) {
                page.more = true;
                return Ok(page);
            }
            page.changes.push(change);
        }
        if let (Some(found), ScopeKind::Session) = (&session, log.kind)
            && before > 0
        {
            let initial = self.initial_state(log.node)?;
            if let Some((_, value)) = initial.into_iter().find(|(name, _)| name == key.name()) {
                page.more = !room.take(value.len());
                if !page.more {
                    page.changes.push(KeyChange {
                        version: 0,
                        value: Some(value),
                        commit_time: found.info.create_time,
                        author: Author::from_stored(""),
                        source: None,
                    });
                }
            }
        }
        Ok(page)
    }

    /// What one version of a log made of a key. `own` is the session where the log is one's.
    fn key_change(
        &mut self,
        log: Log,
        key: &StateKey,
        version: Version,
        app: &AppName,
        user: Option<&UserId>,
        own: Option<&SessionKey>,
    ) -> rusqlite::Result<KeyChange> {
        let change = |row: &rusqlite::Row<'_>| -> rusqlite::Result<(Option<Json>, Author, Time)> {
            let set = row::optional_json(row, 0)?;
            let members = set.as_ref().map(Json::members).unwrap_or_default();
            let value = members.into_iter().find(|(name, _)| name == key.as_str());
            let author = Author::from_stored(row::text(row, 1)?);
            Ok((value.map(|(_, value)| value), author, row::time(row, 2)?))
        };
        let row = self.row_of(log.node, version)?;
        let ((value, author, commit_time), source) = if log.kind == ScopeKind::Session {
            let found = self.event_change.query_row([row], change)?;
            (found, own.map(|key| (key.clone(), version)))
        } else {
            self.log_change.query_row([row], |row| {
                let user = match row::optional_text(row, 4)? {
                    Some(text) => Some(UserId::from_stored(text)),
                    None => user.cloned(),
                };
                let session = row::optional_text(row, 5)?.map(SessionId::from_stored);
                let source = match (user, session) {
                    (Some(user_id), Some(session_id)) => {
                        let key = SessionKey { app_name: app.clone(), user_id, session_id };
                        Some((key, row::count(row, 6)?))
                    }
                    _ => None,
                };
                Ok((change(row)?, source))
            })?
        };
        Ok(KeyChange { version, value, commit_time, author, source })
    }
}
