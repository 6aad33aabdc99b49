//! Reads of sessions and state, now or as of an event.

use std::{cmp::Ordering, collections::BTreeSet};

use super::{session::Session, world::World};
use crate::{
    domain::{
        error::Error,
        id::{SessionId, UserId},
        page::EventPage,
        scope::StateKey,
        session::{Incarnation, SessionInfo, State},
        time::Time,
        token::Position,
    },
    store::{
        EventQuery, SessionOrder, SessionPage, SessionQuery, SessionView, SessionsQuery,
        StateQuery, StateView, budget::Budget,
    },
};

impl World {
    pub(super) fn read_session(&self, query: &SessionQuery) -> Result<SessionView, Error> {
        let session = self.sessions.find(&query.session, self.now())?;
        let as_of = session.as_of(query.as_of)?;
        let visible = self.visible_from(session);
        let state = || match query.as_of {
            None => visible.state(),
            Some(_) => visible.state_at(session.versions_as_of(as_of)),
        };
        let selection = query.events.as_ref();
        Ok(SessionView {
            info: session.info_as_of(as_of),
            state: query.with_state.then(state),
            events: selection.map(|selection| session.log.page(as_of, selection)),
        })
    }

    pub(super) fn list_events(
        &self,
        query: &EventQuery,
    ) -> Result<(SessionInfo, EventPage), Error> {
        let session = self.sessions.live(&query.key, self.now())?;
        let as_of = session.as_of(query.as_of)?;
        let page = session.log.page(as_of, &query.selection);
        Ok((session.info_as_of(as_of), page))
    }

    pub(super) fn list_sessions(&self, query: &SessionsQuery) -> SessionPage {
        let after = query.after.as_ref();
        let after = after.map(|(time, user, session)| (*time, user, session));
        let is_wanted = |session: &&Session| {
            let behind = |after| compare(query.order, place(session), after).is_gt();
            session.info.labels.contain(&query.labels) && after.is_none_or(behind)
        };
        let sessions = self.sessions.list(&query.app_name, query.user_id.as_ref(), self.now());
        let mut sessions: Vec<&Session> = sessions.filter(is_wanted).collect();
        sessions.sort_unstable_by(|a, b| compare(query.order, place(a), place(b)));
        let mut budget = Budget::new(query.max_items, query.max_bytes);
        let mut page = SessionPage { sessions: Vec::new(), rest: None };
        let mut last = None;
        for session in sessions {
            let state = query.with_state.then(|| self.visible_from(session).state());
            if !budget.take(state.as_ref().map_or(0, state_bytes)) {
                page.rest = last.map(|(time, user, id): Place| (time, user.clone(), id.clone()));
                break;
            }
            page.sessions.push((session.info.clone(), state));
            last = Some(place(session));
        }
        page
    }

    pub(super) fn read_state(&self, query: StateQuery) -> Result<StateView, Error> {
        let session = self.session_of(&query.scope)?;
        let visible = self.visible(&query.scope, session);
        let state = match query.keys {
            None => visible.state(),
            Some(keys) => {
                // The order of keys is that of state, in which each comes once.
                let keys: BTreeSet<StateKey> = keys.into_iter().collect();
                State(keys.into_iter().filter_map(|key| visible.entry(key)).collect())
            }
        };
        Ok(StateView {
            state,
            position: Position {
                incarnation: session.map_or(Incarnation(0), |session| session.info.incarnation),
                sequence: session.map_or(0, |session| session.info.last_sequence),
                versions: visible.versions(),
            },
            info: session.map(|session| session.info.clone()),
        })
    }
}

/// The sort key of a list of sessions.
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

/// Bytes of state as text, never too few.
fn state_bytes(state: &State) -> usize {
    let entries = state.0.iter();
    2 + entries.map(|entry| entry.key.as_str().len() + entry.value.len() + 4).sum::<usize>()
}
