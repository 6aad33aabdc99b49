//! Reading the naive model. A page holds everything that is asked for: where pages end is up to a store.

use std::collections::BTreeSet;

use sessiond::{
    domain::{
        Sequence, Version,
        error::Error,
        event::Event,
        id::{AppName, Author, UserId},
        json::Json,
        page::{EventPage, EventRef, EventSelection},
        scope::{Scope, ScopeKind, StateKey},
        session::{Incarnation, SessionInfo},
        token::Position,
    },
    store::{
        EventsQuery, EventsView, KeyChange, KeyChangePage, KeyChangeQuery, ScopeChange,
        SessionOrder, SessionPage, SessionQuery, SessionView, SessionsQuery, StateQuery, StateView,
        WatchPage, WatchQuery,
    },
};

use super::{Naive, Session, Values, Wide, expired, state, values::changes};

impl Naive {
    pub(super) fn read_session(&self, query: &SessionQuery) -> Result<SessionView, Error> {
        let key = self.find(&query.session)?;
        let session = self.live(&key)?;
        let as_of = session.as_of(query.as_of)?;
        let values = match query.as_of {
            None => self.visible(&Scope::Session(key.clone())),
            Some(_) => session.past[as_of as usize].merged.clone(),
        };
        let selection = query.events.as_ref();
        Ok(SessionView {
            info: session.info_as_of(as_of),
            state: query.with_state.then(|| state(values)),
            events: selection.map(|selection| session.page(as_of, selection)),
        })
    }

    pub(super) fn read_events(&self, query: &EventsQuery) -> Result<EventsView, Error> {
        let session = self.live(&query.key)?;
        let all = session.events(session.info.last_sequence);
        let named = |named: &EventRef| {
            let is_named = |event: &&Event| match named {
                EventRef::Id(id) => event.event_id == *id,
                EventRef::Sequence(sequence) => event.sequence == *sequence,
            };
            all.iter().find(is_named).cloned()
        };
        let found = query.refs.iter().map(named).collect();
        Ok(EventsView { incarnation: session.info.incarnation, found })
    }

    pub(super) fn list_sessions(&self, query: &SessionsQuery) -> SessionPage {
        let sessions = self.sessions.values().filter(|session| {
            let info = &session.info;
            let wanted = query.labels.as_map().iter();
            info.key.app_name == query.app_name
                && query.user_id.as_ref().is_none_or(|user| info.key.user_id == *user)
                && wanted
                    .into_iter()
                    .all(|(name, value)| info.labels.as_map().get(name) == Some(value))
                && !expired(info, self.now)
        });
        // The map's order is that of ties.
        let mut infos: Vec<&SessionInfo> = sessions.map(|session| &session.info).collect();
        match query.order {
            SessionOrder::LeastRecent => infos.sort_by_key(|info| info.last_event_time),
            SessionOrder::MostRecent => {
                infos.sort_by_key(|info| std::cmp::Reverse(info.last_event_time));
            }
        }
        let with_state = |info: &SessionInfo| {
            let visible = || state(self.visible(&Scope::Session(info.key.clone())));
            (info.clone(), query.with_state.then(visible))
        };
        SessionPage { sessions: infos.into_iter().map(with_state).collect(), rest: None }
    }

    /// Applications and users with a session or state.
    pub(super) fn used(&self) -> BTreeSet<(AppName, Option<UserId>)> {
        let wide = self.wide.iter().filter(|(_, wide)| !wide.values.is_empty());
        let mut used: BTreeSet<_> = wide.map(|(names, _)| names.clone()).collect();
        for Session { info, .. } in self.sessions.values().map(|session| &**session) {
            if !expired(info, self.now) {
                used.insert((info.key.app_name.clone(), Some(info.key.user_id.clone())));
            }
        }
        used
    }

    pub(super) fn read_state(&self, query: &StateQuery) -> Result<StateView, Error> {
        let session = self.session_of(&query.scope)?;
        let mut values: Values = self.visible(&query.scope);
        if let Some(keys) = &query.keys {
            values.retain(|key, _| keys.contains(key));
        }
        Ok(StateView {
            state: state(values),
            position: Position {
                incarnation: incarnation(session),
                sequence: session.map_or(0, |session| session.info.last_sequence),
                versions: self.versions(&query.scope),
            },
            info: session.map(|session| session.info.clone()),
            bases: self.bases(&query.scope),
        })
    }

    pub(super) fn list_key_changes(&self, query: &KeyChangeQuery) -> Result<KeyChangePage, Error> {
        let session = self.session_of(&query.scope)?;
        let own = session.filter(|_| query.key.scope() == Some(ScopeKind::Session));
        let mut changes = match own {
            Some(session) => session.key_changes(&query.key),
            None => self.wide_key_changes(&query.scope, &query.key),
        };
        changes.retain(|change| query.before.is_none_or(|before| change.version < before));
        changes.reverse();
        Ok(KeyChangePage { changes, rest: None, incarnation: incarnation(own) })
    }

    fn wide_key_changes(&self, scope: &Scope, key: &StateKey) -> Vec<KeyChange> {
        let user = scope.user_id().filter(|_| key.scope() == Some(ScopeKind::User));
        let mut changes = Vec::new();
        let wide = self.wide(scope.app_name(), user);
        for (version, change) in (wide.base + 1..).zip(wide.log) {
            let result = change.results.into_iter().find(|(changed, _)| changed == key);
            changes.extend(result.map(|(_, value)| KeyChange {
                version,
                value,
                commit_time: change.commit_time,
                author: change.author,
                source: change.source.map(|(info, sequence)| (info.key, sequence)),
            }));
        }
        changes
    }

    pub(super) fn read_changes(&self, query: &WatchQuery) -> Result<WatchPage, Error> {
        let session = self.session_of(&query.scope)?;
        if let (Scope::Session(key), true) =
            (&query.scope, incarnation(session) != query.position.incarnation)
        {
            return Err(Error::not_found(key));
        }
        let after = query.position;
        let versions = self.versions(&query.scope);
        let mut changed =
            self.wide_changes(&query.scope, ScopeKind::Application, after.versions.application);
        changed.extend(self.wide_changes(&query.scope, ScopeKind::User, after.versions.user));
        let log = session.map(|session| session.events(session.info.last_sequence));
        let mut events = log.unwrap_or_default();
        events.retain(|event| event.sequence > after.sequence);
        Ok(WatchPage {
            events,
            changes: changed,
            position: Position {
                incarnation: after.incarnation,
                sequence: session.map_or(0, |session| session.info.last_sequence),
                versions,
            },
            complete: true,
            expire_time: session.and_then(|session| session.info.expire_time),
            bases: self.bases(&query.scope),
        })
    }

    /// Changes of a shared scope that are still the newest of their keys and that the watched session did not make.
    fn wide_changes(&self, scope: &Scope, kind: ScopeKind, after: Version) -> Vec<ScopeChange> {
        if kind == ScopeKind::User && scope.user_id().is_none() {
            return Vec::new();
        }
        let watched = incarnation(self.session_of(scope).ok().flatten());
        let user = scope.user_id().filter(|_| kind == ScopeKind::User);
        let Wide { log, base, .. } = self.wide(scope.app_name(), user);
        let is_newest = |key: &StateKey, version: Version| {
            let later = &log[(version - base) as usize..];
            !later.iter().any(|change| change.results.iter().any(|(changed, _)| changed == key))
        };
        let mut found = Vec::new();
        for (version, change) in (base + 1..).zip(&log).filter(|(version, _)| *version > after) {
            let source = change.source.as_ref().map(|(info, _)| info.incarnation);
            let newest = change.results.iter().filter(|(key, _)| is_newest(key, version));
            let newest: Vec<_> = newest.cloned().collect();
            if source != Some(watched) && !newest.is_empty() {
                let (changes, commit_time) = (changes(&newest), change.commit_time);
                found.push(ScopeChange { scope: kind, version, changes, commit_time });
            }
        }
        found
    }

    fn session_of(&self, scope: &Scope) -> Result<Option<&Session>, Error> {
        match scope {
            Scope::Session(key) => self.live(key).map(Some),
            Scope::Application(_) | Scope::User(..) => Ok(None),
        }
    }
}

fn incarnation(session: Option<&Session>) -> Incarnation {
    session.map_or(Incarnation(0), |session| session.info.incarnation)
}

impl Session {
    fn as_of(&self, asked: Option<Sequence>) -> Result<Sequence, Error> {
        let last_sequence = self.info.last_sequence;
        match asked {
            Some(asked) if asked > last_sequence => {
                Err(Error::BeyondLastSequence { asked, last_sequence })
            }
            asked => Ok(asked.unwrap_or(last_sequence)),
        }
    }

    fn info_as_of(&self, as_of: Sequence) -> SessionInfo {
        let event = as_of.checked_sub(1).map(|at| &self.log[at as usize]);
        SessionInfo {
            last_sequence: as_of,
            last_event_time: event.map_or(self.info.create_time, |event| event.event_time),
            ..self.info.clone()
        }
    }

    /// The log up to an event, with the marks that show as of it.
    fn events(&self, as_of: Sequence) -> Vec<Event> {
        let visible = &self.past[as_of as usize].visible;
        let marked =
            |event: &Event| Event { rewound: !visible.contains(&event.sequence), ..event.clone() };
        self.log[..as_of as usize].iter().map(marked).collect()
    }

    fn page(&self, as_of: Sequence, selection: &EventSelection) -> EventPage {
        let filter = &selection.filter;
        let mut events = self.events(as_of);
        events.retain(|event| {
            (filter.include_rewound || !event.rewound)
                && event.sequence > selection.after
                && selection.up_to.is_none_or(|up_to| event.sequence <= up_to)
                && filter.after_time.is_none_or(|time| event.event_time >= time)
                && filter.author.as_ref().is_none_or(|author| event.author == *author)
                && (filter.invocation_id.is_none() || event.invocation_id == filter.invocation_id)
        });
        if let Some(recent) = selection.recent {
            events.drain(..events.len().saturating_sub(recent as usize));
        }
        if selection.descending {
            events.reverse();
        }
        EventPage { events, rest: None, uncounted: None }
    }

    /// The changes of one of its own keys, oldest first: by each event whose version the value has, or that removed it.
    fn key_changes(&self, key: &StateKey) -> Vec<KeyChange> {
        let value = |at: usize| self.past[at].own.get(key);
        let change = |at: usize, value: Option<Json>| {
            let event = at.checked_sub(1).map(|at| &self.log[at]);
            KeyChange {
                version: at as Version,
                value,
                commit_time: event.map_or(self.info.create_time, |event| event.commit_time),
                author: event
                    .map_or_else(|| Author::new("").unwrap(), |event| event.author.clone()),
                source: event.map(|event| (self.info.key.clone(), event.sequence)),
            }
        };
        let changed = (0..self.past.len()).filter_map(|at| match value(at) {
            Some((value, version)) if *version == at as Version => {
                Some(change(at, Some(value.clone())))
            }
            Some(_) => None,
            None => at.checked_sub(1).and_then(value).map(|_| change(at, None)),
        });
        changed.collect()
    }
}
