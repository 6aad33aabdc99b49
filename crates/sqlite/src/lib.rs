//! The SQLite store: a file in WAL mode for one process, one thread that writes and a few that read.
//!
//! * A write waits in a queue. The `writer` executes the requests that wait as one group: it `load`s what their decisions need, from
//!   its cache or from the tables, and `apply`s the change set that they leave.
//! * A read is one snapshot on a thread of the `readers`.
//! * `schema` says what the tables hold, `log` where the rows of a log lie, `snapshot` how the past is read.
//! * Nothing of the driver leaves this folder: `connection` turns its errors into the domain's.

mod apply;
mod checkpoint;
mod compact;
mod connection;
mod disk;
mod emptied;
mod file;
mod leftovers;
mod listed;
mod lists;
mod load;
mod lock;
mod log;
mod lookup;
mod migrate;
mod minute;
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
    disk::Disk,
    prelude::*,
    read::Snapshot,
    readers::{Readers, join},
    writer::Writer,
};
pub use compact::compact;
pub use file::{OpenError, SqliteOptions, unfinished_bytes};
pub use migrate::{dry_run, migrate_file};
use sessiond_core::{
    commit::{Answer, Request},
    read::{Read, finish},
};
use sessiond_store::{
    ApplicationsQuery, Clock, Condition, EventsQuery, EventsView, KeyChangePage, KeyChangeQuery,
    NamePage, Notifier, RequestContext, SessionPage, SessionQuery, SessionView, SessionsQuery,
    StateQuery, StateView, Store, UsersQuery, WatchPage, WatchQuery,
    group::{Submission, abandoned},
    queue::{Queue, WRITE_BYTES, WRITES_FULL},
};

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
    /// Reads in one snapshot.
    async fn read<Q>(&self, query: Q) -> Result<Q::Answer>
    where
        Q: Read<Answer: Send> + Send + 'static,
    {
        let (clock, now) = (Arc::clone(&self.clock), self.clock.now());
        let read = move |tables: &_| finish(query.read(&Snapshot { tables, now, clock: &*clock }));
        self.readers.read(read).await
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

    fn concurrent_reads(&self) -> Option<usize> {
        None
    }

    async fn commit(&self, context: &RequestContext, request: Request) -> Result<Answer, Error> {
        let (reply, answer) = oneshot::channel();
        let bytes = request.bytes();
        let submission = Submission { context: context.clone(), request, reply };
        self.writes.push(context.caller, submission, bytes)?;
        // The writer answers everything unless it ends in the middle of something.
        answer.await.unwrap_or_else(|_| Err(abandoned()))
    }

    async fn read_session(&self, query: SessionQuery) -> Result<SessionView, Error> {
        self.read(query).await
    }

    async fn read_events(&self, query: EventsQuery) -> Result<EventsView, Error> {
        self.read(query).await
    }

    async fn list_sessions(&self, query: SessionsQuery) -> Result<SessionPage, Error> {
        self.read(query).await
    }

    async fn list_applications(
        &self,
        query: ApplicationsQuery,
    ) -> Result<NamePage<AppName>, Error> {
        self.read(query).await
    }

    async fn list_users(&self, query: UsersQuery) -> Result<NamePage<UserId>, Error> {
        self.read(query).await
    }

    async fn read_state(&self, query: StateQuery) -> Result<StateView, Error> {
        self.read(query).await
    }

    async fn list_key_changes(&self, query: KeyChangeQuery) -> Result<KeyChangePage, Error> {
        self.read(query).await
    }

    async fn read_changes(&self, query: WatchQuery) -> Result<WatchPage, Error> {
        self.read(query).await
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

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.writes.close();
        self.readers.close();
    }
}
