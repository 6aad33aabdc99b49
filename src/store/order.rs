//! The order of lists: sessions by the time of their last event, names by their bytes.

use std::cmp::Ordering;

use super::SessionOrder;
use crate::domain::{limits::ID_BYTES, prelude::*};

/// The place of a session in a list.
pub(super) type Place<'a> = (Time, &'a UserId, &'a SessionId);

pub(super) fn place(info: &SessionInfo) -> Place<'_> {
    (info.last_event_time, &info.key.user_id, &info.key.session_id)
}

/// Ties are ascending in either order.
pub(super) fn compare(order: SessionOrder, a: Place<'_>, b: Place<'_>) -> Ordering {
    let time = match order {
        SessionOrder::LeastRecent => a.0.cmp(&b.0),
        SessionOrder::MostRecent => b.0.cmp(&a.0),
    };
    time.then_with(|| (a.1, a.2).cmp(&(b.1, b.2)))
}

/// A text behind every name and id: more bytes than they may have, of the last character.
pub(super) fn behind_all() -> String {
    "\u{10ffff}".repeat(ID_BYTES / 4 + 1)
}
