//! The statements of lists: sessions in the order of their last events, and names.

use super::{
    connection::Tables,
    prelude::*,
    row::{self, SESSION_COLUMNS},
};
use sessiond_core::read::{ListKey, Node, SessionOrder, SessionRecord, SessionsQuery};

impl Tables {
    /// Sessions behind a place, without a place from the beginning, up to one that is damaged.
    pub(super) fn sessions_behind(
        &self,
        query: &SessionsQuery,
        after: Option<&ListKey>,
        max_rows: usize,
    ) -> Result<Vec<Result<SessionRecord>>> {
        let SessionsQuery { app_name, user_id, order, .. } = query;
        let node = match user_id {
            None => Node::application(app_name),
            Some(user) => Node::user(app_name, user),
        };
        let Some(scope) = self.node_id(&node)? else { return Ok(Vec::new()) };
        // No id is empty.
        let (secs, nanos, user, session) = match (after, order) {
            (Some((time, user, session)), _) => {
                (time.secs(), time.nanos(), user.as_str(), session.as_str())
            }
            (None, SessionOrder::LeastRecent) => (i64::MIN, 0, "", ""),
            (None, SessionOrder::MostRecent) => (i64::MAX, 0, "", ""),
        };
        let behind = (scope, secs, nanos, user, session, self.moved()?);
        let mut listed = Vec::new();
        let read = self.each(&select_behind(query), behind, |row| {
            let record = row::session(row, app_name.clone());
            let goes_on = record.is_ok() && listed.len() + 1 < max_rows;
            listed.push(record);
            Ok(goes_on)
        });
        match read {
            Err(error @ Error::Damaged(..)) => listed.push(Err(error)),
            read => drop(read?),
        }
        Ok(listed)
    }

    /// Addresses with the times of their expiry, or of one application.
    pub(super) fn addresses_behind(
        &self,
        app: Option<&AppName>,
        (after, up_to): (&SessionKey, &SessionKey),
        max_rows: usize,
    ) -> Result<Vec<(SessionKey, Option<Time>)>> {
        let (behind, same, order) = match app {
            None => ("(app, user) >= (?1, ?2)", "(app, user) > (?1, ?2)", "app, user"),
            Some(_) => ("app = ?1 AND user >= ?2", "user > ?2", "user"),
        };
        let sql = format!(
            "SELECT app, user, session_id, expire_secs, expire_nanos
             FROM scope CROSS JOIN session ON user_scope = scope.id
             WHERE {behind} AND (app, user) <= (?4, ?5) AND ({same} OR session_id > ?3)
             ORDER BY {order}, session_id LIMIT ?6"
        );
        let SessionKey { app_name, user_id, session_id } = after;
        let behind = (app_name.as_str(), user_id.as_str(), session_id.as_str());
        let up_to = (up_to.app_name.as_str(), up_to.user_id.as_str());
        let parameters = (behind.0, behind.1, behind.2, up_to.0, up_to.1, max_rows);
        self.all(&sql, parameters, |row| {
            let (app_name, user_id, session_id) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok((SessionKey { app_name, user_id, session_id }, row::optional_time(row, 3)?))
        })
    }

    /// Applications and users with the bytes of their states, or users of one application.
    pub(super) fn scopes_behind(
        &self,
        app: Option<&AppName>,
        (after, user): (&AppName, &UserId),
        max_rows: usize,
    ) -> Result<Vec<(AppName, UserId, usize)>> {
        let (behind, order) = match app {
            None => ("(app, user) > (?1, ?2)", "app, user"),
            Some(_) => ("app = ?1 AND user > ?2", "user"),
        };
        let sql = format!(
            "SELECT app, user, state_bytes FROM scope WHERE {behind} ORDER BY {order} LIMIT ?3"
        );
        let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        self.all(&sql, (after.as_str(), user.as_str(), max_rows), row)
    }
}

/// The sessions behind a place, without those that have moved, merged with those that have: `?6`. Ties ascend in either order.
fn select_behind(query: &SessionsQuery) -> String {
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
