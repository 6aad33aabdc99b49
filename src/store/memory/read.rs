//! Reads of sessions, events and state, now or as of an event.

use std::{cmp::Ordering, collections::BTreeSet};

use super::{
    scope::ScopeRecord,
    world::{Log, World, before_all},
};
use crate::{
    commit::ScopeKey,
    domain::{
        Sequence, Version,
        error::Error,
        event::{Event, ScopeVersions},
        id::{SessionId, UserId},
        page::{EventFilter, EventPage, EventSelection, Rest, narrow},
        scope::{Scope, ScopeKind, StateKey},
        session::{Incarnation, SessionInfo, State, StateEntry},
        time::Time,
        token::Position,
    },
    store::{
        Budget, SessionOrder, SessionPage, SessionQuery, SessionView, SessionsQuery, StateQuery,
        StateView,
    },
};

/// The scopes that are visible from one, from wide to narrow. `None`: never written to, or no scope of that kind.
pub(super) type VisibleScopes<'w> = [Option<&'w ScopeRecord>; 3];

impl World {
    pub(super) fn visible(
        &self,
        scope: &Scope,
        session: Option<&SessionInfo>,
    ) -> VisibleScopes<'_> {
        let session = session.map(|info| info.incarnation);
        ScopeKind::ALL.map(|kind| self.scopes.get(&ScopeKey::of(kind, scope, session)?))
    }

    /// The merged state of a session.
    fn session_state(&self, info: &SessionInfo, versions: [Version; 3]) -> State {
        state_at(self.visible(&Scope::Session(info.key.clone()), Some(info)), versions)
    }

    pub(super) fn read_session(&self, query: &SessionQuery) -> Result<SessionView, Error> {
        let SessionQuery { session, as_of, with_state, events } = query;
        let info = self.find(session)?;
        let (log, last_sequence) = (self.log(info.incarnation), info.last_sequence);
        let sequence = as_of.unwrap_or(last_sequence);
        if sequence > last_sequence {
            return Err(Error::BeyondLastSequence { asked: sequence, last_sequence });
        }
        let event = log.event(sequence).map(|row| &*row.event);
        let wide = event.map_or(info.created_versions, |event| event.versions);
        let versions = match as_of {
            None => NOW,
            Some(_) => [wide.application, wide.user, sequence],
        };
        Ok(SessionView {
            info: SessionInfo {
                last_sequence: sequence,
                last_event_time: event.map_or(info.create_time, |event| event.event_time),
                ..info.clone()
            },
            state: with_state.then(|| self.session_state(info, versions)),
            events: events.as_ref().map(|selection| log.page(sequence, selection)),
        })
    }

    pub(super) fn list_sessions(&self, query: &SessionsQuery) -> SessionPage {
        let SessionsQuery { app_name, user_id, labels, order, after, .. } = query;
        let after = after.as_ref().map(|(time, user, session)| (*time, user, session));
        let now = self.now();
        let is_wanted = |info: &&SessionInfo| {
            let behind = |after| compare(*order, place(info), after).is_gt();
            !info.expired(now) && info.labels.contain(labels) && after.is_none_or(behind)
        };
        let first = before_all(app_name.clone(), user_id.clone());
        let listed = self.sessions.range(first..).take_while(|(key, _)| {
            key.app_name == *app_name && user_id.as_ref().is_none_or(|user| key.user_id == *user)
        });
        let mut sessions: Vec<_> = listed.map(|(_, info)| info).filter(is_wanted).collect();
        sessions.sort_unstable_by(|a, b| compare(*order, place(a), place(b)));
        let mut budget = Budget::new(query.max_items, query.max_bytes);
        let mut page = SessionPage { sessions: Vec::new(), rest: None };
        for info in sessions {
            let state = query.with_state.then(|| self.session_state(info, NOW));
            if !budget.take(state.as_ref().map_or(0, State::text_len)) {
                let last = page.sessions.last().map(|(info, _)| place(info));
                page.rest = last.map(|(time, user, id)| (time, user.clone(), id.clone()));
                break;
            }
            page.sessions.push((info.clone(), state));
        }
        page
    }

    pub(super) fn read_state(&self, query: StateQuery) -> Result<StateView, Error> {
        let info = self.session_of(&query.scope)?;
        let scopes = self.visible(&query.scope, info);
        let entry = |key: StateKey| {
            let (value, version) = scopes[key.scope()? as usize]?.get(key.name())?;
            Some(StateEntry { value: value.clone(), key, version })
        };
        let state = match query.keys {
            None => state_at(scopes, NOW),
            // The order of keys is that of state, in which each comes once.
            Some(keys) => State(BTreeSet::from_iter(keys).into_iter().filter_map(entry).collect()),
        };
        let [application, user, _] = scopes.map(|scope| scope.map_or(0, |scope| scope.version));
        let position = Position {
            incarnation: info.map_or(Incarnation(0), |info| info.incarnation),
            sequence: info.map_or(0, |info| info.last_sequence),
            versions: ScopeVersions { application, user },
        };
        Ok(StateView { state, position, info: info.cloned() })
    }
}

/// Versions after all others.
const NOW: [Version; 3] = [Version::MAX; 3];

/// All keys, each scope as it was at a version.
fn state_at(scopes: VisibleScopes<'_>, versions: [Version; 3]) -> State {
    let parts = ScopeKind::ALL.into_iter().zip(scopes).zip(versions);
    let entries = parts.flat_map(|((kind, scope), at)| {
        let entries = scope.into_iter().flat_map(move |scope| scope.entries(at));
        entries.map(move |(name, value, version)| {
            let key = StateKey::in_scope(kind, name);
            StateEntry { key, value: value.clone(), version }
        })
    });
    State(entries.collect())
}

/// The sort key of a list of sessions.
type Place<'a> = (Time, &'a UserId, &'a SessionId);

fn place(info: &SessionInfo) -> Place<'_> {
    (info.last_event_time, &info.key.user_id, &info.key.session_id)
}

/// Ties are ascending in either order.
fn compare(order: SessionOrder, a: Place<'_>, b: Place<'_>) -> Ordering {
    let time = match order {
        SessionOrder::LeastRecent => a.0.cmp(&b.0),
        SessionOrder::MostRecent => b.0.cmp(&a.0),
    };
    time.then_with(|| (a.1, a.2).cmp(&(b.1, b.2)))
}

impl Log {
    /// The selected events, as of one of them.
    fn page(&self, as_of: Sequence, selection: &EventSelection) -> EventPage {
        let EventSelection { filter, after, up_to, recent, descending, max_items, max_bytes } =
            selection;
        let visible = self.visible(as_of);
        let newest = up_to.map_or(as_of, |up_to| up_to.min(as_of));
        let selected = |after| {
            let events = self.between(after, newest).iter().map(|row| &*row.event);
            events.filter(|event| passes(event, filter, visible.contains(event.sequence)))
        };
        // The rest keeps the bounds of the request, so that events appended later belong to it.
        let mut rest = Rest { after: *after, up_to: *up_to };
        if let Some(recent) = recent {
            let recent = usize::try_from(*recent).unwrap_or(usize::MAX);
            let older = selected(rest.after).rev().nth(recent);
            rest.after = older.map_or(rest.after, |older| older.sequence);
        }
        let events: Box<dyn Iterator<Item = &Event>> = match descending {
            true => Box::new(selected(rest.after).rev()),
            false => Box::new(selected(rest.after)),
        };
        let mut budget = Budget::new(*max_items, *max_bytes);
        let mut page = EventPage { events: Vec::new(), rest: None };
        for event in events {
            if !budget.take(event.bytes()) {
                let last = page.events.last();
                page.rest = last.map(|last| narrow(rest, *descending, last.sequence));
                break;
            }
            let rewound = !visible.contains(event.sequence);
            page.events.push(Event { rewound, ..event.clone() });
        }
        page
    }
}

fn passes(event: &Event, filter: &EventFilter, is_visible: bool) -> bool {
    let EventFilter { after_time, include_rewound, author, invocation_id } = filter;
    (is_visible || *include_rewound)
        && after_time.is_none_or(|time| event.event_time >= time)
        && author.as_ref().is_none_or(|author| event.author == *author)
        && invocation_id.as_ref().is_none_or(|id| event.invocation_id.as_ref() == Some(id))
}
