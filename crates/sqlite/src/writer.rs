//! The thread that writes: it takes the requests that wait and executes them as one group, in one transaction.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Instant,
};

use futures_util::FutureExt as _;
use hashbrown::HashMap;
use rusqlite::ErrorCode;
use tracing::{error, info, warn};

use super::{
    checkpoint::Checkpoints, disk::Disk, file::SqliteOptions, leftovers::Leftovers,
    listed::UNLISTED_EVENTS, prelude::*,
};
use sessiond_core::commit::{ChangeSet, ReadSet, Request, WorkingSet};
use sessiond_metrics::{Histogram, Metrics};
use sessiond_store::{
    Crash, CrashPoint, Notifier,
    group::{Backend, Budget, Failure, GROUP_BYTES, Submission, execute, put_back, refuse},
    queue::Queue,
    spans,
};

/// The writer, on one connection after the other.
pub(super) struct Writer {
    pub(super) options: SqliteOptions,
    queue: Arc<Queue<Submission>>,
    notifier: Arc<Notifier>,
    pub(super) tables: Tables,
    checkpoints: Checkpoints,
    disk: Disk,
    pub(super) leftovers: Leftovers,
    /// A cache: the process has the file for itself, so what was loaded stays true.
    pub(super) loaded: WorkingSet,
    /// Unindexed rows of the logs in `loaded`, as far as they were needed.
    pub(super) unindexed: HashMap<NodeId, Vec<i64>>,
    /// Events that the list indexes do not follow yet.
    pub(super) unlisted: u64,
    /// Bytes that came into the cache since it was empty.
    pub(super) grown: usize,
    /// Bytes of what was loaded for one group alone: stored events and past states, of all groups.
    pub(super) passing: usize,
    /// The next number and the floor of versions that the table `meta` has.
    meta: (u64, Version),
    /// The state of the connection is unknown.
    pub(super) broken: bool,
    commits: u64,
    flush: Histogram,
}

impl Writer {
    pub(super) fn new(
        options: SqliteOptions,
        queue: Arc<Queue<Submission>>,
        notifier: Arc<Notifier>,
        tables: Tables,
        disk: Disk,
    ) -> Result<Self> {
        let mut writer = Self {
            flush: options.metrics.sqlite().flush.clone(),
            checkpoints: Checkpoints::new(Arc::clone(&disk.file), &options),
            disk,
            leftovers: Leftovers::default(),
            loaded: WorkingSet::new(options.clock.now(), 0),
            options,
            queue,
            notifier,
            tables,
            unindexed: HashMap::new(),
            unlisted: 0,
            grown: 0,
            passing: 0,
            meta: (0, 0),
            broken: false,
            commits: 0,
        };
        writer.forget()?;
        writer.disk.file.remember_wal();
        Ok(writer)
    }

    /// Loads the needs of the first requests that fit into a group. Returns their number. One that needs too much beside others comes alone,
    /// after they have their answers.
    fn load_first(&mut self, needs: &[ReadSet<'_>]) -> Result<usize> {
        let mut budget = Budget::default();
        for (at, needs) in needs.iter().enumerate() {
            let before = self.grown + self.passing;
            self.load_needs(needs)?;
            if !budget.spend(self.grown + self.passing - before) {
                return Ok(at.max(1));
            }
        }
        Ok(needs.len())
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.options.metrics
    }

    /// Serves until the queue is closed and empty. Leaves no WAL behind.
    pub(super) fn run(mut self) {
        let mut group = Vec::with_capacity(self.options.group_requests);
        let max = self.options.group_requests;
        while self.queue.take(&mut group, max, GROUP_BYTES, true) || !group.is_empty() {
            self.serve_or_refuse(&mut group);
            put_back(&self.queue, &mut group);
        }
        self.update_lists(self.options.clock.now());
        let Self { tables, checkpoints, .. } = self;
        checkpoints.close(&tables);
        info!("the store is closed");
    }

    /// After a panic the connection is replaced, and the waiting requests are refused.
    fn serve_or_refuse(&mut self, group: &mut Vec<Submission>) {
        if catch_unwind(AssertUnwindSafe(|| self.serve(group))).is_err() {
            error!("the writer panicked, replacing its connection");
            self.broken = true;
            self.refuse_all(group, &replaced());
        }
    }

    /// Executes a group, on a new connection if the one before broke, and does what is due after it.
    fn serve(&mut self, group: &mut Vec<Submission>) {
        if self.disk.file.is_lost() {
            return self.refuse_all(group, &Error::FileLost);
        }
        let now = self.options.clock.now();
        self.disk.admit(group, now, &self.options.metrics.writes);
        if group.is_empty() {
            return;
        }
        let sweeps = group.iter().any(|it| matches!(it.request, Request::Sweep));
        let (notifier, metrics) = (Arc::clone(&self.notifier), Arc::clone(&self.options.metrics));
        let queue = Arc::clone(&self.queue);
        let connected = self.reconnect();
        // Nothing in it waits: this thread is the database.
        let execute = |()| {
            let charge = |caller, bytes| queue.charge(caller, bytes);
            let executed = execute(self, group, &notifier, &metrics.writes, &charge);
            executed.now_or_never().unwrap_or(Ok(()))
        };
        if let Err(error) = connected.and_then(execute)
            && !self.disk.failed(&error, now)
            && error != Error::FileLost
        {
            error!(%error, "a group of writes failed");
        }
        if self.disk.file.is_lost() {
            return self.refuse_all(group, &Error::FileLost);
        }
        if self.broken {
            // The next attempt is made for the next request.
            return self.refuse_all(group, &replaced());
        }
        self.shrink(self.options.cache_bytes);
        if sweeps || self.unlisted >= UNLISTED_EVENTS {
            self.update_lists(now);
        }
        if sweeps {
            self.leftovers.after_sweep(&self.tables, &mut self.checkpoints, now);
        }
        match self.disk.is_full() {
            true => self.checkpoints.at_once(&self.tables),
            false => self.checkpoints.after_commit(&self.tables),
        }
    }

    fn reconnect(&mut self) -> Result<()> {
        if self.broken {
            self.tables = Tables::writer(self.disk.file.connect()?).map_err(driver)?;
            self.forget()?;
            self.broken = false;
        }
        Ok(())
    }

    pub(super) fn shrink(&mut self, max_bytes: usize) {
        if self.grown > max_bytes
            && let Err(error) = self.forget()
        {
            warn!(%error, "emptying the cache failed, replacing the connection");
            self.broken = true;
        }
    }

    fn forget(&mut self) -> Result<()> {
        let meta = "SELECT next_id, version_floor FROM meta";
        let meta = self.tables.one(meta, (), |row| row.all())?;
        self.meta = meta.ok_or_else(|| Error::damaged(Damage::Row, "table meta has no row"))?;
        self.loaded = WorkingSet::new(self.options.clock.now(), self.meta.0);
        self.loaded.version_floor = self.meta.1;
        self.unindexed.clear();
        // If the events cannot be read, an attempt to follow them says so soon.
        self.unlisted = self.tables.unlisted().unwrap_or(UNLISTED_EVENTS);
        self.grown = 0;
        Ok(())
    }

    /// Lets the list indexes follow the events. If that fails, lists sort in more sessions until the next attempt.
    fn update_lists(&mut self, now: Time) {
        let is_writable = !(self.broken || self.disk.is_full() || self.disk.file.is_lost());
        if self.unlisted == 0 || !is_writable {
            return;
        }
        self.unlisted = 0;
        if let Err(error) = self.tables.follow_events() {
            // The next sweep tries again.
            self.unlisted = 1;
            if !self.disk.failed(&error, now) {
                warn!(%error, "updating the list indexes failed, retrying later");
                self.broken = !self.tables.0.is_autocommit();
            }
        }
    }

    fn refuse_all(&self, group: &mut Vec<Submission>, failure: &Error) {
        refuse(&self.options.metrics.writes, group.drain(..), failure);
    }

    fn abort_at(&self, point: CrashPoint) {
        if self.options.crash == Some(Crash { point, at_commit: self.commits }) {
            std::process::abort();
        }
    }
}

fn replaced() -> Error {
    Error::StoreUnavailable(Cause::new("the connection is replaced"))
}

impl Backend for Writer {
    fn loaded(&mut self) -> &mut WorkingSet {
        &mut self.loaded
    }

    async fn load(&mut self, needs: &[ReadSet<'_>]) -> Result<usize, Failure> {
        self.disk.file.check()?;
        self.tables.run("BEGIN IMMEDIATE", ())?;
        self.loaded.now = self.options.clock.now();
        let loaded = self.load_first(needs);
        if loaded.is_err() {
            self.roll_back(true).await;
        }
        Ok(loaded?)
    }

    async fn commit(&mut self, changes: &ChangeSet) -> Result<Option<Instant>, Failure> {
        self.apply_changes(changes)?;
        let meta = (self.loaded.next_id, self.loaded.version_floor);
        if self.meta != meta {
            self.meta = meta;
            self.tables.run("UPDATE meta SET next_id = ?1, version_floor = ?2", meta)?;
        }
        let is_counted = self.options.crash.is_some() && changes.is_watched();
        self.commits += u64::from(is_counted);
        if is_counted {
            self.abort_at(CrashPoint::BeforeCommit);
        }
        let flush_began = spans::now();
        let flushed = self.tables.prepare("COMMIT").and_then(|mut it| it.execute(()));
        self.flush.observe(flush_began.elapsed().as_secs_f64());
        if let Err(error) = flushed {
            // Without space, or without the lock, nothing has reached the WAL; after any other failure it may hold the commit.
            use ErrorCode::{DatabaseBusy, DatabaseLocked, DiskFull};
            let code = error.sqlite_error_code();
            self.broken = !matches!(code, Some(DiskFull | DatabaseBusy | DatabaseLocked));
            let error =
                if self.broken { Error::OutcomeUnknown(Cause::new(error)) } else { driver(error) };
            return Err(error.into());
        }
        if is_counted {
            self.abort_at(CrashPoint::AfterCommitBeforeAck);
        }
        // What went into a file that is no longer there is not acknowledged.
        self.disk.file.check().map_err(|error| Error::OutcomeUnknown(Cause::new(error)))?;
        Ok(Some(flush_began))
    }

    async fn roll_back(&mut self, changed: bool) {
        // SQLite rolls back by itself after some errors.
        let rolled_back = match self.tables.0.is_autocommit() {
            true => Ok(()),
            false => self.tables.run("ROLLBACK", ()).map(drop),
        };
        let forgotten = rolled_back.and_then(|()| if changed { self.forget() } else { Ok(()) });
        if let Err(error) = forgotten {
            warn!(%error, "rollback failed, replacing the connection");
            self.broken = true;
        }
    }
}
