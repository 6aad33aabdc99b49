//! A naive model of the whole semantics, written from the contract. Of `commit` it knows the types of requests and answers alone.
//!
//! It is as simple as can be: whole state in maps, every past state as a copy, every request on a copy of everything that is thrown
//! away if the request is refused. It is what `commit` and the stores are compared with.

mod reads;
mod sessions;
mod store;
mod values;
mod writes;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use sessiond::{
    commit::{Answer, Request},
    domain::{
        Sequence, Version,
        delta::KeyResult,
        error::{Error, Reason, SequenceConflict},
        event::{Event, Fingerprint, ScopeVersions},
        id::{AppName, Author, EventId, RequestId, UserId},
        json::Json,
        limits::SCOPE_BYTES,
        precondition::{Condition, Precondition},
        scope::{Scope, ScopeKind, SessionKey, SessionRef, StateKey},
        session::{Expiration, SessionInfo, State, StateEntry},
        time::Time,
    },
    store::Bases,
};

pub use store::NaiveStore;
use values::same_value;
pub use values::{changes, entry_bytes};

/// Values with their versions. Keys are ordered by scope, from wide to narrow, and then by name: the order of merged state.
pub type Values = BTreeMap<StateKey, (Json, Version)>;

/// All sessions, and the state of all applications and users.
#[derive(Clone, Debug)]
pub struct Naive {
    pub now: Time,
    /// Those that have expired stay here until they are swept or their address is taken.
    pub sessions: BTreeMap<SessionKey, Arc<Session>>,
    /// By application, and user for a user's.
    pub wide: BTreeMap<(AppName, Option<UserId>), Arc<Wide>>,
    /// Greater than the versions of all applications and users that were removed.
    floor: Version,
    /// Whether a sweep removes those that are empty.
    removes_empty: bool,
    /// Counts incarnations.
    created: u64,
}

#[derive(Clone, Debug)]
pub struct Session {
    pub info: SessionInfo,
    pub own: Values,
    /// As stored: `rewound` is not set.
    pub log: Vec<Event>,
    pub event_ids: BTreeMap<EventId, (Sequence, Fingerprint)>,
    pub requests: BTreeMap<RequestId, Fingerprint>,
    /// The session after each event. The first is the one as created.
    pub past: Vec<Arc<Past>>,
}

/// A session right after an event.
#[derive(Clone, Debug)]
pub struct Past {
    pub own: Values,
    /// With the shared scopes' keys.
    pub merged: Values,
    pub visible: Vec<Sequence>,
    /// Of the event's body and changes.
    bytes: usize,
}

/// An application or a user.
#[derive(Clone, Debug, Default)]
pub struct Wide {
    pub values: Values,
    pub version: Version,
    /// The version before the first of the log.
    pub base: Version,
    pub log: Vec<WideChange>,
    pub requests: BTreeMap<RequestId, Fingerprint>,
}

/// One version of an application's or a user's state.
#[derive(Clone, Debug)]
pub struct WideChange {
    pub results: Vec<KeyResult>,
    pub commit_time: Time,
    pub author: Author,
    /// The session that made it, and its event.
    pub source: Option<(SessionInfo, Sequence)>,
}

impl Naive {
    pub fn new() -> Self {
        let now = Time::new(0, 0).unwrap();
        Self {
            now,
            sessions: BTreeMap::new(),
            wide: BTreeMap::new(),
            floor: 0,
            removes_empty: true,
            created: 0,
        }
    }

    pub fn that_keeps_empty_scopes() -> Self {
        Self { removes_empty: false, ..Self::new() }
    }

    /// Carries a request out, whole or not at all.
    pub fn commit(&mut self, request: &Request, now: Time) -> Result<Answer, Error> {
        self.now = now;
        let mut next = self.clone();
        let answer = match request {
            Request::Create(create) => next.create(create).map(Answer::Created),
            Request::Update(update) => next.update(update).map(Answer::Updated),
            Request::Delete(delete) => next.delete(delete).map(Answer::Deleted),
            Request::Fork(fork) => next.begin_fork(fork).map(Answer::ForkBegun),
            // One piece is all.
            Request::CopyEvents(fork, _) => {
                next.check_source(fork).map(|()| Answer::Copied(fork.up_to))
            }
            Request::FinishFork(fork) => next.finish_fork(fork).map(Answer::Forked),
            Request::Append(append) => next.append(append).map(Answer::Appended),
            Request::Rewind(rewind) => next.rewind(rewind).map(Answer::Appended),
            Request::UpdateState(update) => next.update_state(update).map(Answer::StateUpdated),
            Request::Sweep => {
                next.sessions.retain(|_, session| !expired(&session.info, now));
                if self.removes_empty {
                    next.remove_empty();
                }
                Ok(Answer::Swept(false))
            }
        }?;
        *self = next;
        Ok(answer)
    }

    fn live(&self, key: &SessionKey) -> Result<&Session, Error> {
        let session = self.sessions.get(key).filter(|session| !expired(&session.info, self.now));
        session.map(|session| &**session).ok_or_else(|| Error::not_found(key))
    }

    fn live_mut(&mut self, key: &SessionKey) -> Result<&mut Session, Error> {
        self.live(key)?;
        self.sessions.get_mut(key).map(Arc::make_mut).ok_or_else(|| Error::not_found(key))
    }

    /// The address that is meant.
    fn find(&self, session: &SessionRef) -> Result<SessionKey, Error> {
        match session {
            SessionRef::Full(key) => self.live(key).map(|session| session.info.key.clone()),
            SessionRef::Bare(id, _) => {
                let named = self.sessions.keys().filter(|key| key.session_id == *id);
                let live: Vec<_> = named.filter(|key| self.live(key).is_ok()).collect();
                match live[..] {
                    [] => Err(Error::not_found_bare(id)),
                    [key] => Ok(key.clone()),
                    _ => Err(Error::AmbiguousSessionId(id.clone())),
                }
            }
        }
    }

    fn wide(&self, app: &AppName, user: Option<&UserId>) -> Wide {
        let wide = self.wide.get(&(app.clone(), user.cloned()));
        wide.map(|wide| Wide::clone(wide)).unwrap_or_default()
    }

    /// Removes users without state and sessions, and then applications without state and users.
    fn remove_empty(&mut self) {
        let has_session = |app: &AppName, user: Option<&UserId>, sessions: &BTreeMap<_, _>| {
            let mut keys = sessions.keys();
            keys.any(|key: &SessionKey| {
                key.app_name == *app && user.is_none_or(|it| key.user_id == *it)
            })
        };
        let mut users = BTreeSet::new();
        for (app, wide) in self.wide.iter().filter(|((_, user), _)| user.is_none()) {
            let sources = wide.log.iter().filter_map(|change| change.source.as_ref());
            users.extend(sources.map(|(info, _)| (app.0.clone(), Some(info.key.user_id.clone()))));
        }
        users.extend(self.wide.keys().filter(|(_, user)| user.is_some()).cloned());
        for (app, user) in users {
            if has_session(&app, user.as_ref(), &self.sessions) || !self.end(&app, user.as_ref()) {
                continue;
            }
            for change in self
                .wide
                .get_mut(&(app, None))
                .into_iter()
                .flat_map(|it| &mut Arc::make_mut(it).log)
            {
                let of = change.source.as_ref().map(|(info, _)| &info.key.user_id);
                if of == user.as_ref() {
                    (change.source, change.author) = (None, Author::new("").unwrap());
                }
            }
        }
        let apps: Vec<AppName> = self.wide.keys().map(|(app, _)| app.clone()).collect();
        for app in apps {
            let has_users = self.wide.keys().any(|(of, user)| *of == app && user.is_some());
            if !has_users && !has_session(&app, None, &self.sessions) {
                self.end(&app, None);
            }
        }
    }

    /// Removes an application or a user, if it has no state.
    fn end(&mut self, app: &AppName, user: Option<&UserId>) -> bool {
        let wide = self.wide(app, user);
        let is_empty = wide.values.is_empty();
        if is_empty {
            self.wide.remove(&(app.clone(), user.cloned()));
            if wide.version > 0 {
                self.floor = self.floor.max(wide.version + 1);
            }
        }
        is_empty
    }

    fn bases(&self, scope: &Scope) -> Bases {
        let base = |user: Option<&UserId>| {
            let wide = self.wide(scope.app_name(), user);
            if wide.version == 0 { Version::MAX } else { wide.base }
        };
        let user = scope.user_id().map_or(Version::MAX, |user| base(Some(user)));
        Bases(ScopeVersions { application: base(None), user })
    }

    /// Everything that is visible from a scope. Of a session only what is live.
    fn visible(&self, scope: &Scope) -> Values {
        let app = scope.app_name();
        let mut values = self.wide(app, None).values;
        if let Some(user) = scope.user_id() {
            values.extend(self.wide(app, Some(user)).values);
        }
        if let Scope::Session(key) = scope
            && let Ok(session) = self.live(key)
        {
            values.extend(session.own.clone());
        }
        values
    }

    fn versions(&self, scope: &Scope) -> ScopeVersions {
        let version = |user: Option<&UserId>| self.wide(scope.app_name(), user).version;
        ScopeVersions {
            application: version(None),
            user: scope.user_id().map_or(0, |user| version(Some(user))),
        }
    }

    /// Changes the state of the application and the user, where results are theirs.
    fn change_wide(
        &mut self,
        scope: &Scope,
        results: &[KeyResult],
        author: &Author,
        commit_time: Time,
        source: Option<(SessionInfo, Sequence)>,
    ) -> Result<(), Error> {
        for kind in [ScopeKind::Application, ScopeKind::User] {
            let own = results.iter().filter(|(key, _)| key.scope() == Some(kind));
            let results: Vec<KeyResult> = own.cloned().collect();
            if results.is_empty() {
                continue;
            }
            let user = scope.user_id().filter(|_| kind == ScopeKind::User).cloned();
            let floor = self.floor;
            let wide = self.wide.entry((scope.app_name().clone(), user)).or_default();
            let wide = Arc::make_mut(wide);
            if wide.version == 0 {
                (wide.base, wide.version) = (floor, floor);
            }
            wide.version += 1;
            put(&mut wide.values, &results, wide.version, kind)?;
            let (author, source) = (author.clone(), source.clone());
            wide.log.push(WideChange { results, commit_time, author, source });
        }
        Ok(())
    }
}

/// Puts what keys became into the values of one scope, which may not grow too large.
fn put(
    values: &mut Values,
    results: &[KeyResult],
    version: Version,
    kind: ScopeKind,
) -> Result<(), Error> {
    for (key, value) in results {
        match value {
            Some(value) => drop(values.insert(key.clone(), (value.clone(), version))),
            None => drop(values.remove(key)),
        }
    }
    let bytes = values.iter().map(|(key, (value, _))| entry_bytes(key.name(), Some(value)));
    match bytes.sum::<usize>() > SCOPE_BYTES {
        true => Err(Error::StateTooLarge(kind)),
        false => Ok(()),
    }
}

pub(super) fn check(
    precondition: &Precondition,
    version: Version,
    values: &Values,
) -> Result<(), Error> {
    let expected = precondition.expected_sequence.filter(|expected| *expected != version);
    let sequence = expected.map(|expected| SequenceConflict { expected, actual: version });
    let mut keys: Vec<StateKey> = Vec::new();
    for (key, condition) in &precondition.keys {
        let holds = match (condition, values.get(key)) {
            (Condition::Exists(exists), found) => *exists == found.is_some(),
            (Condition::Version(version), Some((_, found))) => version == found,
            (Condition::Value(value), Some((found, _))) => same_value(value, found),
            (_, None) => false,
        };
        if !holds && !keys.contains(key) {
            keys.push(key.clone());
        }
    }
    match sequence.is_none() && keys.is_empty() {
        true => Ok(()),
        false => Err(Error::Conflict { sequence, keys }),
    }
}

fn expired(info: &SessionInfo, now: Time) -> bool {
    info.expire_time.is_some_and(|end| end <= now)
}

/// The instant that an expiration means.
fn end_time(expiration: Option<Expiration>, now: Time) -> Result<Option<Time>, Error> {
    match expiration {
        None => Ok(None),
        Some(Expiration::At(end)) if end > now => Ok(Some(end)),
        Some(Expiration::At(_)) => Err(Error::invalid("session.expire_time", Reason::BadValue, "")),
        Some(Expiration::After { secs, nanos }) => match now.plus(secs, nanos) {
            Some(end) => Ok(Some(end)),
            None => Err(Error::invalid("session.ttl", Reason::BadValue, "")),
        },
    }
}

fn state(values: Values) -> State {
    let entry = |(key, (value, version))| StateEntry { key, value, version };
    State(values.into_iter().map(entry).collect())
}
