//! Lists of sessions, in the order of their last events.

use super::{
    read::Nodes,
    row::{self, Found},
    schema::NodeId,
    statements::Reads,
};
use crate::{
    domain::{
        error::Error,
        id::{SessionId, UserId},
        limits::PAGE_SCANNED,
        session::State,
        time::Time,
    },
    store::{SessionOrder, SessionPage, SessionsQuery},
};

/// Sessions that are read at once.
const CHUNK: usize = 128;

/// The sort key of a list; ties ascend in either order.
type Place = (Time, UserId, SessionId);

fn place(found: &Found) -> Place {
    let key = &found.info.key;
    (found.info.last_event_time, key.user_id.clone(), key.session_id.clone())
}

impl Reads<'_> {
    /// A page, which may be short, even empty, and have more behind it.
    pub(super) fn list_sessions(
        &mut self,
        query: &SessionsQuery,
        now: Time,
    ) -> Result<SessionPage, Error> {
        let mut page = SessionPage { sessions: Vec::new(), rest: None };
        let Some((app, ..)) = self.scope_row(&query.app_name, None)? else {
            return Ok(page);
        };
        let user = match &query.user_id {
            None => None,
            Some(user) => match self.scope_row(&query.app_name, Some(user))? {
                None => return Ok(page),
                Some((user, ..)) => Some(user),
            },
        };
        let mut states = States::default();
        let (mut bytes, mut scanned) = (0, 0);
        let mut last = query.after.clone();
        loop {
            let chunk = self.chunk(query, app, user, last.as_ref())?;
            let is_end = chunk.len() < CHUNK;
            for found in chunk {
                if scanned == PAGE_SCANNED {
                    page.rest = last;
                    return Ok(page);
                }
                scanned += 1;
                let next = place(&found);
                if !found.info.expired(now) && found.info.labels.contain(&query.labels) {
                    let state = match query.with_state {
                        false => None,
                        true => Some(states.merged(self, &found)?),
                    };
                    let size = state.as_ref().map_or(0, state_bytes);
                    let is_full = page.sessions.len() == query.max_items
                        || (!page.sessions.is_empty() && bytes + size > query.max_bytes);
                    if is_full {
                        page.rest = last;
                        return Ok(page);
                    }
                    bytes += size;
                    page.sessions.push((found.info, state));
                }
                last = Some(next);
            }
            if is_end {
                return Ok(page);
            }
        }
    }

    /// The next sessions behind a place.
    fn chunk(
        &mut self,
        query: &SessionsQuery,
        app: NodeId,
        user: Option<NodeId>,
        after: Option<&Place>,
    ) -> Result<Vec<Found>, Error> {
        let (secs, nanos, after_user, after_session) = match (after, query.order) {
            (Some((time, user, session)), _) => {
                (time.secs(), time.nanos(), user.as_str(), session.as_str())
            }
            // No id is empty.
            (None, SessionOrder::LeastRecent) => (i64::MIN, 0, "", ""),
            (None, SessionOrder::MostRecent) => (i64::MAX, 0, "", ""),
        };
        let up = query.order == SessionOrder::LeastRecent;
        let limit = CHUNK as i64;
        let mut rows = match user {
            None => {
                let statement =
                    if up { &mut self.sessions_of_app_up } else { &mut self.sessions_of_app_down };
                statement.query((app, secs, nanos, after_user, after_session, limit))?
            }
            Some(user) => {
                let statement = if up {
                    &mut self.sessions_of_user_up
                } else {
                    &mut self.sessions_of_user_down
                };
                statement.query((user, secs, nanos, after_session, limit))?
            }
        };
        let mut chunk = Vec::new();
        while let Some(row) = rows.next()? {
            chunk.push(row::session(row, query.app_name.clone())?);
        }
        Ok(chunk)
    }
}

/// States of the wider scopes, which neighbours in a list share.
#[derive(Default)]
struct States {
    app: Option<State>,
    user: Option<(NodeId, State)>,
}

impl States {
    fn merged(&mut self, reads: &mut Reads<'_>, found: &Found) -> Result<State, Error> {
        let app = match &self.app {
            Some(state) => state,
            None => {
                let nodes = Nodes { app: Some(found.app), ..Nodes::default() };
                self.app.insert(reads.merged(nodes)?)
            }
        };
        let user = match &self.user {
            Some((id, state)) if *id == found.user => state,
            _ => {
                let nodes = Nodes { user: Some(found.user), ..Nodes::default() };
                &self.user.insert((found.user, reads.merged(nodes)?)).1
            }
        };
        let own = reads.merged(Nodes { session: Some(found.id()), ..Nodes::default() })?;
        let shared = app.0.iter().chain(&user.0).cloned();
        Ok(State(shared.chain(own.0).collect()))
    }
}

/// Bytes of a state as text, punctuation included.
fn state_bytes(state: &State) -> usize {
    let entries = state.0.iter();
    2 + entries.map(|entry| entry.key.as_str().len() + entry.value.len() + 4).sum::<usize>()
}
