//! Copies of what decisions need.

use std::sync::Arc;

use super::{
    session::Session,
    world::{World, wide_keys},
};
use crate::{
    commit::{Address, Loaded, Needs, PastState, ScopeKey, ScopeState, SessionState},
    domain::{
        Sequence,
        event::Event,
        scope::{Scope, ScopeKind, SessionKey},
    },
};

/// Sessions that one sweep ends at most, so that others need not wait long.
const SWEEP_SESSIONS: usize = 100;

/// Events that are copied at a time into a fork, so that others need not wait long.
const PIECE_EVENTS: u64 = 1_000;

impl World {
    /// Everything that one request needs.
    pub(super) fn load_request(&self, needs: &Needs<'_>, loaded: &mut Loaded) {
        match needs.address {
            None => {}
            Some(Address::Session(key)) => self.load_address(key, needs, loaded),
            Some(Address::Bare(id)) => {
                let keys: Vec<_> = self.sessions.with_id(id).cloned().collect();
                for key in &keys {
                    self.load_session(key, loaded);
                }
                // An id of several sessions is refused, whatever else the request needs.
                let mut live = keys.iter().filter(|key| loaded.live(key).is_some());
                if let (Some(only), None) = (live.next(), live.next()) {
                    self.load_address(only, needs, loaded);
                }
                loaded.bare.insert(id.clone(), keys);
            }
            Some(Address::Wide(scope)) => {
                self.load_scopes(scope, needs, loaded);
                let own = wide_keys(scope).into_iter().flatten().next_back();
                own.into_iter().for_each(|key| self.load_request_id(key, needs, loaded));
            }
        }
        if let Some(fork) = needs.fork
            && self.forks.contains_key(&fork)
        {
            loaded.forks.insert(fork);
        }
        if needs.sweep {
            let now = loaded.now;
            loaded.expired = self.sessions.expired(now).take(SWEEP_SESSIONS).cloned().collect();
            let mut abandoned = self.forks.iter().filter(|(_, fork)| fork.lease_end <= now);
            loaded.tombstone = abandoned.next().map(|(incarnation, _)| *incarnation);
        }
    }

    /// Everything that is needed at a session's address.
    fn load_address(&self, key: &SessionKey, needs: &Needs<'_>, loaded: &mut Loaded) {
        self.load_scopes(&Scope::Session(key.clone()), needs, loaded);
        if let Some(id) = needs.target {
            let target = SessionKey { session_id: id.clone(), ..key.clone() };
            self.load_session(&target, loaded);
        }
        let Some(session) = self.load_session(key, loaded) else { return };
        let incarnation = session.info.incarnation;
        if let Some(state) = loaded.sessions.get_mut(&incarnation) {
            let own = &needs.scopes[ScopeKind::Session as usize];
            session.log.own.load(&own.keys, &mut state.own);
        }
        for &id in &needs.event_ids {
            loaded.events.insert((incarnation, id.clone()), session.log.stored(id));
        }
        if let Some(at) = needs.past.filter(|at| *at <= session.info.last_sequence) {
            loaded.past.insert((incarnation, at), past_state(session, at));
        }
        if let Some((from, after, up_to)) = needs.copy {
            loaded.pieces.insert((from, after), up_to.min(after.saturating_add(PIECE_EVENTS)));
        }
        self.load_request_id(ScopeKey::Session(incarnation), needs, loaded);
    }

    /// A session without its state, if the address has one.
    fn load_session(&self, key: &SessionKey, loaded: &mut Loaded) -> Option<&Session> {
        let session = self.sessions.at(key);
        let incarnation = session.map(|session| session.info.incarnation);
        loaded.addresses.insert(key.clone(), incarnation);
        let session = session?;
        loaded.sessions.entry(session.info.incarnation).or_insert_with(|| SessionState {
            info: session.info.clone(),
            own: ScopeState::default(),
            markers: session.log.markers.clone(),
            is_new: false,
        });
        Some(session)
    }

    /// The application and the user that a scope is, or belongs to.
    fn load_scopes(&self, scope: &Scope, needs: &Needs<'_>, loaded: &mut Loaded) {
        for (key, needs) in wide_keys(scope).into_iter().zip(&needs.scopes) {
            let Some(key) = key else { continue };
            let Some(state) = loaded.scope_mut(&key) else { continue };
            match self.scopes.get(&key) {
                Some(scope) => scope.load(&needs.keys, state),
                None => state.complete = true,
            }
        }
    }

    fn load_request_id(&self, scope: ScopeKey, needs: &Needs<'_>, loaded: &mut Loaded) {
        let Some(id) = needs.request_id else { return };
        let record = match &scope {
            ScopeKey::Session(incarnation) => {
                self.sessions.get(*incarnation).map(|session| &session.log.own)
            }
            wide => self.scopes.get(wide),
        };
        let fingerprint = record.and_then(|record| record.requests.get(id).copied());
        loaded.requests.insert((scope, id.clone()), fingerprint);
    }
}

fn past_state(session: &Session, at: Sequence) -> PastState {
    let entries = session.log.own.entries(at);
    let times = |event: &Arc<Event>| (event.event_time, event.commit_time);
    PastState {
        state: entries
            .map(|(name, value, version)| (name.into(), (value.clone(), version)))
            .collect(),
        times: session.log.event(at).map(times),
        last_sequence: session.info.last_sequence,
    }
}
