//! The reads of a store, each on a connection of the pool. Those that may look at many rows do it in several transactions.

use std::sync::Arc;

use deadpool::Status;
use futures_util::FutureExt;
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

use super::{
    super::{prelude::*, shared::Shared},
    figures,
    pool::{Pool, Reader, Work},
};
use sessiond_core::read::Read;
use sessiond_store::figures::Figures;

/// The reads of a store.
pub(in super::super) struct Reads {
    pool: Pool,
    /// Reads that have begun and not ended. Closed: no further one may begin.
    in_flight: TaskTracker,
}

impl Reads {
    pub(in super::super) fn new(shared: &Arc<Shared>) -> Result<Self, Error> {
        let pool = Pool::new(Arc::clone(shared), shared.options.readers)?;
        Ok(Self { pool, in_flight: TaskTracker::new() })
    }

    /// Begins a read, which closing waits for.
    fn begin(&self) -> Result<TaskTrackerToken, Error> {
        // The token comes first: a close that does not see it is seen here.
        let token = self.in_flight.token();
        if self.in_flight.is_closed() { Err(Error::Draining) } else { Ok(token) }
    }

    /// Reads, in as many snapshots as it takes.
    pub(in super::super) async fn read<Q: Read>(
        &self,
        query: impl Into<Q>,
        step: impl Work<Q, Option<Q::Answer>>,
    ) -> Result<Q::Answer, Error> {
        let (_in_flight, mut query) = (self.begin()?, query.into());
        loop {
            if let Some(answer) = self.pool.read(&mut query, &step).await? {
                return Ok(answer);
            }
        }
    }

    pub(in super::super) async fn figures(&self) -> Result<Figures, Error> {
        let _in_flight = self.begin()?;
        self.pool.read(&mut (), &|reader: &Reader<'_>, ()| figures::read(reader).boxed()).await
    }

    pub(in super::super) fn pool_status(&self) -> Status {
        self.pool.status()
    }

    /// Refuses new reads. Those that have begun go on, also those that wait for a connection.
    pub(in super::super) fn refuse(&self) {
        self.in_flight.close();
    }

    /// Closes the connections when the last read has ended, after [`Self::refuse`].
    pub(in super::super) async fn close(&self) {
        self.in_flight.wait().await;
        self.pool.close();
    }
}
