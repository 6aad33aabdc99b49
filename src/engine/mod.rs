//! Use cases, one method per RPC, over any store.
//!
//! This is the only layer that makes ids. What it adds to a store: `temp:` state ([`invocations`]), page tokens, watches that wait
//! ([`watch`]), and templates.

mod events;
pub mod invocations;
mod requests;
mod sessions;
mod state;
pub mod watch;

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Semaphore, watch as channel},
    time::{Instant, MissedTickBehavior, interval, sleep},
};
use uuid::Uuid;

use crate::{
    domain::{
        error::Error,
        id::{EventId, SessionId},
        time::Time,
        token::StoreId,
    },
    store::{Clock, Store},
};
pub use events::{AppendAnswer, AppendEvents, EventList, EventRequest, EventsWanted, ListEvents};
pub use requests::{
    ForkRequest, GetSession, ListSessions, NewSession, RewindRequest, SessionAnswer, SessionList,
    UpdateRequest,
};
pub use state::{
    GetState, KeyChangeList, ListKeyChanges, RenderTemplate, StateAnswer, UpdateAnswer, UpdateState,
};
pub use watch::{Watch, WatchFrom, WatchItem};

use invocations::{InvocationLimits, Invocations};

/// Bounds of what the engine holds in memory; each is a flag of `serve`.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// Watches at the same time. Each costs a task, a channel and a page of memory while it catches up.
    pub watches: usize,
    /// Bounds of `temp:` state.
    pub invocations: InvocationLimits,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self { watches: 10_000, invocations: InvocationLimits::default() }
    }
}

/// Seconds between two rounds of the background sweep. Expiry takes effect at once, whatever this is. It only decides how long the
/// disk holds rows that nothing reads.
const SWEEP_SECS: u64 = 5;

/// How long the sweep rests after a piece, in multiples of the time that the piece took: it gets at most a quarter of the writer's time.
const SWEEP_PAUSE: u32 = 3;

/// The use cases, over one store.
pub struct Engine {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    invocations: Invocations,
    watches: Arc<Semaphore>,
    draining: channel::Sender<bool>,
}

impl Engine {
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, options: EngineOptions) -> Self {
        Self {
            store,
            clock,
            invocations: Invocations::new(options.invocations),
            watches: Arc::new(Semaphore::new(options.watches)),
            draining: channel::Sender::new(false),
        }
    }

    /// Ends watches and streams, now and from now on, with [`Error::Draining`]. Other calls go on.
    pub fn drain(&self) {
        self.draining.send_replace(true);
    }

    /// Turns true when [`Engine::drain`] is called.
    pub fn draining(&self) -> channel::Receiver<bool> {
        self.draining.subscribe()
    }

    /// Completes what the store has accepted, and closes it.
    pub async fn close(&self) {
        self.store.close().await;
    }

    /// Removes what has expired, for as long as the future is polled.
    pub async fn sweep_forever(&self) {
        let mut rounds = interval(Duration::from_secs(SWEEP_SECS));
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            rounds.tick().await;
            if let Err(error) = self.sweep().await {
                tracing::warn!(%error, "the sweep of expired sessions failed, retrying later");
            }
        }
    }

    /// Removes what has expired by now, piece by piece, with most of the time in between left to writes.
    #[expect(
        clippy::disallowed_methods,
        reason = "the duration of a piece is not a time of the model"
    )]
    pub async fn sweep(&self) -> Result<(), Error> {
        self.invocations.sweep(self.now());
        loop {
            let began = Instant::now();
            if !self.store.sweep().await? {
                return Ok(());
            }
            sleep(began.elapsed() * SWEEP_PAUSE).await;
        }
    }

    fn now(&self) -> Time {
        self.clock.now()
    }
}

#[expect(clippy::disallowed_methods, reason = "the engine is where ids are made")]
fn new_uuid() -> String {
    Uuid::now_v7().to_string()
}

/// An identity for a store that begins empty.
#[expect(clippy::disallowed_methods, reason = "the engine is where ids are made")]
pub fn new_store_id() -> StoreId {
    StoreId(Uuid::new_v4().into_bytes())
}

fn new_event_id() -> EventId {
    EventId::from_stored(new_uuid())
}

fn new_session_id() -> SessionId {
    SessionId::from_stored(new_uuid())
}

#[cfg(test)]
mod tests;
