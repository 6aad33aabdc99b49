//! Changes behind a position, for watches, and the changes of a key.

use rusqlite::{OptionalExtension, Row};

use super::{
    row::{self, EventReader},
    schema::NodeId,
    snapshot::Log,
    statements::Reads,
};
use crate::{
    domain::{
        Sequence, Version,
        delta::changes,
        error::Error,
        event::Changes,
        id::{AppName, Author, SessionId, UserId},
        json::Json,
        limits::PAGE_SCANNED,
        scope::{Scope, ScopeKind, SessionKey, StateKey},
        session::Incarnation,
        time::Time,
    },
    store::{
        KeyChange, KeyChangePage, KeyChangeQuery, ScopeChange, WatchPage, WatchQuery,
        budget::Budget,
    },
};

impl Reads<'_> {
    /// Reads what happened in a scope after a position.
    pub(super) fn read_changes(
        &mut self,
        query: &WatchQuery,
        now: Time,
    ) -> Result<WatchPage, Error> {
        let WatchQuery { scope, position: from, max_items, max_bytes } = query;
        let mut page = WatchPage {
            events: Vec::new(),
            changes: Vec::new(),
            position: *from,
            complete: false,
            expire_time: None,
        };
        let mut budget = Budget::new(*max_items, *max_bytes);
        let mut rows_left = PAGE_SCANNED;
        let mut own = None;
        let (app, user) = match scope {
            Scope::Session(key) => {
                let found = self.live(key, now)?;
                if found.info.incarnation != from.incarnation {
                    return Err(Error::not_found(key));
                }
                page.expire_time = found.info.expire_time;
                if !self.events_after(
                    found.id(),
                    found.info.last_sequence,
                    &mut page,
                    &mut budget,
                )? {
                    return Ok(page);
                }
                own = Some(found.id());
                (Some(found.app), Some(found.user))
            }
            Scope::User(app, _) | Scope::Application(app) => {
                let mut node = |user| Ok::<_, Error>(self.scope_row(app, user)?.map(|row| row.0));
                let user = scope.user_id().map(|user| node(Some(user))).transpose()?.flatten();
                (node(None)?, user)
            }
        };
        page.complete = true;
        for (kind, node) in [(ScopeKind::Application, app), (ScopeKind::User, user)] {
            if let Some(node) = node
                && page.complete
            {
                page.complete = self.scope_changes_after(
                    node,
                    kind,
                    own,
                    &mut page,
                    &mut budget,
                    &mut rows_left,
                )?;
            }
        }
        Ok(page)
    }

    /// Puts events on the page; whether all are there.
    fn events_after(
        &mut self,
        session: NodeId,
        last: Sequence,
        page: &mut WatchPage,
        budget: &mut Budget,
    ) -> Result<bool, Error> {
        let after = page.position.sequence;
        if after >= last {
            return Ok(true);
        }
        let visible = self.visible(session, last)?;
        let mut reader = EventReader::default();
        let mut rows = self.events_up.query((session, after.cast_signed(), last.cast_signed()))?;
        while let Some(row) = rows.next()? {
            let sequence = row::count(row, 0)?;
            let event = reader.event(row, !visible.contains(sequence))?;
            if !budget.take(event.bytes()) {
                return Ok(false);
            }
            page.events.push(event);
            page.position.sequence = sequence;
        }
        Ok(true)
    }

    /// Puts changes of a wider scope on the page; whether all are there.
    fn scope_changes_after(
        &mut self,
        node: NodeId,
        kind: ScopeKind,
        own: Option<NodeId>,
        page: &mut WatchPage,
        budget: &mut Budget,
        rows_left: &mut usize,
    ) -> Result<bool, Error> {
        let versions = &mut page.position.versions;
        let at = match kind {
            ScopeKind::Application => &mut versions.application,
            ScopeKind::User | ScopeKind::Session => &mut versions.user,
        };
        let newest = self.version_of(node)?;
        let Self { scope_log, state_version, removed_version, .. } = self;
        let mut rows = scope_log.query((node, at.cast_signed()))?;
        while let Some(row) = rows.next()? {
            if *rows_left == 0 {
                return Ok(false);
            }
            *rows_left -= 1;
            let version = row::count(row, 0)?;
            let mut kept =
                Changes { remove: row::removed(row, 1)?, set: row::optional_json(row, 2)? };
            let source: Option<NodeId> = row.get(5)?;
            if own.is_some() && source == own {
                kept = Changes::default();
            } else if version < newest {
                // The keys that nothing has changed since. Each is looked up, which counts as a row.
                let mut results = Vec::new();
                for (key, value) in kept.set.as_ref().map(Json::members).unwrap_or_default() {
                    results.push((StateKey::from_stored(key), Some(value)));
                }
                results.extend(kept.remove.into_iter().map(|key| (key, None)));
                *rows_left = rows_left.saturating_sub(results.len());
                let mut newest = Vec::new();
                for (key, value) in results {
                    let lookup =
                        if value.is_some() { &mut *state_version } else { &mut *removed_version };
                    let last = lookup.query_row((node, key.name()), |row| row::count(row, 0));
                    if last.optional()? == Some(version) {
                        newest.push((key, value));
                    }
                }
                kept = changes(newest.iter());
            }
            if !kept.is_empty() {
                if !budget.take(kept.text_len()) {
                    return Ok(false);
                }
                let commit_time = row::time(row, 3)?;
                page.changes.push(ScopeChange { scope: kind, version, changes: kept, commit_time });
            }
            *at = version;
        }
        Ok(true)
    }

    /// Lists how a key came to its value, newest first.
    pub(super) fn list_key_changes(
        &mut self,
        query: &KeyChangeQuery,
        now: Time,
    ) -> Result<KeyChangePage, Error> {
        let KeyChangeQuery { scope, key, before, max_items, max_bytes } = query;
        let mut page =
            KeyChangePage { changes: Vec::new(), more: false, incarnation: Incarnation(0) };
        let session = match scope {
            Scope::Session(address) => Some(self.live(address, now)?),
            Scope::User(..) | Scope::Application(_) => None,
        };
        let log = match (key.scope(), &session) {
            (Some(ScopeKind::Session), Some(found)) => {
                page.incarnation = found.info.incarnation;
                found.log()
            }
            (Some(ScopeKind::Session), None) | (None, _) => return Ok(page),
            (Some(kind), _) => {
                let user = scope.user_id().filter(|_| kind == ScopeKind::User);
                if kind == ScopeKind::User && user.is_none() {
                    return Ok(page);
                }
                match self.scope_row(scope.app_name(), user)? {
                    None => return Ok(page),
                    Some((node, version, _)) => Log { node, kind, version },
                }
            }
        };
        let mut budget = Budget::new(*max_items, *max_bytes);
        let before = before.unwrap_or(Version::MAX);
        let limit = max_items.saturating_add(1);
        for version in self.changes_of(log, key.name(), before, limit)? {
            let change = match (&session, version) {
                (Some(found), 0) => KeyChange {
                    version,
                    value: self.past(log, 0)?.state.remove(key.name()).map(|(value, _)| value),
                    commit_time: found.info.create_time,
                    author: Author::from_stored(""),
                    source: None,
                },
                _ => self.key_change(log, key, version, scope)?,
            };
            if !budget.take(change.value.as_ref().map_or(0, Json::len)) {
                page.more = true;
                break;
            }
            page.changes.push(change);
        }
        Ok(page)
    }

    /// The change of a key by one version of a log.
    fn key_change(
        &mut self,
        log: Log,
        key: &StateKey,
        version: Version,
        scope: &Scope,
    ) -> rusqlite::Result<KeyChange> {
        let change = |row: &Row<'_>, source| {
            let set = row::optional_json(row, 0)?;
            let members = set.as_ref().map(Json::members).unwrap_or_default();
            let value = members.into_iter().find(|(name, _)| name == key.as_str());
            Ok(KeyChange {
                version,
                value: value.map(|(_, value)| value),
                author: Author::from_stored(row::text(row, 1)?),
                commit_time: row::time(row, 2)?,
                source,
            })
        };
        let at = (log.node, version.cast_signed());
        match (log.kind, scope) {
            (ScopeKind::Session, Scope::Session(own)) => {
                self.event_change.query_row(at, |row| change(row, Some((own.clone(), version))))
            }
            _ => self.scope_change.query_row(at, |row| {
                let source = source(row, scope.app_name(), scope.user_id())?;
                change(row, source)
            }),
        }
    }
}

/// The event that made a change of an application or a user. A user's log does not name that user.
fn source(
    row: &Row<'_>,
    app: &AppName,
    user: Option<&UserId>,
) -> rusqlite::Result<Option<(SessionKey, Sequence)>> {
    let user_id = match row::optional_text(row, 4)? {
        Some(text) => Some(UserId::from_stored(text)),
        None => user.cloned(),
    };
    let session_id = row::optional_text(row, 5)?.map(SessionId::from_stored);
    let (Some(user_id), Some(session_id)) = (user_id, session_id) else {
        return Ok(None);
    };
    let key = SessionKey { app_name: app.clone(), user_id, session_id };
    Ok(Some((key, row::count(row, 6)?)))
}
