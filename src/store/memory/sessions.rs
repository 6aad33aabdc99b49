//! Sessions by incarnation, address, bare id and expiry.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
};

use super::session::Session;
use crate::domain::{
    error::Error,
    id::{AppName, SessionId, UserId},
    scope::{SessionKey, SessionRef},
    session::{Incarnation, SessionInfo},
    time::Time,
};

/// Every session; expired ones stay until they are swept.
#[derive(Default)]
pub(super) struct Sessions {
    rows: HashMap<Incarnation, Session>,
    addresses: BTreeMap<SessionKey, Incarnation>,
    /// Every address with a session id.
    bare: HashMap<SessionId, BTreeSet<SessionKey>>,
    /// Those with an expiry, soonest first.
    expiring: BTreeSet<(Time, Incarnation)>,
}

impl Sessions {
    pub(super) fn get(&self, incarnation: Incarnation) -> Option<&Session> {
        self.rows.get(&incarnation)
    }

    pub(super) fn get_mut(&mut self, incarnation: Incarnation) -> Option<&mut Session> {
        self.rows.get_mut(&incarnation)
    }

    /// The session at an address, expired or not.
    pub(super) fn at(&self, key: &SessionKey) -> Option<&Session> {
        self.get(*self.addresses.get(key)?)
    }

    /// Errors: [`Error::SessionNotFound`].
    pub(super) fn live(&self, key: &SessionKey, now: Time) -> Result<&Session, Error> {
        let session = self.at(key);
        session.filter(|session| !session.info.expired(now)).ok_or_else(|| Error::not_found(key))
    }

    /// Errors: [`Error::SessionNotFound`], [`Error::AmbiguousSessionId`].
    pub(super) fn find(&self, session: &SessionRef, now: Time) -> Result<&Session, Error> {
        match session {
            SessionRef::Full(key) => self.live(key, now),
            SessionRef::Bare(id) => {
                let mut live = self.with_id(id).filter_map(|key| self.live(key, now).ok());
                match (live.next(), live.next()) {
                    (None, _) => Err(Error::not_found_bare(id)),
                    (Some(session), None) => Ok(session),
                    (Some(_), Some(_)) => Err(Error::AmbiguousSessionId(id.clone())),
                }
            }
        }
    }

    /// Every address with a session id.
    pub(super) fn with_id(&self, id: &SessionId) -> impl Iterator<Item = &SessionKey> {
        self.bare.get(id).into_iter().flatten()
    }

    /// The live sessions of an application, or of one of its users.
    pub(super) fn list<'a>(
        &'a self,
        app_name: &'a AppName,
        user_id: Option<&'a UserId>,
        now: Time,
    ) -> impl Iterator<Item = &'a Session> {
        // No id is empty, so this is before all of theirs.
        let first = SessionKey {
            app_name: app_name.clone(),
            user_id: user_id.cloned().unwrap_or_else(|| UserId::from_stored("")),
            session_id: SessionId::from_stored(""),
        };
        self.addresses
            .range((Bound::Included(first), Bound::Unbounded))
            .take_while(move |(key, _)| {
                key.app_name == *app_name && user_id.is_none_or(|user| key.user_id == *user)
            })
            .filter_map(|(_, incarnation)| self.get(*incarnation))
            .filter(move |session| !session.info.expired(now))
    }

    /// The sessions that have expired, those first that expired first.
    pub(super) fn expired(&self, now: Time) -> impl Iterator<Item = &SessionInfo> {
        let expired = self.expiring.iter().take_while(move |(at, _)| *at <= now);
        expired.filter_map(|(_, incarnation)| Some(&self.get(*incarnation)?.info))
    }

    /// Puts a session at its address, which is free: a decision ends an expired session before it takes its address.
    pub(super) fn insert(&mut self, session: Session) {
        let SessionInfo { key, incarnation, expire_time, .. } = &session.info;
        self.addresses.insert(key.clone(), *incarnation);
        self.bare.entry(key.session_id.clone()).or_default().insert(key.clone());
        self.expiring.extend(expire_time.map(|at| (at, *incarnation)));
        self.rows.insert(*incarnation, session);
    }

    pub(super) fn update(&mut self, info: &SessionInfo) {
        if let Some(session) = self.rows.get_mut(&info.incarnation) {
            if let Some(at) = session.info.expire_time {
                self.expiring.remove(&(at, info.incarnation));
            }
            self.expiring.extend(info.expire_time.map(|at| (at, info.incarnation)));
            session.info.clone_from(info);
        }
    }

    pub(super) fn remove(&mut self, incarnation: Incarnation) -> Option<Session> {
        let session = self.rows.remove(&incarnation)?;
        let key = &session.info.key;
        self.addresses.remove(key);
        if let Some(at) = session.info.expire_time {
            self.expiring.remove(&(at, incarnation));
        }
        if let Some(addresses) = self.bare.get_mut(&key.session_id) {
            addresses.remove(key);
            if addresses.is_empty() {
                self.bare.remove(&key.session_id);
            }
        }
        Some(session)
    }
}
