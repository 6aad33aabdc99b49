//! One account of the bytes that a server buffers for its clients: requests in part or whole, what they are decoded into, answers that are
//! made and not written, pages of watches. Bytes are charged before they are made, or as soon as their number is known.
//!
//! ```text
//! Account (the process) ─> ConnectionAccount ─> CallAccount (a call, or an item of a stream)
//! ```

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::future::AbortHandle;
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use super::instant;
use sessiond_core::domain::error::{Bounded, Error};

/// What a call takes in memory, however short it is: its stream of HTTP/2, its task, and the buffer that its answer is encoded into.
pub const CALL_BYTES: usize = 16 << 10;

/// A client that has taken nothing for so long does not read. Only then its connection may end for the bytes that it holds.
const STALLED: Duration = Duration::from_secs(5);

/// A connection that waits for capacity looks again after this time: another connection may have given some back.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// The refusal of what does not fit, with the time in which many answers are taken.
const FULL: Error = Error::Overloaded { what: Bounded::Buffers, retry_after_millis: 200 };

/// The account of a process.
#[derive(Clone)]
pub struct Account(Arc<All>);

struct All {
    max: usize,
    bytes: AtomicUsize,
    /// Connections that hold something.
    holders: AtomicUsize,
    open: Mutex<Open>,
    began: Instant,
    /// Called when a connection is ended.
    ended: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct Open {
    newest: u64,
    connections: BTreeMap<u64, Weak<ConnectionAccount>>,
}

pub struct ConnectionAccount {
    all: Arc<All>,
    /// Tells the connections of a process apart.
    pub number: u64,
    bytes: AtomicUsize,
    /// Of these, answers that the client has not taken.
    unread: AtomicUsize,
    /// When an answer was last taken, or the first one began to wait, in milliseconds since the account began.
    taken: AtomicU64,
    freed: Notify,
    end: OnceLock<AbortHandle>,
}

/// What one call holds, until its last owner drops it. The default counts nothing: a call of the process itself.
#[derive(Clone, Default)]
pub struct CallAccount(Option<Arc<Held>>);

struct Held {
    connection: Arc<ConnectionAccount>,
    bytes: AtomicUsize,
}

/// An answer, or a part of one, that waits for its client.
pub struct Unread {
    connection: Arc<ConnectionAccount>,
    bytes: usize,
    /// Whether the bytes are its own, and not those of a call.
    is_charged: bool,
}

impl Account {
    /// `ended` is called when a connection is ended for what it holds.
    pub fn new(max: usize, ended: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(All {
            max,
            bytes: AtomicUsize::new(0),
            holders: AtomicUsize::new(0),
            open: Mutex::default(),
            began: instant(),
            ended: Box::new(ended),
        }))
    }

    pub fn bytes(&self) -> usize {
        self.0.bytes.load(Relaxed)
    }

    pub fn connection(&self) -> Arc<ConnectionAccount> {
        let mut open = self.0.lock();
        open.newest += 1;
        let number = open.newest;
        let connection = Arc::new(ConnectionAccount {
            all: Arc::clone(&self.0),
            number,
            bytes: AtomicUsize::new(0),
            unread: AtomicUsize::new(0),
            taken: AtomicU64::new(0),
            freed: Notify::new(),
            end: OnceLock::new(),
        });
        open.connections.insert(number, Arc::downgrade(&connection));
        connection
    }
}

impl All {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn millis(&self) -> u64 {
        u64::try_from((instant() - self.began).as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether a connection may hold `own` bytes while all hold `all`. One has a quarter at most. The last quarter of the account is for
    /// those that have less than their share of it, divided by their number and one more, which may come.
    fn fits(&self, own: usize, all: usize) -> bool {
        let quarter = self.max / 4;
        let share = || quarter / (self.holders.load(Relaxed) + 1);
        own <= quarter && (all <= self.max - quarter || (all <= self.max && own <= share()))
    }

    /// Ends the connection that leaves most answers unread, if its client takes none.
    fn end_stalled(&self) {
        let now = self.millis();
        let open: Vec<_> = self.lock().connections.values().filter_map(Weak::upgrade).collect();
        let stalled = open.iter().filter(|it| it.is_stalled(now));
        let Some(largest) = stalled.max_by_key(|it| it.unread.load(Relaxed)) else { return };
        let Some(end) = largest.end.get() else { return };
        end.abort();
        tracing::warn!(
            bytes = largest.bytes.load(Relaxed),
            "closing connection: its client does not read its responses, and the buffers are full"
        );
        (self.ended)();
    }
}

impl ConnectionAccount {
    /// Sets what ends the connection.
    pub fn end_with(&self, end: AbortHandle) {
        self.end.get_or_init(|| end);
    }

    /// The account of a call, which takes [`CALL_BYTES`]. Errors: [`Error::Overloaded`].
    pub fn call(self: &Arc<Self>) -> Result<CallAccount, Error> {
        let call = self.item();
        call.take(CALL_BYTES)?;
        Ok(call)
    }

    /// An account that holds nothing yet.
    pub fn item(self: &Arc<Self>) -> CallAccount {
        let held = Held { connection: Arc::clone(self), bytes: AtomicUsize::new(0) };
        CallAccount(Some(Arc::new(held)))
    }

    /// Charges a part of an answer that has been made, until it is dropped.
    pub fn unread(self: &Arc<Self>, bytes: usize) -> Unread {
        self.add(bytes);
        if self.all.bytes.load(Relaxed) > self.all.max {
            self.all.end_stalled();
        }
        self.waits(bytes, true)
    }

    fn waits(self: &Arc<Self>, bytes: usize, is_charged: bool) -> Unread {
        if self.unread.fetch_add(bytes, Relaxed) == 0 {
            self.taken.store(self.all.millis(), Relaxed);
        }
        Unread { connection: Arc::clone(self), bytes, is_charged }
    }

    /// The bytes of the connection and of all, these included.
    fn add(&self, bytes: usize) -> (usize, usize) {
        let before = self.bytes.fetch_add(bytes, Relaxed);
        if before == 0 && bytes > 0 {
            self.all.holders.fetch_add(1, Relaxed);
        }
        (before + bytes, self.all.bytes.fetch_add(bytes, Relaxed) + bytes)
    }

    fn give_back(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.all.bytes.fetch_sub(bytes, Relaxed);
        if self.bytes.fetch_sub(bytes, Relaxed) == bytes {
            self.all.holders.fetch_sub(1, Relaxed);
        }
        self.freed.notify_waiters();
    }

    fn has_capacity(&self, bytes: usize) -> bool {
        self.all.fits(self.bytes.load(Relaxed) + bytes, self.all.bytes.load(Relaxed) + bytes)
    }

    fn is_stalled(&self, now: u64) -> bool {
        let since = Duration::from_millis(now.saturating_sub(self.taken.load(Relaxed)));
        let is_ended = self.end.get().is_none_or(AbortHandle::is_aborted);
        !is_ended && self.unread.load(Relaxed) > 0 && since >= STALLED
    }
}

impl Drop for ConnectionAccount {
    fn drop(&mut self) {
        self.all.lock().connections.remove(&self.number);
    }
}

impl CallAccount {
    /// Charges bytes that are about to be made. Errors: [`Error::Overloaded`], and nothing is charged.
    pub fn take(&self, bytes: usize) -> Result<(), Error> {
        let Some(Held { connection, bytes: held }) = self.0.as_deref() else { return Ok(()) };
        let (own, all) = connection.add(bytes);
        if connection.all.fits(own, all) {
            held.fetch_add(bytes, Relaxed);
            return Ok(());
        }
        connection.give_back(bytes);
        connection.all.end_stalled();
        Err(FULL)
    }

    /// Charges what has been made, whether or not it fits.
    pub fn note(&self, bytes: usize) {
        if let Some(Held { connection, bytes: held }) = self.0.as_deref() {
            connection.add(bytes);
            held.fetch_add(bytes, Relaxed);
        }
    }

    /// Gives back some of what it holds.
    pub fn give_back(&self, bytes: usize) {
        if let Some(Held { connection, bytes: held }) = self.0.as_deref() {
            let given =
                held.fetch_update(Relaxed, Relaxed, |held| Some(held.saturating_sub(bytes)));
            connection.give_back(bytes.min(given.unwrap_or_default()));
        }
    }

    /// Gives back everything beyond some bytes.
    pub fn keep(&self, bytes: usize) {
        let held = self.0.as_deref().map_or(0, |held| held.bytes.load(Relaxed));
        self.give_back(held.saturating_sub(bytes));
    }

    /// Whether its connection may hold more. Errors: [`Error::Overloaded`].
    pub fn check(&self) -> Result<(), Error> {
        match self.0.as_deref().is_none_or(|held| held.connection.has_capacity(0)) {
            true => Ok(()),
            false => Err(FULL),
        }
    }

    /// Waits until its connection may hold these bytes as well.
    pub fn capacity(&self, bytes: usize) -> impl Future<Output = ()> + use<> {
        let held = self.0.clone();
        async move {
            let Some(held) = held else { return };
            while !held.connection.has_capacity(bytes) {
                // Whether it was notified or not, it looks again.
                let _ = timeout(LOOK_AGAIN, held.connection.freed.notified()).await;
            }
        }
    }

    /// The account of an item of its stream, which holds nothing yet.
    pub fn item(&self) -> Self {
        self.0.as_ref().map_or_else(Self::default, |held| held.connection.item())
    }

    /// Its answer has been made, and waits for the client with all that the call holds.
    pub fn answered(&self) -> Option<Unread> {
        let held = self.0.as_ref()?;
        Some(held.connection.waits(held.bytes.load(Relaxed), false))
    }
}

impl Unread {
    /// Parts with some of its bytes.
    pub fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { connection: Arc::clone(&self.connection), bytes, is_charged: self.is_charged }
    }
}

impl fmt::Debug for CallAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallAccount")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.connection.give_back(self.bytes.load(Relaxed));
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let Self { connection, bytes, is_charged } = self;
        connection.unread.fetch_sub(*bytes, Relaxed);
        connection.taken.store(connection.all.millis(), Relaxed);
        if *is_charged {
            connection.give_back(*bytes);
        }
    }
}

#[cfg(test)]
mod tests;
