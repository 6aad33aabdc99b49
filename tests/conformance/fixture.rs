//! A store for each case: new, in a folder of its own, which is removed when the case ends.

use std::{ops::Deref, sync::Arc};

use sessiond::{
    commit::{Answer, Request},
    domain::{
        Sequence, Version,
        delta::Delta,
        error::Error,
        event::{Changes, Event},
        id::{AppName, UserId},
        page::EventPage,
        scope::{SessionKey, SessionRef},
        session::{SessionInfo, State},
        time::Time,
        token::{Position, StoreId},
    },
    store::{
        Append, Appended, ApplicationsQuery, CreateSession, Created, EventsQuery, EventsView,
        ForkSession, KeyChange, KeyChangePage, KeyChangeQuery, NamePage, RequestContext,
        RewindSession, SessionPage, SessionQuery, SessionUpdate, SessionView, SessionsQuery,
        StateQuery, StateUpdate, StateUpdated, StateView, Store, Subscription, UsersQuery,
        WatchPage, WatchQuery,
    },
};
use sessiond_test_support::TestClock;
use tempfile::TempDir;

use crate::{backends::Backend, requests::*};

/// A store under test, and how to open it again.
pub struct Fixture {
    backend: &'static Backend,
    folder: TempDir,
    store: TestStore,
}

/// A store under test with the clock that it reads. Each call sets the clock first.
#[derive(Clone)]
pub struct TestStore {
    store: Arc<dyn Store>,
    clock: Arc<TestClock>,
}

/// Runs a case on a store.
pub fn run(backend: &'static Backend, name: &str, case: impl AsyncFnOnce(&mut Fixture)) {
    if backend.excluded.iter().any(|(excluded, _)| *excluded == name) {
        return;
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let folder = TempDir::new().unwrap();
        let store = TestStore::open(backend, &folder).await;
        let mut fixture = Fixture { backend, folder, store };
        case(&mut fixture).await;
        fixture.close().await;
    });
}

impl Fixture {
    /// The store, for another task.
    pub fn share(&self) -> TestStore {
        self.store.clone()
    }

    /// Closes the store and opens it again.
    pub async fn reopen(&mut self) {
        self.store.close().await;
        self.store = TestStore::open(self.backend, &self.folder).await;
    }

    /// Closes the store and opens another one.
    pub async fn elsewhere(&mut self) {
        self.store.close().await;
        self.folder = TempDir::new().unwrap();
        self.store = TestStore::open(self.backend, &self.folder).await;
    }

    /// Sweeps until nothing is left to do.
    pub async fn sweep_all(&self, now: Time) {
        for _ in 0..10_000 {
            if !self.sweep(now).await.unwrap() {
                return;
            }
        }
        panic!("sweeping does not end");
    }

    /// Creates a session, which must be new.
    pub async fn new_session(&self, path: &str, state: &[(&str, &str)]) -> SessionInfo {
        let created = self.create_session(create(path, state)).await.unwrap();
        assert!(created.created);
        created.info
    }

    /// Appends one event, which must be new.
    pub async fn put(&self, path: &str, id: &str, delta: Delta) -> Event {
        let appended = self.append(append(path, [event(id, delta)])).await;
        only_new(appended.unwrap())
    }

    /// What is visible from a scope, as one JSON object.
    pub async fn state(&self, path: &str) -> String {
        text(&self.read_state(read_state(path)).await.unwrap().state)
    }

    /// The keys that are visible from a scope, with their versions.
    pub async fn versions(&self, path: &str) -> Vec<(String, Version)> {
        versions(&self.read_state(read_state(path)).await.unwrap().state)
    }

    /// Where a scope stands.
    pub async fn position(&self, path: &str) -> Position {
        self.read_state(read_state(path)).await.unwrap().position
    }

    /// A session without its state.
    pub async fn info(&self, path: &str) -> SessionInfo {
        self.read_session(read(path)).await.unwrap().info
    }

    /// A session's merged state as of an event.
    pub async fn state_as_of(&self, path: &str, sequence: Sequence) -> String {
        let mut query = read(path);
        query.as_of = Some(sequence);
        text(&self.read_session(query).await.unwrap().state.unwrap())
    }

    /// All visible events.
    pub async fn log(&self, path: &str) -> Vec<Event> {
        self.every_event(events(path)).await
    }

    /// The events of all pages.
    async fn every_event(&self, mut query: EventQuery) -> Vec<Event> {
        let mut found = Vec::new();
        loop {
            let page = self.list_events(query.clone()).await.unwrap().1;
            found.extend(page.events);
            let Some(rest) = page.rest else { return found };
            (query.selection.after, query.selection.up_to) = (rest.after, rest.up_to);
        }
    }

    /// The changes of all pages.
    pub async fn every_change(&self, mut query: KeyChangeQuery) -> Vec<KeyChange> {
        let mut found = Vec::new();
        loop {
            let page = self.list_key_changes(query.clone()).await.unwrap();
            found.extend(page.changes);
            query.before = page.rest;
            if query.before.is_none() {
                return found;
            }
        }
    }

    /// All events, rewound ones too.
    pub async fn whole_log(&self, path: &str) -> Vec<Event> {
        let mut query = events(path);
        query.selection.filter.include_rewound = true;
        self.every_event(query).await
    }
}

impl Deref for Fixture {
    type Target = TestStore;

    fn deref(&self) -> &Self::Target {
        &self.store
    }
}

/// The methods of a store, at the time of each request, by a caller without a deadline.
macro_rules! calls {
    (
        writes { $($write:ident($wreq:ty) -> $wans:ty;)+ }
        reads { $($read:ident($rreq:ty) -> $rans:ty;)+ }
    ) => {
        impl TestStore {
            $(pub async fn $write(&self, request: impl Into<Timed<$wreq>>) -> Result<$wans, Error> {
                let request = self.set_clock(request);
                self.store.$write(&RequestContext::internal(), request).await
            })+

            $(pub async fn $read(&self, request: impl Into<Timed<$rreq>>) -> Result<$rans, Error> {
                let request = self.set_clock(request);
                self.store.$read(request).await
            })+
        }
    };
}

calls! {
    writes {
        create_session(CreateSession) -> Created;
        update_session(SessionUpdate) -> SessionInfo;
        fork_session(ForkSession) -> (SessionInfo, State);
        append(Append) -> Appended;
        rewind_session(RewindSession) -> Appended;
        update_state(StateUpdate) -> StateUpdated;
    }
    reads {
        read_session(SessionQuery) -> SessionView;
        read_events(EventsQuery) -> EventsView;
        list_sessions(SessionsQuery) -> SessionPage;
        list_applications(ApplicationsQuery) -> NamePage<AppName>;
        list_users(UsersQuery) -> NamePage<UserId>;
        read_state(StateQuery) -> StateView;
        list_key_changes(KeyChangeQuery) -> KeyChangePage;
        read_changes(WatchQuery) -> WatchPage;
    }
}

impl TestStore {
    /// A page of a session's events alone.
    pub async fn list_events(
        &self,
        request: impl Into<Timed<EventQuery>>,
    ) -> Result<(SessionInfo, EventPage), Error> {
        let EventQuery { key, as_of, selection } = self.set_clock(request);
        let (session, events) = (SessionRef::Full(key), Some(selection));
        let query = SessionQuery { session, as_of, with_state: false, events };
        let view = self.store.read_session(query).await?;
        Ok((view.info, view.events.unwrap()))
    }

    async fn open(backend: &Backend, folder: &TempDir) -> Self {
        let clock = TestClock::at(NOW);
        let store = (backend.open)(folder.path().into(), clock.clone()).await;
        Self { store, clock }
    }

    fn set_clock<T>(&self, request: impl Into<Timed<T>>) -> T {
        let Timed { request, now } = request.into();
        self.clock.set_time(now);
        request
    }

    pub async fn delete_session(&self, key: SessionKey, now: Time) -> Result<bool, Error> {
        self.clock.set_time(now);
        let deleted = self.store.delete_session(&RequestContext::internal(), key.into()).await?;
        Ok(deleted.is_some())
    }

    pub async fn sweep(&self, now: Time) -> Result<bool, Error> {
        self.clock.set_time(now);
        self.store.sweep().await
    }

    /// Any write, with the caller's context.
    pub async fn commit(
        &self,
        context: &RequestContext,
        request: impl Into<Timed<Request>>,
    ) -> Result<Answer, Error> {
        let request = self.set_clock(request);
        self.store.commit(context, request).await
    }

    pub fn id(&self) -> StoreId {
        self.store.id()
    }

    pub fn subscribe(&self, path: &str) -> Subscription {
        self.store.notifier().subscribe(&scope(path))
    }

    pub async fn close(&self) {
        self.store.close().await;
    }
}

/// The only event of an append, which must be new.
pub fn only_new(appended: Appended) -> Event {
    let [appended] = <[_; 1]>::try_from(appended.events).unwrap();
    assert!(!appended.replayed);
    Event::clone(&appended.event)
}

/// State as one JSON object.
pub fn text(state: &State) -> String {
    state.to_json().into_string()
}

/// The keys of a state with their versions.
pub fn versions(state: &State) -> Vec<(String, Version)> {
    let entries = state.0.iter();
    entries.map(|entry| (entry.key.to_string(), entry.version)).collect()
}

/// Changes in one line: what was set, then the keys that were removed.
pub fn became(changes: &Changes) -> String {
    let set = changes.set.as_ref().map_or("", |set| set.as_str());
    let removed = changes.remove.iter().map(|key| format!(" -{key}"));
    format!("{set}{}", removed.collect::<String>())
}

/// The sequences of events.
pub fn sequences(events: &[Event]) -> Vec<Sequence> {
    events.iter().map(|event| event.sequence).collect()
}
