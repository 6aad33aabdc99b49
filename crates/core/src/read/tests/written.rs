//! Rows that tests write down, which count what is looked at.

use std::{
    collections::{BTreeMap, HashMap},
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

use super::{super::*, key, session, sets, text};
use crate::{
    commit::{ScopeLogRow, Source},
    domain::{error::Damage, prelude::*},
};

/// Rows, by the kind of their scope. A position that is missing was lost.
#[derive(Default)]
pub struct Written {
    pub session: Option<SessionInfo>,
    pub heads: [ScopeHead; 2],
    pub states: [BTreeMap<String, (Json, Version)>; 3],
    pub events: BTreeMap<Sequence, Event>,
    pub changes: [BTreeMap<Version, ScopeLogRow>; 2],
    pub snapshots: [BTreeMap<Version, Past>; 3],
    pub markers_are_damaged: bool,
    pub ids_are_not_read: bool,
    /// Lists of sessions that were asked for. They have no end.
    pub lists: AtomicUsize,
    /// Rows of logs and lists that were looked at.
    pub looked_at: AtomicUsize,
    /// What a look at the clock takes, and what all have taken.
    pub look_millis: u64,
    pub millis: AtomicU64,
}

impl Written {
    /// A session of some events; with each the user's key `n` changed as well.
    pub fn events(events: impl IntoIterator<Item = Event>) -> Self {
        let mut written = Self::default();
        for event in events {
            let sequence = event.sequence;
            let changes = sets(&[("user:n", &sequence.to_string())]);
            let (commit_time, author) = (event.commit_time, event.author.clone());
            let source = Source { key: key(), incarnation: Incarnation(7), sequence };
            let (version, source) = (sequence, Some(source));
            let row = ScopeLogRow { version, commit_time, author, source, changes };
            written.changes[1].insert(sequence, row);
            written.states[1].insert("n".into(), (text(&sequence.to_string()), sequence));
            for (key, value) in event.changes.results() {
                written.states[2].insert(key.name().into(), (value.unwrap(), sequence));
            }
            written.events.insert(sequence, event);
        }
        let last = written.events.keys().last().copied().unwrap_or(0);
        written.session = Some(session(last));
        written.heads[1] = ScopeHead { version: last, base: 0, state_bytes: 10 };
        written
    }

    pub fn of<Q: Read>(&self, query: Q) -> Result<Q::Answer, Error> {
        finish(query.read(self))
    }

    pub fn count<T>(&self, rows: Vec<T>) -> Vec<T> {
        self.looked_at.fetch_add(rows.len(), Ordering::Relaxed);
        rows
    }

    /// The rows that were looked at since the last call.
    pub fn looked_at(&self) -> usize {
        self.looked_at.swap(0, Ordering::Relaxed)
    }

    pub fn page(&self, selection: EventSelection) -> Result<EventPage, Error> {
        let events = Some(selection);
        let query = SessionQuery { events, ..SessionQuery::info(SessionRef::Full(key())) };
        Ok(self.of(query)?.events.unwrap())
    }

    pub fn as_of(&self, at: Sequence) -> Result<String, Error> {
        let query = SessionQuery {
            as_of: Some(at),
            with_state: true,
            ..SessionQuery::info(SessionRef::Full(key()))
        };
        Ok(self.of(query)?.state.unwrap().to_json().as_str().to_owned())
    }
}

impl Rows for Written {
    /// Each look at the clock takes a while.
    fn time(&self) -> Time {
        let millis = self.millis.fetch_add(self.look_millis, Ordering::Relaxed);
        Time::from_stored(100 + (millis / 1000).cast_signed(), (millis % 1000) as u32 * 1_000_000)
    }

    async fn now(&self) -> Time {
        Time::from_stored(100, 0)
    }

    async fn session(&self, _: &SessionKey) -> Result<Option<SessionRecord>, Error> {
        Ok(self.session.clone().map(|info| SessionRecord { info, state_bytes: 0 }))
    }

    async fn of_id(
        &self,
        _: &SessionId,
        after: Option<&SessionInfo>,
        _: usize,
    ) -> Result<Vec<SessionInfo>, Error> {
        assert!(!self.ids_are_not_read, "sessions of an id were read");
        Ok(self.session.iter().filter(|_| after.is_none()).cloned().collect())
    }

    async fn listed(
        &self,
        _: &SessionsQuery,
        _: Option<&ListKey>,
        max_rows: usize,
    ) -> Result<Vec<Result<SessionRecord, Error>>, Error> {
        self.lists.fetch_add(1, Ordering::Relaxed);
        let record = |info| Ok(SessionRecord { info, state_bytes: 0 });
        let all = self.session.iter().cycle().take(max_rows);
        Ok(self.count(all.cloned().map(record).collect()))
    }

    async fn addresses(
        &self,
        _: Option<&AppName>,
        _: (&SessionKey, &SessionKey),
        _: usize,
    ) -> Result<Vec<(SessionKey, Option<Time>)>, Error> {
        Ok(Vec::new())
    }

    async fn scopes(
        &self,
        _: Option<&AppName>,
        _: (&SessionKey, &SessionKey),
        _: usize,
    ) -> Result<Vec<(AppName, UserId, usize)>, Error> {
        Ok(Vec::new())
    }

    async fn heads(&self, shared: &[Node]) -> Result<Vec<ScopeHead>, Error> {
        Ok(shared.iter().map(|node| self.heads[node.kind() as usize]).collect())
    }

    async fn states(&self, nodes: &[Node]) -> Result<Vec<Vec<StateEntry>>, Error> {
        let state = |node: &Node| {
            let entries = self.states[node.kind() as usize].iter();
            let entry = |(name, (value, version)): (&String, &(Json, Version))| {
                let (key, value) = (StateKey::in_scope(node.kind(), name), value.clone());
                StateEntry { key, value, version: *version }
            };
            entries.map(entry).collect()
        };
        Ok(nodes.iter().map(state).collect())
    }

    async fn keys(&self, keys: &[(&Node, &StateKey)]) -> Result<Vec<StateEntry>, Error> {
        let nodes: Vec<Node> = keys.iter().map(|(node, _)| (*node).clone()).collect();
        let states = self.states(&nodes).await?.into_iter().flatten();
        Ok(states.filter(|entry| keys.iter().any(|(_, key)| **key == entry.key)).collect())
    }

    async fn newest(
        &self,
        node: &Node,
        names: &[&str],
    ) -> Result<HashMap<Box<str>, Version>, Error> {
        let state = &self.states[node.kind() as usize];
        let newest = names.iter().filter_map(|name| Some(((*name).into(), state.get(*name)?.1)));
        Ok(newest.collect())
    }

    async fn snapshot(&self, node: &Node, at: Version) -> Result<(Past, Version), Error> {
        let found = self.snapshots[node.kind() as usize].range(..=at).next_back();
        Ok(found.map(|(version, past)| (past.clone(), *version)).unwrap_or_default())
    }

    async fn markers(
        &self,
        _: &Node,
        (after, up_to): (Sequence, Sequence),
        max_rows: usize,
    ) -> Result<Vec<Marker>, Error> {
        if self.markers_are_damaged {
            return Err(Error::damaged(Damage::Log, "a marker"));
        }
        let marker =
            |event: &Event| Some(Marker { sequence: event.sequence, to: event.rewind_to? });
        let newest = self.events.range(after + 1..=up_to).rev();
        Ok(self.count(newest.filter_map(|(_, event)| marker(event)).take(max_rows).collect()))
    }

    async fn sequences(
        &self,
        _: &Node,
        ids: &[EventId],
    ) -> Result<HashMap<EventId, Sequence>, Error> {
        let all = self.events.values().filter(|event| ids.contains(&event.event_id));
        let found = all.map(|event| (event.event_id.clone(), event.sequence)).collect();
        self.looked_at.fetch_add(ids.len(), Ordering::Relaxed);
        Ok(found)
    }

    async fn event_heads(&self, _: &Node, wanted: &[Sequence]) -> Result<Vec<EventHead>, Error> {
        let found = wanted.iter().filter_map(|at| self.events.get(at));
        Ok(self.count(found.map(EventHead::from).collect()))
    }

    async fn events(&self, _: &Node, wanted: &[Sequence], _: usize) -> Result<Vec<Event>, Error> {
        Ok(self.count(wanted.iter().filter_map(|at| self.events.get(at)).cloned().collect()))
    }

    async fn changes(
        &self,
        node: &Node,
        wanted: &[Version],
        except: Option<Incarnation>,
        _: usize,
    ) -> Result<Vec<ScopeLogRow>, Error> {
        let row = |at: &Version| match node.kind() {
            ScopeKind::Session => self.events.get(at).map(ScopeLogRow::from),
            kind => self.changes[kind as usize].get(at).cloned(),
        };
        let without = |mut row: ScopeLogRow| {
            if is_of(except, row.source.as_ref()) {
                row.changes = Changes::default();
            }
            row
        };
        Ok(self.count(wanted.iter().filter_map(row).map(without).collect()))
    }
}
