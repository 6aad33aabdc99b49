//! Changing the state of an application or a user without a session.

use super::{
    ChangeSet, Loaded, ScopeKey, StateUpdate, StateUpdated,
    append::{is_replayed, put_request},
    overlay::{Overlay, Stamp},
};
use crate::domain::{
    error::Error,
    field::FieldPath,
    scope::{Scope, ScopeKind},
};

/// Applies a delta. A scope that ends changed gets the next version.
pub(super) fn update(
    loaded: &mut Loaded,
    changes: &mut ChangeSet,
    update: &StateUpdate,
) -> Result<StateUpdated, Error> {
    let StateUpdate { delta, precondition, author, request } = update;
    let scope = delta.scope();
    let of = |kind| match (kind, scope.user_id()) {
        (ScopeKind::User, Some(user)) => ScopeKey::User(scope.app_name().clone(), user.clone()),
        _ => ScopeKey::Application(scope.app_name().clone()),
    };
    if let Scope::Session(_) = scope {
        return Err(Error::internal("a session's state is changed by events"));
    }
    let own = of(scope.kind());
    if is_replayed(loaded, &own, request.as_ref())? {
        return Ok(StateUpdated { state: loaded.state(scope), replayed: true });
    }
    let mut overlay = Overlay::new(loaded, scope, None);
    overlay.check(precondition, scope.kind())?;
    let stamp = Stamp { commit_time: loaded.now, author, source: None };
    overlay.apply(delta.delta(), &FieldPath::new("delta"), 0, &stamp)?;
    overlay.into_effects().merge(loaded, changes, of);
    if let Some(request) = request {
        put_request(loaded, changes, own, request);
    }
    Ok(StateUpdated { state: loaded.state(scope), replayed: false })
}
