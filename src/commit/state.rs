//! Changing the state of an application or a user without a session.

use super::{
    ChangeSet, Loaded, Refusal, RequestKey, RequestRow, ScopeKey, StateUpdate, StateUpdated,
    overlay::{Overlay, Stamp, merge},
};
use crate::domain::{error::Error, field::FieldPath};

/// Applies a delta. A scope that ends changed gets the next version.
pub(super) fn update(
    loaded: &mut Loaded,
    changes: &mut ChangeSet,
    update: &StateUpdate,
) -> Result<StateUpdated, Refusal> {
    let StateUpdate { delta, precondition, author, request } = update;
    let scope = delta.scope();
    let own = ScopeKey::of(scope.kind(), scope, None)
        .ok_or_else(|| Error::internal("a session's state is changed by events"))?;
    let mut overlay = Overlay::new(loaded.complete(scope)?);
    if loaded.has_seen(&own, request.as_ref())? {
        return Ok(StateUpdated { state: loaded.state(scope)?, replayed: true });
    }
    overlay.check(precondition, scope.kind())?;
    let results = overlay.resolve(delta.delta(), &FieldPath::from("delta"))?;
    overlay.put(results, 0, &Stamp { commit_time: loaded.now, author, source: None })?;
    merge(overlay.changes, loaded, changes, scope, None);
    if let Some(request) = request {
        put_request(loaded, changes, own, request);
    }
    Ok(StateUpdated { state: loaded.state(scope)?, replayed: false })
}

/// Remembers a request for as long as its scope lives.
pub(super) fn put_request(
    loaded: &mut Loaded,
    changes: &mut ChangeSet,
    scope: ScopeKey,
    request: &RequestKey,
) {
    let RequestKey { id, fingerprint } = request.clone();
    loaded.requests.insert((scope.clone(), id.clone()), Some(fingerprint));
    changes.requests.push(RequestRow { scope, id, fingerprint });
}
