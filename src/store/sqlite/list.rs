//! Lists of sessions, by when they were last used.
//!
//! The indexes know most sessions by the time of their last event. Those in use have moved since; they are few, and are sorted in
//! between.

use std::{
    cmp::Ordering,
    collections::{HashSet, VecDeque},
};

use super::{
    fault::Outcome, listed::Listed, lookup::Found, row, schema::NodeId, state::Nodes,
    statements::Reads,
};
use crate::{
    domain::{
        id::{SessionId, UserId},
        limits::PAGE_SCANNED,
        session::State,
        time::Time,
    },
    store::{SessionOrder, SessionPage, SessionsQuery},
};

/// Where a session stands in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) time: Time,
    pub(super) user: UserId,
    pub(super) session: SessionId,
    pub(super) id: NodeId,
}

impl Place {
    fn of(found: &Found) -> Self {
        let key = &found.info.key;
        Self {
            time: found.info.last_event_time,
            user: key.user_id.clone(),
            session: key.session_id.clone(),
            id: found.id(),
        }
    }

    fn compare(&self, other: &Self, order: SessionOrder) -> Ordering {
        let times = match order {
            SessionOrder::LeastRecent => self.time.cmp(&other.time),
            SessionOrder::MostRecent => other.time.cmp(&self.time),
        };
        times
            .then_with(|| self.user.cmp(&other.user))
            .then_with(|| self.session.cmp(&other.session))
    }
}

/// The sessions of a list in order: those that moved, and the rest in the order of an index.
struct Merge {
    moved: VecDeque<Place>,
    moved_ids: HashSet<NodeId>,
    listed: Listed,
    order: SessionOrder,
}

impl Merge {
    fn next(&mut self, reads: &mut Reads<'_>) -> rusqlite::Result<Option<Place>> {
        let listed = loop {
            match self.listed.peek(reads)? {
                Some(place) if self.moved_ids.contains(&place.id) => self.listed.advance(),
                other => break other,
            }
        };
        let (moved, listed) = match (self.moved.front(), listed) {
            (Some(moved), Some(listed)) => {
                let first = moved.compare(listed, self.order) == Ordering::Less;
                (first, Some(listed.clone()))
            }
            (moved, listed) => (moved.is_some(), listed.cloned()),
        };
        if moved {
            return Ok(self.moved.pop_front());
        }
        self.listed.advance();
        Ok(listed)
    }
}

impl Reads<'_> {
    /// Lists sessions of an application or of one user.
    pub(super) fn list_sessions(&mut self, query: &SessionsQuery) -> Outcome<SessionPage> {
        let SessionsQuery { app_name, user_id, labels, order, after, max_items, .. } = query;
        let mut page = SessionPage { sessions: Vec::new(), rest: None };
        let Some(app) = self.scope_id(app_name, None)? else {
            return Ok(page);
        };
        let user = match user_id {
            None => None,
            Some(user) => match self.scope_id(app_name, Some(user))? {
                None => return Ok(page),
                found => found,
            },
        };
        let after = after.clone().map(|(time, user, session)| Place { time, user, session, id: 0 });
        let moved = self.moved(app, user, after.as_ref(), *order)?;
        let mut merge = Merge {
            moved_ids: moved.1,
            moved: moved.0,
            listed: Listed::new(app, user, user_id.clone(), *order, after),
            order: *order,
        };
        let mut states = States::default();
        let (mut bytes, mut scanned) = (0, 0);
        let mut last: Option<Place> = None;
        let rest = |last: Option<Place>| last.map(|at| (at.time, at.user, at.session));
        while let Some(place) = merge.next(self)? {
            if scanned == PAGE_SCANNED {
                page.rest = rest(last);
                break;
            }
            scanned += 1;
            let found = self.session_of_app(place.id, app_name)?;
            let passes =
                |found: &Found| !found.info.expired(query.now) && found.info.labels.contain(labels);
            if let Some(found) = found.filter(passes) {
                if page.sessions.len() == *max_items {
                    page.rest = rest(last);
                    break;
                }
                let state = match query.with_state {
                    false => None,
                    true => Some(states.merged(self, &found)?),
                };
                let size = state.as_ref().map_or(0, state_bytes);
                if !page.sessions.is_empty() && bytes + size > query.max_bytes {
                    page.rest = rest(last);
                    break;
                }
                bytes += size;
                page.sessions.push((found.info, state));
            }
            last = Some(place);
        }
        Ok(page)
    }

    /// The sessions that the indexes have elsewhere: where they belong, behind `after`, and the numbers of all of them.
    fn moved(
        &mut self,
        app: NodeId,
        user: Option<NodeId>,
        after: Option<&Place>,
        order: SessionOrder,
    ) -> rusqlite::Result<(VecDeque<Place>, HashSet<NodeId>)> {
        let (lowest, highest) = user.map_or((0, NodeId::MAX), |user| (user, user));
        let mut ids = HashSet::new();
        let mut rows = self.moved_of.query((app, lowest, highest))?;
        while let Some(row) = rows.next()? {
            ids.insert(row.get(0)?);
        }
        drop(rows);
        let mut places = Vec::with_capacity(ids.len());
        for &id in &ids {
            places.extend(self.session_of(id)?.map(|found| Place::of(&found)));
        }
        if let Some(after) = after {
            places.retain(|place| place.compare(after, order) == Ordering::Greater);
        }
        places.sort_by(|a, b| a.compare(b, order));
        Ok((places.into(), ids))
    }

    fn session_of_app(
        &mut self,
        id: NodeId,
        app: &crate::domain::id::AppName,
    ) -> rusqlite::Result<Option<Found>> {
        use rusqlite::OptionalExtension as _;
        let row = self.session_by_id.query_row([id], row::session).optional()?;
        row.map(|row| self.with_head(row, app.clone())).transpose()
    }
}

/// States of the wider scopes, which neighbours in a list share.
#[derive(Default)]
struct States {
    app: Option<State>,
    user: Option<(NodeId, State)>,
}

impl States {
    fn merged(&mut self, reads: &mut Reads<'_>, found: &Found) -> rusqlite::Result<State> {
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
