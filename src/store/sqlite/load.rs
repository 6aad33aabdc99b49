//! Loading what decisions need, from the cache or from the tables.

use rusqlite::OptionalExtension;

use super::{
    row::{self, Found},
    schema::NodeId,
    snapshot::Log,
    writer::Writer,
};
use crate::{
    commit::{
        Address, KEY_BYTES, KeysNeeded, Needs, PastState, ScopeKey, ScopeState, SessionState,
    },
    domain::{
        Sequence,
        error::Error,
        event::Fingerprint,
        id::{AppName, RequestId, UserId},
        scope::{Scope, ScopeKind, SessionKey},
        session::Incarnation,
    },
};

/// Events and bytes of a piece of copied events: a few milliseconds of the writer's time.
const COPIED_EVENTS: i64 = 256;
const COPIED_BYTES: usize = 1 << 20;

/// Sessions that one sweep ends.
const SWEPT_SESSIONS: i64 = 64;

impl Writer<'_> {
    pub(super) fn load_needs(&mut self, needs: &Needs<'_>) -> Result<(), Error> {
        if needs.sweep {
            self.load_sweep()?;
        }
        match needs.address {
            None => Ok(()),
            Some(Address::Session(key)) => self.load_session(key, needs),
            Some(Address::Wide(scope)) => {
                self.load_scopes(scope.app_name(), scope.user_id(), needs)?;
                let key = match scope {
                    Scope::User(app, user) => ScopeKey::User(app.clone(), user.clone()),
                    _ => ScopeKey::Application(scope.app_name().clone()),
                };
                self.load_request(key, needs.request_id)
            }
            Some(Address::Bare(id)) => {
                if !self.loaded.bare.contains_key(id) {
                    let found = self.reads.sessions_with(id.as_str())?;
                    let keys = found.iter().map(|found| found.info.key.clone()).collect();
                    self.loaded.bare.insert(id.clone(), keys);
                    found.into_iter().try_for_each(|found| self.keep_session(found))?;
                }
                let keys = &self.loaded.bare[id];
                let mut live = keys.iter().filter(|key| self.loaded.live(key).is_some());
                match (live.next().cloned(), live.next()) {
                    (Some(key), None) => self.load_session(&key, needs),
                    _ => Ok(()),
                }
            }
        }
    }

    fn load_session(&mut self, key: &SessionKey, needs: &Needs<'_>) -> Result<(), Error> {
        self.load_scopes(&key.app_name, Some(&key.user_id), needs)?;
        self.load_address(key)?;
        if let Some(target) = needs.target {
            self.load_address(&SessionKey { session_id: target.clone(), ..key.clone() })?;
        }
        let Some(incarnation) = self.loaded.addresses.get(key).copied().flatten() else {
            return Ok(());
        };
        self.load_keys(&ScopeKey::Session(incarnation), &needs.scopes[2].keys)?;
        let Some(session) = self.loaded.sessions.get(&incarnation) else { return Ok(()) };
        let last_sequence = session.info.last_sequence;
        for id in &needs.event_ids {
            self.load_event(incarnation, last_sequence, id)?;
        }
        self.load_request(ScopeKey::Session(incarnation), needs.request_id)?;
        if let Some(at) = needs.past.filter(|at| *at <= last_sequence) {
            self.load_past(incarnation, at, last_sequence)?;
        }
        if let Some((from, after, up_to)) = needs.copy {
            self.load_piece(from, after, up_to)?;
        }
        if let Some(fork) = needs.fork {
            let lease = (fork.0.cast_signed(), self.loaded.now.secs());
            if self.reads.lease.exists(lease)? {
                self.loaded.forks.insert(fork);
            }
        }
        Ok(())
    }

    /// Loads the session at an address.
    fn load_address(&mut self, key: &SessionKey) -> Result<(), Error> {
        if self.loaded.addresses.contains_key(key) {
            return Ok(());
        }
        let user = self.loaded.user(&key.app_name, &key.user_id).map_or(0, |user| user.row);
        match self.reads.session_of_user(key, user)? {
            Some(found) => self.keep_session(found),
            None => {
                // Of the address, and of the session that may be created there.
                self.grown += 256 + 512;
                self.loaded.addresses.insert(key.clone(), None);
                Ok(())
            }
        }
    }

    fn keep_session(&mut self, found: Found) -> Result<(), Error> {
        let incarnation = found.info.incarnation;
        if self.loaded.sessions.contains_key(&incarnation) {
            return Ok(());
        }
        let own = ScopeState {
            row: found.id(),
            version: found.info.last_sequence,
            state_bytes: found.state_bytes,
            complete: found.state_bytes == 0,
            used: self.round,
            ..ScopeState::default()
        };
        let markers = self.reads.markers(found.id(), found.info.last_sequence)?;
        self.grown += 512;
        self.loaded.addresses.insert(found.info.key.clone(), Some(incarnation));
        let session = SessionState { info: found.info, own, markers, is_new: false };
        self.loaded.sessions.insert(incarnation, session);
        Ok(())
    }

    /// Loads an application and one of its users, with the keys that are needed.
    fn load_scopes(
        &mut self,
        app: &AppName,
        user: Option<&UserId>,
        needs: &Needs<'_>,
    ) -> Result<(), Error> {
        if self.loaded.application(app).is_none_or(|scope| scope.used == 0) {
            let row = self.reads.scope_row(app, None)?;
            self.keep_scope(&ScopeKey::Application(app.clone()), row);
        }
        if let Some(user) = user
            && self.loaded.user(app, user).is_none()
        {
            let row = self.reads.scope_row(app, Some(user))?;
            self.keep_scope(&ScopeKey::User(app.clone(), user.clone()), row);
        }
        self.load_keys(&ScopeKey::Application(app.clone()), &needs.scopes[0].keys)?;
        match user {
            Some(user) => {
                self.load_keys(&ScopeKey::User(app.clone(), user.clone()), &needs.scopes[1].keys)
            }
            None => Ok(()),
        }
    }

    fn keep_scope(&mut self, key: &ScopeKey, row: Option<super::read::ScopeRow>) {
        let (row, version, state_bytes) = row.unwrap_or((0, 0, 0));
        self.grown += 256;
        if let Some(scope) = self.loaded.scope_mut(key) {
            *scope = ScopeState {
                row,
                version,
                state_bytes,
                complete: state_bytes == 0,
                used: self.round,
                ..ScopeState::default()
            };
        }
    }

    fn load_keys(&mut self, scope: &ScopeKey, needed: &KeysNeeded<'_>) -> Result<(), Error> {
        let round = self.round;
        let Some(state) = self.loaded.scope_mut(scope) else { return Ok(()) };
        state.used = round;
        if state.covers(needed) {
            return Ok(());
        }
        match needed {
            KeysNeeded::Some(keys) => {
                for key in keys {
                    if state.keys.contains_key(key.name()) {
                        continue;
                    }
                    let value = self.reads.state_key.query_row((state.row, key.name()), |row| {
                        Ok((row::json(row, 0)?, row::count(row, 1)?))
                    });
                    let value = value.optional()?;
                    let bytes = value.as_ref().map_or(0, |(value, _)| value.len());
                    self.grown += KEY_BYTES + key.name().len() + bytes;
                    state.keys.insert(key.name().into(), value);
                }
            }
            KeysNeeded::All => {
                let mut rows = self.reads.state.query([state.row])?;
                while let Some(row) = rows.next()? {
                    let value = (row::json(row, 1)?, row::count(row, 2)?);
                    let name = row::text(row, 0)?;
                    self.grown += KEY_BYTES + name.len() + value.0.len();
                    state.keys.insert(name.into(), Some(value));
                }
                state.complete = true;
            }
        }
        Ok(())
    }

    fn load_request(&mut self, scope: ScopeKey, id: Option<&RequestId>) -> Result<(), Error> {
        let Some(id) = id else { return Ok(()) };
        let key = (scope, id.clone());
        if self.loaded.requests.contains_key(&key) {
            return Ok(());
        }
        let node = self.loaded.scope(&key.0).map_or(0, |scope| scope.row);
        let fingerprint =
            self.reads.request.query_row((node, id.as_str()), |row| row::fingerprint(row, 0));
        let fingerprint: Option<Fingerprint> = fingerprint.optional()?;
        self.loaded.requests.insert(key, fingerprint);
        Ok(())
    }

    /// Loads a session's own state as of an event. An earlier load of the group may be older than what follows it.
    fn load_past(
        &mut self,
        incarnation: Incarnation,
        at: Sequence,
        last_sequence: Sequence,
    ) -> Result<(), Error> {
        let node: NodeId = incarnation.0.cast_signed();
        let log = Log { node, kind: ScopeKind::Session, version: last_sequence };
        let state = self.reads.past(log, at)?.state;
        let times = match at {
            0 => None,
            _ => {
                let (event_time, commit_time, _) = self.reads.times(node, at)?;
                Some((event_time, commit_time))
            }
        };
        self.loaded.past.insert((incarnation, at), PastState { state, times, last_sequence });
        Ok(())
    }

    /// Loads how far a piece of copied events goes: at least one event.
    fn load_piece(
        &mut self,
        from: Incarnation,
        after: Sequence,
        up_to: Sequence,
    ) -> Result<(), Error> {
        let range = (from.0.cast_signed(), after.cast_signed(), up_to.cast_signed(), COPIED_EVENTS);
        let mut rows = self.reads.event_sizes.query(range)?;
        let (mut end, mut bytes) = (None, 0);
        while let Some(row) = rows.next()? {
            if end.is_some() && bytes >= COPIED_BYTES {
                break;
            }
            end = Some(row::count(row, 0)?);
            bytes += row::bytes(row, 1)?;
        }
        // A log with a hole is damaged: going on would copy nothing for ever.
        let end = end.filter(|end| *end > after || after >= up_to);
        self.loaded.pieces.insert((from, after), end.unwrap_or(up_to));
        Ok(())
    }

    fn load_sweep(&mut self) -> Result<(), Error> {
        let now = self.loaded.now;
        let mut expired = self.connection.prepare_cached(
            "SELECT app_scope, user_id, session_id FROM session
             WHERE expire_secs IS NOT NULL AND (expire_secs, expire_nanos) <= (?1, ?2)
             ORDER BY expire_secs, expire_nanos LIMIT ?3",
        )?;
        let keys = expired.query_map((now.secs(), now.nanos(), SWEPT_SESSIONS), |row| {
            let app = self.reads.scope_names.query_row([row.get::<_, NodeId>(0)?], |row| {
                Ok(AppName::from_stored(row::text(row, 0)?))
            })?;
            Ok(SessionKey {
                app_name: app,
                user_id: UserId::from_stored(row::text(row, 1)?),
                session_id: crate::domain::id::SessionId::from_stored(row::text(row, 2)?),
            })
        })?;
        let keys: Vec<SessionKey> = keys.collect::<Result<_, _>>()?;
        for key in keys {
            let found = self.reads.session(&key)?;
            self.loaded.expired.extend(found.map(|found| found.info));
        }
        let mut tombstone = self.connection.prepare_cached(
            "SELECT id FROM tombstone WHERE lease_until <= ?1 ORDER BY id LIMIT 1",
        )?;
        let id = tombstone.query_row([now.secs()], |row| row::count(row, 0)).optional()?;
        self.loaded.tombstone = id.map(Incarnation);
        Ok(())
    }

    /// Drops what was not used for the longest time, if the cache has grown beyond its bound.
    pub(super) fn shrink(&mut self, max_bytes: usize) {
        if self.grown <= max_bytes / 8 && max_bytes > 0 {
            return;
        }
        self.grown = 0;
        let Self { loaded, known, .. } = self;
        let mut weights: Vec<(u64, usize)> = Vec::new();
        for (incarnation, session) in &loaded.sessions {
            let ids = known.get(incarnation).map_or(0, super::known::KnownIds::weight);
            weights.push((session.own.used, 512 + session.own.weight() + ids));
        }
        for application in loaded.applications.values() {
            let users = application.users.values().map(|user| (user.used, 256 + user.weight()));
            weights.extend(users);
            weights.push((application.own.used, 256 + application.own.weight()));
        }
        let mut excess = weights.iter().map(|(_, weight)| weight).sum::<usize>();
        if excess <= max_bytes && loaded.addresses.len() <= 2 * loaded.sessions.len() + 1024 {
            return;
        }
        // A quarter more than needed, so that this is rare.
        let target = max_bytes - max_bytes / 4;
        weights.sort_unstable();
        let mut oldest_kept = 0;
        for (used, weight) in weights {
            if excess <= target {
                break;
            }
            excess -= weight;
            oldest_kept = used + 1;
        }
        loaded.sessions.retain(|_, session| session.own.used >= oldest_kept);
        loaded.applications.retain(|_, application| {
            application.users.retain(|_, user| user.used >= oldest_kept);
            if application.own.used < oldest_kept {
                application.own = ScopeState::default();
            }
            application.own.used > 0 || !application.users.is_empty()
        });
        let sessions = &loaded.sessions;
        loaded.addresses.retain(|_, found| found.is_some_and(|it| sessions.contains_key(&it)));
        known.retain(|incarnation, _| sessions.contains_key(incarnation));
    }
}
