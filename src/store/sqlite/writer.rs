//! The thread that writes: it takes the requests that wait and executes them as one group, in one transaction.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::Arc,
    thread::JoinHandle,
};

use futures_util::FutureExt as _;
use rusqlite::Connection;
use tracing::{error, info, warn};

use super::{
    checkpoint::{Checkpoints, at_close},
    error::commit_error,
    known::KnownIds,
    options::{Crash, CrashPoint},
    statements::{Reads, Writes},
};
use crate::{
    commit::{ChangeSet, Loaded, Needs},
    domain::{
        error::{Cause, Error},
        session::Incarnation,
    },
    store::{
        Clock, Notifier,
        group::{Backend, Submission, execute},
        queue::Queue,
    },
};

/// Parts that the writer keeps when it replaces its connection.
pub(super) struct Shared {
    pub(super) path: PathBuf,
    pub(super) queue: Arc<Queue<Submission>>,
    pub(super) notifier: Arc<Notifier>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) group_requests: usize,
    pub(super) group_bytes: usize,
    pub(super) cache_bytes: usize,
    pub(super) crash: Option<Crash>,
    pub(super) commits: u64,
    pub(super) checkpoints: Checkpoints,
}

/// The writer on one connection.
pub(super) struct Writer<'c> {
    pub(super) connection: &'c Connection,
    pub(super) reads: Reads<'c>,
    pub(super) writes: Writes<'c>,
    /// A cache: the process has the file for itself, so what was loaded stays true.
    pub(super) loaded: Loaded,
    /// Event ids of the sessions in `loaded`, as far as they were needed.
    pub(super) known: HashMap<Incarnation, KnownIds>,
    /// Counts groups, to find what was not used for the longest time.
    pub(super) round: u64,
    /// Bytes that came into the cache since it was weighed.
    pub(super) grown: usize,
    stored_next_id: u64,
    /// Its state is unknown.
    pub(super) broken: bool,
    clock: Arc<dyn Clock>,
    crash: Option<Crash>,
    commits: u64,
}

impl<'c> Writer<'c> {
    pub(super) fn new(connection: &'c Connection, shared: &Shared) -> Result<Self, Error> {
        let next_id = next_id(connection)?;
        Ok(Self {
            connection,
            reads: Reads::prepare(connection)?,
            writes: Writes::prepare(connection)?,
            loaded: Loaded::new(shared.clock.now(), next_id),
            known: HashMap::new(),
            round: 0,
            grown: 0,
            stored_next_id: next_id,
            broken: false,
            clock: Arc::clone(&shared.clock),
            crash: shared.crash,
            commits: shared.commits,
        })
    }

    /// Serves until the queue is closed (true) or the connection is not to be trusted any more.
    fn serve(&mut self, shared: &mut Shared) -> bool {
        let mut group = Vec::with_capacity(shared.group_requests);
        loop {
            let wait = group.is_empty();
            let more =
                shared.queue.take(&mut group, shared.group_requests, shared.group_bytes, wait);
            if group.is_empty() {
                if more {
                    continue;
                }
                return true;
            }
            // Nothing in it waits: this thread is the database.
            let executed = execute(self, &mut group, &shared.notifier).now_or_never();
            shared.commits = self.commits;
            if let Some(Err(error)) = executed {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                error!(%error, cause, "a group of writes failed");
            }
            if self.broken {
                let failure = Error::StoreUnavailable(Cause::new("the connection is replaced"));
                group.drain(..).for_each(|it| it.answer(Err(failure.clone())));
                return false;
            }
            self.shrink(shared.cache_bytes);
            shared.checkpoints.after_commit(self.connection);
        }
    }

    fn abort_at(&self, point: CrashPoint) {
        if self.crash == Some(Crash { point, at_commit: self.commits }) {
            std::process::abort();
        }
    }
}

fn next_id(connection: &Connection) -> rusqlite::Result<u64> {
    let next = |row: &rusqlite::Row<'_>| super::row::count(row, 0);
    connection.query_row("SELECT next_id FROM meta", (), next)
}

impl Backend for Writer<'_> {
    fn loaded(&mut self) -> &mut Loaded {
        &mut self.loaded
    }

    async fn load(&mut self, needs: &[Needs<'_>]) -> Result<(), Error> {
        self.writes.begin.execute(())?;
        self.loaded.now = self.clock.now();
        self.round += 1;
        let loaded = needs.iter().try_for_each(|needs| self.load_needs(needs));
        if loaded.is_err() {
            self.roll_back(true).await;
        }
        loaded
    }

    async fn apply(&mut self, changes: &ChangeSet) -> Result<(), Error> {
        self.apply_changes(changes)?;
        if self.loaded.next_id != self.stored_next_id {
            self.writes.next_id.execute([self.loaded.next_id.cast_signed()])?;
            self.stored_next_id = self.loaded.next_id;
        }
        Ok(())
    }

    async fn commit(&mut self) -> Result<(), Error> {
        self.commits += 1;
        self.abort_at(CrashPoint::BeforeCommit);
        if let Err(error) = self.writes.commit.execute(()) {
            let error = commit_error(error);
            self.broken = matches!(error, Error::OutcomeUnknown(_));
            return Err(error);
        }
        self.abort_at(CrashPoint::AfterCommitBeforeAck);
        Ok(())
    }

    async fn roll_back(&mut self, changed: bool) {
        // SQLite rolls back by itself after some errors.
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            warn!(%error, "rollback failed, replacing the connection");
            self.broken = true;
        }
        if changed {
            match next_id(self.connection) {
                Ok(next_id) => {
                    self.loaded = Loaded::new(self.clock.now(), next_id);
                    self.stored_next_id = next_id;
                    self.known.clear();
                }
                Err(error) => {
                    warn!(%error, "read after a failed commit failed, replacing the connection");
                    self.broken = true;
                }
            }
        }
    }
}

/// The writer's thread: with one connection as long as it is good, then with the next.
pub(super) fn run(first: Connection, mut shared: Shared, checkpointer: JoinHandle<()>) {
    serve(first, &mut shared);
    let Shared { path, checkpoints, .. } = shared;
    drop(checkpoints);
    if checkpointer.join().is_err() {
        error!("the checkpointer panicked");
    }
    match super::file::connect_writer(&path) {
        Ok(connection) => at_close(&connection),
        Err(error) => warn!(%error, "the connection for the last checkpoint failed"),
    }
    info!("the store is closed");
}

fn serve(first: Connection, shared: &mut Shared) {
    let mut connection = Some(first);
    loop {
        let current = match connection.take() {
            Some(connection) => Ok(connection),
            None => super::file::connect_writer(&shared.path),
        };
        let work = || -> Result<bool, Error> {
            let mut connection = current?;
            shared.checkpoints.follow(&mut connection)?;
            Ok(Writer::new(&connection, shared)?.serve(shared))
        };
        let failure = match catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(true)) => return,
            Ok(Ok(false)) => continue,
            Ok(Err(error)) => error,
            Err(_) => Error::internal("the writer panicked"),
        };
        error!(error = %failure, "the writer goes on with a new connection");
        // The callers that wait are answered. The next attempt is made for the next request.
        let mut group = Vec::new();
        let more = shared.queue.take(&mut group, usize::MAX, usize::MAX, true);
        if !more && group.is_empty() {
            return;
        }
        let failure = Error::StoreUnavailable(Cause::new(failure));
        group.into_iter().for_each(|it| it.answer(Err(failure.clone())));
    }
}
