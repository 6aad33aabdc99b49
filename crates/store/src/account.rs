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
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::future::AbortHandle;
use tokio::time::{Instant, sleep};

use super::instant;
use sessiond_core::domain::error::{Bounded, Error};

/// What a call takes in memory, however short it is: its stream of HTTP/2, its task, and the buffer that its answer is encoded into.
pub const CALL_BYTES: usize = 16 << 10;

/// A client that has taken nothing for so long does not read. Only then its connection may end for the bytes that it holds.
const STALLED: Duration = Duration::from_secs(5);

/// A caller that waits for capacity looks again after this time.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Stalled connections are looked for this often, at most: one that was ended takes a moment to give its bytes back.
const LOOK_FOR_STALLED: Duration = Duration::from_millis(250);

/// The refusal of what does not fit, with the time in which many answers are taken.
const FULL: Error = Error::Overloaded { what: Bounded::Buffers, retry_after_millis: 200 };

/// The account of a process.
#[derive(Clone)]
pub struct Account(Arc<All>);

struct All {
    max: usize,
    bytes: AtomicUsize,
    /// Of these, the bytes of connections that are not known.
    unknown: AtomicUsize,
    /// Connections that hold something.
    holders: AtomicUsize,
    open: Mutex<Open>,
    began: Instant,
    /// When stalled connections were last looked for, in milliseconds since `began`.
    looked: AtomicU64,
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
    /// Its client has shown a credential, or needs none.
    is_known: AtomicBool,
    /// Its bytes that count as those of an unknown one.
    unknown: AtomicUsize,
    end: OnceLock<AbortHandle>,
}

/// What one call holds, until its last owner drops it. The default counts nothing: a call of the process itself.
#[derive(Clone, Default)]
pub struct CallAccount(Option<Arc<Held>>);

struct Held {
    connection: Arc<ConnectionAccount>,
    bytes: AtomicUsize,
}

/// A part of a response that the client has not taken.
pub struct Unread {
    connection: Arc<ConnectionAccount>,
    bytes: usize,
}

/// Bytes of a connection, of all, and of those that are not known; 0 if it is known itself.
struct Sums {
    own: usize,
    all: usize,
    unknown: usize,
}

impl Account {
    /// `ended` is called when a connection is ended for what it holds.
    pub fn new(max: usize, ended: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(All {
            max,
            bytes: AtomicUsize::new(0),
            unknown: AtomicUsize::new(0),
            holders: AtomicUsize::new(0),
            open: Mutex::default(),
            began: instant(),
            looked: AtomicU64::new(0),
            ended: Box::new(ended),
        }))
    }

    pub fn bytes(&self) -> usize {
        self.0.bytes.load(Relaxed)
    }

    /// The account of a connection. One that is not known shares a quarter with all such.
    pub fn connection(&self, is_known: bool) -> Arc<ConnectionAccount> {
        let mut open = self.0.lock();
        open.newest += 1;
        let number = open.newest;
        let connection = Arc::new(ConnectionAccount {
            all: Arc::clone(&self.0),
            number,
            bytes: AtomicUsize::new(0),
            unread: AtomicUsize::new(0),
            taken: AtomicU64::new(0),
            is_known: AtomicBool::new(is_known),
            unknown: AtomicUsize::new(0),
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

    /// Whether a connection may hold `own` bytes while all hold `all`, and those that are not known `unknown` if it is one of them. One has a
    /// quarter at most, and those have a quarter together. The last quarter of the account is for those that have less than their share of
    /// it, divided by their number and one more, which may come.
    fn fits(&self, Sums { own, all, unknown }: Sums) -> bool {
        let quarter = self.max / 4;
        let share = || quarter / self.holders.load(Relaxed).saturating_add(1);
        own <= quarter
            && unknown <= quarter
            && (all <= self.max - quarter || (all <= self.max && own <= share()))
    }

    /// Ends the connection that leaves most answers unread, if its client takes none and the account is as good as full.
    fn end_stalled(&self) {
        if self.bytes.load(Relaxed) <= self.max - self.max / 4 {
            return;
        }
        let (now, looked) = (self.millis(), self.looked.load(Relaxed));
        let is_due =
            looked == 0 || Duration::from_millis(now.saturating_sub(looked)) >= LOOK_FOR_STALLED;
        if !is_due || self.looked.compare_exchange(looked, now.max(1), Relaxed, Relaxed).is_err() {
            return;
        }
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

    /// Its client has shown a credential.
    pub fn know(&self) {
        if !self.is_known.swap(true, Relaxed) {
            self.count_as_known(usize::MAX);
        }
    }

    /// Some of its bytes are no longer those of an unknown connection.
    fn count_as_known(&self, bytes: usize) {
        let before = self.unknown.fetch_update(Relaxed, Relaxed, |it| Some(it - it.min(bytes)));
        self.all.unknown.fetch_sub(before.unwrap_or_default().min(bytes), Relaxed);
    }

    /// Charges a part of a response that has been made, until it is dropped.
    pub fn unread(self: &Arc<Self>, bytes: usize) -> Unread {
        self.add(bytes);
        if self.unread.fetch_add(bytes, Relaxed) == 0 {
            self.taken.store(self.all.millis(), Relaxed);
        }
        self.all.end_stalled();
        Unread { connection: Arc::clone(self), bytes }
    }

    /// Charges bytes. Returns the sums with them.
    fn add(&self, bytes: usize) -> Sums {
        let own = self.bytes.fetch_add(bytes, Relaxed) + bytes;
        if own == bytes && bytes > 0 {
            self.all.holders.fetch_add(1, Relaxed);
        }
        let mut unknown = 0;
        if !self.is_known.load(Relaxed) {
            // All first: the share of a connection that becomes known is taken from it.
            unknown = self.all.unknown.fetch_add(bytes, Relaxed) + bytes;
            self.unknown.fetch_add(bytes, Relaxed);
        }
        let all = self.all.bytes.fetch_add(bytes, Relaxed) + bytes;
        Sums { own, all, unknown }
    }

    /// The bytes that would be held with some more bytes.
    fn sums(&self, bytes: usize) -> Sums {
        let unknown = match self.is_known.load(Relaxed) {
            true => 0,
            false => self.all.unknown.load(Relaxed) + bytes,
        };
        let (own, all) = (self.bytes.load(Relaxed) + bytes, self.all.bytes.load(Relaxed) + bytes);
        Sums { own, all, unknown }
    }

    fn give_back(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        if self.unknown.load(Relaxed) > 0 {
            self.count_as_known(bytes);
        }
        self.all.bytes.fetch_sub(bytes, Relaxed);
        if self.bytes.fetch_sub(bytes, Relaxed) == bytes {
            self.all.holders.fetch_sub(1, Relaxed);
        }
    }

    fn has_capacity(&self, bytes: usize) -> bool {
        self.all.fits(self.sums(bytes))
    }

    fn is_stalled(&self, now: u64) -> bool {
        let since = Duration::from_millis(now.saturating_sub(self.taken.load(Relaxed)));
        let is_ended = self.end.get().is_none_or(AbortHandle::is_aborted);
        !is_ended && self.unread.load(Relaxed) > 0 && since >= STALLED
    }
}

impl Drop for ConnectionAccount {
    fn drop(&mut self) {
        self.count_as_known(usize::MAX);
        self.all.lock().connections.remove(&self.number);
    }
}

impl CallAccount {
    /// Charges bytes that are about to be made. Errors: [`Error::Overloaded`], and nothing is charged.
    pub fn take(&self, bytes: usize) -> Result<(), Error> {
        let Some(Held { connection, bytes: held }) = self.0.as_deref() else { return Ok(()) };
        if connection.all.fits(connection.add(bytes)) {
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
                held.connection.all.end_stalled();
                sleep(LOOK_AGAIN).await;
            }
        }
    }

    /// The account of an item of its stream, which holds nothing yet.
    pub fn item(&self) -> Self {
        self.0.as_ref().map_or_else(Self::default, |held| held.connection.item())
    }
}

impl Unread {
    /// Parts with some of its bytes.
    pub fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { connection: Arc::clone(&self.connection), bytes }
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
        let Self { connection, bytes } = self;
        if *bytes > 0 {
            connection.unread.fetch_sub(*bytes, Relaxed);
            connection.taken.store(connection.all.millis(), Relaxed);
            connection.give_back(*bytes);
        }
    }
}

#[cfg(test)]
mod tests;
