//! The rights that each request needs.

use crate::{
    ApplicationsQuery, EventsQuery, KeyChangeQuery, SessionQuery, SessionsQuery, StateQuery,
    UsersQuery, WatchQuery,
};
use sessiond_core::{
    commit::{
        Append, CreateSession, DeleteSession, ForkSession, RewindSession, SessionUpdate,
        StateUpdate,
    },
    domain::{
        permission::{Denial, Pattern, Permissions, Right, Users},
        prelude::*,
    },
};

/// A request that needs rights.
pub trait Guarded {
    /// Requires the rights that it needs, and narrows it to what its caller may see.
    fn guard(&mut self, permissions: &Permissions) -> Result<(), Denial>;
}

/// A write that is of one application, which its request names.
pub trait OfApplication {
    fn app_name(&self) -> &AppName;
}

macro_rules! of_application {
    ($($request:ty: |$it:ident| $app_name:expr;)*) => {$(
        impl OfApplication for $request {
            fn app_name(&self) -> &AppName {
                let $it = self;
                &$app_name
            }
        }
    )*};
}

of_application! {
    CreateSession: |it| it.key.app_name;
    SessionUpdate: |it| it.key.app_name;
    DeleteSession: |it| it.key.app_name;
    ForkSession: |it| it.source.app_name;
    RewindSession: |it| it.key.app_name;
    StateUpdate: |it| *it.delta.scope().app_name();
}

/// The end of an invocation, whose state is in memory.
#[derive(Clone, Debug)]
pub struct EndInvocation {
    pub key: SessionKey,
    pub invocation: InvocationId,
}

impl Guarded for EndInvocation {
    fn guard(&mut self, permissions: &Permissions) -> Result<(), Denial> {
        require(permissions, Right::Write, &self.key)
    }
}

impl Guarded for CreateSession {
    fn guard(&mut self, permissions: &Permissions) -> Result<(), Denial> {
        require(permissions, Right::Write, &self.key)?;
        match change_app_state(self.state.iter().map(|(key, _)| key)) {
            true => permissions.require(Right::WriteAppState, &self.key.app_name, None),
            false => Ok(()),
        }
    }
}

impl Guarded for SessionUpdate {
    fn guard(&mut self, permissions: &Permissions) -> Result<(), Denial> {
        require(permissions, Right::Write, &self.key)
    }
}

impl Guarded for DeleteSession {
    fn guard(&mut self, permissions: &Permissions) -> Result<(), Denial> {
        require(permissions, Right::Write, &self.key)
    }
}

impl Guarded for ForkSession {
    /// The new session is the same user's.
    fn guard(&mut self, permissions: &Permissions) -> Result<(), Denial> {
        require(permissions, Right::Write, &self.source)
    }
}

impl Guarded for RewindSession {
    /// The application's state is not part of what is taken back.
    fn guard(&mut self, permissions: &Permissions) -> Result<(), Denial> {
        require(permissions, Right::Write, &self.key)
    }
}

impl Guarded for Append {
    fn guard(&mut self, permissions: &Permissions) -> Result<(), Denial> {
        let events = self.events.iter().filter(|event| !event.partial);
        // Without a policy the keys need not be looked at.
        let app_state = *permissions != Permissions::Everything
            && change_app_state(events.flat_map(|event| event.delta.keys()));
        let visible = Visibility::new(permissions.clone(), Right::Write, app_state);
        narrow(&mut self.session, visible)
    }
}

impl Guarded for StateUpdate {
    /// The answer has the state.
    fn guard(&mut self, permissions: &Permissions) -> Result<(), Denial> {
        let scope = self.delta.scope();
        let (app, user) = (scope.app_name(), scope.user_id());
        let write = match scope.kind() {
            ScopeKind::Application => Right::WriteAppState,
            ScopeKind::User | ScopeKind::Session => Right::Write,
        };
        permissions.require(write, app, user)?;
        // A user's scope takes keys of the application as well.
        if change_app_state(self.delta.delta().keys()) {
            permissions.require(Right::WriteAppState, app, None)?;
        }
        permissions.require(Right::Read, app, user)
    }
}

impl Guarded for SessionQuery {
    fn guard(&mut self, permissions: &Permissions) -> Result<(), Denial> {
        narrow(&mut self.session, Visibility::new(permissions.clone(), Right::Read, false))
    }
}

impl Guarded for EventsQuery {
    fn guard(&mut self, permissions: &Permissions) -> Result<(), Denial> {
        require(permissions, Right::Read, &self.key)
    }
}

impl Guarded for SessionsQuery {
    fn guard(&mut self, permissions: &Permissions) -> Result<(), Denial> {
        match &self.user_id {
            Some(user) => permissions.require(Right::Read, &self.app_name, Some(user)),
            None => {
                self.seen = permissions.users(Right::Read, &self.app_name)?;
                Ok(())
            }
        }
    }
}

impl Guarded for ApplicationsQuery {
    fn guard(&mut self, permissions: &Permissions) -> Result<(), Denial> {
        self.seen = permissions.applications(Right::Admin)?;
        Ok(())
    }
}

impl Guarded for UsersQuery {
    fn guard(&mut self, permissions: &Permissions) -> Result<(), Denial> {
        let seen = permissions.users(Right::Admin, &self.app_name)?;
        let exact = |user: &UserId| Pattern::Exact(user.to_string());
        self.seen = match seen {
            Users::All => None,
            Users::Only(users) => Some(users.iter().map(exact).collect()),
        };
        Ok(())
    }
}

impl Guarded for StateQuery {
    fn guard(&mut self, permissions: &Permissions) -> Result<(), Denial> {
        read(permissions, &self.scope)
    }
}

impl Guarded for KeyChangeQuery {
    fn guard(&mut self, permissions: &Permissions) -> Result<(), Denial> {
        read(permissions, &self.scope)
    }
}

impl Guarded for WatchQuery {
    fn guard(&mut self, permissions: &Permissions) -> Result<(), Denial> {
        read(permissions, &self.scope)
    }
}

fn require(permissions: &Permissions, right: Right, key: &SessionKey) -> Result<(), Denial> {
    permissions.require(right, &key.app_name, Some(&key.user_id))
}

fn read(permissions: &Permissions, scope: &Scope) -> Result<(), Denial> {
    permissions.require(Right::Read, scope.app_name(), scope.user_id())
}

/// Requires the rights on a session that is named, and of a bare id limits the sessions among which the store looks it up.
fn narrow(session: &mut SessionRef, visible: Visibility) -> Result<(), Denial> {
    match session {
        SessionRef::Full(key) => visible.require(&key.app_name, &key.user_id),
        SessionRef::Bare(_, sees) => {
            *sees = visible;
            Ok(())
        }
    }
}

fn change_app_state<'k>(mut keys: impl Iterator<Item = &'k StateKey>) -> bool {
    keys.any(|key| key.scope() == Some(ScopeKind::Application))
}
