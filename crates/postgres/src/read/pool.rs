//! The reads of a store, each on a connection of a pool. A read is a transaction of its own, which sees one point in time and never waits
//! for a writer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use deadpool::{
    Runtime, Status,
    managed::{self, Metrics, Object, PoolError, RecycleError, RecycleResult, TimeoutType},
};
use futures_util::{
    FutureExt as _,
    future::{BoxFuture, try_join, try_join3},
};
use tokio::{runtime::Handle, time::timeout};
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};
use tracing::error;

use super::{
    super::{
        connect::clock::{DATABASE_TIME, database_time},
        prelude::*,
        shared::Shared,
    },
    figures,
    rows::Reader,
};
use sessiond_store::{Condition, figures::Figures, queue::READS_FULL};

/// How long a read waits for a connection of others: less than callers wait for an answer.
const WAIT: Duration = Duration::from_secs(5);

/// How long a connection may take to end a transaction before it is replaced. A read that its caller has left may still be executed.
const END_WAIT: Duration = Duration::from_secs(5);

/// Makes and checks the connections of the pool.
struct Connector(Arc<Shared>);

impl managed::Manager for Connector {
    type Type = Connection;
    type Error = Error;

    async fn create(&self) -> Result<Connection, Error> {
        self.0.connect().await.map_err(Fault::not_connected)
    }

    async fn recycle(&self, connection: &mut Connection, _: &Metrics) -> RecycleResult<Error> {
        match connection.is_closed() {
            true => Err(RecycleError::message("the connection cannot be used again")),
            false => Ok(()),
        }
    }
}

/// The connections that read.
pub(in super::super) struct Pool {
    connections: managed::Pool<Connector>,
    shared: Arc<Shared>,
    runtime: Handle,
    /// Reads that have begun and not ended. Closed: no further one may begin.
    in_flight: TaskTracker,
    /// Reads that met damage.
    damaged: AtomicU64,
}

/// What a read does in its transaction. It is done again if the connection is lost.
pub(in super::super) trait Work<Q, T>:
    for<'a> Fn(&'a Reader<'_>, &'a Q) -> BoxFuture<'a, Result<T, Error>>
{
}

impl<Q, T, F> Work<Q, T> for F where
    F: for<'a> Fn(&'a Reader<'_>, &'a Q) -> BoxFuture<'a, Result<T, Error>>
{
}

/// A connection with an open transaction. A task ends it when the lease is dropped, so that the caller of the read does not wait.
struct Lease<'p> {
    connection: Option<Object<Connector>>,
    runtime: &'p Handle,
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        self.runtime.spawn(async move {
            let ended = timeout(END_WAIT, connection.commit()).await;
            if !matches!(ended, Ok(Ok(()))) {
                // Another one may be made.
                drop(Object::take(connection));
            }
        });
    }
}

impl Pool {
    /// A pool without a connection: they are made when they are needed.
    pub(in super::super) fn new(shared: Arc<Shared>) -> Result<Self, Error> {
        let connections = managed::Pool::builder(Connector(Arc::clone(&shared)))
            .max_size(shared.options.readers.max(1))
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(WAIT))
            .build()
            .map_err(Error::internal)?;
        let (runtime, in_flight) = (Handle::current(), TaskTracker::new());
        Ok(Self { connections, shared, runtime, in_flight, damaged: AtomicU64::new(0) })
    }

    /// Reads in one snapshot: on another connection if the first is lost on the way.
    pub(in super::super) async fn read<Q, T>(
        &self,
        query: Q,
        work: impl Work<Q, T>,
    ) -> Result<T, Error> {
        let _in_flight = self.begin()?;
        let (mut read, is_lost) = self.attempt(&query, &work).await?;
        if is_lost {
            // What ended this one, such as a restart of the server, ended the idle ones as well.
            self.connections.retain(|_, _| false);
            (read, _) = self.attempt(&query, &work).await?;
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

    pub(in super::super) async fn figures(&self) -> Result<Figures, Error> {
        self.read((), |reader: &Reader<'_>, ()| figures::read(reader).boxed()).await
    }

    pub(in super::super) fn status(&self) -> Status {
        self.connections.status()
    }

    /// Refuses new reads. Those that have begun go on, also those that wait for a connection.
    pub(in super::super) fn refuse(&self) {
        self.in_flight.close();
    }

    /// Closes the connections when the last read has ended, after [`Self::refuse`].
    pub(in super::super) async fn close(&self) {
        self.in_flight.wait().await;
        self.connections.close();
    }

    /// Begins a read, which closing waits for.
    fn begin(&self) -> Result<TaskTrackerToken, Error> {
        // The token comes first: a close that does not see it is seen here.
        let token = self.in_flight.token();
        if self.in_flight.is_closed() { Err(Error::Draining) } else { Ok(token) }
    }

    /// Reads on one connection. Returns whether that was lost, or stayed silent for longer than a statement may take.
    async fn attempt<Q, T>(
        &self,
        query: &Q,
        work: &impl Work<Q, T>,
    ) -> Result<(Result<T, Error>, bool), Error> {
        let lease = Lease { connection: Some(self.take().await?), runtime: &self.runtime };
        let Some(connection) = &lease.connection else {
            return Err(Error::internal("no connection"));
        };
        let reader = Reader::new(connection, &*self.shared.clock);
        let begin = async {
            let (begin, look) = (connection.begin_snapshot(), self.shared.look_in_transaction());
            let looked =
                async { self.shared.fence.judge(connection, &look.all(connection).await?) };
            let ((), (), time) = try_join3(begin, looked, connection.one(DATABASE_TIME)).await?;
            reader.begun(self.shared.clock.observe(database_time(time.as_ref())?))
        };
        let answers = try_join(begin, work(&reader, query));
        let read = connection.within(self.shared.limit(), answers).await;
        let is_lost = read.is_err() && connection.is_closed();
        Ok((read.map(|((), value)| value), is_lost))
    }

    async fn take(&self) -> Result<Object<Connector>, Error> {
        if *self.shared.condition.borrow() == Condition::Behind {
            return Err(Error::StoreBehind);
        }
        self.connections.get().await.map_err(|error| match error {
            // Others may wait for connections to a database that is away.
            PoolError::Timeout(TimeoutType::Wait) => match *self.shared.condition.borrow() {
                Condition::Unreachable => {
                    Error::StoreUnavailable(Cause::new("no connection to the database in time"))
                }
                _ => READS_FULL,
            },
            PoolError::Closed => Error::Draining,
            PoolError::Backend(error) => error,
            error => Error::StoreUnavailable(Cause::new(error)),
        })
    }
}
