//! Lists of sessions in the order of their last events.

use std::collections::BTreeMap;

use futures_util::future::try_join;

use super::{
    super::{
        columns::Columns,
        node::Node,
        prelude::*,
        row::{self, Found, SESSION_COLUMNS, number},
    },
    pool::Reader,
    state::visible,
};
use crate::store::{Budget, SessionOrder, SessionPage, SessionsQuery};

/// Sessions that one statement reads.
const PIECE_ROWS: usize = 500;

/// Sessions are read in the order of an index, and only those of one second are sorted, however few sessions the planner expects.
pub(in super::super) const STEADY: &str = "SET LOCAL enable_sort = off";

/// A place in the order.
type Place = (Time, UserId, SessionId);

impl Reader<'_> {
    /// A page, which may be short, even empty, and have more behind it.
    pub(in super::super) async fn list_sessions(
        &self,
        query: &SessionsQuery,
    ) -> Result<SessionPage, Error> {
        let SessionsQuery { labels, after, max_items, .. } = query;
        let mut page = SessionPage { sessions: Vec::new(), rest: after.clone() };
        let mut budget = Budget::new(*max_items, query.max_bytes);
        let mut scanned = 0;
        while scanned < PAGE_SCANNED {
            let max_rows = match labels.as_map().is_empty() {
                true => PIECE_ROWS.min(budget.left().0.saturating_add(1)),
                false => PIECE_ROWS,
            };
            let listed = self.sessions_behind(query, page.rest.as_ref(), max_rows).await?;
            let is_end = listed.len() < max_rows;
            scanned += listed.len();
            match self.put(query, listed, &mut page, &mut budget).await {
                // What lies before the damage is a page. The next one begins with the damage.
                Err(Error::Damaged(..)) if !page.sessions.is_empty() => break,
                Err(error) => return Err(error),
                Ok(false) => break,
                Ok(true) if is_end => {
                    page.rest = None;
                    break;
                }
                Ok(true) => {}
            }
        }
        Ok(page)
    }

    /// Puts sessions on the page, if they pass. Its rest begins behind the last one looked at. Returns whether all were taken.
    async fn put(
        &self,
        query: &SessionsQuery,
        listed: Vec<Row>,
        page: &mut SessionPage,
        budget: &mut Budget,
    ) -> Result<bool, Error> {
        let now = self.now().await;
        let passes =
            |found: &Found| !found.info.expired(now) && found.info.labels.contain(&query.labels);
        let mut end = Ok(true);
        let read = listed
            .iter()
            .map_while(|row| row::session(row, 0).map_err(|error| end = Err(error)).ok());
        let read: Vec<Found> = read.collect();
        let mut rest = &read[..];
        while !rest.is_empty() {
            let (piece, states) = match query.with_state {
                true => self.with_states(rest, &passes, budget.left().1).await?,
                false => (rest.len(), BTreeMap::new()),
            };
            for found in &rest[..piece] {
                let key = &found.info.key;
                if passes(found) {
                    let node = Node::session(key, found.info.incarnation);
                    let parts = visible(&node);
                    let parts = parts.iter().filter_map(|node| states.get(node));
                    let state = query.with_state.then(|| State(parts.flatten().cloned().collect()));
                    if !budget.take(state.as_ref().map_or(0, State::text_len)) {
                        return Ok(false);
                    }
                    page.sessions.push((found.info.clone(), state));
                }
                let time = found.info.last_event_time;
                page.rest = Some((time, key.user_id.clone(), key.session_id.clone()));
            }
            rest = &rest[piece..];
        }
        end
    }

    /// The states that the first of some sessions merge, as many as fit into about `max_bytes`, with the number of those sessions.
    async fn with_states(
        &self,
        sessions: &[Found],
        passes: &impl Fn(&Found) -> bool,
        max_bytes: usize,
    ) -> Result<(usize, BTreeMap<Node, Vec<StateEntry>>), Error> {
        let Some(first) = sessions.first() else { return Ok((0, BTreeMap::new())) };
        let app = &first.info.key.app_name;
        let users = sessions.iter().map(|found| found.info.key.user_id.as_str());
        let users = std::iter::once("").chain(users);
        let sql =
            "SELECT user_id, state_bytes FROM scope WHERE app_name = $1 AND user_id = ANY($2)";
        let rows = Columns::new(sql).text(app).texts(users).all(self.connection).await?;
        let mut wide = BTreeMap::new();
        for row in rows {
            let bytes = usize::try_from(number(&row, 1)?).unwrap_or(usize::MAX);
            wide.insert(row.try_get::<String>(0)?, bytes);
        }
        let wide = |user: &str| wide.get(user).copied().unwrap_or(0);
        let (mut piece, mut bytes) = (0, 0);
        let mut nodes = Vec::new();
        for found in sessions {
            if bytes >= max_bytes.max(1) {
                break;
            }
            piece += 1;
            if passes(found) {
                let key = &found.info.key;
                bytes += wide("") + wide(key.user_id.as_str()) + found.state_bytes;
                nodes.extend(visible(&Node::session(key, found.info.incarnation)));
            }
        }
        nodes.sort_unstable();
        nodes.dedup();
        let states = self.states(&nodes).await?;
        Ok((piece, nodes.into_iter().zip(states).collect()))
    }

    /// The sessions behind a place, without a place from the beginning.
    async fn sessions_behind(
        &self,
        query: &SessionsQuery,
        after: Option<&Place>,
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
        let steady = self.connection.batch(STEADY);
        Ok(try_join(steady, select.all(self.connection)).await?.1)
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
