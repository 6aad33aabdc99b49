//! The statement of a list of sessions, in the order of their last events.

use super::row::SESSION_COLUMNS;
use sessiond_core::read::{SessionOrder, SessionsQuery};

/// The sessions behind a place, without those that have moved, merged with those that have: `?6`. Ties ascend in either order.
pub(super) fn select_behind(query: &SessionsQuery) -> String {
    // Of one user all have the same user id, which is not part of that index.
    let (scope, ties, after) = match query.user_id {
        None => ("app_scope", "user_id, session_id", "(?4, ?5)"),
        Some(_) => ("user_scope", "session_id", "?5"),
    };
    let (behind, direction) = match query.order {
        SessionOrder::LeastRecent => (">", "ASC"),
        SessionOrder::MostRecent => ("<", "DESC"),
    };
    let select = |secs: &str, nanos: &str| {
        format!(
            "SELECT {SESSION_COLUMNS}, {secs} AS place_secs, {nanos} AS place_nanos
             FROM session
             WHERE ({secs}, {nanos}) {behind}= (?2, ?3)
             AND (({secs}, {nanos}) {behind} (?2, ?3) OR ({ties}) > {after})"
        )
    };
    let listed = select("listed_secs", "listed_nanos");
    let moved = select("last_event_secs", "last_event_nanos");
    let numbers = "(SELECT value FROM json_each(?6))";
    // The plus keeps the index of the scope from being searched for all of its sessions.
    format!(
        "{listed} AND {scope} = ?1 AND id NOT IN {numbers}
         UNION ALL {moved} AND +{scope} = ?1 AND id IN {numbers}
         ORDER BY place_secs {direction}, place_nanos {direction}, {ties}"
    )
}
