//! The naive model behind the interface of stores, so that the same reads can be made of it.

use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use sessiond::{
    commit::{Answer, Request},
    domain::{error::Error, token::StoreId},
    store::{
        Clock, Condition, KeyChangePage, KeyChangeQuery, Notifier, RequestContext, SessionPage,
        SessionQuery, SessionView, SessionsQuery, StateQuery, StateView, Store, WatchPage,
        WatchQuery,
    },
};
use tokio::sync::watch;

use super::Naive;

pub struct NaiveStore {
    model: Mutex<Naive>,
    clock: Arc<dyn Clock>,
    notifier: Notifier,
}

impl NaiveStore {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { model: Mutex::new(Naive::new()), clock, notifier: Notifier::default() }
    }

    /// The model, for a read at the present time.
    fn model(&self) -> MutexGuard<'_, Naive> {
        let mut model = self.model.lock().unwrap();
        model.now = self.clock.now();
        model
    }
}

#[async_trait]
impl Store for NaiveStore {
    fn id(&self) -> StoreId {
        StoreId([0; 16])
    }

    fn notifier(&self) -> &Notifier {
        &self.notifier
    }

    fn condition(&self) -> watch::Receiver<Condition> {
        watch::channel(Condition::Ready).1
    }

    async fn commit(&self, _: &RequestContext, request: Request) -> Result<Answer, Error> {
        self.model().commit(&request, self.clock.now())
    }

    async fn read_session(&self, query: SessionQuery) -> Result<SessionView, Error> {
        self.model().read_session(&query)
    }

    async fn list_sessions(&self, query: SessionsQuery) -> Result<SessionPage, Error> {
        Ok(self.model().list_sessions(&query))
    }

    async fn read_state(&self, query: StateQuery) -> Result<StateView, Error> {
        self.model().read_state(&query)
    }

    async fn list_key_changes(&self, query: KeyChangeQuery) -> Result<KeyChangePage, Error> {
        self.model().list_key_changes(&query)
    }

    async fn read_changes(&self, query: WatchQuery) -> Result<WatchPage, Error> {
        self.model().read_changes(&query)
    }

    async fn close(&self) {}
}
