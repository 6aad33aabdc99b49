//! The positions at which watches begin, and the scopes that they see.

use super::prelude::*;
use crate::store::Bases;

/// The life of a scope that was read at a position.
pub(super) fn life(
    scope: &Scope,
    info: Option<&SessionInfo>,
    bases: Bases,
    position: Position,
) -> Option<Life> {
    info.map(Life::of_session).or_else(|| bases.life(scope, position.versions))
}

/// A watch that has not seen the end of a user's or an application's earlier life does not know which keys are gone.
pub(super) fn check_lives(bases: Bases, position: Position) -> Result<(), Error> {
    if !bases.are_past(position.versions) {
        return Ok(());
    }
    let fault = "The state that the watch has followed was removed with its user or application. Start the watch without a cursor.";
    Err(Error::invalid("cursor", Reason::BadCursor, fault))
}

pub(super) fn scopes_seen_from(scope: &Scope) -> impl Iterator<Item = Scope> {
    let app = scope.app_name();
    let user = scope.user_id().map(|user| Scope::User(app.clone(), user.clone()));
    let session = matches!(scope, Scope::Session(_)).then(|| scope.clone());
    [session, user, Some(Scope::Application(app.clone()))].into_iter().flatten()
}

/// The position of a cursor. A store that was restored from a copy may lack what a cursor has seen. Continuing there would skip
/// whatever gets those numbers next, so such a cursor is refused as well.
pub(super) fn resume(
    Cursor { store, scope, position }: Cursor,
    this_store: StoreId,
    this_scope: &Scope,
    present: Position,
) -> Result<Position, Error> {
    let is_ahead =
        position.sequence > present.sequence || position.versions.are_ahead(present.versions);
    let fault = if store != this_store {
        return Err(Error::CursorOfOtherStore);
    } else if scope != Digest::of_scope(this_scope) {
        "The cursor belongs to another scope. Send a cursor from a watch of this scope, or start the watch without a cursor."
    } else if position.incarnation != present.incarnation {
        "The cursor belongs to an earlier session with the same id. Start the watch without a cursor."
    } else if is_ahead {
        return Err(Error::cursor_ahead());
    } else {
        return Ok(position);
    };
    Err(Error::invalid("cursor", Reason::BadCursor, fault))
}
