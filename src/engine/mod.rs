//! Use cases, over any store: what an RPC needs beyond the store.
//!
//! This is the only layer that makes ids. What it adds to a store: `temp:` state ([`invocations`]), page tokens, watches that wait
//! ([`watch`]), and templates.

mod events;
pub mod invocations;
mod lag;
mod position;
mod prelude;
mod sessions;
pub mod watch;

use std::time::Duration;

use tokio::{
    sync::Semaphore,
    time::{MissedTickBehavior, interval, sleep},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    access::Policies,
    metrics::Metrics,
    store::{LimitOptions, instant},
};
pub use events::dropped_keys;
use invocations::Invocations;
use lag::Lags;
use prelude::*;
pub use sessions::{SessionAnswer, StatePage};
pub use watch::{Watch, WatchFrom, WatchItem};

/// Bounds of what the engine holds in memory; each is a flag of `serve`.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Watches at the same time. Each costs a task, a channel and a page of memory while it catches up.
    pub watches: usize,
    /// Bytes of one invocation's `temp:` keys and values: as much as a stored scope holds.
    pub temp_bytes: usize,
    /// Invocations with `temp:` state at the same time: far more than one machine's agents run.
    pub temp_invocations: usize,
    /// Seconds without use after which an invocation counts as ended: longer than any turn takes.
    pub temp_idle_secs: u32,
    pub limits: LimitOptions,
    pub metrics: Arc<Metrics>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            watches: 10_000,
            temp_bytes: 1024 * 1024,
            temp_invocations: 10_000,
            temp_idle_secs: 3600,
            limits: LimitOptions::default(),
            metrics: Arc::default(),
        }
    }
}

/// Seconds between two rounds of the background sweep. Expiry takes effect at once, whatever this is. It only decides how long the
/// disk holds rows that nothing reads.
const SWEEP_SECS: u64 = 5;

/// How long the sweep rests after a piece, in multiples of the time that the piece took: it gets at most a quarter of the writer's time.
const SWEEP_PAUSE: u32 = 3;

/// The use cases, over one store.
pub struct Engine {
    /// Takes writes to which the engine adds nothing.
    pub store: Arc<Gate>,
    clock: Arc<dyn Clock>,
    invocations: Arc<Invocations>,
    watches: Arc<Semaphore>,
    lags: Arc<Lags>,
    pub metrics: Arc<Metrics>,
    pub draining: CancellationToken,
}

impl Engine {
    pub fn new(store: Arc<dyn Store>, options: EngineOptions) -> Self {
        Self::with_policies(store, options, Policies::open())
    }

    /// For callers that may do what policies allow.
    pub fn with_policies(
        store: Arc<dyn Store>,
        options: EngineOptions,
        policies: Policies,
    ) -> Self {
        Self {
            clock: store.clock(),
            store: Arc::new(Gate::new(
                store,
                policies,
                options.limits,
                options.metrics.reads.clone(),
            )),
            invocations: Arc::new(Invocations::new(&options)),
            watches: Arc::new(Semaphore::new(options.watches)),
            lags: Lags::measured(&options.metrics),
            metrics: options.metrics,
            draining: CancellationToken::new(),
        }
    }

    /// Ends watches and streams, now and from now on, with [`Error::Draining`]. Other calls go on.
    pub fn drain(&self) {
        self.draining.cancel();
    }

    /// Removes what has expired, for as long as the future is polled.
    pub async fn sweep_forever(&self) {
        let mut rounds = interval(Duration::from_secs(SWEEP_SECS));
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            rounds.tick().await;
            let swept = self.sweep().await;
            // The store has reported a full disk and a lost file itself.
            if let Err(error) = swept
                && !matches!(error, Error::DiskFull | Error::FileLost)
            {
                tracing::warn!(%error, "the sweep of expired sessions failed, retrying later");
            }
        }
    }

    /// Removes what has expired by now, piece by piece, with most of the time in between left to writes.
    pub async fn sweep(&self) -> Result<(), Error> {
        loop {
            self.invocations.sweep(self.now());
            let began = instant();
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

/// Items of one page, in the order asked for. The caller may send fewer and continue behind them.
pub struct List<T> {
    pub items: Vec<T>,
    token: Box<NextPage<T>>,
}

/// Makes the token that continues behind as many of the items.
type NextPage<T> = dyn Fn(&[T], usize) -> Option<String> + Send;

impl<T> List<T> {
    fn new(items: Vec<T>, token: impl Fn(&[T], usize) -> Option<String> + Send + 'static) -> Self {
        Self { items, token: Box::new(token) }
    }

    /// A list that continues behind the place of its last item that was taken, or with the rest behind all of them.
    fn behind<A: Field + Clone + Send + 'static>(
        items: Vec<T>,
        rest: Option<A>,
        request: Digest,
        place: impl Fn(&T) -> A + Send + 'static,
    ) -> Self {
        Self::new(items, move |items, taken| {
            let after = match taken < items.len() {
                true => place(items.get(taken.checked_sub(1)?)?),
                false => rest.clone()?,
            };
            Some(PageToken { request, after }.encode())
        })
    }

    /// The token that continues behind the first `taken` items; `None` if nothing follows them.
    pub fn next_page_token(&self, taken: usize) -> Option<String> {
        (self.token)(&self.items, taken)
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self::new(Vec::new(), |_, _| None)
    }
}

/// The place behind which a list continues; an error if the token is of another request. `same` is what the requests of one list share.
fn place<A>(token: Option<PageToken<A>>, request: Digest, same: &str) -> Result<Option<A>, Error> {
    match token {
        Some(token) if token.request != request => Err(bad_page_token(same)),
        token => Ok(token.map(|token| token.after)),
    }
}

fn bad_page_token(same: &str) -> Error {
    let message = format!(
        "The page token belongs to another list. Send the token of a page {same}, or no token for the first page."
    );
    Error::invalid("page_token", Reason::BadPageToken, message)
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

/// An id for an event whose caller sent none.
pub fn new_event_id() -> EventId {
    EventId::from_stored(new_uuid())
}

/// An id for a session whose caller sent none.
pub fn new_session_id() -> SessionId {
    SessionId::from_stored(new_uuid())
}

#[cfg(test)]
mod tests;
