//! The SQLite store: a file in WAL mode for one process, one thread that writes and a few that read.
//!
//! * A write waits in a queue. The `writer` executes the requests that wait as one group: it `load`s what their decisions need, from
//!   its cache or from the tables, and `apply`s the change set that they leave.
//! * A read is one snapshot on a thread of the `readers`.
//! * `schema` says what the tables hold, `log` where the rows of a log lie, `snapshot` how the past is read.
//! * Nothing of the driver leaves this folder: `connection` turns its errors into the domain's.

mod apply;
mod changes;
mod checkpoint;
mod compact;
mod connection;
mod disk;
mod emptied;
mod events;
mod file;
mod index;
mod leftovers;
mod listed;
mod load;
mod lock;
mod log;
mod migrate;
mod minute;
mod names;
mod prelude;
mod probes;
mod purge;
mod read;
mod readers;
mod row;
mod schema;
mod snapshot;
pub mod verify;
mod writer;

#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
};

use async_trait::async_trait;
use tokio::{
    sync::{oneshot, watch},
    task::spawn_blocking,
};
use tracing::error;

use self::{
    disk::Disk, events::Search, names::Names, prelude::*, readers::Readers, writer::Writer,
};
use super::{
    ApplicationsQuery, Clock, Condition, KeyChangePage, KeyChangeQuery, NamePage, Notifier,
    RequestContext, SessionPage, SessionQuery, SessionView, SessionsQuery, StateQuery, StateView,
    Store, UsersQuery, WatchPage, WatchQuery,
    group::{Submission, abandoned},
    queue::{Queue, WRITE_BYTES, WRITES_FULL},
};
use crate::commit::{Answer, Request};
pub use compact::compact;
pub use file::{Crash, CrashPoint, OpenError, SqliteOptions, unfinished_bytes};
pub use migrate::{dry_run, migrate_file};

/// A store in a file. Dropping it finishes what was accepted, without waiting for that; [`Store::close`] waits.
pub struct SqliteStore {
    id: StoreId,
    notifier: Arc<Notifier>,
    clock: Arc<dyn Clock>,
    condition: watch::Receiver<Condition>,
    writes: Arc<Queue<Submission>>,
    readers: Readers,
    /// Those that read, and last the one that writes.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Opens a store, or makes one.
pub async fn open(options: SqliteOptions) -> Result<SqliteStore, OpenError> {
    let path = options.path.clone();
    let opened = spawn_blocking(move || start(options)).await;
    opened.unwrap_or_else(|error| Err(OpenError::failed(&path, error)))
}

fn start(mut options: SqliteOptions) -> Result<SqliteStore, OpenError> {
    let path = file::whole_path(&options.path)?;
    options.path.clone_from(&path);
    let lock = Arc::new(lock::lock(&path, options.file_mode)?);
    let opened = migrate::open(&path, options.new_id);
    let is_full = matches!(opened, Err(OpenError::DiskFull(_))) && disk::give_up_reserve(&path);
    let (tables, id) = if is_full { migrate::open(&path, options.new_id)? } else { opened? };
    if options.verify {
        verify::before_serving(&path)?;
    }
    let disk = Disk::new(Arc::clone(&lock), is_full);
    let notifier = Arc::new(Notifier::default());
    let metrics = Arc::clone(&options.metrics);
    let waits = metrics.writes.queue_wait.clone();
    let writes = Arc::new(Queue::new(options.queue_requests, WRITE_BYTES, WRITES_FULL, waits));
    let (clock, threads) = (Arc::clone(&options.clock), options.readers);
    let failed = |error: std::io::Error| OpenError::failed(&path, error);
    let (queue, notifies) = (Arc::clone(&writes), Arc::clone(&notifier));
    let writer = Writer::new(options, queue, notifies, tables, disk)
        .map_err(|error| OpenError::failed(&path, error))?;
    let (readers, mut handles) = Readers::start(&lock, threads, &metrics.reads).map_err(failed)?;
    // The last thread gives up the lock, also where the store was dropped: no other process may have the file before.
    match thread::Builder::new().name("sqlite-write".into()).spawn(move || writer.run()) {
        Ok(thread) => handles.push(thread),
        Err(error) => {
            // Without a writer the readers have nothing to wait for.
            readers.close();
            handles.into_iter().for_each(join);
            return Err(failed(error));
        }
    }
    probes::start(&metrics, &writes, &readers, &clock);
    let condition = lock.condition.subscribe();
    let threads = Mutex::new(handles);
    Ok(SqliteStore { id, notifier, clock, condition, writes, readers, threads })
}

impl SqliteStore {
    /// Continues a read of events until a page is complete.
    async fn finish(&self, mut search: Search) -> Result<EventPage, Error> {
        loop {
            let step = self.readers.read(move |tables| Ok((search.resume(tables)?, search)));
            match step.await? {
                (Some(page), _) => return Ok(page),
                (None, unfinished) => search = unfinished,
            }
        }
    }

    /// Continues a list of names until a page is complete.
    async fn finish_names<T>(
        &self,
        mut names: Names,
        name: fn(String) -> T,
    ) -> Result<NamePage<T>, Error> {
        let now = self.clock.now();
        loop {
            let step = self.readers.read(move |tables| Ok((names.step(tables, now)?, names)));
            match step.await? {
                (true, complete) => return Ok(complete.page(name)),
                (false, unfinished) => names = unfinished,
            }
        }
    }
}

#[async_trait]
impl Store for SqliteStore {
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
        self.condition.clone()
    }

    async fn commit(&self, context: &RequestContext, request: Request) -> Result<Answer, Error> {
        let (reply, answer) = oneshot::channel();
        let bytes = request.bytes();
        let submission = Submission { context: context.clone(), request, reply };
        self.writes.push(submission, bytes)?;
        // The writer answers everything unless it ends in the middle of something.
        answer.await.unwrap_or_else(|_| Err(abandoned()))
    }

    async fn read_session(&self, query: SessionQuery) -> Result<SessionView, Error> {
        let now = self.clock.now();
        let (mut view, search) =
            self.readers.read(move |tables| tables.read_session(query, now)).await?;
        if let Some(search) = search.filter(|_| view.events.is_none()) {
            view.events = Some(self.finish(search).await?);
        }
        Ok(view)
    }

    async fn list_sessions(&self, mut query: SessionsQuery) -> Result<SessionPage, Error> {
        let now = self.clock.now();
        loop {
            let (page, asked) = self
                .readers
                .read(move |tables| Ok((tables.list_sessions(&query, now)?, query)))
                .await?;
            // None of the sessions that were read passes: go on instead of answering an empty page.
            match (page.sessions.is_empty(), &page.rest) {
                (true, Some(rest)) => query = SessionsQuery { after: Some(rest.clone()), ..asked },
                _ => return Ok(page),
            }
        }
    }

    async fn list_applications(
        &self,
        query: ApplicationsQuery,
    ) -> Result<NamePage<AppName>, Error> {
        self.finish_names(Names::applications(query), AppName::from_stored).await
    }

    async fn list_users(&self, query: UsersQuery) -> Result<NamePage<UserId>, Error> {
        self.finish_names(Names::users(query), UserId::from_stored).await
    }

    async fn read_state(&self, query: StateQuery) -> Result<StateView, Error> {
        let now = self.clock.now();
        self.readers.read(move |tables| tables.read_state(&query, now)).await
    }

    async fn list_key_changes(&self, query: KeyChangeQuery) -> Result<KeyChangePage, Error> {
        let now = self.clock.now();
        self.readers.read(move |tables| tables.list_key_changes(&query, now)).await
    }

    async fn read_changes(&self, query: WatchQuery) -> Result<WatchPage, Error> {
        let now = self.clock.now();
        self.readers.read(move |tables| tables.read_changes(&query, now)).await
    }

    async fn close(&self) {
        self.readers.close();
        let threads = self.threads.lock().map(|mut threads| std::mem::take(&mut *threads));
        let mut readers = threads.unwrap_or_default();
        let writes = Arc::clone(&self.writes);
        let ended = spawn_blocking(move || {
            // The writer ends last: a reader may not remove the WAL when it is the last one to close the file.
            let writer = readers.pop();
            readers.into_iter().for_each(join);
            writes.close();
            writer.into_iter().for_each(join);
        });
        if let Err(error) = ended.await {
            error!(%error, "closing the store was interrupted");
        }
    }
}

fn join(handle: JoinHandle<()>) {
    if handle.join().is_err() {
        error!("a thread of the store panicked");
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.writes.close();
        self.readers.close();
    }
}
