//! Reading sessions and state, now or as of an event, and lists of sessions in the order of their last events.

use std::collections::BTreeSet;

use rusqlite::Params;

use super::{
    connection::Tables,
    events::Search,
    log::Log,
    prelude::*,
    row::{self, Nodes, SESSION_COLUMNS, SESSION_WIDTH, SessionRecord},
};
use crate::{
    commit::{EventRow, only_live},
    store::{
        Bases, Budget, SessionOrder, SessionPage, SessionQuery, SessionView, SessionsQuery,
        StateQuery, StateView, rows::EVENT_COLUMNS,
    },
};

/// The name of a session's application: a column behind [`SESSION_COLUMNS`].
const APP_NAME: &str = "(SELECT app FROM scope WHERE scope.id = app_scope)";

impl Tables {
    /// The number of an application (`user` is `None`) or of a user, if it has a row.
    pub(super) fn scope_id(&self, app: &AppName, user: Option<&UserId>) -> Result<Option<NodeId>> {
        let user = user.map_or("", UserId::as_str);
        self.value("SELECT id FROM scope WHERE app = ?1 AND user = ?2", (app.as_str(), user))
    }

    /// The version of an application or a user.
    fn version_of(&self, scope: NodeId) -> Result<Version> {
        Ok(self.version_and_base(scope)?.0)
    }

    /// The version of an application or a user, and the one from which its life went on.
    fn version_and_base(&self, scope: NodeId) -> Result<(Version, Version)> {
        let sql = "SELECT version, base FROM scope WHERE id = ?1";
        let found = self.one(sql, [scope], |row| row.all())?;
        found.ok_or_else(|| Error::damaged(Damage::Row, format!("scope {scope} is missing")))
    }

    /// The session at an address of a user, expired or not.
    pub(super) fn session_of(
        &self,
        user: NodeId,
        key: &SessionKey,
    ) -> Result<Option<SessionRecord>> {
        let sql = format!(
            "SELECT {SESSION_COLUMNS} FROM session WHERE user_scope = ?1 AND session_id = ?2"
        );
        self.one(&sql, (user, key.session_id.as_str()), |row| {
            row::session(row, key.app_name.clone())
        })
    }

    /// Goes through the live sessions with an id until `take` refuses one. It gets addresses and [`SESSION_COLUMNS`].
    pub(super) fn each_live(
        &self,
        id: &SessionId,
        now: Time,
        mut take: impl FnMut(SessionKey, &Row<'_>) -> Result<bool>,
    ) -> Result<()> {
        let sql = format!(
            "SELECT {SESSION_COLUMNS}, {APP_NAME} FROM session WHERE session_id = ?1
                 AND (expire_secs IS NULL OR (expire_secs, expire_nanos) > (?2, ?3))"
        );
        self.each(&sql, (id.as_str(), now.secs(), now.nanos()), |row| {
            let (app_name, user_id) = (row.get(SESSION_WIDTH)?, row.get(3)?);
            take(SessionKey { app_name, user_id, session_id: id.clone() }, row)
        })?;
        Ok(())
    }

    /// Sessions of any application.
    pub(super) fn sessions(
        &self,
        condition: &str,
        parameters: impl Params,
    ) -> Result<Vec<SessionRecord>> {
        let sql = format!("SELECT {SESSION_COLUMNS}, {APP_NAME} FROM session WHERE {condition}");
        self.all(&sql, parameters, |row| row::session(row, row.get(SESSION_WIDTH)?))
    }

    /// The live session that is meant. Errors: [`Error::SessionNotFound`], [`Error::AmbiguousSessionId`].
    fn live_session(&self, session: &SessionRef, now: Time) -> Result<SessionRecord> {
        match session {
            SessionRef::Full(key) => self.live(key, now),
            SessionRef::Bare(id, sight) if sight.sees_nothing() => Err(Error::not_found_bare(id)),
            SessionRef::Bare(id, sight) => {
                let mut live = Vec::new();
                self.each_live(id, now, |key, row| {
                    if key.is_seen(sight) {
                        live.push(row::session(row, key.app_name)?);
                    }
                    // Two are enough to see that the id is ambiguous.
                    Ok(live.len() < 2)
                })?;
                only_live(id, live.into_iter())
            }
        }
    }

    pub(super) fn live(&self, key: &SessionKey, now: Time) -> Result<SessionRecord> {
        // No node has the number 0.
        let user = self.scope_id(&key.app_name, Some(&key.user_id))?.unwrap_or(0);
        let found = self.session_of(user, key)?.filter(|found| !found.info.expired(now));
        found.ok_or_else(|| Error::not_found(key))
    }

    /// The nodes that are visible from a scope, and the session, if it is one. Errors: [`Error::SessionNotFound`].
    pub(super) fn visible_from(
        &self,
        scope: &Scope,
        now: Time,
    ) -> Result<(Nodes, Option<SessionRecord>)> {
        if let Scope::Session(key) = scope {
            let found = self.live(key, now)?;
            return Ok((found.nodes(), Some(found)));
        }
        let app = self.scope_id(scope.app_name(), None)?;
        let user = scope.user_id().map(|user| self.scope_id(scope.app_name(), Some(user)));
        Ok(([app, user.transpose()?.flatten(), None], None))
    }

    /// The markers of a session's rewinds up to an event.
    pub(super) fn markers(&self, session: NodeId, as_of: Sequence) -> Result<Vec<Marker>> {
        let sql = "SELECT sequence, rewind_to FROM event
            WHERE session = ?1 AND sequence <= ?2 AND rewind_to IS NOT NULL ORDER BY sequence";
        let marker = |row: &Row<'_>| Ok(Marker { sequence: row.get(0)?, to: row.get(1)? });
        self.all(sql, (session, as_of), marker)
    }

    /// The events that rewinds leave visible as of an event.
    pub(super) fn visible(&self, session: NodeId, as_of: Sequence) -> Result<Visible> {
        Ok(Visible::new(&self.markers(session, as_of)?, as_of))
    }

    /// An event of a session.
    pub(super) fn event(&self, incarnation: Incarnation, at: Sequence) -> Result<Option<EventRow>> {
        let mut found = None;
        let range = (at.saturating_sub(1), at);
        self.each_row(Log::of_session(incarnation), EVENT_COLUMNS, range, false, |row| {
            found = Some(row::event_row(row, incarnation)?);
            Ok(true)
        })?;
        Ok(found)
    }

    /// The event of a session that has an id.
    pub(super) fn event_with_id(
        &self,
        incarnation: Incarnation,
        id: &EventId,
    ) -> Result<Option<EventRow>> {
        let sql = format!("SELECT {EVENT_COLUMNS} FROM event WHERE event_id = ?2 AND session = ?1");
        self.one(&sql, (incarnation.0, id.as_str()), |row| row::event_row(row, incarnation))
    }

    /// A node's state now, by name.
    fn state_of(&self, node: NodeId, kind: ScopeKind) -> Result<Vec<StateEntry>> {
        let sql = "SELECT name, value, version FROM state WHERE node = ?1 ORDER BY name";
        let mut key = kind.prefix().to_owned();
        let mut entries = Vec::new();
        self.each(sql, [node], |row| {
            key.truncate(kind.prefix().len());
            key.push_str(row.text(0)?.unwrap_or_default());
            let (key, value) = (StateKey::from_stored(&*key), row::value(row, 1)?);
            if kind == ScopeKind::Session && value.is_damaged() {
                return Err(Error::damaged_key(&key));
            }
            entries.push(StateEntry { key, value, version: row.get(2)? });
            Ok(true)
        })?;
        Ok(entries)
    }

    /// Everything that is visible from some nodes now.
    pub(super) fn merged(&self, nodes: Nodes) -> Result<State> {
        let mut entries = Vec::new();
        for (kind, node) in ScopeKind::ALL.into_iter().zip(nodes) {
            entries.extend(node.map_or(Ok(Vec::new()), |node| self.state_of(node, kind))?);
        }
        Ok(State(entries))
    }

    /// Everything that was visible from a session right after an event, which left these versions.
    fn merged_as_of(
        &self,
        found: &SessionRecord,
        at: Sequence,
        wide: ScopeVersions,
    ) -> Result<State> {
        let mut entries = Vec::new();
        for (kind, node, at, newest) in [
            (ScopeKind::Application, found.app, wide.application, self.version_of(found.app)?),
            (ScopeKind::User, found.user, wide.user, self.version_of(found.user)?),
            (ScopeKind::Session, found.id(), at, found.info.last_sequence),
        ] {
            if at >= newest {
                match self.state_of(node, kind) {
                    // The log has it as well.
                    Err(Error::Damaged(..)) => {}
                    now => {
                        entries.extend(now?);
                        continue;
                    }
                }
            }
            let past = self.past(Log { node, kind }, at)?.into_iter();
            entries.extend(past.filter_map(|(name, (value, version))| {
                Some(StateEntry { key: StateKey::in_scope(kind, &name), value: value?, version })
            }));
        }
        Ok(State(entries))
    }

    /// Reads a session, and begins to read its events.
    pub(super) fn read_session(
        &self,
        query: SessionQuery,
        now: Time,
    ) -> Result<(SessionView, Option<Search>)> {
        let SessionQuery { session, as_of, with_state, events } = query;
        let mut found = self.live_session(&session, now)?;
        let last_sequence = found.info.last_sequence;
        if let Some(asked) = as_of.filter(|&asked| asked > last_sequence) {
            return Err(Error::BeyondLastSequence { asked, last_sequence });
        }
        let mut state = None;
        if let Some(at) = as_of {
            let event = self.event(found.info.incarnation, at)?.map(|stored| stored.event);
            let versions = event.as_ref().map_or(found.info.created_versions, |it| it.versions);
            if with_state {
                state = Some(self.merged_as_of(&found, at, versions)?);
            }
            let create_time = found.info.create_time;
            found.info.last_event_time = event.map_or(create_time, |event| event.event_time);
            found.info.last_sequence = at;
        } else if with_state {
            state = Some(self.merged(found.nodes())?);
        }
        let mut search = events.map(|selection| Search::new(&found.info, selection));
        let events = match &mut search {
            Some(search) => search.step(self)?,
            None => None,
        };
        Ok((SessionView { info: found.info, state, events }, search))
    }

    pub(super) fn read_state(&self, query: &StateQuery, now: Time) -> Result<StateView> {
        let (nodes, found) = self.visible_from(&query.scope, now)?;
        let (versions, bases) = self.versions_and_bases(nodes)?;
        let info = found.map(|found| found.info);
        let position = Position {
            incarnation: info.as_ref().map_or(Incarnation(0), |info| info.incarnation),
            sequence: info.as_ref().map_or(0, |info| info.last_sequence),
            versions,
        };
        let state = match &query.keys {
            None => self.merged(nodes)?,
            Some(keys) => self.some_keys(nodes, keys)?,
        };
        Ok(StateView { state, position, info, bases })
    }

    /// Of the application and the user.
    pub(super) fn versions_and_bases(&self, nodes: Nodes) -> Result<(ScopeVersions, Bases)> {
        let found = nodes.map(|node| node.map_or(Ok((0, 0)), |it| self.version_and_base(it)));
        let [application, user, _] = found;
        let (application, user) = (application?, user?);
        let versions = ScopeVersions { application: application.0, user: user.0 };
        let base = |(version, base)| Bases::of(version, base);
        let bases = ScopeVersions { application: base(application), user: base(user) };
        Ok((versions, Bases(bases)))
    }

    fn some_keys(&self, nodes: Nodes, keys: &[StateKey]) -> Result<State> {
        let mut entries = Vec::new();
        // The order of keys is that of state, in which each comes once.
        for key in keys.iter().collect::<BTreeSet<_>>() {
            if let Some(node) = key.scope().and_then(|kind| nodes[kind as usize])
                && let Some((value, version)) = self.key(node, key.name())?
            {
                entries.push(StateEntry { key: key.clone(), value, version });
            }
        }
        Ok(State(entries))
    }

    /// A key's value and version.
    pub(super) fn key(&self, node: NodeId, name: &str) -> Result<Option<(Json, Version)>> {
        let sql = "SELECT value, version FROM state WHERE node = ?1 AND name = ?2";
        self.one(sql, (node, name), |row| Ok((row::value(row, 0)?, row.get(1)?)))
    }

    /// A page, which may be short, even empty, and have more behind it.
    pub(super) fn list_sessions(&self, query: &SessionsQuery, now: Time) -> Result<SessionPage> {
        let SessionsQuery { app_name, user_id, labels, order, after, .. } = query;
        let mut page = SessionPage { sessions: Vec::new(), rest: None };
        let Some(scope) = self.scope_id(app_name, user_id.as_ref())? else { return Ok(page) };
        // No id is empty.
        let (secs, nanos, user, session) = match (after, order) {
            (Some((time, user, session)), _) => {
                (time.secs(), time.nanos(), user.as_str(), session.as_str())
            }
            (None, SessionOrder::LeastRecent) => (i64::MIN, 0, "", ""),
            (None, SessionOrder::MostRecent) => (i64::MAX, 0, "", ""),
        };
        let mut budget = Budget::new(query.max_items, query.max_bytes);
        let mut scanned = 0;
        let mut last = None;
        let behind = (scope, secs, nanos, user, session, self.moved()?);
        let listed = self.each(&select_behind(query), behind, |row| {
            if scanned == PAGE_SCANNED {
                return Ok(false);
            }
            scanned += 1;
            let found = row::session(row, app_name.clone())?;
            let key = &found.info.key;
            let place = (found.info.last_event_time, key.user_id.clone(), key.session_id.clone());
            if !found.info.expired(now) && found.info.labels.contain(labels) {
                let state = query.with_state.then(|| self.merged(found.nodes())).transpose()?;
                if !budget.take(state.as_ref().map_or(0, State::text_len)) {
                    return Ok(false);
                }
                page.sessions.push((found.info, state));
            }
            last = Some(place);
            Ok(true)
        });
        let is_whole = match listed {
            // What lies before the damage is a page. The next one begins with the damage.
            Err(Error::Damaged(..)) if !page.sessions.is_empty() => false,
            listed => listed?,
        };
        page.rest = last.filter(|_| !is_whole);
        Ok(page)
    }
}

/// The sessions behind a place, without those that have moved, merged with those that have: `?6`. Ties ascend in either order.
fn select_behind(query: &SessionsQuery) -> String {
    // Of one user all have the same user id, which is not part of that index.
    let (scope, ties, after) = match query.user_id {
        None => ("app_scope", "user_id, session_id", "(?4, ?5)"),
        Some(_) => ("user_scope", "session_id", "?5"),
    };
    let (behind, direction) = match query.order {
        SessionOrder::LeastRecent => (">", "ASC"),
        SessionOrder::MostRecent => ("<", "DESC"),
    };
    let select = |secs: &str, nanos: &str| {
        format!(
            "SELECT {SESSION_COLUMNS}, {secs} AS place_secs, {nanos} AS place_nanos
             FROM session
             WHERE ({secs}, {nanos}) {behind}= (?2, ?3)
             AND (({secs}, {nanos}) {behind} (?2, ?3) OR ({ties}) > {after})"
        )
    };
    let listed = select("listed_secs", "listed_nanos");
    let moved = select("last_event_secs", "last_event_nanos");
    let numbers = "(SELECT value FROM json_each(?6))";
    // The plus keeps the index of the scope from being searched for all of its sessions.
    format!(
        "{listed} AND {scope} = ?1 AND id NOT IN {numbers}
         UNION ALL {moved} AND +{scope} = ?1 AND id IN {numbers}
         ORDER BY place_secs {direction}, place_nanos {direction}, {ties}"
    )
}
