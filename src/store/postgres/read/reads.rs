//! The reads of a store, each on a connection of the pool. Those that may look at many rows do it in several transactions.

use std::{collections::BTreeSet, sync::Arc};

use deadpool::Status;
use futures_util::FutureExt;
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

use super::{
    super::{prelude::*, shared::Shared},
    figures,
    names::Names,
    pool::Pool,
};
use crate::store::{
    ApplicationsQuery, KeyChangePage, KeyChangeQuery, NamePage, SessionPage, SessionQuery,
    SessionView, SessionsQuery, StateQuery, StateView, UsersQuery, WatchPage, WatchQuery,
    figures::Figures,
};

/// The reads of a store.
pub(in super::super) struct Reads {
    pool: Pool,
    /// Reads that have begun and not ended. Closed: no further one may begin.
    in_flight: TaskTracker,
}

impl Reads {
    pub(in super::super) fn new(shared: &Arc<Shared>) -> Result<Self, Error> {
        let pool = Pool::new(Arc::clone(shared), shared.options.readers)?;
        Ok(Self { pool, in_flight: TaskTracker::new() })
    }

    /// Begins a read.
    pub(in super::super) fn begin(&self) -> Result<Read<'_>, Error> {
        // The token comes first: a close that does not see it is seen here.
        let token = self.in_flight.token();
        match self.in_flight.is_closed() {
            true => Err(Error::Draining),
            false => Ok(Read { pool: &self.pool, _in_flight: token }),
        }
    }

    pub(in super::super) fn pool_status(&self) -> Status {
        self.pool.status()
    }

    /// Refuses new reads. Those that have begun go on, also those that wait for a connection.
    pub(in super::super) fn refuse(&self) {
        self.in_flight.close();
    }

    /// Closes the connections when the last read has ended, after [`Self::refuse`].
    pub(in super::super) async fn close(&self) {
        self.in_flight.wait().await;
        self.pool.close();
    }
}

/// A read that closing waits for.
pub(in super::super) struct Read<'p> {
    pool: &'p Pool,
    _in_flight: TaskTrackerToken,
}

impl Read<'_> {
    pub(in super::super) async fn read_session(
        &self,
        mut query: SessionQuery,
    ) -> Result<SessionView, Error> {
        let read = self.pool.read(&mut query, |reader, query| reader.read_session(query).boxed());
        let (mut view, search) = read.await?;
        let Some(mut search) = search else { return Ok(view) };
        while view.events.is_none() {
            let step = self
                .pool
                .read(&mut search, |reader, search| reader.continue_events(search).boxed());
            view.events = step.await?;
        }
        Ok(view)
    }

    pub(in super::super) async fn list_sessions(
        &self,
        mut query: SessionsQuery,
    ) -> Result<SessionPage, Error> {
        loop {
            let page = self
                .pool
                .read(&mut query, |reader, query| reader.list_sessions(query).boxed())
                .await?;
            // None of the sessions that were read passes: go on instead of answering an empty page.
            match (page.sessions.is_empty(), &page.rest) {
                (true, Some(rest)) => query.after = Some(rest.clone()),
                _ => return Ok(page),
            }
        }
    }

    pub(in super::super) async fn list_applications(
        &self,
        query: ApplicationsQuery,
    ) -> Result<NamePage<AppName>, Error> {
        let ApplicationsQuery { after, max_items } = query;
        self.list_names(Names::applications(after), max_items, AppName::from_stored).await
    }

    pub(in super::super) async fn list_users(
        &self,
        query: UsersQuery,
    ) -> Result<NamePage<UserId>, Error> {
        let UsersQuery { app_name, after, max_items } = query;
        self.list_names(Names::users(app_name, after), max_items, UserId::from_stored).await
    }

    async fn list_names<T>(
        &self,
        lists: [Names; 2],
        max_items: usize,
        name: fn(String) -> T,
    ) -> Result<NamePage<T>, Error> {
        // One more than the page tells whether others follow.
        let wanted = max_items.saturating_add(1);
        let mut found = BTreeSet::new();
        for mut names in lists {
            while !names.is_complete(wanted) {
                let step = self.pool.read(&mut names, move |reader, names| {
                    reader.continue_names(names, wanted).boxed()
                });
                step.await?;
            }
            found.extend(names.into_found());
        }
        Ok(NamePage::first(found.into_iter().map(name), max_items))
    }

    pub(in super::super) async fn read_state(
        &self,
        mut query: StateQuery,
    ) -> Result<StateView, Error> {
        self.pool.read(&mut query, |reader, query| reader.read_state(query).boxed()).await
    }

    pub(in super::super) async fn list_key_changes(
        &self,
        mut query: KeyChangeQuery,
    ) -> Result<KeyChangePage, Error> {
        self.pool.read(&mut query, |reader, query| reader.list_key_changes(query).boxed()).await
    }

    pub(in super::super) async fn figures(&self) -> Result<Figures, Error> {
        self.pool.read(&mut (), |reader, ()| figures::read(reader).boxed()).await
    }

    pub(in super::super) async fn read_changes(
        &self,
        mut query: WatchQuery,
    ) -> Result<WatchPage, Error> {
        self.pool.read(&mut query, |reader, query| reader.read_changes(query).boxed()).await
    }
}
