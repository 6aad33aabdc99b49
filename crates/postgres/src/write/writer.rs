//! Executes groups of writes on a connection, in two round trips each, and finds out what became of a commit that got no answer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{self, Duration},
};

use tokio::time::{Instant, sleep, timeout};
use tracing::debug;

use super::{
    super::{
        columns::{Step, pipeline, step},
        fence::WriterId,
        migrate::take_numbers,
        prelude::*,
        shared::Shared,
    },
    apply,
    changed::Changed,
    load::load,
    pieces,
    stored::Stored,
};
use sessiond_core::commit::{ChangeSet, ReadSet, WorkingSet};
use sessiond_store::{
    Clock as _, Crash, CrashPoint,
    group::{Backend, Failure},
    instant, spans,
};

/// Numbers for new sessions that are taken at once, in a transaction that all writers of all replicas wait for.
const NUMBERS: u64 = 1000;

/// Time for which a group waits for a connection.
const UNREACHABLE: Duration = Duration::from_secs(5);

/// Time for which the outcome of a commit is asked for: a synchronous standby that was lost is left out after ten seconds, with Patroni's
/// default settings.
const OUTCOME: Duration = Duration::from_secs(15);

/// Time before another attempt to connect: the first, and the longest. It doubles in between.
const BACKOFF_FIRST: Duration = Duration::from_millis(50);
const BACKOFF_LONGEST: Duration = Duration::from_secs(1);

/// Records the number of a transaction, before anything else. Its lock ends with the transaction.
const RECORD: &str = "
INSERT INTO writer (id, commits, used_secs) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET commits = excluded.commits, used_secs = excluded.used_secs";

/// The number of the last transaction that was committed. Waits for one that has not ended.
const RECORDED: &str = "
INSERT INTO writer (id, commits, used_secs) VALUES ($1, 0, $2)
ON CONFLICT (id) DO UPDATE SET used_secs = excluded.used_secs RETURNING writer.commits";

/// Without a limit of time, at which the wait for a standby would end like one that was answered.
const COMMIT: &str = "SET LOCAL statement_timeout = 0; COMMIT";

pub(in super::super) struct Writer {
    shared: Arc<Shared>,
    /// Commits of all writers, for crash tests.
    commits: Arc<AtomicU64>,
    /// Of its row in the table of writers.
    id: WriterId,
    /// The number of the last transaction that was begun.
    transaction: i64,
    connection: Option<Connection>,
    /// Time before the next attempt to connect.
    backoff: Duration,
    /// When the group gives up if there is no connection.
    gives_up: Instant,
    /// The end of the block of numbers that `loaded.next_id` is in.
    numbers_end: u64,
    loaded: WorkingSet,
    stored: Stored,
}

impl Writer {
    pub(in super::super) fn new(shared: Arc<Shared>, commits: Arc<AtomicU64>) -> Self {
        Self {
            loaded: WorkingSet::new(shared.clock.now(), 0),
            shared,
            commits,
            id: fastrand::u128(..).to_le_bytes(),
            transaction: 0,
            connection: None,
            backoff: Duration::ZERO,
            gives_up: instant(),
            numbers_end: 0,
            stored: Stored::default(),
        }
    }

    /// A group comes next.
    pub(in super::super) fn begin_group(&mut self) {
        self.gives_up = instant() + UNREACHABLE;
    }

    pub(in super::super) fn is_connected(&self) -> bool {
        self.connection.is_some()
    }

    /// Ends the connection.
    pub(super) async fn close(mut self) {
        if let Some(connection) = self.connection.take() {
            connection.close().await;
        }
    }

    /// Gives up the connection, and with it the transaction.
    pub(in super::super) fn disconnect(&mut self) {
        self.connection = None;
    }

    #[cfg(test)]
    pub(in super::super) fn connection(&mut self) -> &mut Option<Connection> {
        &mut self.connection
    }

    /// Makes one attempt to connect, unless it is connected.
    async fn connect(&mut self) -> Result<&Connection> {
        if self.connection.as_ref().is_none_or(Connection::is_closed) {
            self.connection = None;
            // A standby that was promoted may lack the commit that took these numbers.
            self.numbers_end = 0;
            sleep(self.backoff).await;
            match self.shared.connect().await {
                Ok(connection) => {
                    self.backoff = Duration::ZERO;
                    self.connection = Some(connection);
                }
                Err(error) => {
                    debug!(%error, "connecting to the database failed");
                    self.backoff = (self.backoff * 2).clamp(BACKOFF_FIRST, BACKOFF_LONGEST);
                    return Err(error);
                }
            }
        }
        self.connection.as_ref().ok_or_else(|| Error::internal("no connection").into())
    }

    /// Begins a transaction and loads.
    async fn try_load(&mut self, needs: &[ReadSet<'_>]) -> Result<usize, Failure> {
        let (next_id, about) = (self.loaded.next_id, self.shared.clock.now());
        self.loaded = WorkingSet::new(about, next_id);
        self.stored = Stored::default();
        self.transaction += 1;
        let Some(connection) = &self.connection else {
            return Err(Failure::Again(Cause::new("no connection")));
        };
        let numbers = needs.iter().filter(|needs| needs.number).count() as u64;
        // Behind a pooler the server may be another one by now, which has not heard of the block.
        let is_pooled = self.shared.options.settings.unnamed_statements;
        if numbers > 0 && (is_pooled || self.numbers_end.saturating_sub(next_id) < numbers) {
            let block = if is_pooled { numbers } else { NUMBERS.max(numbers) };
            // Its own connection was looked at when it was opened.
            if is_pooled {
                self.shared.begin(connection).await?;
            }
            self.loaded.next_id = take_numbers(connection, block).await?;
            if is_pooled {
                connection.commit().await?;
            }
            self.numbers_end = self.loaded.next_id + block;
        }
        let record = Columns::new(RECORD)
            .value(Type::BYTEA, &self.id[..])
            .value(Type::INT8, self.transaction)
            .value(Type::INT8, about.secs());
        let first = [self.shared.look_in_transaction(), record];
        let (stored, count) =
            load(connection, needs, first, &self.shared, &mut self.loaded).await?;
        self.stored = stored;
        Ok(count)
    }

    /// Writes the rows and commits. The inner error is that of the statements that were sent together with the commit.
    pub(in super::super) async fn try_commit(
        &self,
        changes: &ChangeSet,
    ) -> Result<Result<()>, Failure> {
        let Some(connection) = &self.connection else {
            return Err(Failure::Again(Cause::new("no connection")));
        };
        let Self { stored, loaded, .. } = self;
        let changed = Changed::of(changes, stored)?;
        let statements = apply::statements(changes, &changed, stored, loaded.now)?;
        pieces::apply(connection, changes, &changed, stored, loaded.now).await?;
        for statement in &statements {
            statement.prepare(connection).await?;
        }
        let mut steps: Vec<Step<'_>> = statements.iter().map(|it| it.all(connection)).collect();
        if self.shared.options.crash.is_some() && changes.is_watched() {
            pipeline(std::mem::take(&mut steps)).await?;
            self.abort_at(CrashPoint::BeforeCommit, self.commits.load(Ordering::Relaxed) + 1);
        }
        steps.push(step(connection.batch(COMMIT)));
        Ok(pipeline(steps).await.map(drop))
    }

    fn abort_at(&self, point: CrashPoint, at_commit: u64) {
        if self.shared.options.crash == Some(Crash { point, at_commit }) {
            std::process::abort();
        }
    }

    fn committed(&mut self, changes: &ChangeSet) {
        if self.shared.options.crash.is_some() && changes.is_watched() {
            let commits = self.commits.fetch_add(1, Ordering::Relaxed) + 1;
            self.abort_at(CrashPoint::AfterCommitBeforeAck, commits);
        }
        self.shared.fence.acknowledged(self.id, self.transaction);
        self.shared.outbox.put(changes);
    }

    /// Finds out whether the last transaction was committed, on a new connection.
    pub(in super::super) async fn find_outcome(&mut self, cause: Cause) -> Result<(), Failure> {
        let until = instant() + OUTCOME.max(self.shared.limit());
        self.disconnect();
        loop {
            match self.recorded().await {
                Ok(transaction) if transaction == self.transaction => return Ok(()),
                Ok(_) => return Err(Failure::Again(cause)),
                // A database that went back does not tell.
                Err(error) if instant() >= until || matches!(error, Fault::Behind { .. }) => {
                    debug!(%error, "the outcome of a commit stays unknown");
                    return Err(Error::OutcomeUnknown(cause).into());
                }
                Err(error) => {
                    debug!(%error, "the outcome of a commit is asked for again");
                    self.disconnect();
                    sleep(BACKOFF_FIRST).await;
                }
            }
        }
    }

    /// The number of the last transaction that was committed. Once it is told, this is durable, with everything that it waited for.
    async fn recorded(&mut self) -> Result<i64> {
        let (limit, id) = (self.shared.limit(), self.id);
        let used_secs = self.shared.clock.now().secs();
        let shared = Arc::clone(&self.shared);
        let connection = self.connect().await?;
        let read = async {
            shared.begin(connection).await?;
            let select = Columns::new(RECORDED).value(Type::BYTEA, &id[..]);
            let rows = select.value(Type::INT8, used_secs).all(connection).await?;
            connection.batch(COMMIT).await?;
            rows.first().map_or(Ok(0), |row| row.try_get(0))
        };
        timeout(limit, read).await?
    }
}

impl Backend for Writer {
    fn loaded(&mut self) -> &mut WorkingSet {
        &mut self.loaded
    }

    async fn load(&mut self, needs: &[ReadSet<'_>]) -> Result<usize, Failure> {
        if let Err(fault) = self.connect().await {
            let is_again = instant() < self.gives_up && !matches!(fault, Fault::Behind { .. });
            return Err(match is_again {
                true => Failure::Again(Cause::new(fault)),
                false => fault.not_connected().into(),
            });
        }
        let loaded = match timeout(self.shared.limit(), self.try_load(needs)).await {
            Ok(loaded) => loaded,
            Err(elapsed) => {
                self.disconnect();
                Err(Failure::Again(Cause::new(elapsed)))
            }
        };
        if loaded.is_err() {
            self.roll_back(true).await;
        }
        loaded
    }

    async fn commit(&mut self, changes: &ChangeSet) -> Result<Option<time::Instant>, Failure> {
        // The rows are sent together with the commit.
        let flush_began = spans::now();
        let outcome = match timeout(self.shared.limit(), self.try_commit(changes)).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(error))) if error.is_outcome_unknown() => {
                self.find_outcome(Cause::new(error)).await
            }
            Ok(Ok(Err(error))) => Err(error.into()),
            Ok(Err(failure)) => Err(failure),
            Err(elapsed) => self.find_outcome(Cause::new(elapsed)).await,
        };
        outcome?;
        self.committed(changes);
        Ok(Some(flush_began))
    }

    async fn roll_back(&mut self, _: bool) {
        let Some(connection) = &self.connection else { return };
        let rolled_back = timeout(self.shared.limit(), connection.roll_back()).await;
        if !matches!(rolled_back, Ok(Ok(()))) {
            self.disconnect();
        }
    }
}
