//! A store that holds appends back until the test lets them pass, and records the order of their arrival.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use tokio::sync::{Semaphore, watch};

use super::memory;
use crate::{
    commit::{Answer, Request},
    domain::{
        error::{Bounded, Error},
        id::{AppName, UserId},
        token::StoreId,
    },
    store::{
        ApplicationsQuery, Clock, Condition, EventsQuery, EventsView, KeyChangePage,
        KeyChangeQuery, NamePage, Notifier, RequestContext, SessionPage, SessionQuery, SessionView,
        SessionsQuery, StateQuery, StateView, Store, UsersQuery, WatchPage, WatchQuery,
        memory::MemoryStore,
    },
};

/// The memory store behind a gate.
pub struct GatedStore {
    inner: MemoryStore,
    gate: Semaphore,
    came: Mutex<Vec<String>>,
    came_changed: tokio::sync::Notify,
    /// Reads of watches that are refused, as where the queue of reads is full.
    pub busy: AtomicU64,
}

impl GatedStore {
    /// Nothing passes yet.
    pub fn new() -> Self {
        Self {
            inner: memory(),
            gate: Semaphore::new(0),
            came: Mutex::default(),
            came_changed: tokio::sync::Notify::new(),
            busy: AtomicU64::new(0),
        }
    }

    /// Lets this many appends pass.
    pub fn open(&self, appends: usize) {
        self.gate.add_permits(appends);
    }

    /// Ids of the appended events in order of arrival, as soon as `many` have arrived.
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

    fn notifier(&self) -> &Notifier {
        self.inner.notifier()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.inner.clock()
    }

    fn condition(&self) -> watch::Receiver<Condition> {
        self.inner.condition()
    }

    fn concurrent_reads(&self) -> Option<usize> {
        self.inner.concurrent_reads()
    }

    async fn commit(&self, context: &RequestContext, request: Request) -> Result<Answer, Error> {
        if let Request::Append(append) = &request {
            let id = append.events[0].event_id.to_string();
            self.came.lock().unwrap_or_else(PoisonError::into_inner).push(id);
            self.came_changed.notify_waiters();
            self.gate.acquire().await.unwrap().forget();
        }
        self.inner.commit(context, request).await
    }

    async fn read_session(&self, query: SessionQuery) -> Result<SessionView, Error> {
        self.inner.read_session(query).await
    }

    async fn read_events(&self, query: EventsQuery) -> Result<EventsView, Error> {
        self.inner.read_events(query).await
    }

    async fn list_sessions(&self, query: SessionsQuery) -> Result<SessionPage, Error> {
        self.inner.list_sessions(query).await
    }

    async fn list_applications(
        &self,
        query: ApplicationsQuery,
    ) -> Result<NamePage<AppName>, Error> {
        self.inner.list_applications(query).await
    }

    async fn list_users(&self, query: UsersQuery) -> Result<NamePage<UserId>, Error> {
        self.inner.list_users(query).await
    }

    async fn read_state(&self, query: StateQuery) -> Result<StateView, Error> {
        self.inner.read_state(query).await
    }

    async fn list_key_changes(&self, query: KeyChangeQuery) -> Result<KeyChangePage, Error> {
        self.inner.list_key_changes(query).await
    }

    async fn read_changes(&self, query: WatchQuery) -> Result<WatchPage, Error> {
        let busy = |left: u64| left.checked_sub(1);
        if self.busy.fetch_update(Ordering::SeqCst, Ordering::SeqCst, busy).is_ok() {
            return Err(Error::Overloaded { what: Bounded::ReadQueue, retry_after_millis: 200 });
        }
        self.inner.read_changes(query).await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
