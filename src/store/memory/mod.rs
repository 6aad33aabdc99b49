//! The store in memory: the specification of a store, and a good one where nothing has to outlive the process.
//!
//! One lock around plain data. A write works out all that it does before it changes anything, so that one that is refused, or
//! panics, leaves nothing behind; nothing waits while the lock is held.

mod draft;
mod events;
mod history;
mod keys;
mod life;
mod read;
mod room;
mod session;
mod sessions;
mod wide;
mod world;
mod write;

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use self::world::World;
use super::{
    Append, Appended, CreateSession, Created, EventQuery, ForkSession, KeyChangePage,
    KeyChangeQuery, RewindSession, SessionPage, SessionQuery, SessionUpdate, SessionView,
    SessionsQuery, StateQuery, StateUpdate, StateUpdated, StateView, Store, WatchPage, WatchQuery,
    tails::Tails,
};
use crate::domain::{
    error::Error, page::EventPage, scope::SessionKey, session::SessionInfo, time::Time,
    token::StoreId,
};

/// Sessions and state for as long as the process lives.
pub struct MemoryStore {
    id: StoreId,
    tails: Tails,
    world: Mutex<World>,
}

impl MemoryStore {
    /// An empty store. No other store may have this id.
    pub fn new(id: StoreId) -> Self {
        Self { id, tails: Tails::default(), world: Mutex::default() }
    }

    fn open(&self) -> Result<MutexGuard<'_, World>, Error> {
        let world = self.lock();
        if world.closed {
            return Err(Error::Draining);
        }
        Ok(world)
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        // What a call that panicked worked out is lost, and nothing else.
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn id(&self) -> StoreId {
        self.id
    }

    fn tails(&self) -> &Tails {
        &self.tails
    }

    async fn create_session(&self, create: CreateSession) -> Result<Created, Error> {
        self.open()?.create(create, &self.tails)
    }

    async fn update_session(&self, update: SessionUpdate) -> Result<SessionInfo, Error> {
        self.open()?.update(update, &self.tails)
    }

    async fn delete_session(&self, key: SessionKey, now: Time) -> Result<bool, Error> {
        // The lock is free again when a long log goes.
        let deleted = self.open()?.delete(&key, now, &self.tails);
        Ok(deleted.is_some())
    }

    async fn fork_session(&self, fork: ForkSession) -> Result<SessionView, Error> {
        self.open()?.fork(fork, &self.tails)
    }

    async fn append(&self, append: Append) -> Result<Appended, Error> {
        self.open()?.append(append, &self.tails)
    }

    async fn rewind_session(&self, rewind: RewindSession) -> Result<Appended, Error> {
        self.open()?.rewind(rewind, &self.tails)
    }

    async fn update_state(&self, update: StateUpdate) -> Result<StateUpdated, Error> {
        self.open()?.update_state(update, &self.tails)
    }

    async fn read_session(&self, query: SessionQuery) -> Result<SessionView, Error> {
        self.open()?.read_session(&query)
    }

    async fn list_sessions(&self, query: SessionsQuery) -> Result<SessionPage, Error> {
        Ok(self.open()?.list_sessions(&query))
    }

    async fn list_events(&self, query: EventQuery) -> Result<(SessionInfo, EventPage), Error> {
        self.open()?.list_events(&query)
    }

    async fn read_state(&self, query: StateQuery) -> Result<StateView, Error> {
        self.open()?.read_state(query)
    }

    async fn list_key_changes(&self, query: KeyChangeQuery) -> Result<KeyChangePage, Error> {
        self.open()?.list_key_changes(&query)
    }

    async fn read_changes(&self, query: WatchQuery) -> Result<WatchPage, Error> {
        self.open()?.read_changes(&query)
    }

    async fn sweep(&self, now: Time) -> Result<bool, Error> {
        let (swept, more) = self.open()?.sweep(now, &self.tails);
        drop(swept);
        Ok(more)
    }

    async fn close(&self) {
        self.lock().closed = true;
    }
}
