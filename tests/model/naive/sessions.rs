//! Creating, updating, deleting and forking sessions.

use std::sync::Arc;

use sessiond::{
    commit::Fork,
    domain::{
        delta::KeyResult,
        error::Error,
        id::Author,
        precondition::Precondition,
        scope::{Scope, ScopeKind, SessionKey},
        session::{ForkOrigin, Incarnation, SessionInfo, State},
    },
    store::{CreateSession, Created, DeleteSession, ForkSession, OnExisting, SessionUpdate},
};

use super::{Naive, Past, Session, Values, check, end_time, put, state};

impl Naive {
    pub(super) fn create(&mut self, create: &CreateSession) -> Result<Created, Error> {
        let (key, now) = (create.key.clone(), self.now);
        let scope = Scope::Session(key.clone());
        if let Ok(session) = self.live(&key) {
            return match create.on_existing {
                OnExisting::Refuse => Err(Error::SessionExists(key)),
                OnExisting::Return => {
                    let (info, state) = (session.info.clone(), state(self.visible(&scope)));
                    Ok(Created { info, state, created: false })
                }
            };
        }
        let expire_time = end_time(create.expiration, now)?;
        let results: Vec<KeyResult> =
            create.state.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect();
        let author = Author::new("").unwrap();
        self.change_wide(&scope, &results, &author, now, None)?;
        let own = results.into_iter().filter(|(key, _)| key.scope() == Some(ScopeKind::Session));
        let mut values = Values::new();
        put(&mut values, &own.collect::<Vec<_>>(), 0, ScopeKind::Session)?;
        let info = SessionInfo {
            key: key.clone(),
            incarnation: self.next_incarnation(),
            last_sequence: 0,
            create_time: now,
            update_time: now,
            last_event_time: now,
            expire_time,
            display_name: create.display_name.clone(),
            labels: create.labels.clone(),
            forked_from: None,
            created_versions: self.versions(&scope),
        };
        let session = Session {
            info: info.clone(),
            own: values,
            log: Vec::new(),
            event_ids: Default::default(),
            requests: Default::default(),
            past: Vec::new(),
        };
        self.sessions.insert(key.clone(), Arc::new(session));
        self.remember(&key, Vec::new(), 0)?;
        Ok(Created { info, state: state(self.visible(&scope)), created: true })
    }

    /// Keeps a copy of a session as it is now.
    pub(super) fn remember(
        &mut self,
        key: &SessionKey,
        visible: Vec<u64>,
        bytes: usize,
    ) -> Result<(), Error> {
        let merged = self.visible(&Scope::Session(key.clone()));
        let session = self.live_mut(key)?;
        let own = session.own.clone();
        session.past.push(Arc::new(Past { own, merged, visible, bytes }));
        Ok(())
    }

    fn next_incarnation(&mut self) -> Incarnation {
        self.created += 1;
        Incarnation(self.created)
    }

    pub(super) fn update(&mut self, update: &SessionUpdate) -> Result<SessionInfo, Error> {
        let now = self.now;
        self.check_guard(&update.key, &update.precondition)?;
        let info = &mut self.live_mut(&update.key)?.info;
        info.update_time = info.update_time.max(now);
        if let Some(name) = &update.display_name {
            info.display_name = name.clone();
        }
        if let Some(labels) = &update.labels {
            info.labels = labels.clone();
        }
        if let Some(expiration) = update.expiration {
            info.expire_time = end_time(expiration, now)?;
        }
        Ok(info.clone())
    }

    pub(super) fn delete(&mut self, delete: &DeleteSession) -> Result<Option<Incarnation>, Error> {
        if delete.allow_missing && self.live(&delete.key).is_err() {
            return Ok(None);
        }
        self.check_guard(&delete.key, &delete.precondition)?;
        Ok(self.sessions.remove(&delete.key).map(|session| session.info.incarnation))
    }

    fn check_guard(&self, key: &SessionKey, guard: &Precondition) -> Result<(), Error> {
        let last_sequence = self.live(key)?.info.last_sequence;
        check(guard, last_sequence, &self.visible(&Scope::Session(key.clone())))
    }

    pub(super) fn begin_fork(&mut self, fork: &ForkSession) -> Result<Fork, Error> {
        self.check_guard(&fork.source, &fork.precondition)?;
        let source = &self.live(&fork.source)?.info;
        let (source_incarnation, last_sequence) = (source.incarnation, source.last_sequence);
        let up_to = fork.up_to.unwrap_or(last_sequence);
        if up_to > last_sequence {
            return Err(Error::BeyondLastSequence { asked: up_to, last_sequence });
        }
        let target = SessionKey { session_id: fork.session_id.clone(), ..fork.source.clone() };
        if self.live(&target).is_ok() {
            return Err(Error::SessionExists(target));
        }
        let target_incarnation = self.next_incarnation();
        let source = fork.source.clone();
        Ok(Fork { source, source_incarnation, target, target_incarnation, up_to })
    }

    /// The source still has to be the session that it was when the fork began.
    pub(super) fn check_source(&self, fork: &Fork) -> Result<(), Error> {
        match self.live(&fork.source)?.info.incarnation == fork.source_incarnation {
            true => Ok(()),
            false => Err(Error::not_found(&fork.source)),
        }
    }

    pub(super) fn finish_fork(&mut self, fork: &Fork) -> Result<(SessionInfo, State), Error> {
        self.check_source(fork)?;
        let target = fork.target.clone();
        if self.live(&target).is_ok() {
            return Err(Error::SessionExists(target));
        }
        let now = self.now;
        let source = self.live(&fork.source)?;
        let taken = fork.up_to as usize;
        let newest = taken.checked_sub(1).map(|at| &source.log[at]);
        let info = SessionInfo {
            key: target.clone(),
            incarnation: fork.target_incarnation,
            last_sequence: fork.up_to,
            create_time: now,
            update_time: newest.map_or(now, |event| event.commit_time.max(now)),
            last_event_time: newest.map_or(now, |event| event.event_time),
            expire_time: source.info.expire_time,
            display_name: source.info.display_name.clone(),
            labels: source.info.labels.clone(),
            forked_from: Some(ForkOrigin { key: fork.source.clone(), sequence: fork.up_to }),
            created_versions: source.info.created_versions,
        };
        let ids = source.event_ids.iter().filter(|(_, (sequence, _))| *sequence <= fork.up_to);
        let session = Session {
            info: info.clone(),
            own: source.past[taken].own.clone(),
            log: source.log[..taken].to_vec(),
            event_ids: ids.map(|(id, known)| (id.clone(), *known)).collect(),
            requests: Default::default(),
            past: source.past[..=taken].to_vec(),
        };
        self.sessions.insert(target.clone(), Arc::new(session));
        Ok((info, state(self.visible(&Scope::Session(target)))))
    }
}
