//! Watches: read what follows a position, deliver it, wait for more.
//!
//! Catching up and following live are one code path. A watch subscribes to its scopes before it reads, so that a commit between
//! the two wakes it. It holds one page and a position, however far it lags.

use std::{
    collections::VecDeque,
    mem,
    pin::{Pin, pin},
    time::Duration,
};

use futures_util::future::select_all;
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, Sleep, sleep},
};

use super::{
    Engine,
    lag::LagShare,
    position::{check_lives, life, resume, scopes_seen_from},
    prelude::*,
};
use crate::{
    access::Policies,
    domain::Sequence,
    store::{ScopeChange, StateQuery, StateView, Subscription, WatchPermit, WatchQuery, instant},
};

/// Seconds without any message after which a watch sends a heartbeat: below the minute after which load balancers close a stream.
const HEARTBEAT_SECS: u64 = 10;

/// Items that a watch reads at once: few enough that ten thousand watches can catch up at the same time.
const PAGE_ITEMS: usize = 100;

/// Bytes of items that a watch reads at once, for the same reason.
const PAGE_BYTES: usize = MESSAGE_BYTES / 8;

/// Time until a watch looks again whether a session has gone that has expired.
const EXPIRED_AGAIN: Duration = Duration::from_secs(1);

/// Time for which a watch tries again to read a store that is unavailable: a switch-over of the database takes three seconds.
const OUTAGE: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchFrom {
    Cursor(Cursor),
    Snapshot,
    /// With the first event of the session.
    Beginning,
    Now,
}

#[derive(Clone, Debug, PartialEq)]
pub enum WatchItem {
    /// State at the start.
    Snapshot {
        state: State,
        /// The session's newest event; 0 for shared scopes.
        last_sequence: Sequence,
        life: Option<Life>,
    },
    Event(Box<Event>),
    /// A change of a shared scope made elsewhere.
    StateChange {
        changes: Changes,
        commit_time: Time,
    },
    /// Nothing is left to catch up on.
    CaughtUp,
    Heartbeat(Time),
    /// The session is gone; nothing follows.
    SessionDeleted(Life),
}

impl WatchItem {
    /// Bytes that are buffered for it.
    fn bytes(&self) -> usize {
        match self {
            Self::Snapshot { state, .. } => state.bytes(),
            Self::Event(event) => event.bytes(),
            Self::StateChange { changes, .. } => changes.text_len(),
            Self::CaughtUp | Self::Heartbeat(_) | Self::SessionDeleted(_) => 0,
        }
    }
}

/// A running watch. Dropping it ends it.
pub struct Watch {
    engine: Arc<Engine>,
    pub(super) context: RequestContext,
    policies: Policies,
    scope: Scope,
    position: Position,
    /// Read and not yet delivered, each with the position right behind it.
    ready: VecDeque<(WatchItem, Position)>,
    subscriptions: Vec<Subscription>,
    expire_time: Option<Time>,
    complete: bool,
    caught_up: bool,
    ended: bool,
    /// Bytes of the item that was passed on last.
    passed: usize,
    /// Since when its reads have failed, because the store is unavailable.
    unavailable: Option<Instant>,
    /// The wakes that the last page was read after.
    wakes: u64,
    lag: LagShare,
    _permit: OwnedSemaphorePermit,
    _watch_permit: WatchPermit,
}

impl Engine {
    /// Starts a watch. Errors here are those of the call. Later ones end the stream.
    pub async fn watch(
        self: &Arc<Self>,
        context: &RequestContext,
        scope: Scope,
        from: WatchFrom,
    ) -> Result<Watch, Error> {
        if self.draining.is_cancelled() {
            return Err(Error::Draining);
        }
        let permit = Arc::clone(&self.watches).try_acquire_owned().map_err(|_| {
            Error::Overloaded { what: Bounded::Watches, retry_after_millis: 10_000 }
        })?;
        // Subscribed before the first read: what is committed in between is seen by one or the other.
        let subscriptions: Vec<_> =
            scopes_seen_from(&scope).map(|it| self.store.notifier().subscribe(&it)).collect();
        let lag = self.lags.begin(&subscriptions);
        // A watch from a cursor or from now needs the position alone.
        let keys = (from != WatchFrom::Snapshot).then(Vec::new);
        let mut query = StateQuery { scope: scope.clone(), keys };
        // Before anything is read, so that a watch too many costs little.
        let watch_permit = self.store.watch_permit(context, &mut query)?;
        let StateView { state, position: present, info, bases } =
            self.store.read_state(context, query).await?;
        let expire_time = info.as_ref().and_then(|info| info.expire_time);
        let mut ready: VecDeque<(WatchItem, Position)> = VecDeque::new();
        let position = match from {
            WatchFrom::Cursor(cursor) => {
                let position = resume(cursor, self.store.id(), &scope, present)?;
                check_lives(bases, position)?;
                position
            }
            WatchFrom::Now => present,
            WatchFrom::Beginning => Position {
                incarnation: present.incarnation,
                sequence: 0,
                versions: info.map(|info| info.created_versions).unwrap_or_default(),
            },
            WatchFrom::Snapshot => {
                let last_sequence = present.sequence;
                let life = life(&scope, info.as_ref(), bases, present);
                ready.push_back((WatchItem::Snapshot { state, last_sequence, life }, present));
                present
            }
        };
        Ok(Watch {
            engine: Arc::clone(self),
            context: context.clone(),
            policies: self.store.policies().clone(),
            scope,
            position,
            ready,
            subscriptions,
            expire_time,
            complete: false,
            caught_up: false,
            ended: false,
            passed: 0,
            unavailable: None,
            wakes: 0,
            lag,
            _permit: permit,
            _watch_permit: watch_permit,
        })
    }
}

impl Watch {
    /// The cursor of its start. `None`: it begins with a message that the cursor would skip.
    pub fn first_cursor(&self) -> Option<String> {
        self.ready.is_empty().then(|| self.cursor(self.position))
    }

    fn cursor(&self, position: Position) -> String {
        let store = self.engine.store.id();
        Cursor { store, scope: Digest::of_scope(&self.scope), position }.encode()
    }

    /// The next message with the cursor right behind it; `None` at the end. An error ends the watch.
    pub async fn next(&mut self) -> Option<Result<(WatchItem, String), Error>> {
        if self.ended {
            return None;
        }
        let next = self.next_item().await;
        self.ended = matches!(next, Err(_) | Ok((WatchItem::SessionDeleted(_), _)));
        Some(next.map(|(item, position)| (item, self.cursor(position))))
    }

    async fn next_item(&mut self) -> Result<(WatchItem, Position), Error> {
        // Its response has been made.
        self.context.account.give_back(mem::take(&mut self.passed));
        let mut heartbeat = pin!(sleep(Duration::from_secs(HEARTBEAT_SECS)));
        loop {
            if self.engine.draining.is_cancelled() {
                return Err(Error::Draining);
            }
            // A slow reader gets nothing more of what was read by an earlier policy or with a token that was taken back.
            if self.policies.take_change() || self.context.principal.is_withdrawn() {
                self.check()?;
            }
            if let Some(item) = self.ready.pop_front() {
                self.passed = item.0.bytes();
                return Ok(item);
            }
            if self.complete {
                self.lag.delivered(self.wakes);
            }
            if self.complete && !self.caught_up {
                self.caught_up = true;
                return Ok((WatchItem::CaughtUp, self.position));
            }
            if self.complete
                && let Some(item) = self.wait(heartbeat.as_mut()).await?
            {
                return Ok((item, self.position));
            }
            if let Some(item) = self.read(heartbeat.as_mut()).await? {
                return Ok((item, self.position));
            }
        }
    }

    /// Reads the next page, perhaps of no items, when it is this watch's turn. Returns what to say instead.
    async fn read(&mut self, mut heartbeat: Pin<&mut Sleep>) -> Result<Option<WatchItem>, Error> {
        // A caller may drop this future, so a wake may only be forgotten together with the claim that nothing is left.
        self.complete = false;
        self.wakes = self.subscriptions.iter_mut().map(|it| *it.borrow_and_update()).sum();
        // A page is read when its connection may hold it.
        let read = async {
            self.context.account.capacity(0).await;
            self.engine.store.read_changes(&self.context, self.query()).await
        };
        let page = tokio::select! {
            biased;
            page = read => page,
            () = self.engine.draining.cancelled() => return Err(Error::Draining),
            () = heartbeat.as_mut() => return self.heartbeat(),
        };
        let page = match page {
            Err(Error::SessionNotFound(_)) => {
                let life = Life::of_scope(&self.scope, self.position.incarnation.0);
                return Ok(Some(WatchItem::SessionDeleted(life)));
            }
            Err(error) => return self.wait_again(error, heartbeat).await,
            Ok(page) => page,
        };
        self.unavailable = None;
        check_lives(page.bases, self.position)?;
        self.complete = page.complete;
        self.expire_time = page.expire_time;
        for event in page.events {
            self.position.sequence = event.sequence;
            self.ready.push_back((WatchItem::Event(Box::new(event)), self.position));
        }
        for change in page.changes {
            let ScopeChange { scope, version, changes, commit_time } = change;
            match scope {
                ScopeKind::Application => self.position.versions.application = version,
                ScopeKind::User | ScopeKind::Session => self.position.versions.user = version,
            }
            self.ready.push_back((WatchItem::StateChange { changes, commit_time }, self.position));
        }
        self.context.account.note(self.ready.iter().map(|(item, _)| item.bytes()).sum());
        // The page may end behind its last item: changes that it left out on purpose.
        self.position = page.position;
        if let Some((_, position)) = self.ready.back_mut() {
            *position = page.position;
        }
        Ok(None)
    }

    /// After a read that failed: waits before the next one if what there is to read does not go away. Not all watches come back together.
    async fn wait_again(
        &mut self,
        error: Error,
        heartbeat: Pin<&mut Sleep>,
    ) -> Result<Option<WatchItem>, Error> {
        let millis = match &error {
            Error::Overloaded {
                what: Bounded::ReadQueue | Bounded::Buffers,
                retry_after_millis,
            } => *retry_after_millis,
            Error::StoreUnavailable(_)
                if self.unavailable.get_or_insert_with(instant).elapsed() <= OUTAGE =>
            {
                250
            }
            _ => return Err(error),
        };
        let pause = Duration::from_millis(fastrand::u64(millis..=2 * millis));
        tokio::select! {
            () = sleep(pause) => Ok(None),
            () = self.engine.draining.cancelled() => Err(Error::Draining),
            () = heartbeat => self.heartbeat(),
        }
    }

    /// Whether the caller may still read what it watches.
    fn check(&self) -> Result<(), Error> {
        self.engine.store.check(&self.context, &mut self.query())
    }

    fn query(&self) -> WatchQuery {
        WatchQuery {
            scope: self.scope.clone(),
            position: self.position,
            max_items: PAGE_ITEMS,
            max_bytes: PAGE_BYTES,
        }
    }

    /// Waits until there may be something to read, or something to say.
    async fn wait(&mut self, mut heartbeat: Pin<&mut Sleep>) -> Result<Option<WatchItem>, Error> {
        // A session that lives on after its time does so by another clock, the database's.
        let left = self.expire_time.map(|at| match self.engine.now().until(at) {
            Duration::ZERO => EXPIRED_AGAIN,
            left => left,
        });
        let mut gone = pin!(sleep(left.unwrap_or_default()));
        loop {
            let changed = self.subscriptions.iter_mut().map(|it| Box::pin(it.changed()));
            // The watch holds the engine, and with it the store's notifier: `changed` cannot fail.
            let is_due = tokio::select! {
                biased;
                () = self.engine.draining.cancelled() => return Err(Error::Draining),
                () = self.policies.changed() => false,
                () = self.context.principal.withdrawn() => false,
                _ = select_all(changed) => return Ok(None),
                () = gone.as_mut(), if left.is_some() => return Ok(None),
                () = heartbeat.as_mut() => true,
            };
            if is_due {
                return self.heartbeat();
            }
            // Rights are all that changed: there is nothing to read.
            self.check()?;
        }
    }

    /// Nothing was read meanwhile, and a credential ends without a sign.
    fn heartbeat(&self) -> Result<Option<WatchItem>, Error> {
        self.check()?;
        Ok(Some(WatchItem::Heartbeat(self.engine.now())))
    }
}
