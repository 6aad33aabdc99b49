//! The kernel alone, over rows that tests write down: one application, one user, and at most one session.

mod faults;

use std::{
    collections::{BTreeMap, HashMap},
    sync::atomic::{AtomicU64, Ordering},
};

use super::*;
use crate::{
    commit::{ScopeLogRow, Source},
    domain::{error::Damage, prelude::*},
};

/// Rows, by the kind of their scope. A position that is missing was lost.
#[derive(Default)]
struct Written {
    session: Option<SessionInfo>,
    heads: [ScopeHead; 2],
    states: [BTreeMap<String, (Json, Version)>; 3],
    events: BTreeMap<Sequence, Event>,
    changes: [BTreeMap<Version, ScopeLogRow>; 2],
    snapshots: [BTreeMap<Version, Past>; 3],
    markers_are_damaged: bool,
    ids_are_not_read: bool,
    /// The first read of this change fails.
    lost: AtomicU64,
}

fn text(value: &str) -> Json {
    Json::string(value)
}

fn key() -> SessionKey {
    SessionKey {
        app_name: AppName::from_stored("a"),
        user_id: UserId::from_stored("u"),
        session_id: SessionId::from_stored("s"),
    }
}

fn session(last_sequence: Sequence) -> SessionInfo {
    let time = Time::from_stored(1, 0);
    SessionInfo {
        key: key(),
        incarnation: Incarnation(7),
        last_sequence,
        create_time: time,
        update_time: time,
        last_event_time: time,
        expire_time: None,
        display_name: DisplayName::default(),
        labels: Labels::default(),
        forked_from: None,
        created_versions: ScopeVersions::default(),
    }
}

fn sets(keys: &[(&str, &str)]) -> Changes {
    let results: Vec<KeyResult> =
        keys.iter().map(|(key, value)| (StateKey::from_stored(*key), Some(text(value)))).collect();
    crate::domain::delta::changes(results.iter())
}

fn event(sequence: Sequence, rewind_to: Option<Sequence>, keys: &[(&str, &str)]) -> Event {
    Event {
        event_id: EventId::from_stored(sequence.to_string()),
        sequence,
        invocation_id: None,
        author: Author::from_stored(if sequence.is_multiple_of(2) { "even" } else { "odd" }),
        branch: Branch::from_stored(""),
        event_time: Time::from_stored(sequence.cast_signed(), 0),
        commit_time: Time::from_stored(sequence.cast_signed(), 0),
        changes: sets(keys),
        body: Some(Json::stored(r#"{"a":1}"#).unwrap()),
        rewind_to,
        rewound: false,
        versions: ScopeVersions { application: 0, user: sequence },
        trace_id: None,
    }
}

impl Written {
    /// A session of some events; with each the user's key `n` changed as well.
    fn events(events: impl IntoIterator<Item = Event>) -> Self {
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

    fn of<Q: Read>(&self, mut query: Q) -> Result<Q::Answer, Error> {
        loop {
            if let Some(answer) = finish(query.step(self))? {
                return Ok(answer);
            }
        }
    }

    fn page(&self, selection: EventSelection) -> Result<EventPage, Error> {
        let events = Some(selection);
        let query = SessionQuery { events, ..SessionQuery::info(SessionRef::Full(key())) };
        Ok(self.of(SessionRead::from(query))?.events.unwrap())
    }

    fn as_of(&self, at: Sequence) -> Result<String, Error> {
        let query = SessionQuery {
            as_of: Some(at),
            with_state: true,
            ..SessionQuery::info(SessionRef::Full(key()))
        };
        Ok(self.of(SessionRead::from(query))?.state.unwrap().to_json().as_str().to_owned())
    }
}

impl Rows for Written {
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
        _: usize,
    ) -> Result<Vec<Result<SessionRecord, Error>>, Error> {
        Ok(Vec::new())
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
        _: (&AppName, &UserId),
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

    async fn markers(&self, _: &Node, up_to: Sequence) -> Result<Vec<Marker>, Error> {
        if self.markers_are_damaged {
            return Err(Error::damaged(Damage::Log, "a marker"));
        }
        let marker =
            |event: &Event| Some(Marker { sequence: event.sequence, to: event.rewind_to? });
        Ok(self.events.range(..=up_to).filter_map(|(_, event)| marker(event)).collect())
    }

    async fn event_heads(&self, _: &Node, wanted: &[Sequence]) -> Result<Vec<EventHead>, Error> {
        Ok(wanted.iter().filter_map(|at| self.events.get(at)).map(EventHead::from).collect())
    }

    async fn events(&self, _: &Node, wanted: &[Sequence], _: usize) -> Result<Vec<Event>, Error> {
        Ok(wanted.iter().filter_map(|at| self.events.get(at)).cloned().collect())
    }

    async fn changes(
        &self,
        node: &Node,
        wanted: &[Version],
        except: Option<Incarnation>,
        _: usize,
    ) -> Result<Vec<ScopeLogRow>, Error> {
        if wanted.contains(&self.lost.load(Ordering::Relaxed)) {
            self.lost.store(0, Ordering::Relaxed);
            return Err(Error::internal("lost"));
        }
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
        Ok(wanted.iter().filter_map(row).map(without).collect())
    }
}

fn sequences(page: &EventPage) -> Vec<Sequence> {
    page.events.iter().map(|event| event.sequence).collect()
}

#[test]
fn a_page_ends_with_its_budget_and_says_where_the_rest_begins() {
    let written = Written::events((1..=9).map(|at| event(at, None, &[])));
    // Of the longer ones: authors differ in length.
    let bytes = written.events[&2].bytes();
    for (max_items, max_bytes, count) in
        [(4, usize::MAX, 4), (usize::MAX, 3 * bytes, 3), (9, 1, 1), (9, usize::MAX, 9)]
    {
        for descending in [false, true] {
            let selection =
                EventSelection { descending, max_items, max_bytes, ..EventSelection::default() };
            let page = written.page(selection.clone()).unwrap();
            let mut all: Vec<Sequence> = (1..=9).collect();
            if descending {
                all.reverse();
            }
            assert_eq!(sequences(&page), all[..count]);
            let Some(Rest { after, up_to }) = page.rest else { continue };
            let rest = written.page(EventSelection { after, up_to, ..selection }).unwrap();
            assert_eq!(rest.events[0].sequence, all[count]);
        }
    }
}

#[test]
fn a_filter_counts_its_newest_and_fills_its_page() {
    let written = Written::events((1..=9).map(|at| event(at, None, &[])));
    let filter = EventFilter { author: Some(Author::from_stored("odd")), ..EventFilter::default() };
    for (recent, wanted) in [(0, &[][..]), (2, &[7, 9]), (50, &[1, 3, 5, 7, 9])] {
        let filter = filter.clone();
        let selection =
            EventSelection { filter, recent: Some(recent), ..EventSelection::default() };
        assert_eq!(sequences(&written.page(selection).unwrap()), wanted);
    }
}

#[test]
fn a_rewind_hides_what_it_went_back_over() {
    let rewinds = [(5, 2)];
    let to = |at| rewinds.iter().find(|(marker, _)| *marker == at).map(|(_, to)| *to);
    let written = Written::events((1..=6).map(|at| event(at, to(at), &[])));
    assert_eq!(sequences(&written.page(EventSelection::default()).unwrap()), [1, 2, 6]);
    let newest = EventSelection { recent: Some(2), ..EventSelection::default() };
    assert_eq!(sequences(&written.page(newest).unwrap()), [2, 6]);
    let filter = EventFilter { include_rewound: true, ..EventFilter::default() };
    let all = written.page(EventSelection { filter, ..EventSelection::default() }).unwrap();
    let rewound = all.events.iter().filter(|event| event.rewound).map(|event| event.sequence);
    assert_eq!(rewound.collect::<Vec<_>>(), [3, 4, 5]);
}

#[test]
fn the_past_is_a_snapshot_and_the_changes_that_follow() {
    let mut written = Written::events((1..=6).map(|at| event(at, None, &[("k", &at.to_string())])));
    assert_eq!(written.as_of(4).unwrap(), r#"{"user:n":"4","k":"4"}"#);
    // What a snapshot holds is not read again.
    let past = Past::from([("k".into(), (Some(text("3")), 3)), ("gone".into(), (None, 2))]);
    written.snapshots[2].insert(3, past);
    written.events.remove(&2);
    assert_eq!(written.as_of(4).unwrap(), r#"{"user:n":"4","k":"4"}"#);
    assert_eq!(written.as_of(3).unwrap(), r#"{"user:n":"3","k":"3"}"#);
    assert!(matches!(written.as_of(2), Err(Error::Damaged(..))));
    let beyond = Error::BeyondLastSequence { asked: 7, last_sequence: 6 };
    assert_eq!(written.as_of(7), Err(beyond));
}

#[test]
fn an_earlier_life_of_a_user_is_not_read() {
    let mut written = Written::events((1..=6).map(|at| event(at, None, &[])));
    written.snapshots[1].insert(2, Past::from([("old".into(), (Some(text("1")), 1))]));
    written.heads[1].base = 3;
    assert_eq!(written.as_of(2).unwrap(), "{}");
    assert_eq!(written.as_of(5).unwrap(), r#"{"user:n":"5"}"#);
    let query = KeyChangeQuery {
        scope: Scope::Session(key()),
        key: StateKey::from_stored("user:n"),
        before: None,
        max_items: 10,
        max_bytes: usize::MAX,
    };
    let page = written.of(HistoryRead::from(query.clone())).unwrap();
    let versions = page.changes.iter().map(|change| change.version);
    assert_eq!((versions.collect::<Vec<_>>(), page.more), (vec![6, 5, 4], false));
    let query = KeyChangeQuery { max_items: 2, before: Some(6), ..query };
    let page = written.of(HistoryRead::from(query)).unwrap();
    let versions = page.changes.iter().map(|change| change.version);
    assert_eq!((versions.collect::<Vec<_>>(), page.more), (vec![5, 4], false));
}

#[test]
fn a_watch_page_has_events_first_and_what_others_left_newest() {
    let mut written = Written::events((1..=3).map(|at| event(at, None, &[])));
    for version in [4, 5] {
        let mut row = written.changes[1][&3].clone();
        (row.version, row.source, row.changes) = (version, None, sets(&[("user:m", "1")]));
        written.changes[1].insert(version, row);
    }
    written.states[1].insert("m".into(), (text("1"), 5));
    written.heads[1].version = 5;
    let position =
        Position { incarnation: Incarnation(7), sequence: 1, versions: ScopeVersions::default() };
    let scope = Scope::Session(key());
    let query = WatchQuery { scope, position, max_items: 2, max_bytes: usize::MAX };
    let page = written.of(query.clone()).unwrap();
    assert_eq!((page.events.len(), page.changes.len(), page.complete), (2, 0, false));
    let page = written.of(WatchQuery { position: page.position, ..query.clone() }).unwrap();
    // The session's own changes came with its events, and version 5 overwrote version 4.
    let versions: Vec<Version> = page.changes.iter().map(|change| change.version).collect();
    assert_eq!((page.events.len(), versions, page.complete), (0, vec![5], true));
    assert_eq!((page.position.sequence, page.position.versions.user), (3, 5));
    let gone = Position { incarnation: Incarnation(6), ..position };
    let found = written.of(WatchQuery { position: gone, ..query }).map(|page| page.complete);
    assert_eq!(found, Err(Error::not_found(&key())));
}

#[test]
fn only_a_sessions_own_damaged_value_is_an_error() {
    let mut written = Written::events([event(1, None, &[])]);
    let read = |written: &Written| {
        let query = StateQuery { scope: Scope::Session(key()), keys: None };
        written.of(query).map(|view| State::damaged(&view.state.0))
    };
    let damaged = Json::stored_or_damaged("{");
    written.states[1].insert("bad".into(), (damaged.clone(), 1));
    assert_eq!(read(&written), Ok(vec!["user:bad".to_owned()]));
    written.states[2].insert("bad".into(), (damaged, 1));
    assert_eq!(read(&written), Err(Error::damaged_key(&StateKey::from_stored("bad"))));
}

#[test]
fn runs_are_what_was_wanted() {
    for (wanted, expected, descends) in [
        (&[][..], &[][..], false),
        (&[3], &[(2, 3)], false),
        (&[1, 2, 5, 6, 7], &[(0, 2), (4, 7)], false),
        (&[7, 6, 3, 2], &[(5, 7), (1, 3)], true),
    ] {
        let (runs, descending) = runs(wanted);
        assert_eq!((&*runs.collect::<Vec<_>>(), descending), (expected, descends));
    }
}
