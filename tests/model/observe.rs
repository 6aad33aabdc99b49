//! Everything that can be read of a store, as lines that are the same for every store and for the model.

use std::{fmt::Debug, sync::Arc};

use sessiond::{
    domain::{
        Sequence,
        event::ScopeVersions,
        id::{Author, InvocationId, UserId},
        page::{EventFilter, EventRef, EventSelection},
        scope::{Scope, SessionKey, SessionRef, StateKey},
        time::Time,
        token::Position,
    },
    store::{
        ApplicationsQuery, EventsQuery, KeyChangeQuery, SessionOrder, SessionQuery, SessionsQuery,
        StateQuery, Store, UsersQuery, WatchQuery,
    },
};
use sessiond_test_support::requests::{everything, sessions};

use crate::{
    history::{KEYS, SHARED},
    requests::{Names, labels, scope},
};

/// A store that is looked at.
pub struct Observer {
    pub store: Arc<dyn Store>,
    pub now: Time,
    pub names: Names,
    /// Its pages end. Those of the model hold everything.
    pub pages: bool,
}

impl Observer {
    fn items(&self, max_items: usize) -> usize {
        if self.pages { max_items } else { usize::MAX }
    }
}

/// Reads everything. `round` picks among filters, pages and points of the past, of which there are too many for every step.
pub async fn observe(observer: &mut Observer, round: usize) -> Vec<String> {
    let mut seen = Vec::new();
    for app in ["a", "b"] {
        lists(observer, &mut seen, app, round).await;
    }
    names(observer, &mut seen, round).await;
    for key in live_sessions(observer).await {
        session(observer, &mut seen, &key, round).await;
        history_of(observer, &mut seen, Scope::Session(key.clone())).await;
        follow(observer, &mut seen, Scope::Session(key), round).await;
    }
    for path in SHARED {
        history_of(observer, &mut seen, scope(path)).await;
        follow(observer, &mut seen, scope(path), round).await;
    }
    seen
}

fn line(seen: &mut Vec<String>, what: &str, found: impl Debug) {
    seen.push(format!("{what}: {found:?}"));
}

/// The addresses of all live sessions.
pub async fn live_sessions(observer: &Observer) -> Vec<SessionKey> {
    let mut keys = Vec::new();
    for app in ["a", "b"] {
        let page = observer.store.list_sessions(sessions(app)).await.unwrap();
        keys.extend(page.sessions.into_iter().map(|(info, _)| info.key));
    }
    keys.sort();
    keys
}

/// Everything there is to a log.
pub fn every_event() -> EventSelection {
    let filter = EventFilter { include_rewound: true, ..EventFilter::default() };
    EventSelection { filter, ..everything() }
}

async fn lists(observer: &mut Observer, seen: &mut Vec<String>, app: &str, round: usize) {
    let all = sessions(app);
    let mut query = SessionsQuery {
        user_id: ["u", "v"].get(round % 4).map(|user| UserId::new(*user).unwrap()),
        labels: labels([None, Some("1"), None][round % 3]),
        order: [SessionOrder::MostRecent, SessionOrder::LeastRecent][round % 2],
        max_items: observer.items(1 + round % 3),
        with_state: round.is_multiple_of(2),
        ..all.clone()
    };
    let mut found = Vec::new();
    for _ in 0..50 {
        let page = observer.store.list_sessions(query.clone()).await.unwrap();
        assert!(page.sessions.len() <= query.max_items);
        found.extend(page.sessions);
        query.after = page.rest;
        if query.after.is_none() {
            found.extend(observer.store.list_sessions(all).await.unwrap().sessions);
            found.iter_mut().for_each(|(info, _)| observer.names.rename(info));
            found.into_iter().for_each(|session| line(seen, "listed", session));
            return;
        }
    }
    panic!("the pages of sessions do not end");
}

async fn names(observer: &Observer, seen: &mut Vec<String>, round: usize) {
    let max_items = observer.items(1 + round % 3);
    let (mut applications, mut after) = (Vec::new(), None);
    loop {
        let query = ApplicationsQuery { seen: None, after, max_items };
        let page = observer.store.list_applications(query).await.unwrap();
        applications.extend(page.names);
        after = page.rest;
        if after.is_none() {
            break;
        }
    }
    for app_name in applications {
        let (mut users, mut after) = (Vec::new(), None);
        loop {
            let query = UsersQuery { app_name: app_name.clone(), seen: None, after, max_items };
            let page = observer.store.list_users(query).await.unwrap();
            users.extend(page.names);
            after = page.rest;
            if after.is_none() {
                break;
            }
        }
        line(seen, "used", (app_name, users));
    }
}

async fn session(observer: &mut Observer, seen: &mut Vec<String>, key: &SessionKey, round: usize) {
    let all = SessionQuery {
        session: SessionRef::Full(key.clone()),
        as_of: None,
        with_state: true,
        events: Some(every_event()),
    };
    let view = observer.store.read_session(all.clone()).await.unwrap();
    let last = view.info.last_sequence;
    let bare = SessionQuery { session: SessionRef::bare(key.session_id.clone()), ..all.clone() };
    let then = round as Sequence % (last + 2);
    let past = SessionQuery { as_of: Some(then), ..all.clone() };
    let shown =
        SessionQuery { events: Some(everything()), as_of: Some(then.min(last)), ..all.clone() };
    for query in [all, bare, past, shown] {
        let mut view = observer.store.read_session(query).await;
        if let Ok(view) = &mut view {
            observer.names.rename(&mut view.info);
        }
        line(seen, "session", view);
    }
    pages(observer, seen, key, round).await;
}

/// Some selection of events, page by page.
async fn pages(observer: &mut Observer, seen: &mut Vec<String>, key: &SessionKey, round: usize) {
    let some = |one_in: usize| round % one_in == 1;
    let filter = EventFilter {
        after_time: some(3).then_some(observer.now),
        include_rewound: some(2),
        author: some(4).then(|| Author::new("x").unwrap()),
        invocation_id: some(5).then(|| InvocationId::new("1").unwrap()),
    };
    let mut selection = EventSelection {
        counted_to: None,
        filter,
        after: some(7) as Sequence * 2,
        up_to: some(6).then_some(7),
        recent: some(3).then_some(round as u64 % 5),
        descending: !round.is_multiple_of(3),
        max_items: observer.items(1 + round % 4),
        max_bytes: if some(5) { 400 } else { usize::MAX },
    };
    let mut named = Vec::new();
    for at in 0..200 {
        let session = SessionQuery::info(SessionRef::Full(key.clone()));
        let query = SessionQuery { events: Some(selection.clone()), ..session };
        let view = observer.store.read_session(query).await.unwrap();
        let (mut info, page) = (view.info, view.events.unwrap());
        assert!(page.events.len() <= selection.max_items);
        if at == 0 {
            observer.names.rename(&mut info);
            line(seen, "events of", info);
        }
        named.extend(page.events.iter().map(|event| match event.sequence % 2 {
            0 => EventRef::Sequence(event.sequence + round as u64 % 2),
            _ => EventRef::Id(event.event_id.clone()),
        }));
        page.events.into_iter().for_each(|event| line(seen, "event", event));
        let Some(rest) = page.rest else { return batch(observer, seen, key, named, round).await };
        selection.after = rest.after;
        selection.up_to = rest.up_to;
        selection.recent = None;
    }
    panic!("the pages of events do not end");
}

/// Events by their ids and sequences, page by page. Some sequences are beyond the end.
async fn batch(
    observer: &Observer,
    seen: &mut Vec<String>,
    key: &SessionKey,
    mut refs: Vec<EventRef>,
    round: usize,
) {
    let turns = refs.len().min(round);
    refs.rotate_left(turns);
    while !refs.is_empty() {
        let max_bytes = if round.is_multiple_of(2) { 300 } else { usize::MAX };
        let query = EventsQuery { key: key.clone(), refs: refs.clone(), max_bytes };
        let view = observer.store.read_events(query).await.unwrap();
        assert!(!view.found.is_empty());
        let answered = refs.drain(..view.found.len());
        answered.zip(view.found).for_each(|found| line(seen, "named", found));
    }
}

/// State with its versions, some of its keys, and how they came to be.
async fn history_of(observer: &mut Observer, seen: &mut Vec<String>, scope: Scope) {
    let all = StateQuery { scope: scope.clone(), keys: None };
    let keys = ["user:k", "app:", "k", "missing"].map(|name| StateKey::new(name).unwrap());
    let some = StateQuery { keys: Some(keys.to_vec()), ..all.clone() };
    for query in [all, some] {
        let mut view = observer.store.read_state(query).await.unwrap();
        view.position.incarnation = observer.names.number(view.position.incarnation);
        view.info.iter_mut().for_each(|info| observer.names.rename(info));
        line(seen, "state", view);
    }
    for name in KEYS {
        let mut query = KeyChangeQuery {
            scope: scope.clone(),
            key: StateKey::new(name).unwrap(),
            before: None,
            max_items: observer.items(3),
            max_bytes: usize::MAX,
        };
        loop {
            let page = observer.store.list_key_changes(query.clone()).await.unwrap();
            if query.before.is_none() {
                line(seen, name, observer.names.number(page.incarnation));
            }
            query.before = page.rest;
            page.changes.into_iter().for_each(|change| line(seen, name, change));
            if query.before.is_none() {
                break;
            }
        }
    }
}

/// Follows a scope in small pages, from the beginning or from a later position.
async fn follow(observer: &mut Observer, seen: &mut Vec<String>, scope: Scope, round: usize) {
    let query = StateQuery { scope: scope.clone(), keys: Some(Vec::new()) };
    let end = observer.store.read_state(query).await.unwrap().position;
    let part = |version: u64| version * (round as u64 % 3) / 3;
    let start = Position {
        incarnation: end.incarnation,
        sequence: part(end.sequence),
        versions: ScopeVersions {
            application: part(end.versions.application),
            user: part(end.versions.user),
        },
    };
    let mut query = WatchQuery {
        scope,
        position: start,
        max_items: observer.items(1 + round % 5),
        max_bytes: if round.is_multiple_of(7) { 500 } else { usize::MAX },
    };
    for _ in 0..500 {
        let page = observer.store.read_changes(query.clone()).await.unwrap();
        assert!(page.events.len() + page.changes.len() <= query.max_items);
        query.position = page.position;
        page.events.into_iter().for_each(|event| line(seen, "event", event));
        page.changes.into_iter().for_each(|change| line(seen, "change", change));
        if page.complete {
            line(seen, "ends", page.expire_time);
            assert_eq!(query.position, end);
            return;
        }
    }
    panic!("the pages of changes do not end");
}
