//! The statements of lists: sessions in the order of their last events, and names.

use std::sync::atomic::Ordering;

use futures_util::future::try_join;

use super::{
    super::{prelude::*, row::SESSION_COLUMNS},
    pool::Reader,
};
use sessiond_core::read::{ListKey, SessionOrder, SessionsQuery};

/// Sessions are read in the order of an index, and only those of one second are sorted, however few sessions the planner expects.
pub(in super::super) const STEADY: &str = "SET LOCAL enable_sort = off";

impl Reader<'_> {
    /// The sessions behind a place, without a place from the beginning.
    pub(super) async fn sessions_behind(
        &self,
        query: &SessionsQuery,
        after: Option<&ListKey>,
        max_rows: usize,
    ) -> Result<Vec<Row>> {
        // No id is empty.
        let (time, user, session) = match (after, query.order) {
            (Some((time, user, session)), _) => (*time, user.as_str(), session.as_str()),
            (None, SessionOrder::LeastRecent) => (Time::from_stored(i64::MIN, 0), "", ""),
            (None, SessionOrder::MostRecent) => (Time::LAST, "", ""),
        };
        // Of one user all have the same user id.
        let user = query.user_id.as_ref().map_or(user, UserId::as_str);
        let select = Columns::new(select_behind(query))
            .text(&query.app_name)
            .time(time)
            .text(user)
            .text(session)
            .number(max_rows as u64);
        if self.is_steady.swap(true, Ordering::Relaxed) {
            return select.all(self.connection).await;
        }
        let steady = self.connection.batch(STEADY);
        Ok(try_join(steady, select.all(self.connection)).await?.1)
    }

    /// Addresses with the times of their expiry, or of one application.
    pub(super) async fn addresses_behind(
        &self,
        app: Option<&AppName>,
        (after, up_to): (&SessionKey, &SessionKey),
        max_rows: usize,
    ) -> Result<Vec<Row>> {
        let (behind, order) = match app {
            None => ("(app_name, user_id, session_id) > ($1, $2, $3)", "app_name, user_id"),
            Some(_) => ("app_name = $1 AND (user_id, session_id) > ($2, $3)", "user_id"),
        };
        let sql = format!(
            "SELECT app_name, user_id, session_id, expire_secs, expire_nanos FROM session
             WHERE {behind} AND (app_name, user_id) <= ($4, $5)
             ORDER BY {order}, session_id LIMIT $6"
        );
        let select = Columns::new(sql).address(after).text(&up_to.app_name).text(&up_to.user_id);
        select.number(max_rows as u64).all(self.connection).await
    }

    /// Applications and users with the bytes of their states, or users of one application.
    pub(super) async fn scopes_behind(
        &self,
        app: Option<&AppName>,
        (after, user): (&AppName, &UserId),
        max_rows: usize,
    ) -> Result<Vec<Row>> {
        let (behind, order) = match app {
            None => ("(app_name, user_id) > ($1, $2)", "app_name, user_id"),
            Some(_) => ("app_name = $1 AND user_id > $2", "user_id"),
        };
        let sql = format!(
            "SELECT app_name, user_id, state_bytes FROM scope
             WHERE {behind} ORDER BY {order} LIMIT $3"
        );
        let select = Columns::new(sql).text(after).text(user);
        select.number(max_rows as u64).all(self.connection).await
    }
}

/// The sessions behind a place. Ties ascend in either order.
fn select_behind(query: &SessionsQuery) -> String {
    let (user, ties, after) = match query.user_id {
        None => ("", "l.user_id, l.session_id", "($4, $5)"),
        Some(_) => ("AND l.user_id = $4", "l.session_id", "$5"),
    };
    let (behind, direction) = match query.order {
        SessionOrder::LeastRecent => (">", "ASC"),
        SessionOrder::MostRecent => ("<", "DESC"),
    };
    let time = "(l.last_event_secs, s.last_event_nanos)";
    let columns = SESSION_COLUMNS.replace(", ", ", s.");
    format!(
        "SELECT s.{columns} FROM session_list l
         JOIN session s ON s.app_name = l.app_name AND s.user_id = l.user_id
             AND s.session_id = l.session_id
         WHERE l.app_name = $1 {user} AND l.last_event_secs {behind}= $2
             AND ({time} {behind} ($2, $3) OR {time} = ($2, $3) AND ({ties}) > {after})
         ORDER BY l.last_event_secs {direction}, s.last_event_nanos {direction}, {ties} LIMIT $6"
    )
}
