//! Reads: sessions and state, now or as of an event.

use std::{cmp::Ordering, collections::BTreeSet};

use super::{room::Room, session::Session, world::World};
use crate::{
    domain::{
        error::Error,
        id::{SessionId, UserId},
        page::EventPage,
        scope::StateKey,
        session::{Incarnation, SessionInfo, State, StateEntry},
        time::Time,
        token::Position,
    },
    store::{
        EventQuery, SessionOrder, SessionPage, SessionQuery, SessionView, SessionsQuery,
        StateQuery, StateView,
    },
};

impl World {
    pub(super) fn read_session(&self, query: &SessionQuery) -> Result<SessionView, Error> {
        let session = self.sessions.find(&query.session, query.now)?;
        let as_of = session.past(query.as_of)?;
        let sight = self.sight_of(session);
        let state = || match query.as_of {
            None => sight.state(),
            Some(_) => sight.state_as_of(session.versions_as_of(as_of)),
        };
        let selection = query.events.as_ref();
        Ok(SessionView {
            info: session.info_as_of(as_of),
            state: query.with_state.then(state),
            events: selection.map(|selection| session.page(as_of, selection)),
        })
    }

    pub(super) fn list_events(
        &self,
        query: &EventQuery,
    ) -> Result<(SessionInfo, EventPage), Error> {
        let session = self.sessions.live(&query.key, query.now)?;
        let as_of = session.past(query.as_of)?;
        let page = session.page(as_of, &query.selection);
        Ok((session.info_as_of(as_of), page))
    }

    pub(super) fn list_sessions(&self, query: &SessionsQuery) -> SessionPage {
        let after = query.after.as_ref();
        let after = after.map(|(time, user, session)| (*time, user, session));
        let is_wanted = |session: &&Session| {
            let behind = |after| compare(query.order, place(session), after).is_gt();
            session.info.labels.contain(&query.labels) && after.is_none_or(behind)
        };
        let user_id = query.user_id.as_ref();
        let sessions = self.sessions.of(&query.app_name, user_id, query.now);
        let mut sessions: Vec<&Session> = sessions.filter(is_wanted).collect();
        let by_order = |a: &&Session, b: &&Session| compare(query.order, place(a), place(b));
        // Only those of this page are sorted, and one more, which tells whether there is another page.
        if query.max_items < sessions.len() {
            sessions.select_nth_unstable_by(query.max_items, by_order);
            sessions.truncate(query.max_items + 1);
        }
        sessions.sort_unstable_by(by_order);
        let mut room = Room::new(query.max_items, query.max_bytes);
        let mut page = SessionPage { sessions: Vec::new(), rest: None };
        let mut last = None;
        for session in sessions {
            let state = query.with_state.then(|| self.sight_of(session).state());
            if !room.take(state.as_ref().map_or(0, state_bytes)) {
                page.rest = last.map(|(time, user, id): Place| (time, user.clone(), id.clone()));
                break;
            }
            page.sessions.push((session.info.clone(), state));
            last = Some(place(session));
        }
        page
    }

    pub(super) fn read_state(&self, query: StateQuery) -> Result<StateView, Error> {
        let session = self.session_of(&query.scope, query.now)?;
        let sight = self.sight(&query.scope, session);
        let state = match query.keys {
            None => sight.state(),
            Some(keys) => {
                // Keys have the order of state, in which each comes once.
                let keys: BTreeSet<StateKey> = keys.into_iter().collect();
                let entries = keys.into_iter().filter_map(|key| {
                    let (value, version) = sight.get(&key)?;
                    let value = value.clone();
                    Some(StateEntry { key, value, version })
                });
                State(entries.collect())
            }
        };
        Ok(StateView {
            state,
            position: Position {
                incarnation: session.map_or(Incarnation(0), |session| session.info.incarnation),
                sequence: session.map_or(0, |session| session.info.last_sequence),
                versions: self.wides.versions(&query.scope),
            },
            info: session.map(|session| session.info.clone()),
        })
    }
}

/// What a list of sessions is ordered by.
type Place<'a> = (Time, &'a UserId, &'a SessionId);

fn place(session: &Session) -> Place<'_> {
    let key = &session.info.key;
    (session.info.last_event_time, &key.user_id, &key.session_id)
}

/// Ties are ascending in either order.
fn compare(order: SessionOrder, a: Place<'_>, b: Place<'_>) -> Ordering {
    let time = a.0.cmp(&b.0);
    let time = match order {
        SessionOrder::LeastRecent => time,
        SessionOrder::MostRecent => time.reverse(),
    };
    time.then_with(|| (a.1, a.2).cmp(&(b.1, b.2)))
}

/// About how long state is as text, never less.
fn state_bytes(state: &State) -> usize {
    let entries = state.0.iter();
    2 + entries.map(|entry| entry.key.as_str().len() + entry.value.len() + 4).sum::<usize>()
}
