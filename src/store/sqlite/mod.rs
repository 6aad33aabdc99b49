//! The SQLite store: a file in WAL mode for one process, one thread that writes and a few that read.
//!
//! * A write waits in a queue. The `writer` executes the requests that wait as one group: it `load`s what their decisions need, from
//!   its cache or from the tables, and `apply`s the change set that they leave.
//! * A read is one snapshot on a thread of the `readers`.
//! * `schema` says what the tables hold, `snapshot` how the past is read.
//! * Nothing of the driver leaves this folder: `error` turns its errors into the domain's.

mod apply;
mod changes;
mod checkpoint;
mod error;
mod event_ids;
mod events;
mod file;
mod known;
mod list;
mod load;
mod migrate;
mod open;
mod open_error;
mod options;
mod read;
mod readers;
mod row;
mod schema;
mod snapshot;
mod statements;
mod writer;

#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
};

use async_trait::async_trait;
use tokio::{sync::oneshot, task::spawn_blocking};
use tracing::error;

use self::{events::Search, readers::Readers};
use super::{
    Clock, EventQuery, KeyChangePage, KeyChangeQuery, Notifier, RequestContext, SessionPage,
    SessionQuery, SessionView, SessionsQuery, StateQuery, StateView, Store, WatchPage, WatchQuery,
    group::{Submission, abandoned},
    queue::{Queue, Rejected},
};
use crate::{
    commit::{Answer, Request},
    domain::{
        error::{Bounded, Error},
        page::EventPage,
        session::SessionInfo,
        token::StoreId,
    },
};
pub use migrate::dry_run;
pub use open_error::OpenError;
pub use options::{Crash, CrashPoint, SqliteOptions};

/// Milliseconds after which a retry makes sense when the write queue is full: the time that a full queue takes.
const RETRY_AFTER_MILLIS: u64 = 200;

/// A store in a file. Dropping it finishes what was accepted, without waiting for that; [`Store::close`] waits.
pub struct SqliteStore {
    id: StoreId,
    notifier: Arc<Notifier>,
    clock: Arc<dyn Clock>,
    writes: Arc<Queue<Submission>>,
    readers: Readers,
    /// Those that read, and last the one that writes.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Opens a store, or makes one.
pub async fn open(options: SqliteOptions) -> Result<SqliteStore, OpenError> {
    let path = options.path.clone();
    let failed = |cause: String| OpenError::Failed { path: path.clone(), cause };
    let opened = spawn_blocking(move || start(options)).await;
    opened.unwrap_or_else(|error| Err(failed(error.to_string())))
}

fn start(options: SqliteOptions) -> Result<SqliteStore, OpenError> {
    let SqliteOptions {
        path,
        new_id,
        readers,
        queue_requests,
        queue_bytes,
        group_requests,
        group_bytes,
        queue_reads,
        cache_bytes,
        crash,
        clock,
    } = options;
    let open::Opened { path, connection, store_id, lock } = open::open(&path, new_id)?;
    let notifier = Arc::new(Notifier::default());
    let writes = Arc::new(Queue::new(queue_requests, queue_bytes));
    let failed =
        |error: std::io::Error| OpenError::Failed { path: path.clone(), cause: error.to_string() };
    let (checkpoints, checkpointer) =
        checkpoint::Checkpoints::start(path.clone()).map_err(failed)?;
    let shared = writer::Shared {
        path: path.clone(),
        queue: Arc::clone(&writes),
        notifier: Arc::clone(&notifier),
        clock: Arc::clone(&clock),
        group_requests,
        group_bytes,
        cache_bytes,
        crash,
        commits: 0,
        checkpoints,
    };
    let (readers, mut handles) = Readers::start(&path, readers, queue_reads).map_err(failed)?;
    let thread = thread::Builder::new().name("sqlite-write".into());
    // Without a writer the readers end as well: they have nothing to wait for.
    let spawned = thread.spawn(move || {
        writer::run(connection, shared, checkpointer);
        // No other process may have the file before, also where the store was dropped.
        drop(lock);
    });
    handles.push(spawned.inspect_err(|_| readers.close()).map_err(failed)?);
    Ok(SqliteStore { id: store_id, notifier, clock, writes, readers, threads: Mutex::new(handles) })
}

impl SqliteStore {
    /// Continues a read of events until a page is complete.
    async fn finish(&self, mut search: Search) -> Result<EventPage, Error> {
        loop {
            let step = move |reads: &mut statements::Reads<'_>| {
                let page = search.step(reads)?;
                Ok((page, search))
            };
            match self.readers.read(step).await? {
                (Some(page), _) => return Ok(page),
                (None, unfinished) => search = unfinished,
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

    async fn commit(&self, context: &RequestContext, request: Request) -> Result<Answer, Error> {
        let (reply, answer) = oneshot::channel();
        let bytes = request.bytes();
        let submission = Submission { context: context.clone(), request, reply };
        self.writes.push(submission, bytes).map_err(|rejected| match rejected {
            Rejected::Full => Error::Overloaded {
                what: Bounded::WriteQueue,
                retry_after_millis: RETRY_AFTER_MILLIS,
            },
            Rejected::Closed => Error::Draining,
        })?;
        // The writer answers everything unless it ends in the middle of something.
        answer.await.unwrap_or_else(|_| Err(abandoned()))
    }

    async fn read_session(&self, query: SessionQuery) -> Result<SessionView, Error> {
        let now = self.clock.now();
        let (mut view, search) =
            self.readers.read(move |reads| reads.read_session(query, now)).await?;
        if let Some(search) = search {
            view.events = Some(self.finish(search).await?);
        }
        Ok(view)
    }

    async fn list_sessions(&self, mut query: SessionsQuery) -> Result<SessionPage, Error> {
        let now = self.clock.now();
        loop {
            let (page, asked) = self
                .readers
                .read(move |reads| Ok((reads.list_sessions(&query, now)?, query)))
                .await?;
            // None of the sessions that were read passes: go on instead of answering an empty page.
            match (page.sessions.is_empty(), &page.rest) {
                (true, Some(rest)) => query = SessionsQuery { after: Some(rest.clone()), ..asked },
                _ => return Ok(page),
            }
        }
    }

    async fn list_events(&self, query: EventQuery) -> Result<(SessionInfo, EventPage), Error> {
        let EventQuery { key, as_of, selection } = query;
        let session = crate::domain::scope::SessionRef::Full(key);
        let events = Some(selection);
        let query = SessionQuery { session, as_of, with_state: false, events };
        let SessionView { info, state: _, events } = self.read_session(query).await?;
        events.map(|page| (info, page)).ok_or_else(|| Error::internal("no events were read"))
    }

    async fn read_state(&self, query: StateQuery) -> Result<StateView, Error> {
        let now = self.clock.now();
        self.readers.read(move |reads| reads.read_state(&query, now)).await
    }

    async fn list_key_changes(&self, query: KeyChangeQuery) -> Result<KeyChangePage, Error> {
        let now = self.clock.now();
        self.readers.read(move |reads| reads.list_key_changes(&query, now)).await
    }

    async fn read_changes(&self, query: WatchQuery) -> Result<WatchPage, Error> {
        let now = self.clock.now();
        self.readers.read(move |reads| reads.read_changes(&query, now)).await
    }

    async fn close(&self) {
        self.readers.close();
        let mut handles =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        let writes = Arc::clone(&self.writes);
        let ended = spawn_blocking(move || {
            // The writer ends last: a reader may not remove the log when it is the last one to close the file.
            let writer = handles.pop();
            for handle in handles {
                join(handle);
            }
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
