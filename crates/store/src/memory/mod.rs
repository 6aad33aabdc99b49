//! The store in memory: the shortest backend. It keeps nothing beyond the process.
//!
//! One lock around plain data. Every request is a group of its own: it loads copies of what it needs, is decided on them, and its
//! change set is applied to the data. So a decision that is refused, or panics, cannot leave anything behind.

mod read;
mod scope;
mod tables;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures_util::FutureExt;
use tokio::sync::{oneshot, watch};

use self::tables::Tables;
use super::{
    ApplicationsQuery, Clock, Condition, EventsQuery, EventsView, KeyChangePage, KeyChangeQuery,
    NamePage, Notifier, RequestContext, SessionPage, SessionQuery, SessionView, SessionsQuery,
    StateQuery, StateView, Store, UsersQuery, WatchPage, WatchQuery,
    group::{self, Submission},
};
use sessiond_core::{
    commit::{Answer, Request},
    domain::{
        error::Error,
        id::{AppName, UserId},
        token::StoreId,
    },
    read::{Read, finish},
};
use sessiond_metrics::Metrics;

/// Sessions and state for as long as the process lives.
pub struct MemoryStore {
    id: StoreId,
    notifier: Notifier,
    clock: Arc<dyn Clock>,
    world: Mutex<Tables>,
    metrics: Arc<Metrics>,
}

impl MemoryStore {
    /// An empty store. No other store may have this id.
    pub fn new(id: StoreId, clock: Arc<dyn Clock>) -> Self {
        let (notifier, world) = (Notifier::default(), Mutex::default());
        Self { id, notifier, clock, world, metrics: Arc::default() }
    }

    /// The same store, whose writes are counted there.
    pub fn measured(self, metrics: Arc<Metrics>) -> Self {
        Self { metrics, ..self }
    }

    fn open(&self) -> Result<MutexGuard<'_, Tables>, Error> {
        let mut world = self.lock();
        if world.closed {
            return Err(Error::Draining);
        }
        world.now = self.clock.now();
        Ok(world)
    }

    fn read<Q: Read>(&self, query: Q) -> Result<Q::Answer, Error> {
        finish(query.read(&*self.open()?))
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn id(&self) -> StoreId {
        self.id
    }

    fn notifier(&self) -> &Notifier {
        &self.notifier
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    fn condition(&self) -> watch::Receiver<Condition> {
        watch::channel(Condition::Ready).1
    }

    /// One lock: more would only wait for it.
    fn concurrent_reads(&self) -> Option<usize> {
        None
    }

    async fn commit(&self, context: &RequestContext, request: Request) -> Result<Answer, Error> {
        let (reply, mut answer) = oneshot::channel();
        let mut group = vec![Submission { context: context.clone(), request, reply }];
        let mut world = self.open()?;
        // It never waits here. A failure is also the answer.
        let _ = group::execute(
            &mut *world,
            &mut group,
            &self.notifier,
            &self.metrics.writes,
            &|_, _| (),
        )
        .now_or_never();
        answer.try_recv().unwrap_or_else(|_| Err(group::abandoned()))
    }

    async fn read_session(&self, query: SessionQuery) -> Result<SessionView, Error> {
        self.read(query)
    }

    async fn read_events(&self, query: EventsQuery) -> Result<EventsView, Error> {
        self.read(query)
    }

    async fn list_sessions(&self, query: SessionsQuery) -> Result<SessionPage, Error> {
        self.read(query)
    }

    async fn list_applications(
        &self,
        query: ApplicationsQuery,
    ) -> Result<NamePage<AppName>, Error> {
        self.read(query)
    }

    async fn list_users(&self, query: UsersQuery) -> Result<NamePage<UserId>, Error> {
        self.read(query)
    }

    async fn read_state(&self, query: StateQuery) -> Result<StateView, Error> {
        self.read(query)
    }

    async fn list_key_changes(&self, query: KeyChangeQuery) -> Result<KeyChangePage, Error> {
        self.read(query)
    }

    async fn read_changes(&self, query: WatchQuery) -> Result<WatchPage, Error> {
        self.read(query)
    }

    async fn close(&self) {
        self.lock().closed = true;
    }
}

#[cfg(test)]
mod tests;
