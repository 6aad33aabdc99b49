//! Where a case finds its store: one of its own, in a folder of its own, gone when the case ends.

use std::{ops::Deref, sync::Arc};

use sessiond::{
    domain::{
        Sequence, Version,
        delta::Delta,
        event::{Changes, Event},
        session::{SessionInfo, State},
        time::Time,
        token::Position,
    },
    store::{Appended, Store},
};
use tempfile::TempDir;

use crate::{backends::Backend, build::*};

/// A store under test.
pub struct Bench {
    backend: &'static Backend,
    folder: TempDir,
    store: Arc<dyn Store>,
}

/// Runs a case on a store.
pub fn run(backend: &'static Backend, name: &str, case: impl AsyncFnOnce(&mut Bench)) {
    if backend.excluded.iter().any(|(excluded, _)| *excluded == name) {
        return;
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let folder = TempDir::new().unwrap();
        let store = (backend.open)(folder.path().into()).await;
        let mut bench = Bench { backend, folder, store };
        case(&mut bench).await;
        bench.close().await;
    });
}

impl Bench {
    /// The store, for another task.
    pub fn share(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    /// Closes the store and opens it again.
    pub async fn reopen(&mut self) {
        self.store.close().await;
        self.store = (self.backend.open)(self.folder.path().into()).await;
    }

    /// Closes the store and opens another one.
    pub async fn elsewhere(&mut self) {
        self.store.close().await;
        self.folder = TempDir::new().unwrap();
        self.store = (self.backend.open)(self.folder.path().into()).await;
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

    /// Creates a session that has to be new.
    pub async fn new_session(&self, path: &str, state: &[(&str, &str)]) -> SessionInfo {
        let created = self.create_session(create(path, state)).await.unwrap();
        assert!(created.created);
        created.info
    }

    /// Appends one event of this id and delta, which has to be new.
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

    /// All events that show.
    pub async fn log(&self, path: &str) -> Vec<Event> {
        self.list_events(events(path)).await.unwrap().1.events
    }

    /// All events there are.
    pub async fn whole_log(&self, path: &str) -> Vec<Event> {
        let mut query = events(path);
        query.selection.filter.include_rewound = true;
        self.list_events(query).await.unwrap().1.events
    }
}

impl Deref for Bench {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        &*self.store
    }
}

/// The event of an append of one that was new.
pub fn only_new(appended: Appended) -> Event {
    let [appended] = <[_; 1]>::try_from(appended.events).unwrap();
    assert!(!appended.replayed);
    appended.event
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
