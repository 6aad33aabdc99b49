//! The connections that read. A read is a transaction of its own, which sees one point in time and never waits for a writer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use deadpool::{
    Runtime, Status,
    managed::{self, Metrics, Object, PoolError, RecycleError, RecycleResult, TimeoutType},
};
use futures_util::future::{BoxFuture, join, try_join};
use tokio::{runtime::Handle, sync::SetOnce, time::timeout};
use tracing::error;

use super::super::{
    connect::clock::{self, DATABASE_TIME},
    prelude::*,
    shared::Shared,
};
use sessiond_store::{
    instant,
    queue::{QUEUE_READS, READS_FULL},
};

/// How long a read waits for a connection of others: less than callers wait for an answer.
const WAIT: Duration = Duration::from_secs(5);

/// How long a connection may take to end a transaction before it is replaced. A read that its caller has left may still be executed.
const END_WAIT: Duration = Duration::from_secs(5);

/// Makes and checks the connections of the pool.
struct Connector(Arc<Shared>);

struct Pooled {
    connection: Connection,
    in_transaction: bool,
}

impl managed::Manager for Connector {
    type Type = Pooled;
    type Error = Error;

    async fn create(&self) -> Result<Pooled, Error> {
        let connected = self.0.connect().await;
        let connection = connected.map_err(|error| Error::StoreUnavailable(Cause::new(error)))?;
        Ok(Pooled { connection, in_transaction: false })
    }

    async fn recycle(&self, pooled: &mut Pooled, _: &Metrics) -> RecycleResult<Error> {
        match pooled.in_transaction || pooled.connection.is_closed() {
            true => Err(RecycleError::message("the connection cannot be used again")),
            false => Ok(()),
        }
    }
}

/// The pool.
pub(super) struct Pool {
    pool: managed::Pool<Connector>,
    shared: Arc<Shared>,
    runtime: Handle,
    /// Reads that met damage.
    damaged: AtomicU64,
}

/// A transaction that reads.
pub(in super::super) struct Reader<'c> {
    pub(super) connection: &'c Connection,
    now: SetOnce<Time>,
    /// Whether the transaction has the setting of lists.
    pub(super) is_steady: AtomicBool,
}

impl<'c> Reader<'c> {
    /// In a transaction that begins. `now` is told later.
    fn new(connection: &'c Connection) -> Self {
        Self { connection, now: SetOnce::new(), is_steady: AtomicBool::new(false) }
    }

    /// In a transaction that has begun, whose time is known.
    pub(in super::super) fn at(connection: &'c Connection, now: Time) -> Self {
        Self { now: SetOnce::new_with(Some(now)), ..Self::new(connection) }
    }

    /// Tells the time of the transaction.
    fn begun(&self, now: Time) -> Result<(), Error> {
        self.now.set(now).map_err(Error::internal)
    }

    /// The database's time. It comes with the first answer, so that what does not need it can be sent before.
    pub(super) async fn time(&self) -> Time {
        *self.now.wait().await
    }
}

/// What a read does in its transaction. It is done again if the connection is lost.
pub(in super::super) trait Work<Q, T>:
    for<'a> Fn(&'a Reader<'_>, &'a mut Q) -> BoxFuture<'a, Result<T, Error>>
{
}

impl<Q, T, F> Work<Q, T> for F where
    F: for<'a> Fn(&'a Reader<'_>, &'a mut Q) -> BoxFuture<'a, Result<T, Error>>
{
}

/// A connection with an open transaction. A task ends it when the lease is dropped, so that the caller of the read does not wait.
struct Lease<'p> {
    pooled: Option<Object<Connector>>,
    runtime: &'p Handle,
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let Some(mut pooled) = self.pooled.take() else { return };
        self.runtime.spawn(async move {
            let ended = timeout(END_WAIT, pooled.connection.commit()).await;
            match ended {
                Ok(Ok(())) => pooled.in_transaction = false,
                // It makes place for a new one.
                Ok(Err(_)) | Err(_) => drop(Object::take(pooled)),
            }
        });
    }
}

impl Pool {
    /// A pool without a connection: they are made when they are needed.
    pub(super) fn new(shared: Arc<Shared>, connections: usize) -> Result<Self, Error> {
        let pool = managed::Pool::builder(Connector(Arc::clone(&shared)))
            .max_size(connections.max(1))
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(WAIT))
            .build()
            .map_err(Error::internal)?;
        Ok(Self { pool, shared, runtime: Handle::current(), damaged: AtomicU64::new(0) })
    }

    /// Reads in one snapshot: on another connection if the first is lost on the way.
    pub(super) async fn read<Q, T>(
        &self,
        query: &mut Q,
        work: &impl Work<Q, T>,
    ) -> Result<T, Error> {
        let (mut read, is_lost) = self.attempt(query, work).await?;
        if is_lost {
            // What ended this one, such as a restart of the server, ended the idle ones as well.
            self.pool.retain(|_, _| false);
            (read, _) = self.attempt(query, work).await?;
        }
        match &read {
            Err(error @ Error::Internal(_)) => error!(%error, "a read failed"),
            Err(error @ Error::Damaged(..)) => {
                let damaged_reads = self.damaged.fetch_add(1, Ordering::Relaxed) + 1;
                // Ever more rarely, because damage is read again and again.
                if damaged_reads.is_power_of_two() {
                    error!(%error, damaged_reads, "a read met damage");
                }
            }
            _ => {}
        }
        read
    }

    /// Reads on one connection. Returns whether that was lost, or stayed silent for longer than a statement may take.
    async fn attempt<Q, T>(
        &self,
        query: &mut Q,
        work: &impl Work<Q, T>,
    ) -> Result<(Result<T, Error>, bool), Error> {
        let mut pooled = self.take().await?;
        pooled.in_transaction = true;
        let lease = Lease { pooled: Some(pooled), runtime: &self.runtime };
        let Some(pooled) = &lease.pooled else { return Err(Error::internal("no connection")) };
        let connection = &pooled.connection;
        let reader = Reader::new(connection);
        let answers = try_join(self.begin(&reader), work(&reader, query));
        let read = connection.within(self.shared.limit(), answers).await;
        let is_lost = read.is_err() && connection.is_closed();
        Ok((read.map(|((), value)| value), is_lost))
    }

    async fn take(&self) -> Result<Object<Connector>, Error> {
        if self.pool.status().waiting >= QUEUE_READS {
            return Err(READS_FULL);
        }
        let waits = &self.shared.options.metrics.reads.queue_wait;
        let began = instant();
        let got = self.pool.get().await;
        waits.observe(began.elapsed().as_secs_f64());
        got.map_err(|error| match error {
            PoolError::Timeout(TimeoutType::Wait) => READS_FULL,
            PoolError::Closed => Error::Draining,
            PoolError::Backend(error) => error,
            error => Error::StoreUnavailable(Cause::new(error)),
        })
    }

    async fn begin(&self, reader: &Reader<'_>) -> Result<(), Error> {
        let now = match &self.shared.clock.set {
            Some(clock) => {
                reader.connection.begin_snapshot().await?;
                clock.now()
            }
            None => {
                let (begin, now) =
                    (reader.connection.begin_snapshot(), database_time(reader.connection));
                let (begun, now) = join(begin, now).await;
                begun?;
                let now = now?;
                self.shared.clock.observe(now);
                now
            }
        };
        reader.begun(now)
    }

    /// The state of the pool.
    pub(super) fn status(&self) -> Status {
        self.pool.status()
    }

    /// Closes the connections. No read uses one any more.
    pub(super) fn close(&self) {
        self.pool.close();
    }
}

/// The database's time.
pub(in super::super) async fn database_time(connection: &Connection) -> Result<Time, Error> {
    let row = connection.one(DATABASE_TIME, &[]).await?;
    let Some(row) = row else { return Err(Error::internal("the database told no time")) };
    Ok(clock::database_time(&row)?)
}
