//! The store in a file, for one process: SQLite in WAL mode, one thread that writes and a few that read.
//!
//! * A write waits in a `queue`, and the `writer` commits whatever waits together. It works a write out in memory first, knowing
//!   the heads of logs and the keys in use from its `cache`, and answers when the commit is durable.
//! * A read is one snapshot on a thread of the `readers`.
//! * `schema` says what the tables hold and which rules keep an append cheap, `history` how the past is read without walking
//!   through a log.
//! * Nothing of the driver leaves this folder: `fault` turns its errors into the domain's.

mod append;
mod cache;
mod changes;
mod checkpoint;
mod command;
mod events;
mod fault;
mod find;
mod fork;
mod head;
mod history;
mod list;
mod listed;
mod log;
mod lookup;
mod moved;
mod node;
mod open;
mod options;
mod plan;
mod queue;
mod readers;
mod replay;
mod rewind;
mod row;
mod schema;
mod sessions;
mod state;
mod statements;
mod sweep;
mod update;
mod writer;

#[cfg(test)]
mod tests;

use std::{
    fs::File,
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
};

use async_trait::async_trait;
use tokio::{sync::oneshot, task::spawn_blocking};
use tracing::error;

use self::{
    checkpoint::Checkpoints,
    command::{Command, Reply},
    events::Search,
    queue::{Queue, Rejected},
    readers::Readers,
};
use super::{
    Append, Appended, CreateSession, Created, EventQuery, ForkSession, KeyChangePage,
    KeyChangeQuery, RewindSession, SessionPage, SessionQuery, SessionUpdate, SessionView,
    SessionsQuery, StateQuery, StateUpdate, StateUpdated, StateView, Store, WatchPage, WatchQuery,
    tails::Tails,
};
use crate::domain::{
    error::{Bounded, Error},
    page::EventPage,
    scope::SessionKey,
    session::SessionInfo,
    time::Time,
    token::StoreId,
};
pub use open::OpenError;
pub use options::{Crash, CrashPoint, SqliteOptions};

/// Milliseconds after which a retry makes sense when too many writes wait: what a full queue takes.
const RETRY_AFTER_MILLIS: u64 = 200;

/// A store in a file. Dropping it finishes what was accepted, without waiting for that; [`Store::close`] waits.
pub struct SqliteStore {
    id: StoreId,
    tails: Arc<Tails>,
    writes: Arc<Queue<Command>>,
    readers: Readers,
    threads: Mutex<Threads>,
}

/// The threads, and the lock that nobody else may have before they have ended.
struct Threads {
    /// Those that read, and last the one that writes.
    handles: Vec<JoinHandle<()>>,
    lock: Option<File>,
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
        queue_commands,
        queue_bytes,
        group_commands,
        group_bytes,
        queue_reads,
        cache_bytes,
        crash,
    } = options;
    let open::Opened { path, connection, store_id, lock } = open::open(&path, new_id)?;
    let tails = Arc::new(Tails::default());
    let writes = Arc::new(Queue::new(queue_commands, queue_bytes));
    let failed =
        |error: std::io::Error| OpenError::Failed { path: path.clone(), cause: error.to_string() };
    let (checkpoints, copier) = Checkpoints::start(path.clone()).map_err(failed)?;
    let shared = writer::Shared {
        path: path.clone(),
        queue: Arc::clone(&writes),
        tails: Arc::clone(&tails),
        group_commands,
        group_bytes,
        cache_bytes,
        crash,
        commits: 0,
        checkpoints: checkpoints.clone(),
    };
    let readers = Readers::start(&path, readers, queue_reads);
    // Where there are no readers the thread that copies ends as well: it has nothing to wait for.
    let (readers, mut handles) = readers.inspect_err(|_| checkpoints.close()).map_err(failed)?;
    let thread = thread::Builder::new().name("sqlite-write".into());
    let spawned = thread.spawn(move || writer::run(connection, shared, copier));
    // Where there is no writer the other threads end as well: they have nothing to wait for.
    let spawned = spawned.inspect_err(|_| {
        readers.close();
        checkpoints.close();
    });
    handles.push(spawned.map_err(failed)?);
    let threads = Mutex::new(Threads { handles, lock: Some(lock) });
    Ok(SqliteStore { id: store_id, tails, writes, readers, threads })
}

impl SqliteStore {
    /// Has the writer do something and waits for the answer. What was accepted is done, also where the caller does not wait.
    async fn write<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let command = command(reply);
        let bytes = command.bytes();
        self.writes.push(command, bytes).map_err(|rejected| match rejected {
            Rejected::Full => Error::Overloaded {
                what: Bounded::WriteQueue,
                retry_after_millis: RETRY_AFTER_MILLIS,
            },
            Rejected::Closed => Error::Draining,
        })?;
        // The writer answers everything unless it ends in the middle of something.
        answer.await.unwrap_or(Err(Error::OutcomeUnknown))
    }

    /// Goes on with a read of events until a page is there.
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

    fn tails(&self) -> &Tails {
        &self.tails
    }

    async fn create_session(&self, create: CreateSession) -> Result<Created, Error> {
        self.write(|reply| Command::Create(create, reply)).await
    }

    async fn update_session(&self, update: SessionUpdate) -> Result<SessionInfo, Error> {
        self.write(|reply| Command::Update(update, reply)).await
    }

    async fn delete_session(&self, key: SessionKey, now: Time) -> Result<bool, Error> {
        self.write(|reply| Command::Delete(key, now, reply)).await
    }

    async fn fork_session(&self, fork: ForkSession) -> Result<SessionView, Error> {
        self.write(|reply| Command::Fork(fork, reply)).await
    }

    async fn append(&self, append: Append) -> Result<Appended, Error> {
        self.write(|reply| Command::Append(append, reply)).await
    }

    async fn rewind_session(&self, rewind: RewindSession) -> Result<Appended, Error> {
        self.write(|reply| Command::Rewind(rewind, reply)).await
    }

    async fn update_state(&self, update: StateUpdate) -> Result<StateUpdated, Error> {
        self.write(|reply| Command::UpdateState(update, reply)).await
    }

    async fn read_session(&self, query: SessionQuery) -> Result<SessionView, Error> {
        let read = self.readers.read(move |reads| reads.read_session(query));
        let (mut view, search) = read.await?;
        if let Some(search) = search {
            view.events = Some(self.finish(search).await?);
        }
        Ok(view)
    }

    async fn list_sessions(&self, mut query: SessionsQuery) -> Result<SessionPage, Error> {
        loop {
            let (page, asked) =
                self.readers.read(move |reads| Ok((reads.list_sessions(&query)?, query))).await?;
            // None of those that it looked at passes: nobody wants to hear of it.
            match (page.sessions.is_empty(), &page.rest) {
                (true, Some(rest)) => query = SessionsQuery { after: Some(rest.clone()), ..asked },
                _ => return Ok(page),
            }
        }
    }

    async fn list_events(&self, query: EventQuery) -> Result<(SessionInfo, EventPage), Error> {
        let EventQuery { key, as_of, selection, now } = query;
        let session = crate::domain::scope::SessionRef::Full(key);
        let events = Some(selection);
        let query = SessionQuery { session, as_of, with_state: false, events, now };
        let SessionView { info, state: _, events } = self.read_session(query).await?;
        events.map(|page| (info, page)).ok_or_else(|| Error::Internal("no events were read".into()))
    }

    async fn read_state(&self, query: StateQuery) -> Result<StateView, Error> {
        self.readers.read(move |reads| reads.read_state(&query)).await
    }

    async fn list_key_changes(&self, query: KeyChangeQuery) -> Result<KeyChangePage, Error> {
        self.readers.read(move |reads| reads.list_key_changes(&query)).await
    }

    async fn read_changes(&self, query: WatchQuery) -> Result<WatchPage, Error> {
        self.readers.read(move |reads| reads.read_changes(&query)).await
    }

    async fn sweep(&self, now: Time) -> Result<bool, Error> {
        self.write(|reply| Command::Sweep(now, reply)).await
    }

    async fn close(&self) {
        self.readers.close();
        let Threads { mut handles, lock } = {
            let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *threads, Threads { handles: Vec::new(), lock: None })
        };
        let writes = Arc::clone(&self.writes);
        let ended = spawn_blocking(move || {
            // The writer ends last: a reader may not remove the log when it is the last one to close the file.
            let writer = handles.pop();
            for handle in handles {
                join(handle);
            }
            writes.close();
            writer.into_iter().for_each(join);
            drop(lock);
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
