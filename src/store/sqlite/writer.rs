//! The one thread that writes. It takes what waits, does it all in one transaction, commits, wakes watchers, and answers then.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::Arc,
    thread::JoinHandle,
};

use rusqlite::{Connection, ErrorCode};
use tracing::{error, info, warn};

use super::{
    cache::Cache,
    checkpoint::Checkpoints,
    command::{Command, Ready, Trouble, carry_out},
    fault::driver_error,
    fork::Fork,
    moved::MovedSession,
    options::{Crash, CrashPoint},
    queue::Queue,
    schema::NodeId,
    statements::{Reads, Writes},
};
use crate::{
    domain::{
        error::Error,
        scope::{Scope, SessionKey},
    },
    store::tails::{GONE, Tails},
};

/// What outlives a connection.
pub(super) struct Shared {
    pub(super) path: PathBuf,
    pub(super) queue: Arc<Queue<Command>>,
    pub(super) tails: Arc<Tails>,
    pub(super) group_commands: usize,
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
    pub(super) cache: Cache,
    pub(super) next_node: NodeId,
    stored_next_node: NodeId,
    /// As the table of the same name, those that moved first in front.
    pub(super) moved: VecDeque<MovedSession>,
    /// Nodes whose head or keys are not all written.
    pub(super) unwritten: Vec<NodeId>,
    /// Nodes that this group changed.
    pub(super) changed: Vec<NodeId>,
    /// Sessions that this group removed.
    pub(super) gone: Vec<SessionKey>,
    /// Forks that take more than one group.
    pub(super) forks: Vec<Fork>,
}

/// Why a connection is not used any further.
pub(super) enum End {
    /// Everything accepted is done, and nothing more comes.
    Closed,
    /// It is in a state that nobody knows.
    Broken,
}

/// How a group ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GroupEnd {
    Committed,
    /// Nothing of it was applied.
    RolledBack,
    /// Nobody knows what of it was applied.
    Unknown,
}

impl<'c> Writer<'c> {
    pub(super) fn new(connection: &'c Connection, shared: &Shared) -> rusqlite::Result<Self> {
        let next_node = connection.query_row("SELECT next_node FROM meta", (), |row| row.get(0))?;
        Ok(Self {
            connection,
            reads: Reads::prepare(connection)?,
            writes: Writes::prepare(connection)?,
            cache: Cache::new(shared.cache_bytes),
            next_node,
            stored_next_node: next_node,
            moved: super::moved::load(connection)?,
            unwritten: Vec::new(),
            changed: Vec::new(),
            gone: Vec::new(),
            forks: Vec::new(),
        })
    }

    /// Serves until the queue is closed or the connection is not to be trusted any more.
    pub(super) fn serve(&mut self, shared: &mut Shared) -> End {
        let mut commands = Vec::with_capacity(shared.group_commands);
        loop {
            let idle = self.forks.is_empty();
            let more =
                shared.queue.take(&mut commands, shared.group_commands, shared.group_bytes, idle);
            if commands.is_empty() && idle {
                if more {
                    continue;
                }
                return End::Closed;
            }
            match self.group(&mut commands, shared) {
                GroupEnd::Committed => {}
                GroupEnd::RolledBack => {
                    if self.forget_all(shared).is_err() {
                        return End::Broken;
                    }
                }
                GroupEnd::Unknown => return End::Broken,
            }
            shared.checkpoints.after_commit(self.connection);
        }
    }

    /// Does a group of commands and answers all of them.
    pub(super) fn group(&mut self, commands: &mut Vec<Command>, shared: &mut Shared) -> GroupEnd {
        let mut answers: Vec<Ready> = Vec::with_capacity(commands.len());
        let rows_before = self.connection.total_changes();
        let mut trouble = self.writes.begin.execute(()).err().map(Trouble::Driver);
        for command in commands.drain(..) {
            if trouble.is_some() {
                command.refuse(Error::StoreUnavailable);
                continue;
            }
            if let Some((answer, failed)) = self.execute(command) {
                answers.push(answer);
                trouble = failed;
            }
        }
        if trouble.is_none() {
            trouble = self.go_on_forking(&mut answers);
        }
        if trouble.is_none() {
            trouble = self.flush().err().map(Trouble::Driver);
        }
        if let Some(trouble) = trouble {
            return self.give_up(answers, &trouble);
        }
        // A sweep that found nothing commits nothing.
        let changed = self.connection.total_changes() != rows_before;
        shared.commits += u64::from(changed);
        crash(shared, CrashPoint::BeforeCommit);
        if let Err(error) = self.writes.commit.execute(()) {
            return self.commit_failed(answers, &error);
        }
        crash(shared, CrashPoint::AfterCommitBeforeAck);
        self.announce(&shared.tails);
        for answer in answers {
            answer(None);
        }
        self.cache.shrink();
        GroupEnd::Committed
    }

    /// Does one command. No answer where it goes on in later groups.
    fn execute(&mut self, command: Command) -> Option<(Ready, Option<Trouble>)> {
        Some(match command {
            Command::Append(append, reply) => carry_out(reply, || self.append(append)),
            Command::Create(create, reply) => carry_out(reply, || self.create(create)),
            Command::Update(update, reply) => carry_out(reply, || self.update_session(update)),
            Command::Delete(key, now, reply) => carry_out(reply, || self.delete(&key, now)),
            Command::Rewind(rewind, reply) => carry_out(reply, || self.rewind(rewind)),
            Command::UpdateState(update, reply) => carry_out(reply, || self.update_state(update)),
            Command::Sweep(now, reply) => carry_out(reply, || self.sweep(now)),
            Command::Fork(fork, reply) => return self.begin_fork(fork, reply),
        })
    }

    /// Undoes the group and says so to everybody in it.
    fn give_up(&mut self, answers: Vec<Ready>, trouble: &Trouble) -> GroupEnd {
        let failure = match trouble {
            Trouble::Driver(error) => driver_error(error, "write a group"),
            Trouble::Panic => {
                error!("a write panicked; its group is rolled back");
                Error::StoreUnavailable
            }
        };
        for answer in answers {
            answer(Some(failure.clone()));
        }
        self.roll_back()
    }

    fn commit_failed(&mut self, answers: Vec<Ready>, error: &rusqlite::Error) -> GroupEnd {
        // Where there is no room, or no lock, nothing has reached the log. After any other failure it may hold the commit.
        let code = error.sqlite_error_code();
        let certain = matches!(
            code,
            Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
        );
        let told = driver_error(error, "commit");
        let failure = if certain { told } else { Error::OutcomeUnknown };
        for answer in answers {
            answer(Some(failure.clone()));
        }
        if certain { self.roll_back() } else { GroupEnd::Unknown }
    }

    fn roll_back(&mut self) -> GroupEnd {
        // SQLite rolls back by itself after some errors.
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            warn!(%error, "rolling back failed; the connection is replaced");
            return GroupEnd::Unknown;
        }
        GroupEnd::RolledBack
    }

    /// Forgets what is in memory, for the database has something else.
    pub(super) fn forget_all(&mut self, shared: &Shared) -> rusqlite::Result<()> {
        for fork in self.forks.drain(..) {
            fork.refuse(Error::StoreUnavailable);
        }
        *self = Self::new(self.connection, shared)?;
        Ok(())
    }

    /// Writes what a group left in memory.
    pub(super) fn flush(&mut self) -> rusqlite::Result<()> {
        for id in self.unwritten.drain(..) {
            let node = match self.cache.live(id) {
                Some(live) => Some(&mut live.own),
                None => self.cache.scope(id),
            };
            let Some(node) = node else {
                continue;
            };
            let writes = &mut self.writes;
            if node.stored_version != node.last_rows.version() {
                writes.store_head(id, &node.last_rows, node.bytes)?;
                node.stored_version = node.last_rows.version();
            }
            node.take_dirty(|name, current| {
                match current {
                    Some((value, version)) => {
                        let row = (id, name, value.as_str(), version.cast_signed());
                        writes.put_state.execute(row)?;
                    }
                    None => {
                        writes.delete_state.execute((id, name))?;
                    }
                }
                Ok::<_, rusqlite::Error>(())
            })?;
        }
        if self.next_node != self.stored_next_node {
            self.writes.next_node.execute([self.next_node])?;
            self.stored_next_node = self.next_node;
        }
        Ok(())
    }

    /// Wakes those who wait for what this group changed.
    fn announce(&mut self, tails: &Tails) {
        for key in self.gone.drain(..) {
            tails.advance(&Scope::Session(key), GONE);
        }
        self.changed.sort_unstable();
        self.changed.dedup();
        let watched = tails.is_watched();
        for id in self.changed.drain(..) {
            if watched {
                let node = match self.cache.live(id) {
                    Some(live) => Some(&live.own),
                    None => self.cache.scope(id).map(|node| &*node),
                };
                if let Some(node) = node {
                    tails.advance(&node.scope, node.version);
                }
            }
        }
    }
}

/// The writer's thread.
pub(super) fn run(first: Connection, mut shared: Shared, copier: JoinHandle<()>) {
    serve(first, &mut shared);
    shared.checkpoints.close();
    if copier.join().is_err() {
        error!("the thread that copies the log panicked");
    }
    match super::open::connect_writer(&shared.path) {
        Ok(connection) => shared.checkpoints.at_close(&connection),
        Err(error) => drop(driver_error(&error, "open a connection for closing")),
    }
    info!("the store is closed");
}

fn serve(first: Connection, shared: &mut Shared) {
    let mut connection = Some(first);
    loop {
        let current = match connection.take() {
            Some(connection) => Ok(connection),
            None => super::open::connect_writer(&shared.path),
        };
        let work = || {
            let mut connection = current?;
            shared.checkpoints.follow(&mut connection)?;
            Ok(Writer::new(&connection, shared)?.serve(shared))
        };
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(End::Closed)) => return,
            Ok(Ok(End::Broken)) => continue,
            Ok(Err(error)) => drop(driver_error(&error, "open a connection for writing")),
            Err(_) => error!("the writer panicked; it goes on with a new connection"),
        }
        // Whoever waits is told; the next attempt is made for the next command.
        let mut commands = Vec::new();
        let more = shared.queue.take(&mut commands, usize::MAX, usize::MAX, true);
        if !more && commands.is_empty() {
            return;
        }
        for command in commands {
            command.refuse(Error::StoreUnavailable);
        }
    }
}

fn crash(shared: &Shared, point: CrashPoint) {
    if shared.crash == Some(Crash { point, at_commit: shared.commits }) {
        std::process::abort();
    }
}
