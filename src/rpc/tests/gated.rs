//! A store whose appends wait for leave, and that remembers the order in which they came.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use tokio::sync::Semaphore;

use super::memory;
use crate::{
    domain::{
        error::Error, page::EventPage, scope::SessionKey, session::SessionInfo, time::Time,
        token::StoreId,
    },
    store::{
        Append, Appended, CreateSession, Created, EventQuery, ForkSession, KeyChangePage,
        KeyChangeQuery, RewindSession, SessionPage, SessionQuery, SessionUpdate, SessionView,
        SessionsQuery, StateQuery, StateUpdate, StateUpdated, StateView, Store, WatchPage,
        WatchQuery, memory::MemoryStore, tails::Tails,
    },
};

/// The memory store behind a gate.
pub struct GatedStore {
    inner: MemoryStore,
    gate: Semaphore,
    came: Mutex<Vec<String>>,
    came_changed: tokio::sync::Notify,
}

impl GatedStore {
    /// Nothing passes yet.
    pub fn new() -> Self {
        Self {
            inner: memory(),
            gate: Semaphore::new(0),
            came: Mutex::default(),
            came_changed: tokio::sync::Notify::new(),
        }
    }

    /// Lets so many appends pass.
    pub fn open(&self, appends: usize) {
        self.gate.add_permits(appends);
    }

    /// Ids of the events whose append has come, in that order, as soon as there are so many.
    pub async fn came(&self, many: usize) -> Vec<String> {
        loop {
            let changed = self.came_changed.notified();
            let came = self.came_now();
            if came.len() >= many {
                return came;
            }
            changed.await;
        }
    }

    /// As [`GatedStore::came`], without waiting.
    pub fn came_now(&self) -> Vec<String> {
        self.came.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl Store for GatedStore {
    fn id(&self) -> StoreId {
        self.inner.id()
    }

    fn tails(&self) -> &Tails {
        self.inner.tails()
    }

    async fn create_session(&self, create: CreateSession) -> Result<Created, Error> {
        self.inner.create_session(create).await
    }

    async fn update_session(&self, update: SessionUpdate) -> Result<SessionInfo, Error> {
        self.inner.update_session(update).await
    }

    async fn delete_session(&self, key: SessionKey, now: Time) -> Result<bool, Error> {
        self.inner.delete_session(key, now).await
    }

    async fn fork_session(&self, fork: ForkSession) -> Result<SessionView, Error> {
        self.inner.fork_session(fork).await
    }

    async fn append(&self, append: Append) -> Result<Appended, Error> {
        let id = append.events[0].event_id.to_string();
        self.came.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        self.came_changed.notify_waiters();
        self.gate.acquire().await.unwrap().forget();
        self.inner.append(append).await
    }

    async fn rewind_session(&self, rewind: RewindSession) -> Result<Appended, Error> {
        self.inner.rewind_session(rewind).await
    }

    async fn update_state(&self, update: StateUpdate) -> Result<StateUpdated, Error> {
        self.inner.update_state(update).await
    }

    async fn read_session(&self, query: SessionQuery) -> Result<SessionView, Error> {
        self.inner.read_session(query).await
    }

    async fn list_sessions(&self, query: SessionsQuery) -> Result<SessionPage, Error> {
        self.inner.list_sessions(query).await
    }

    async fn list_events(&self, query: EventQuery) -> Result<(SessionInfo, EventPage), Error> {
        self.inner.list_events(query).await
    }

    async fn read_state(&self, query: StateQuery) -> Result<StateView, Error> {
        self.inner.read_state(query).await
    }

    async fn list_key_changes(&self, query: KeyChangeQuery) -> Result<KeyChangePage, Error> {
        self.inner.list_key_changes(query).await
    }

    async fn read_changes(&self, query: WatchQuery) -> Result<WatchPage, Error> {
        self.inner.read_changes(query).await
    }

    async fn sweep(&self, now: Time) -> Result<bool, Error> {
        self.inner.sweep(now).await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
