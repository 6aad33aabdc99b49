//! The statements of lists of sessions.

use super::{prelude::*, row::SESSION_COLUMNS};
use sessiond_core::{
    domain::permission::Users,
    read::{SessionOrder, SessionsQuery},
};

/// Its parameters: the scope, the place as seconds, nanoseconds, user and session, the numbers of those that have moved, the users of a
/// list of several, and how many are wanted.
pub(super) fn select(query: &SessionsQuery) -> String {
    match (&query.user_id, &query.seen) {
        (None, Users::Only(_)) => select_of_users(query.order),
        _ => select_behind(query),
    }
}

/// The columns of a session's place in the indexes of lists, and of where it has moved since.
const LISTED: [&str; 2] = ["listed_secs", "listed_nanos"];
const MOVED: [&str; 2] = ["last_event_secs", "last_event_nanos"];

/// The sessions that have moved.
const NUMBERS: &str = "(SELECT value FROM json_each(?6))";

/// The sessions behind a place, without those that have moved, merged with those that have: `?6`. Ties ascend in either order.
fn select_behind(query: &SessionsQuery) -> String {
    // Of one user all have the same user id, which is not part of that index.
    let (scope, ties, after) = match query.user_id {
        None => ("app_scope", "user_id, session_id", "(?4, ?5)"),
        Some(_) => ("user_scope", "session_id", "?5"),
    };
    let select = |place: [&str; 2]| {
        let [secs, nanos] = place;
        let behind = behind(query.order, place, ties, after);
        format!(
            "SELECT {SESSION_COLUMNS}, {secs} AS place_secs, {nanos} AS place_nanos
             FROM session WHERE {behind}"
        )
    };
    let (listed, moved) = (select(LISTED), select(MOVED));
    let direction = direction(query.order);
    // The plus keeps the index of the scope from being searched for all of its sessions.
    format!(
        "{listed} AND {scope} = ?1 AND id NOT IN {NUMBERS}
         UNION ALL {moved} AND +{scope} = ?1 AND id IN {NUMBERS}
         ORDER BY place_secs {direction}, place_nanos {direction}, {ties} LIMIT ?8"
    )
}

/// As [`select_behind`], of the users `?7`: of each no more than are wanted of all, `?8`, so that its index is read and nothing else.
fn select_of_users(order: SessionOrder) -> String {
    let (ties, after) = ("user_id, session_id", "(?4, ?5)");
    let (listed, moved) = (behind(order, LISTED, ties, after), behind(order, MOVED, ties, after));
    let direction = direction(order);
    format!(
        "WITH seen(scope) AS (
             SELECT id FROM scope WHERE app = (SELECT app FROM scope WHERE id = ?1)
             AND user IN (SELECT value FROM json_each(?7)) AND user <> ''
         )
         SELECT {SESSION_COLUMNS}, listed_secs AS place_secs, listed_nanos AS place_nanos
         FROM seen CROSS JOIN session WHERE id IN (
             SELECT id FROM session WHERE user_scope = seen.scope AND {listed} AND id NOT IN {NUMBERS}
             ORDER BY listed_secs {direction}, listed_nanos {direction}, session_id LIMIT ?8
         )
         UNION ALL
         SELECT {SESSION_COLUMNS}, last_event_secs, last_event_nanos
         FROM session WHERE id IN {NUMBERS} AND +user_scope IN seen AND {moved}
         ORDER BY place_secs {direction}, place_nanos {direction}, {ties}"
    )
}

/// The condition of the sessions behind `(?2, ?3)` and, at the same place, behind `after` in the order of `ties`.
fn behind(order: SessionOrder, [secs, nanos]: [&str; 2], ties: &str, after: &str) -> String {
    let behind = if order == SessionOrder::MostRecent { "<" } else { ">" };
    format!(
        "({secs}, {nanos}) {behind}= (?2, ?3)
         AND (({secs}, {nanos}) {behind} (?2, ?3) OR ({ties}) > {after})"
    )
}

/// Of the seconds and nanoseconds of a place.
fn direction(order: SessionOrder) -> &'static str {
    if order == SessionOrder::MostRecent { "DESC" } else { "ASC" }
}

/// The users whom a caller sees, as an array of JSON.
pub(super) fn users_of(seen: &Users) -> Option<String> {
    let Users::Only(users) = seen else { return None };
    let users: Vec<&str> = users.iter().map(UserId::as_str).collect();
    serde_json::to_string(&users).ok()
}
