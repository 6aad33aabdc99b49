//! Ending sessions that have expired, and removing what is left of those that are gone.

use super::{ChangeSet, Loaded, session::end};

/// Whether more may be left to do.
pub(super) fn sweep(loaded: &mut Loaded, changes: &mut ChangeSet) -> bool {
    let expired = std::mem::take(&mut loaded.expired);
    let mut more = !expired.is_empty();
    for listed in expired {
        // An earlier request of the group may have ended it, or moved its end.
        let current = match loaded.sessions.get(&listed.incarnation) {
            Some(session) => session.info.clone(),
            None if loaded.addresses.contains_key(&listed.key) => continue,
            None => listed,
        };
        if current.expired(loaded.now) {
            end(loaded, changes, current);
        }
    }
    if let Some(incarnation) = loaded.tombstone.take() {
        changes.purged = Some(incarnation);
        more = true;
    }
    more
}
