//! The life of sessions: creation, forks, changes of what is not state, and their end.

use super::{draft::Draft, session::Session, wide::Stamp, world::World};
use crate::{
    domain::{
        delta::Delta,
        error::Error,
        id::{Author, DisplayName},
        scope::{Scope, SessionKey},
        session::{ForkOrigin, SessionInfo},
        time::Time,
    },
    store::{
        CreateSession, Created, ForkSession, OnExisting, SessionUpdate, SessionView,
        tails::{GONE, Tails},
    },
};

/// Sessions that one sweep removes at most, since everybody waits meanwhile.
const SWEPT: usize = 100;

impl World {
    pub(super) fn create(
        &mut self,
        create: CreateSession,
        tails: &Tails,
    ) -> Result<Created, Error> {
        let CreateSession { key, state, display_name, labels, expire_time, on_existing, now } =
            create;
        if let Ok(session) = self.sessions.live(&key, now) {
            return match on_existing {
                OnExisting::Refuse => Err(Error::SessionExists(key)),
                OnExisting::Return => Ok(self.created(session, false)),
            };
        }
        let scope = Scope::Session(key.clone());
        let delta = Delta { set: state, ..Delta::default() };
        let results = Draft::new(self.sight(&scope, None)).apply(delta, "state")?;
        let before = self.wides.versions(&scope);
        let stamp = Stamp { commit_time: now, author: Author::from_stored(""), source: None };
        let own = self.wides.record(&scope, results, &stamp);
        let mut session = Session::new(SessionInfo {
            key: key.clone(),
            incarnation: self.sessions.next_incarnation(),
            last_sequence: 0,
            create_time: now,
            update_time: now,
            last_event_time: now,
            expire_time,
            display_name,
            labels,
            forked_from: None,
            created_versions: self.wides.versions(&scope),
        });
        for (key, value) in own {
            session.keys.put(key.name(), value, 0);
        }
        let created = self.created(&session, true);
        self.sessions.insert(session);
        self.announce(tails, &scope, Some(0), before);
        Ok(created)
    }

    fn created(&self, session: &Session, created: bool) -> Created {
        Created { info: session.info.clone(), state: self.sight_of(session).state(), created }
    }

    pub(super) fn fork(&mut self, fork: ForkSession, tails: &Tails) -> Result<SessionView, Error> {
        let source = self.sessions.live(&fork.source, fork.now)?;
        let sequence = source.past(fork.up_to)?;
        let key = SessionKey { session_id: fork.session_id, ..fork.source.clone() };
        if self.sessions.live(&key, fork.now).is_ok() {
            return Err(Error::SessionExists(key));
        }
        let last = source.event(sequence);
        let mut session = source.fork(
            sequence,
            SessionInfo {
                key,
                incarnation: source.info.incarnation,
                last_sequence: sequence,
                create_time: fork.now,
                // Not before what it takes over, so that the times of its commits never go back.
                update_time: last.map_or(fork.now, |last| fork.now.max(last.commit_time)),
                last_event_time: last.map_or(fork.now, |last| last.event_time),
                expire_time: None,
                display_name: DisplayName::from_stored(""),
                labels: source.info.labels.clone(),
                forked_from: Some(ForkOrigin { key: fork.source, sequence }),
                // Its past is the source's, from the beginning on.
                created_versions: source.info.created_versions,
            },
        );
        session.info.incarnation = self.sessions.next_incarnation();
        let view = SessionView {
            info: session.info.clone(),
            state: Some(self.sight_of(&session).state()),
            events: None,
        };
        let scope = session.scope();
        self.sessions.insert(session);
        self.announce(tails, &scope, Some(sequence), self.wides.versions(&scope));
        Ok(view)
    }

    pub(super) fn update(
        &mut self,
        update: SessionUpdate,
        tails: &Tails,
    ) -> Result<SessionInfo, Error> {
        let SessionUpdate { key, display_name, labels, expire_time, now } = update;
        let info = &mut self.sessions.live_mut(&key, now)?.info;
        info.update_time = now.max(info.update_time);
        if let Some(display_name) = display_name {
            info.display_name = display_name;
        }
        if let Some(labels) = labels {
            info.labels = labels;
        }
        let before = info.expire_time;
        info.expire_time = expire_time.unwrap_or(before);
        let info = info.clone();
        self.sessions.refile(&key, before, info.expire_time);
        // Those who watch it have to know when it ends.
        let scope = Scope::Session(key);
        self.announce(tails, &scope, Some(info.last_sequence), self.wides.versions(&scope));
        Ok(info)
    }

    /// What was there, to be dropped when nobody waits for it.
    pub(super) fn delete(&mut self, key: &SessionKey, now: Time, tails: &Tails) -> Option<Session> {
        self.sessions.live(key, now).ok()?;
        self.end(key, tails)
    }

    /// As [`World::delete`], and whether more has expired.
    pub(super) fn sweep(&mut self, now: Time, tails: &Tails) -> (Vec<Session>, bool) {
        let mut swept = Vec::new();
        while swept.len() < SWEPT
            && let Some(key) = self.sessions.first_expired(now).cloned()
        {
            swept.extend(self.end(&key, tails));
        }
        (swept, self.sessions.first_expired(now).is_some())
    }

    fn end(&mut self, key: &SessionKey, tails: &Tails) -> Option<Session> {
        let session = self.sessions.remove(key)?;
        self.announce(tails, &session.scope(), Some(GONE), self.wides.versions(&session.scope()));
        Some(session)
    }
}
