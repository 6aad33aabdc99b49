//! A full disk of the database. Deletions are still tried, everything else is refused until there is space again, and the log tells it
//! once a minute.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::time::{Instant, sleep};
use tracing::{debug, error, info};

use super::super::{prelude::*, shared::Shared};
use sessiond_store::{
    Condition,
    group::{Submission, refuse_without_space},
    instant,
};

/// Time between two attempts to find space.
const ATTEMPT: Duration = Duration::from_secs(1);

/// Time between two messages in the log.
const REPORT: Duration = Duration::from_secs(60);

/// Asks for some 16 MiB: what does not fit into the memory of a sort goes to a file, which is removed at once. A row that is inserted and
/// rolled back would stay in its table, and take the last space from deletions.
const TAKE_SPACE: &str = "BEGIN READ ONLY; SET LOCAL work_mem = 64;
SELECT count(*) FROM
    (SELECT repeat('x', 1000) || n FROM generate_series(1, 16000) AS n ORDER BY 1 OFFSET 0) AS sorted;
COMMIT";

/// While the disk is full, refuses the requests that need space.
pub(super) fn admit(shared: &Shared, group: &mut Vec<Submission>) {
    if *shared.condition.borrow() != Condition::DiskFull {
        return;
    }
    let refused = refuse_without_space(&shared.options.metrics.writes, group);
    shared.refused.fetch_add(refused, Ordering::Relaxed);
}

/// Learns that a group failed for lack of space.
pub(super) fn became_full(shared: &Shared) {
    Condition::switch(&shared.condition, Condition::Ready, Condition::DiskFull);
}

/// Looks for space whenever the disk is full, for ever.
pub(in super::super) async fn find_space(shared: Arc<Shared>) {
    let mut condition = shared.condition.subscribe();
    let mut reported: Option<Instant> = None;
    while condition.wait_for(|it| *it == Condition::DiskFull).await.is_ok() {
        if reported.is_none_or(|at| at.elapsed() >= REPORT) {
            reported = Some(instant());
            let refused = shared.refused.swap(0, Ordering::Relaxed);
            error!(
                refused,
                "the disk of the database is full: writes other than deletions are refused"
            );
        }
        sleep(ATTEMPT).await;
        match take_space(&shared).await {
            Ok(()) => {
                Condition::switch(&shared.condition, Condition::DiskFull, Condition::Ready);
                info!("the disk of the database has space again");
            }
            Err(error) => debug!(%error, "the disk of the database has no space yet"),
        }
    }
}

async fn take_space(shared: &Shared) -> Result<()> {
    let connection = shared.connect().await?;
    connection.within(shared.limit(), connection.batch(TAKE_SPACE)).await
}
