//! Lists of sessions in the order of their last events.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    Budget, Node, Read, Rows, SessionOrder, SessionPage, SessionRecord, SessionsQuery,
    session::states,
};
use crate::domain::prelude::*;

/// Sessions that are read at once.
const PIECE_SESSIONS: usize = 500;

/// The place of a session in the order of a list.
pub type ListKey = (Time, UserId, SessionId);

pub fn list_key(info: &SessionInfo) -> ListKey {
    (info.last_event_time, info.key.user_id.clone(), info.key.session_id.clone())
}

/// Ties are ascending in either order.
pub fn compare(order: SessionOrder, a: &ListKey, b: &ListKey) -> Ordering {
    let time = match order {
        SessionOrder::LeastRecent => a.0.cmp(&b.0),
        SessionOrder::MostRecent => b.0.cmp(&a.0),
    };
    time.then_with(|| (&a.1, &a.2).cmp(&(&b.1, &b.2)))
}

impl Read for SessionsQuery {
    type Answer = SessionPage;

    async fn step<R: Rows>(&mut self, rows: &R) -> Result<Option<SessionPage>, Error> {
        let mut page = SessionPage { sessions: Vec::new(), rest: self.after.clone() };
        let mut budget = Budget::new(self.max_items, self.max_bytes);
        let mut scanned = 0;
        while scanned < PAGE_SCANNED {
            let max_rows = match self.labels.as_map().is_empty() {
                true => PIECE_SESSIONS.min(budget.left().0.saturating_add(1)),
                false => PIECE_SESSIONS,
            };
            let listed = rows.listed(self, page.rest.as_ref(), max_rows).await?;
            let is_end = listed.len() < max_rows;
            scanned += listed.len();
            match self.put(rows, listed, &mut page, &mut budget).await {
                // What lies before the damage is a page. The next one begins with the damage.
                Err(Error::Damaged(..)) if !page.sessions.is_empty() => return Ok(Some(page)),
                Err(error) => return Err(error),
                Ok(false) => return Ok(Some(page)),
                Ok(true) if is_end => return Ok(Some(SessionPage { rest: None, ..page })),
                Ok(true) => {}
            }
        }
        if !page.sessions.is_empty() {
            return Ok(Some(page));
        }
        // None of the sessions that were read passes: go on instead of answering an empty page.
        self.after = page.rest;
        Ok(None)
    }
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
        let read: Vec<(SessionRecord, bool)> = read
            .map(|record| {
                let is_wanted = passes(&record.info);
                (record, is_wanted)
            })
            .collect();
        let mut rest = &read[..];
        while !rest.is_empty() {
            let (piece, states) = match self.with_state {
                true => states_of(rows, rest, budget.left().1).await?,
                false => (rest.len(), BTreeMap::new()),
            };
            for (SessionRecord { info, .. }, is_wanted) in &rest[..piece] {
                if *is_wanted {
                    let nodes = nodes(info);
                    let parts = nodes.iter().filter_map(|node| states.get(node));
                    let state = self.with_state.then(|| State(parts.flatten().cloned().collect()));
                    if !budget.take(state.as_ref().map_or(0, State::text_len)) {
                        return Ok(false);
                    }
                    page.sessions.push((info.clone(), state));
                }
                page.rest = Some(list_key(info));
            }
            rest = &rest[piece..];
        }
        end
    }
}

fn nodes(info: &SessionInfo) -> Vec<Node> {
    Node::visible(&Scope::Session(info.key.clone()), Some(info.incarnation))
}

/// The states that the first of some sessions merge, if they are wanted: as many as fit into about `max_bytes`, with the number of those
/// sessions.
async fn states_of<R: Rows>(
    rows: &R,
    sessions: &[(SessionRecord, bool)],
    max_bytes: usize,
) -> Result<(usize, BTreeMap<Node, Vec<StateEntry>>), Error> {
    let wanted = || sessions.iter().filter(|(_, is_wanted)| *is_wanted);
    let shared = wanted().flat_map(|(record, _)| nodes(&record.info).into_iter().take(2));
    let shared: Vec<Node> = shared.collect::<BTreeSet<_>>().into_iter().collect();
    let heads = rows.heads(&shared).await?;
    let bytes_of: BTreeMap<&Node, usize> =
        shared.iter().zip(heads.iter().map(|head| head.state_bytes)).collect();
    let (mut piece, mut bytes) = (0, 0);
    let mut wanted = BTreeSet::new();
    for (SessionRecord { info, state_bytes }, is_wanted) in sessions {
        if bytes >= max_bytes.max(1) {
            break;
        }
        piece += 1;
        if *is_wanted {
            let nodes = nodes(info);
            bytes += state_bytes;
            bytes += nodes.iter().filter_map(|node| bytes_of.get(node)).sum::<usize>();
            wanted.extend(nodes);
        }
    }
    let wanted: Vec<Node> = wanted.into_iter().collect();
    let states = states(rows, &wanted).await?;
    Ok((piece, wanted.into_iter().zip(states).collect()))
}
