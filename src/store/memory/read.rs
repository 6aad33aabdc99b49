//! Reads of sessions, events and state, now or as of an event, and of what changed.

use std::collections::BTreeSet;

use super::{
    scope::ScopeRecord,
    world::{Log, World, before_all},
};
use crate::{
    commit::{EventRow, ScopeKey, ScopeLogRow},
    domain::{delta, prelude::*},
    store::{
        ApplicationsQuery, Bases, Budget, KeyChange, KeyChangePage, KeyChangeQuery, NamePage,
        ScopeChange, SessionPage, SessionQuery, SessionView, SessionsQuery, StateQuery, StateView,
        UsersQuery, WatchPage, WatchQuery,
        order::{compare, place},
    },
};

/// The scopes that are visible from one, from wide to narrow. `None`: never written to, or no scope of that kind.
pub type VisibleScopes<'w> = [Option<&'w ScopeRecord>; 3];

impl World {
    pub fn visible(&self, scope: &Scope, session: Option<&SessionInfo>) -> VisibleScopes<'_> {
        let session = session.map(|info| info.incarnation);
        ScopeKind::ALL.map(|kind| self.scopes.get(&ScopeKey::of(kind, scope, session)?))
    }

    /// The merged state of a session.
    fn session_state(&self, info: &SessionInfo, versions: [Version; 3]) -> State {
        state_at(self.visible(&Scope::Session(info.key.clone()), Some(info)), versions)
    }

    pub fn read_session(&self, query: &SessionQuery) -> Result<SessionView, Error> {
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

    pub fn list_sessions(&self, query: &SessionsQuery) -> SessionPage {
        let SessionsQuery { app_name, user_id, labels, order, after, .. } = query;
        let after = after.as_ref().map(|(time, user, session)| (*time, user, session));
        let is_wanted = |info: &&SessionInfo| {
            let behind = |after| compare(*order, place(info), after).is_gt();
            !info.expired(self.now) && info.labels.contain(labels) && after.is_none_or(behind)
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

    /// What has a session or state: applications, and with their application users.
    fn used(&self) -> impl Iterator<Item = (&AppName, Option<&UserId>)> {
        let live = self.sessions.iter().filter(|(_, info)| !info.expired(self.now));
        let sessions = live.map(|(key, _)| (&key.app_name, Some(&key.user_id)));
        let scopes = self.scopes.iter().filter(|(_, record)| record.state_bytes > 0);
        sessions.chain(scopes.filter_map(|(key, _)| match key {
            ScopeKey::Application(app) => Some((app, None)),
            ScopeKey::User(app, user) => Some((app, Some(user))),
            ScopeKey::Session(_) => None,
        }))
    }

    pub fn list_applications(&self, query: &ApplicationsQuery) -> NamePage<AppName> {
        let ApplicationsQuery { after, max_items } = query;
        let names = self.used().map(|(app, _)| app).filter(|app| Some(*app) > after.as_ref());
        NamePage::first(BTreeSet::from_iter(names).into_iter().cloned(), *max_items)
    }

    pub fn list_users(&self, query: &UsersQuery) -> NamePage<UserId> {
        let UsersQuery { app_name, after, max_items } = query;
        let users = self.used().filter(|(app, _)| *app == app_name).filter_map(|(_, user)| user);
        let names = users.filter(|user| Some(*user) > after.as_ref());
        NamePage::first(BTreeSet::from_iter(names).into_iter().cloned(), *max_items)
    }

    pub fn read_state(&self, query: StateQuery) -> Result<StateView, Error> {
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
        Ok(StateView { state, position, info: info.cloned(), bases: bases(scopes) })
    }

    pub fn list_key_changes(&self, query: &KeyChangeQuery) -> Result<KeyChangePage, Error> {
        let session = self.session_of(&query.scope)?;
        let kind = query.key.scope();
        let own = session.filter(|_| kind == Some(ScopeKind::Session));
        let incarnation = own.map_or(Incarnation(0), |own| own.incarnation);
        let mut page = KeyChangePage { changes: Vec::new(), more: false, incarnation };
        let scopes = self.visible(&query.scope, session);
        let Some(scope) = kind.and_then(|kind| scopes[kind as usize]) else {
            return Ok(page);
        };
        let changes = scope.changes(query.key.name());
        let end = changes
            .partition_point(|(version, _)| query.before.is_none_or(|before| *version < before));
        let mut budget = Budget::new(query.max_items, query.max_bytes);
        for (version, value) in changes[..end].iter().rev() {
            if !budget.take(value.as_ref().map_or(0, Json::len)) {
                page.more = true;
                break;
            }
            let (version, value) = (*version, value.clone());
            let (commit_time, author, source) = match own {
                None => match scope.row(version) {
                    None => continue,
                    Some(ScopeLogRow { commit_time, author, source, .. }) => {
                        let source = source.as_ref().map(|it| (it.key.clone(), it.sequence));
                        (*commit_time, author.clone(), source)
                    }
                },
                Some(own) => match self.log(own.incarnation).event(version) {
                    // Version 0 is the creation.
                    None => (own.create_time, Author::from_stored(""), None),
                    Some(EventRow { event, .. }) => {
                        (event.commit_time, event.author.clone(), Some((own.key.clone(), version)))
                    }
                },
            };
            page.changes.push(KeyChange { version, value, commit_time, author, source });
        }
        Ok(page)
    }

    pub fn read_changes(&self, query: &WatchQuery) -> Result<WatchPage, Error> {
        let session = self.session_of(&query.scope)?;
        if let (Scope::Session(key), Some(session)) = (&query.scope, session)
            && session.incarnation != query.position.incarnation
        {
            return Err(Error::not_found(key));
        }
        let mut budget = Budget::new(query.max_items, query.max_bytes);
        let mut page = WatchPage {
            events: Vec::new(),
            changes: Vec::new(),
            position: query.position,
            complete: true,
            expire_time: session.and_then(|session| session.expire_time),
            bases: bases(self.visible(&query.scope, session)),
        };
        let own = session.map(|session| session.incarnation);
        // Changes of wider scopes come when no event is left: those that events overwrote are not sent.
        if let Some(own) = own {
            page.complete = self.log(own).follow(&mut page, &mut budget);
        }
        let [application, user, _] = self.visible(&query.scope, session);
        for (kind, scope) in [(ScopeKind::Application, application), (ScopeKind::User, user)] {
            if let (Some(scope), true) = (scope, page.complete) {
                page.complete = scope.follow(kind, own, &mut page, &mut budget);
            }
        }
        Ok(page)
    }
}

fn bases(scopes: VisibleScopes<'_>) -> Bases {
    let [application, user, _] = scopes.map(|scope| {
        let (version, base) = scope.map_or((0, 0), |scope| (scope.version, scope.base));
        Bases::of(version, base)
    });
    Bases(ScopeVersions { application, user })
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

    /// Takes the events after a position. Returns whether none is left.
    fn follow(&self, page: &mut WatchPage, budget: &mut Budget) -> bool {
        let visible = self.visible(self.events.len() as u64);
        for row in self.between(page.position.sequence, self.events.len() as u64) {
            let event = &row.event;
            if !budget.take(event.bytes()) {
                return false;
            }
            page.position.sequence = event.sequence;
            let rewound = !visible.contains(event.sequence);
            page.events.push(Event { rewound, ..Event::clone(event) });
        }
        true
    }
}

fn passes(event: &Event, filter: &EventFilter, is_visible: bool) -> bool {
    let EventFilter { after_time, include_rewound, author, invocation_id } = filter;
    (is_visible || *include_rewound)
        && after_time.is_none_or(|time| event.event_time >= time)
        && author.as_ref().is_none_or(|author| event.author == *author)
        && invocation_id.as_ref().is_none_or(|id| event.invocation_id.as_ref() == Some(id))
}

impl ScopeRecord {
    /// Takes the changes after a position that are still the newest of their keys, except those that the session `own` made. Returns
    /// whether none is left.
    fn follow(
        &self,
        kind: ScopeKind,
        own: Option<Incarnation>,
        page: &mut WatchPage,
        budget: &mut Budget,
    ) -> bool {
        let versions = &mut page.position.versions;
        let position = match kind {
            ScopeKind::Application => &mut versions.application,
            ScopeKind::User | ScopeKind::Session => &mut versions.user,
        };
        for _ in 0..PAGE_SCANNED {
            let version = (*position).max(self.base).saturating_add(1);
            let Some(row) = self.row(version) else {
                return true;
            };
            let is_own = row.source.as_ref().is_some_and(|source| Some(source.incarnation) == own);
            let newest = |name: &str| self.changes(name).last().map(|(version, _)| *version);
            let mut kept = if is_own { Vec::new() } else { row.changes.results().collect() };
            kept.retain(|(key, _)| newest(key.name()) == Some(version));
            if !kept.is_empty() {
                let (changes, commit_time) = (delta::changes(kept.iter()), row.commit_time);
                if !budget.take(changes.text_len()) {
                    return false;
                }
                page.changes.push(ScopeChange { scope: kind, version, changes, commit_time });
            }
            *position = version;
        }
        false
    }
}
