//! Where the sessions are: by address, by bare id, by expiry.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
};

use super::session::Session;
use crate::domain::{
    error::Error,
    id::{AppName, SessionId, UserId},
    scope::{SessionKey, SessionRef},
    session::Incarnation,
    time::Time,
};

/// Every session, expired ones as well until they are swept.
#[derive(Default)]
pub(super) struct Sessions {
    by_key: BTreeMap<SessionKey, Session>,
    /// Where each session id is in use.
    by_id: HashMap<SessionId, BTreeSet<SessionKey>>,
    /// Those with an expiry, soonest first.
    expiring: BTreeSet<(Time, SessionKey)>,
    /// How many there ever were, which is the last incarnation.
    incarnations: u64,
}

impl Sessions {
    /// The live session at an address.
    pub(super) fn live(&self, key: &SessionKey, now: Time) -> Result<&Session, Error> {
        let session = self.by_key.get(key);
        session.filter(|session| !session.info.expired(now)).ok_or_else(|| Error::not_found(key))
    }

    /// As [`Sessions::live`], to be written to.
    pub(super) fn live_mut(&mut self, key: &SessionKey, now: Time) -> Result<&mut Session, Error> {
        let session = self.by_key.get_mut(key);
        session.filter(|session| !session.info.expired(now)).ok_or_else(|| Error::not_found(key))
    }

    /// The live session that is meant.
    pub(super) fn find(&self, session: &SessionRef, now: Time) -> Result<&Session, Error> {
        match session {
            SessionRef::Full(key) => self.live(key, now),
            SessionRef::Bare(id) => {
                let keys = self.by_id.get(id).into_iter().flatten();
                let mut live = keys.filter_map(|key| self.live(key, now).ok());
                match (live.next(), live.next()) {
                    (None, _) => Err(Error::not_found_bare(id)),
                    (Some(session), None) => Ok(session),
                    (Some(_), Some(_)) => Err(Error::AmbiguousSessionId(id.clone())),
                }
            }
        }
    }

    /// The live sessions of an application, or of one of its users.
    pub(super) fn of<'a>(
        &'a self,
        app_name: &'a AppName,
        user_id: Option<&'a UserId>,
        now: Time,
    ) -> impl Iterator<Item = &'a Session> {
        // No id is empty, so nothing of theirs lies before this.
        let first = SessionKey {
            app_name: app_name.clone(),
            user_id: user_id.cloned().unwrap_or_else(|| UserId::from_stored("")),
            session_id: SessionId::from_stored(""),
        };
        self.by_key
            .range((Bound::Included(first), Bound::Unbounded))
            .take_while(move |(key, _)| {
                key.app_name == *app_name && user_id.is_none_or(|user| key.user_id == *user)
            })
            .map(|(_, session)| session)
            .filter(move |session| !session.info.expired(now))
    }

    /// Identity of the next session.
    pub(super) fn next_incarnation(&mut self) -> Incarnation {
        self.incarnations += 1;
        Incarnation(self.incarnations)
    }

    /// Puts a session at its address, in the place of an expired one.
    pub(super) fn insert(&mut self, session: Session) {
        let key = session.info.key.clone();
        self.remove(&key);
        if let Some(at) = session.info.expire_time {
            self.expiring.insert((at, key.clone()));
        }
        let same_id = self.by_id.entry(key.session_id.clone()).or_default();
        same_id.insert(key.clone());
        self.by_key.insert(key, session);
    }

    /// Takes a session away, whether it has expired or not.
    pub(super) fn remove(&mut self, key: &SessionKey) -> Option<Session> {
        let session = self.by_key.remove(key)?;
        if let Some(at) = session.info.expire_time {
            self.expiring.remove(&(at, key.clone()));
        }
        if let Some(same_id) = self.by_id.get_mut(&key.session_id) {
            same_id.remove(key);
            if same_id.is_empty() {
                self.by_id.remove(&key.session_id);
            }
        }
        Some(session)
    }

    /// Files a session under another expiry.
    pub(super) fn refile(&mut self, key: &SessionKey, from: Option<Time>, to: Option<Time>) {
        if let Some(from) = from {
            self.expiring.remove(&(from, key.clone()));
        }
        if let Some(to) = to {
            self.expiring.insert((to, key.clone()));
        }
    }

    /// The session that expired first.
    pub(super) fn first_expired(&self, now: Time) -> Option<&SessionKey> {
        let (at, key) = self.expiring.first()?;
        (*at <= now).then_some(key)
    }
}
