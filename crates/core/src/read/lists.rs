//! Lists of sessions in the order of their last events.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    Budget, Node, Read, Rows, SessionOrder, SessionPage, SessionRecord, SessionsQuery, scan::Scan,
    session::undamaged,
};
use crate::domain::{permission::Users, prelude::*};

/// Sessions that are read at once.
const PIECE_SESSIONS: usize = 500;

/// Sessions of each user that are read at once, at least, where a caller sees some users: a page of one has to get on.
const FEWEST_SESSIONS: usize = 16;

/// The place of a session in the order of a list.
pub type ListKey = (Time, UserId, SessionId);

pub fn list_key(info: &SessionInfo) -> ListKey {
    (info.last_event_time, info.key.user_id.clone(), info.key.session_id.clone())
}

/// The order of a list by time, user id and session id. Ties are ascending in either order.
pub fn compare<U: Ord, S: Ord>(
    order: SessionOrder,
    a: &(Time, U, S),
    b: &(Time, U, S),
) -> Ordering {
    let time = match order {
        SessionOrder::LeastRecent => a.0.cmp(&b.0),
        SessionOrder::MostRecent => b.0.cmp(&a.0),
    };
    time.then_with(|| (&a.1, &a.2).cmp(&(&b.1, &b.2)))
}

impl Read for SessionsQuery {
    type Answer = SessionPage;

    async fn read<R: Rows>(&self, rows: &R) -> Result<SessionPage, Error> {
        let mut page = SessionPage { sessions: Vec::new(), rest: self.after.clone() };
        let mut budget = Budget::new(self.max_items, self.max_bytes);
        let mut scan = Scan::new(rows);
        // Of each of them as many may be read as of all together.
        let users = match (&self.user_id, &self.seen) {
            (None, Users::Only(users)) => users.len().max(1),
            (Some(_), _) | (None, Users::All) => 1,
        };
        // One more than the page takes tells whether others follow. When few pass, more are read at once.
        let mut piece = self.max_items.saturating_add(1);
        while !scan.is_over() {
            let of_each = (scan.left() / users).max(FEWEST_SESSIONS.min(scan.left()));
            let max_rows = piece.min(PIECE_SESSIONS).min(of_each);
            piece = max_rows * 4;
            let listed = rows.listed(self, page.rest.as_ref(), max_rows).await?;
            let (looked_at, taken) = (listed.len(), page.sessions.len());
            match self.put(rows, listed, &mut page, &mut budget).await {
                // What lies before the damage is a page. The next one begins with the damage.
                Err(Error::Damaged(..)) if !page.sessions.is_empty() => break,
                Err(error) => return Err(error),
                Ok(false) => break,
                Ok(true) if looked_at < max_rows => return Ok(SessionPage { rest: None, ..page }),
                Ok(true) => {
                    scan.look(looked_at, page.sessions.len() - taken);
                    scan.look((users - 1) * max_rows, (users - 1) * max_rows);
                }
            }
        }
        Ok(page)
    }
}

/// A session on its way to a page.
struct Listed {
    record: SessionRecord,
    /// The scopes that it sees, if it passes.
    nodes: Option<Vec<Node>>,
}

impl SessionsQuery {
    /// Puts sessions on the page, if they pass. Its rest begins behind the last one looked at. Returns whether all were taken.
    async fn put<R: Rows>(
        &self,
        rows: &R,
        listed: Vec<Result<SessionRecord, Error>>,
        page: &mut SessionPage,
        budget: &mut Budget,
    ) -> Result<bool, Error> {
        let now = rows.now().await;
        let passes = |info: &SessionInfo| !info.expired(now) && info.labels.contain(&self.labels);
        let mut end = Ok(true);
        let read = listed.into_iter().map_while(|row| row.map_err(|error| end = Err(error)).ok());
        let read = read.map(|record| {
            let scopes = |info| if self.with_state { nodes(info) } else { Vec::new() };
            let nodes = passes(&record.info).then(|| scopes(&record.info));
            Listed { record, nodes }
        });
        let mut read: Vec<Listed> = read.collect();
        let mut at_once = read.len();
        while !read.is_empty() {
            let first = &read[..read.len().min(at_once)];
            let (piece, states) = match self.with_state {
                false => (read.len(), BTreeMap::new()),
                true => match states_of(rows, first, budget.left().1).await {
                    // One after the other, up to the damage.
                    Err(Error::Damaged(..)) if at_once > 1 => {
                        at_once = 1;
                        continue;
                    }
                    states => states?,
                },
            };
            for Listed { record: SessionRecord { info, .. }, nodes } in read.drain(..piece) {
                let place = list_key(&info);
                if let Some(nodes) = nodes {
                    let state = self.with_state.then(|| merged(&nodes, &states)).transpose()?;
                    if !budget.take(state.as_ref().map_or(0, State::text_len)) {
                        return Ok(false);
                    }
                    page.sessions.push((info, state));
                }
                page.rest = Some(place);
            }
        }
        end
    }
}

fn nodes(info: &SessionInfo) -> Vec<Node> {
    Node::visible(&Scope::Session(info.key.clone()), Some(info.incarnation))
}

/// The state that scopes merge. Errors: [`Error::Damaged`] of a session's own value.
fn merged(nodes: &[Node], states: &BTreeMap<Node, Vec<StateEntry>>) -> Result<State, Error> {
    let parts: Vec<(&Node, &Vec<StateEntry>)> =
        nodes.iter().filter_map(|node| states.get_key_value(node)).collect();
    undamaged(parts.iter().map(|(node, state)| (*node, &state[..])))?;
    Ok(State(parts.into_iter().flat_map(|(_, state)| state).cloned().collect()))
}

/// The states that the first of some sessions merge, if they are wanted: as many as fit into about `max_bytes`, with the number of those
/// sessions.
async fn states_of<R: Rows>(
    rows: &R,
    sessions: &[Listed],
    max_bytes: usize,
) -> Result<(usize, BTreeMap<Node, Vec<StateEntry>>), Error> {
    let shared = sessions.iter().flat_map(|it| it.nodes.iter().flatten().take(2).cloned());
    let shared: Vec<Node> = shared.collect::<BTreeSet<_>>().into_iter().collect();
    let heads = rows.heads(&shared).await?;
    let bytes_of: BTreeMap<&Node, usize> =
        shared.iter().zip(heads.iter().map(|head| head.state_bytes)).collect();
    let (mut piece, mut bytes) = (0, 0);
    let mut wanted = BTreeSet::new();
    for Listed { record, nodes } in sessions {
        if bytes >= max_bytes.max(1) {
            break;
        }
        piece += 1;
        if let Some(nodes) = nodes {
            bytes += record.state_bytes;
            bytes += nodes.iter().filter_map(|node| bytes_of.get(node)).sum::<usize>();
            wanted.extend(nodes.iter().cloned());
        }
    }
    let wanted: Vec<Node> = wanted.into_iter().collect();
    let states = rows.states(&wanted).await?;
    Ok((piece, wanted.into_iter().zip(states).collect()))
}
