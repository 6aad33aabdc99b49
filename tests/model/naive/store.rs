//! The naive model behind the interface of stores, so that the same reads can be made of it.

use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use sessiond::{
    commit::{Answer, Request},
    domain::{
        error::Error,
        id::{AppName, UserId},
        token::StoreId,
    },
    store::{
        ApplicationsQuery, Clock, Condition, EventsQuery, EventsView, KeyChangePage,
        KeyChangeQuery, NamePage, Notifier, RequestContext, SessionPage, SessionQuery, SessionView,
        SessionsQuery, StateQuery, StateView, Store, UsersQuery, WatchPage, WatchQuery,
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

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    fn condition(&self) -> watch::Receiver<Condition> {
        watch::channel(Condition::Ready).1
    }

    fn concurrent_reads(&self) -> Option<usize> {
        None
    }

    async fn commit(&self, _: &RequestContext, request: Request) -> Result<Answer, Error> {
        self.model().commit(&request, self.clock.now())
    }

    async fn read_session(&self, query: SessionQuery) -> Result<SessionView, Error> {
        self.model().read_session(&query)
    }

    async fn read_events(&self, query: EventsQuery) -> Result<EventsView, Error> {
        self.model().read_events(&query)
    }

    async fn list_sessions(&self, query: SessionsQuery) -> Result<SessionPage, Error> {
        Ok(self.model().list_sessions(&query))
    }

    async fn list_applications(
        &self,
        query: ApplicationsQuery,
    ) -> Result<NamePage<AppName>, Error> {
        let mut names: Vec<_> = self.model().used().into_iter().map(|(app, _)| app).collect();
        names.dedup();
        names.retain(|app| query.after.as_ref().is_none_or(|after| *app.as_str() > *after.name));
        Ok(NamePage { names, rest: None })
    }

    async fn list_users(&self, query: UsersQuery) -> Result<NamePage<UserId>, Error> {
        let mut used = self.model().used();
        used.retain(|(app, _)| *app == query.app_name);
        let mut names: Vec<_> = used.into_iter().filter_map(|(_, user)| user).collect();
        names.retain(|user| query.after.as_ref().is_none_or(|after| *user.as_str() > *after.name));
        Ok(NamePage { names, rest: None })
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
