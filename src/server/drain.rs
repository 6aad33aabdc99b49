//! Graceful shutdown: in-flight requests are completed, the store is closed, and answers are delivered to the clients that take them.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::{engine::Engine, store::instant};

/// How long clients may take for their answers once the store has done its last write.
const DELIVERY: Duration = Duration::from_millis(1500);

/// How long connections may take to end that have nothing left to do.
const GOODBYE: Duration = Duration::from_millis(500);

/// In-flight requests, by the stage that they are in.
#[derive(Clone, Default)]
pub struct InFlight {
    /// Calls that are executed.
    pub calls: TaskTracker,
    /// Calls whose answers are not written.
    pub answers: TaskTracker,
    /// Connections with bytes that are not flushed.
    pub sockets: TaskTracker,
}

impl InFlight {
    /// Waits until there is nothing of one kind.
    async fn none(tracker: &TaskTracker) {
        tracker.close();
        tracker.wait().await;
    }

    async fn delivered(&self) {
        Self::none(&self.answers).await;
        Self::none(&self.sockets).await;
    }
}

/// Completes in-flight requests, at most until then. `serving` ends when every connection has. Returns whether every write was completed.
pub async fn drain(
    engine: &Arc<Engine>,
    in_flight: &InFlight,
    mut serving: AbortOnDropHandle<()>,
    until: Instant,
) -> bool {
    engine.drain();
    let executed = timeout_at(until, InFlight::none(&in_flight.calls)).await;
    // Even at the end of the timeout, so that the store takes nothing more.
    let closed = timeout_at(until, engine.store.close()).await;
    // Also when the timeout has passed, a moment for the last answers.
    let delivered_by = (instant() + DELIVERY).min(until.max(instant() + GOODBYE));
    let delivery = timeout_at(delivered_by, in_flight.delivered()).await;
    // Bytes that the kernel holds are out of sight.
    let left = in_flight.answers.len().max(in_flight.sockets.len());
    let undelivered = if delivery.is_ok() { 0 } else { left };
    // Clients were told at the beginning. Calls that they still begin are refused.
    let _ = timeout(GOODBYE, &mut serving).await;
    match (executed, closed) {
        (Err(_), _) => {
            let cause = "the shutdown timeout passed with calls still in flight";
            tracing::error!(cause, undelivered, "stopped");
            false
        }
        (_, Err(_)) => {
            let cause = "the shutdown timeout passed, and the store is not closed";
            tracing::error!(cause, undelivered, "stopped");
            false
        }
        (Ok(()), Ok(())) if undelivered > 0 => {
            tracing::warn!(
                undelivered,
                "stopped: the store is closed, and clients did not read some responses"
            );
            true
        }
        (Ok(()), Ok(())) => {
            tracing::info!("stopped: every call was answered and the store is closed");
            true
        }
    }
}
