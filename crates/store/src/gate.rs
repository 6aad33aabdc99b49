//! The gate before a store: every call of a caller passes here, and is refused or narrowed to what the caller may see.
//!
//! The engine has no other way to a store, whose methods are out of its reach:
//!
//! ```compile_fail
//! # async fn call(gate: &sessiond::store::Gate, query: sessiond::store::SessionQuery) {
//! gate.store.read_session(query).await;
//! # }
//! ```
//!
//! A read without a rule is no [`Guarded`], and does not compile either. Rights on named things are decided before anything is read.
//! A bare session id is looked up among what its caller may see, and lists hold nothing else.

mod charge;
mod guarded;
mod limits;
mod reads;

use std::sync::Arc;

use tokio::{sync::watch, time::timeout_at};

use super::{
    ApplicationsQuery, Clock, Condition, EventsQuery, EventsView, KeyChangePage, KeyChangeQuery,
    NamePage, Notifier, RequestContext, SessionPage, SessionQuery, SessionView, SessionsQuery,
    StateQuery, StateView, Store, SystemClock, UsersQuery, WatchPage, WatchQuery, instant,
};
use charge::charged;
use guarded::OfApplication as _;
pub use guarded::{EndInvocation, Guarded};
use limits::Limits;
pub use limits::{LimitOptions, WatchPermit};
use reads::{Buffered, ReadTurns};
pub use reads::{read_as, reading};
use sessiond_access::Policies;
use sessiond_core::{
    commit::{
        Append, Appended, CreateSession, Created, DeleteSession, ForkSession, RewindSession,
        SessionUpdate, StateUpdate, StateUpdated,
    },
    domain::{
        id::{AppName, Author, UserId},
        permission::{Permissions, Right},
        prelude::*,
    },
};
use sessiond_metrics::ReadMetrics;

/// A store that asks for the rights of each caller.
pub struct Gate {
    store: Arc<dyn Store>,
    policies: Policies,
    limits: Arc<Limits>,
    /// `None`: the store queues reads.
    turns: Option<ReadTurns>,
}

/// Writes. Each counts as an append, and one of several events as several. What it costs beyond that is charged when it ends.
macro_rules! writes {
    ($($(#[$doc:meta])* $method:ident($request:ty) -> $answer:ty;)*) => {$(
        $(#[$doc])*
        pub async fn $method(
            &self,
            context: &RequestContext,
            request: $request,
        ) -> Result<$answer, Error> {
            let request = self.admit(context, request)?;
            let application = request.app_name().clone();
            self.limits.write(&context.principal, &application, 1)?;
            let charged = charged(&self.limits, context, application, 1);
            self.store.$method(charged.as_ref().unwrap_or(context), request).await
        }
    )*};
}

/// Reads, each in its caller's turn. One whose caller has stopped waiting ends.
macro_rules! reads {
    ($($(#[$doc:meta])* $method:ident($query:ty) -> $answer:ty;)*) => {$(
        $(#[$doc])*
        pub async fn $method(
            &self,
            context: &RequestContext,
            query: $query,
        ) -> Result<$answer, Error> {
            let query = self.admit(context, query)?;
            self.read(context, self.store.$method(query)).await
        }
    )*};
}

impl Gate {
    pub fn new(
        store: Arc<dyn Store>,
        policies: Policies,
        limits: LimitOptions,
        metrics: ReadMetrics,
    ) -> Self {
        let turns = store.concurrent_reads().map(|reads| ReadTurns::new(reads, metrics));
        Self { store, policies, limits: Arc::new(Limits::new(limits)), turns }
    }

    /// The permissions of a caller now. Nothing begins without this, and nothing for a caller that has stopped waiting.
    /// Errors: [`Error::ExpiredInQueue`], and [`Error::CredentialExpired`] or [`Error::CredentialInvalid`] of a stream that began before.
    fn permissions(&self, context: &RequestContext) -> Result<Permissions, Error> {
        if context.is_expired(instant()) {
            return Err(Error::ExpiredInQueue);
        }
        if let Some(identity) = context.principal.identity() {
            identity.check(SystemClock.now())?;
        }
        Ok(self.policies.permissions(&context.principal))
    }

    /// The request, narrowed to what its caller may see. Errors: [`Error::PermissionDenied`].
    fn admit<T: Guarded>(&self, context: &RequestContext, mut request: T) -> Result<T, Error> {
        self.check(context, &mut request)?;
        Ok(request)
    }

    /// As before a call of the store, for what is done in memory or has to be read first. Errors: [`Error::PermissionDenied`].
    pub fn check<T: Guarded>(
        &self,
        context: &RequestContext,
        request: &mut T,
    ) -> Result<(), Error> {
        Ok(request.guard(&self.permissions(context)?)?)
    }

    /// The policies, whose changes a watch follows.
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    writes! {
        create_session(CreateSession) -> Created;
        update_session(SessionUpdate) -> SessionInfo;
        delete_session(DeleteSession) -> Option<Incarnation>;
        fork_session(ForkSession) -> (SessionInfo, State);
        rewind_session(RewindSession) -> Appended;
        update_state(StateUpdate) -> StateUpdated;
    }

    reads! {
        read_session(SessionQuery) -> SessionView;
        read_events(EventsQuery) -> EventsView;
        list_sessions(SessionsQuery) -> SessionPage;
        list_applications(ApplicationsQuery) -> NamePage<AppName>;
        list_users(UsersQuery) -> NamePage<UserId>;
        read_state(StateQuery) -> StateView;
        read_changes(WatchQuery) -> WatchPage;
    }

    /// Gives an append its session's full key, which is read if a bare id names it.
    pub async fn resolve(
        &self,
        context: &RequestContext,
        append: &mut Append,
    ) -> Result<(), Error> {
        self.check(context, append)?;
        if let bare @ SessionRef::Bare(..) = &append.session {
            let key = self.read(context, self.store.resolve(bare.clone())).await?;
            append.session = SessionRef::Full(key);
        }
        Ok(())
    }

    /// Appends events.
    pub async fn append(
        &self,
        context: &RequestContext,
        append: Append,
    ) -> Result<Appended, Error> {
        let append = self.admit(context, append)?;
        let events = append.events.len();
        self.limits.principal_write(&context.principal, events)?;
        let key = match &append.session {
            SessionRef::Full(key) => key.clone(),
            bare => self.read(context, self.store.resolve(bare.clone())).await?,
        };
        let application = key.app_name.clone();
        self.limits.application_write(&application, events)?;
        let charged = charged(&self.limits, context, application, events);
        self.store.append(charged.as_ref().unwrap_or(context), append.to(key)).await
    }

    /// A permit for a watch that begins with a read of this state. Errors: [`Error::PermissionDenied`], [`Error::RateLimited`].
    pub fn watch_permit(
        &self,
        context: &RequestContext,
        query: &mut StateQuery,
    ) -> Result<WatchPermit, Error> {
        self.check(context, query)?;
        self.limits.watch(&context.principal, query.scope.app_name())
    }

    /// As [`Store::list_key_changes`], without the sources that the caller may not see.
    pub async fn list_key_changes(
        &self,
        context: &RequestContext,
        mut query: KeyChangeQuery,
    ) -> Result<KeyChangePage, Error> {
        let permissions = self.permissions(context)?;
        query.guard(&permissions)?;
        let mut page = self.read(context, self.store.list_key_changes(query)).await?;
        for change in &mut page.changes {
            let sees = |(key, _): &(SessionKey, Sequence)| {
                permissions.allow(Right::Read, &key.app_name, Some(&key.user_id))
            };
            if !change.source.as_ref().is_none_or(sees) {
                change.source = None;
                change.author = Author::from_stored("");
            }
        }
        Ok(page)
    }

    /// As [`Store::id`].
    pub fn id(&self) -> StoreId {
        self.store.id()
    }

    /// As [`Store::notifier`].
    pub fn notifier(&self) -> &Notifier {
        self.store.notifier()
    }

    /// As [`Store::clock`].
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.store.clock()
    }

    /// As [`Store::condition`].
    pub fn condition(&self) -> watch::Receiver<Condition> {
        self.store.condition()
    }

    /// Removes what has expired, a bounded piece, for the server itself. Whether more is left to do.
    pub async fn sweep(&self) -> Result<bool, Error> {
        self.limits.sweep();
        self.store.sweep().await
    }

    /// As [`Store::close`].
    pub async fn close(&self) {
        self.store.close().await;
    }

    /// The answer of a read, in its caller's turn, unless the caller stops waiting before.
    async fn read<T: Buffered>(
        &self,
        context: &RequestContext,
        read: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let read = async {
            let _turn = match &self.turns {
                Some(turns) => Some(turns.take(context.caller).await?),
                None => None,
            };
            // About as many answers are beyond the account as reads are executed.
            context.account.check()?;
            // A store that queues reads asks for the caller.
            let answer = match &self.turns {
                Some(_) => read.await?,
                None => read_as(context, read).await?,
            };
            context.account.note(answer.bytes());
            Ok(answer)
        };
        match context.deadline {
            None => read.await,
            Some(deadline) => {
                timeout_at(deadline, read).await.unwrap_or(Err(Error::ExpiredInQueue))
            }
        }
    }
}
