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
//! A read that no rule was made for is no [`Guarded`], and does not compile either. What is named is decided before anything is read.
//! A bare session id is looked up among what its caller may see, and lists hold nothing else.

mod guarded;
mod names;
mod sessions;

use std::sync::Arc;

use tokio::sync::watch;

use super::{
    Clock, Condition, KeyChangePage, KeyChangeQuery, Notifier, RequestContext, SessionQuery,
    SessionView, StateQuery, StateView, Store, WatchPage, WatchQuery,
};
use crate::{
    access::Policies,
    commit::{
        Append, Appended, CreateSession, Created, ForkSession, RewindSession, SessionUpdate,
        StateUpdate, StateUpdated,
    },
    domain::{
        id::Author,
        permission::{Permissions, Right},
        prelude::*,
    },
};
pub use guarded::{EndInvocation, Guarded};

/// A store that asks for the rights of each caller.
pub struct Gate {
    store: Arc<dyn Store>,
    policies: Policies,
}

/// Calls that pass as they are, or narrowed to what their caller may see.
macro_rules! passes {
    ($($(#[$doc:meta])* $method:ident($request:ty) -> $answer:ty;)*) => {$(
        $(#[$doc])*
        pub async fn $method(
            &self,
            context: &RequestContext,
            request: $request,
        ) -> Result<$answer, Error> {
            let request = self.admit(context, request)?;
            self.store.$method(context, request).await
        }
    )*};
}

/// The same, for reads.
macro_rules! reads {
    ($($(#[$doc:meta])* $method:ident($query:ty) -> $answer:ty;)*) => {$(
        $(#[$doc])*
        pub async fn $method(
            &self,
            context: &RequestContext,
            query: $query,
        ) -> Result<$answer, Error> {
            let query = self.admit(context, query)?;
            self.store.$method(query).await
        }
    )*};
}

impl Gate {
    pub fn new(store: Arc<dyn Store>, policies: Policies) -> Self {
        Self { store, policies }
    }

    /// What a caller may do now.
    fn permissions(&self, context: &RequestContext) -> Permissions {
        self.policies.permissions(&context.principal)
    }

    /// The request, narrowed to what its caller may see. Errors: [`Error::PermissionDenied`].
    fn admit<T: Guarded>(&self, context: &RequestContext, mut request: T) -> Result<T, Error> {
        request.guard(&self.permissions(context))?;
        Ok(request)
    }

    /// As before a call of the store, for what is done in memory or has to be read first. Errors: [`Error::PermissionDenied`].
    pub fn check<T: Guarded>(
        &self,
        context: &RequestContext,
        request: &mut T,
    ) -> Result<(), Error> {
        Ok(request.guard(&self.permissions(context))?)
    }

    /// The policies, whose changes a watch follows.
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    passes! {
        create_session(CreateSession) -> Created;
        update_session(SessionUpdate) -> SessionInfo;
        delete_session(SessionKey) -> bool;
        fork_session(ForkSession) -> (SessionInfo, State);
        rewind_session(RewindSession) -> Appended;
        append(Append) -> Appended;
        update_state(StateUpdate) -> StateUpdated;
    }

    reads! {
        read_session(SessionQuery) -> SessionView;
        read_state(StateQuery) -> StateView;
        read_changes(WatchQuery) -> WatchPage;
    }

    /// As [`Store::list_key_changes`], without the sources that the caller may not see.
    pub async fn list_key_changes(
        &self,
        context: &RequestContext,
        mut query: KeyChangeQuery,
    ) -> Result<KeyChangePage, Error> {
        let permissions = self.permissions(context);
        query.guard(&permissions)?;
        let mut page = self.store.list_key_changes(query).await?;
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
        self.store.sweep().await
    }

    /// As [`Store::close`].
    pub async fn close(&self) {
        self.store.close().await;
    }
}
