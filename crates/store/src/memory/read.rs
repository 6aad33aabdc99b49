//! The rows of the data, for reads.

use std::{collections::HashMap, ops::Bound};

use super::{
    scope::ScopeRecord,
    tables::{Tables, before_all},
};
use sessiond_core::{
    commit::{EventRow, ScopeKey, ScopeLogRow},
    domain::prelude::*,
    read::{
        EventHead, ListKey, Node, Past, Rows, ScopeHead, SessionRecord, SessionsQuery, compare,
        is_of,
    },
};

impl Tables {
    fn scope(&self, node: &Node) -> Option<&ScopeRecord> {
        self.scopes.get(&node.key())
    }

    fn record(&self, info: &SessionInfo) -> SessionRecord {
        let own = self.scopes.get(&ScopeKey::Session(info.incarnation));
        SessionRecord { info: info.clone(), state_bytes: own.map_or(0, |own| own.state_bytes) }
    }

    fn wanted(&self, session: &Node, wanted: &[Sequence]) -> impl Iterator<Item = &EventRow> {
        let log = self.log(session.incarnation);
        wanted.iter().filter_map(|sequence| log.event(*sequence))
    }
}

/// As [`list_key`](sessiond_core::read::list_key), without a copy.
fn place(info: &SessionInfo) -> (Time, &UserId, &SessionId) {
    (info.last_event_time, &info.key.user_id, &info.key.session_id)
}

impl Rows for Tables {
    /// What is in memory is looked at in no time.
    fn time(&self) -> Time {
        self.now
    }

    async fn now(&self) -> Time {
        self.now
    }

    async fn session(&self, key: &SessionKey) -> Result<Option<SessionRecord>, Error> {
        Ok(self.sessions.get(key).map(|info| self.record(info)))
    }

    async fn of_id(
        &self,
        id: &SessionId,
        after: Option<&SessionInfo>,
        max_rows: usize,
    ) -> Result<Vec<SessionInfo>, Error> {
        let behind = self.with_id(id).filter(|key| after.is_none_or(|after| **key > after.key));
        Ok(behind.take(max_rows).filter_map(|key| self.sessions.get(key).cloned()).collect())
    }

    async fn listed(
        &self,
        query: &SessionsQuery,
        after: Option<&ListKey>,
        max_rows: usize,
    ) -> Result<Vec<Result<SessionRecord, Error>>, Error> {
        let SessionsQuery { app_name, user_id, seen, order, .. } = query;
        let of_user = |key: &SessionKey| match user_id {
            Some(user) => key.user_id == *user,
            None => seen.contain(&key.user_id),
        };
        let first = before_all(app_name.clone(), user_id.clone());
        let sessions =
            self.sessions.range(first..).take_while(|(key, _)| key.app_name == *app_name);
        let sessions = sessions.filter(|(key, _)| of_user(key));
        let after = after.map(|(time, user, session)| (*time, user, session));
        let behind = sessions.map(|(_, info)| info);
        let behind = behind
            .filter(|info| after.is_none_or(|after| compare(*order, &place(info), &after).is_gt()));
        let mut listed: Vec<&SessionInfo> = behind.collect();
        // Only the first are sorted, however many there are.
        if listed.len() > max_rows {
            listed.select_nth_unstable_by(max_rows, |a, b| compare(*order, &place(a), &place(b)));
            listed.truncate(max_rows);
        }
        listed.sort_unstable_by(|a, b| compare(*order, &place(a), &place(b)));
        Ok(listed.into_iter().map(|info| Ok(self.record(info))).collect())
    }

    async fn addresses(
        &self,
        app_name: Option<&AppName>,
        (after, up_to): (&SessionKey, &SessionKey),
        max_rows: usize,
    ) -> Result<Vec<(SessionKey, Option<Time>)>, Error> {
        let behind = self.sessions.range((Bound::Excluded(after), Bound::Included(up_to)));
        let of_app = behind.filter(|(key, _)| app_name.is_none_or(|app| key.app_name == *app));
        Ok(of_app.take(max_rows).map(|(key, info)| (key.clone(), info.expire_time)).collect())
    }

    async fn scopes(
        &self,
        app_name: Option<&AppName>,
        (after, up_to): (&SessionKey, &SessionKey),
        max_rows: usize,
    ) -> Result<Vec<(AppName, UserId, usize)>, Error> {
        let shared = self.scopes.iter().filter_map(|(key, record)| {
            let scope = key.shared()?;
            let user = scope.user_id().cloned().unwrap_or_else(|| UserId::from_stored(""));
            Some((scope.app_name().clone(), user, record.state_bytes))
        });
        let of_app = shared.filter(|(app, ..)| app_name.is_none_or(|of| app == of));
        let place = |key: &SessionKey| (key.app_name.clone(), key.user_id.clone());
        let (after, up_to) = (place(after), place(up_to));
        let is_between = |app: &AppName, user: &UserId| {
            let place = (app.clone(), user.clone());
            place > after && place <= up_to
        };
        let mut behind: Vec<_> = of_app.filter(|(app, user, _)| is_between(app, user)).collect();
        behind.sort_unstable();
        behind.truncate(max_rows);
        Ok(behind)
    }

    async fn heads(&self, shared: &[Node]) -> Result<Vec<ScopeHead>, Error> {
        let head = |record: &ScopeRecord| {
            let ScopeRecord { version, base, state_bytes, .. } = *record;
            ScopeHead { version, base, state_bytes }
        };
        Ok(shared.iter().map(|node| self.scope(node).map(head).unwrap_or_default()).collect())
    }

    async fn states(&self, nodes: &[Node]) -> Result<Vec<Vec<StateEntry>>, Error> {
        let state = |node: &Node| {
            let entries = self.scope(node).into_iter().flat_map(|scope| scope.entries(u64::MAX));
            let entry = |(name, value, version): (&str, &Json, Version)| {
                let (key, value) = (StateKey::in_scope(node.kind(), name), value.clone());
                StateEntry { key, value, version }
            };
            entries.map(entry).collect()
        };
        Ok(nodes.iter().map(state).collect())
    }

    async fn keys(&self, keys: &[(&Node, &StateKey)]) -> Result<Vec<StateEntry>, Error> {
        let entry = |(node, key): &(&Node, &StateKey)| {
            let (value, version) = self.scope(node)?.get(key.name())?;
            Some(StateEntry { key: (*key).clone(), value: value.clone(), version })
        };
        Ok(keys.iter().filter_map(entry).collect())
    }

    async fn newest(
        &self,
        node: &Node,
        names: &[&str],
    ) -> Result<HashMap<Box<str>, Version>, Error> {
        let newest = |name: &&str| Some((Box::from(*name), self.scope(node)?.newest(name)?));
        Ok(names.iter().filter_map(newest).collect())
    }

    async fn snapshot(&self, node: &Node, at: Version) -> Result<(Past, Version), Error> {
        Ok((self.scope(node).map(|scope| scope.past(at)).unwrap_or_default(), at))
    }

    async fn markers(
        &self,
        session: &Node,
        (after, up_to): (Sequence, Sequence),
        max_rows: usize,
    ) -> Result<Vec<Marker>, Error> {
        let markers = &self.log(session.incarnation).markers;
        let [after, up_to] =
            [after, up_to].map(|end| markers.partition_point(|marker| marker.sequence <= end));
        Ok(markers[after..up_to].iter().rev().take(max_rows).copied().collect())
    }

    async fn sequences(
        &self,
        session: &Node,
        ids: &[EventId],
    ) -> Result<HashMap<EventId, Sequence>, Error> {
        let known = &self.log(session.incarnation).ids;
        Ok(ids.iter().filter_map(|id| Some((id.clone(), *known.get(id)?))).collect())
    }

    async fn event_heads(
        &self,
        session: &Node,
        wanted: &[Sequence],
    ) -> Result<Vec<EventHead>, Error> {
        let head = |row: &EventRow| EventHead::from(&*row.event);
        Ok(self.wanted(session, wanted).map(head).collect())
    }

    async fn events(
        &self,
        session: &Node,
        wanted: &[Sequence],
        _max_bytes: usize,
    ) -> Result<Vec<Event>, Error> {
        Ok(self.wanted(session, wanted).map(|row| Event::clone(&row.event)).collect())
    }

    async fn changes(
        &self,
        node: &Node,
        wanted: &[Version],
        except: Option<Incarnation>,
        _max_bytes: usize,
    ) -> Result<Vec<ScopeLogRow>, Error> {
        if node.kind() == ScopeKind::Session {
            let row = |row: &EventRow| ScopeLogRow::from(&*row.event);
            return Ok(self.wanted(node, wanted).map(row).collect());
        }
        let row = |version: &Version| {
            let mut row = self.scope(node)?.row(*version).cloned()?;
            if is_of(except, row.source.as_ref()) {
                row.changes = Changes::default();
            }
            Some(row)
        };
        Ok(wanted.iter().filter_map(row).collect())
    }
}
