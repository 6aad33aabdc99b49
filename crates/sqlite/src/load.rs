//! Loading what decisions need, from the cache or from the tables.

use std::sync::Arc;

use super::{log::Log, prelude::*, read::Snapshot, writer::Writer};
use sessiond_core::{
    commit::{
        Address, PastState, REPLAY_BYTES, ReadSet, SWEPT_SESSIONS, ScopeKey, ScopeState,
        SessionState, StoredEvent,
    },
    read::{Node, SessionRecord, event_heads, finish, past},
};
use sessiond_store::rows::EVENT_BYTES;

/// Events and bytes of a piece of copied events: a few milliseconds of the writer's time.
const COPIED_EVENTS: u64 = 256;
const COPIED_BYTES: usize = 1 << 20;

/// Keys of a scope that are looked up one by one. Where there are more, reading the whole scope, a MiB at most, is shorter.
const SINGLE_KEYS: usize = 500;

/// Bytes in memory, about: of an application or a user, of a session, and of an address.
const SCOPE_BYTES: usize = 256;
const SESSION_BYTES: usize = 512;
const ADDRESS_BYTES: usize = 256;

impl Writer {
    pub(super) fn load_needs(&mut self, needs: &ReadSet<'_>) -> Result<()> {
        if needs.sweep {
            self.load_sweep()?;
        }
        match needs.address {
            None => Ok(()),
            Some(Address::Session(key)) => self.load_session(key, needs),
            Some(Address::Shared(scope)) => {
                let key = self.load_scopes(scope.app_name(), scope.user_id(), needs)?;
                self.load_request(key, needs.request_id)
            }
        }
    }

    fn load_session(&mut self, key: &SessionKey, needs: &ReadSet<'_>) -> Result<()> {
        self.load_scopes(&key.app_name, Some(&key.user_id), needs)?;
        self.load_address(key)?;
        if let Some(target) = needs.target {
            self.load_address(&SessionKey { session_id: target.clone(), ..key.clone() })?;
        }
        let Some(incarnation) = self.loaded.addresses.get(key).copied().flatten() else {
            return Ok(());
        };
        self.load_keys(&ScopeKey::Session(incarnation), needs)?;
        let Some(session) = self.loaded.sessions.get(&incarnation) else { return Ok(()) };
        let last_sequence = session.info.last_sequence;
        let mut replayed = 0;
        for (id, fingerprint) in &needs.events {
            self.load_event(incarnation, id, *fingerprint, &mut replayed)?;
        }
        self.load_request(ScopeKey::Session(incarnation), needs.request_id)?;
        if let Some(at) = needs.past.filter(|at| *at <= last_sequence) {
            // An earlier load of the group may be older than what follows it.
            let node = Node::session(key, incarnation);
            let clock = &*self.options.clock;
            let rows = Snapshot { tables: &self.tables, now: self.loaded.now, clock };
            let past = finish(past(&rows, &node, 0, at))?.into_iter();
            let state = past.filter_map(|(name, (value, version))| Some((name, (value?, version))));
            let wanted: &[Sequence] = if at == 0 { &[] } else { &[at] };
            let head = finish(event_heads(&rows, &node, wanted))?;
            let times = head.first().map(|head| (head.event_time, head.commit_time));
            let past = PastState { state: state.collect(), times };
            self.passing += past.bytes();
            self.loaded.past.insert((incarnation, at), past);
        }
        if let Some((from, after, up_to)) = needs.copy {
            // A log with a hole is damaged: going on would copy nothing for ever.
            let (mut end, mut bytes) = (up_to, 0);
            let (log, columns) = (Log::of_session(from), format!("sequence, {EVENT_BYTES}"));
            self.tables.each_row(log, &columns, (after, up_to), false, |row| {
                end = row.get(0)?;
                bytes += row.get::<usize>(1)?;
                Ok(bytes < COPIED_BYTES && end - after < COPIED_EVENTS)
            })?;
            self.loaded.pieces.insert((from, after), end);
        }
        if let Some(fork) = needs.fork {
            let lease = "SELECT 1 FROM tombstone WHERE id = ?1 AND lease_until > ?2";
            let lease = self.tables.value::<u8>(lease, (fork.0, self.loaded.now.secs()))?;
            self.loaded.forks.extend(lease.map(|_| fork));
        }
        Ok(())
    }

    fn load_address(&mut self, key: &SessionKey) -> Result<()> {
        let is_known = self.loaded.addresses.contains_key(key);
        self.metrics().reads.looked_up(is_known);
        if is_known {
            return Ok(());
        }
        let user = ScopeKey::User(key.app_name.clone(), key.user_id.clone());
        let user = self.loaded.scope(&user).map_or(0, |user| user.row);
        match self.tables.session_of(user, key)? {
            Some(found) => self.cache_session(found),
            None => {
                // Of the address, and of the session that may be created there.
                self.grown += ADDRESS_BYTES + SESSION_BYTES;
                self.loaded.addresses.insert(key.clone(), None);
                Ok(())
            }
        }
    }

    fn cache_session(&mut self, found: SessionRecord) -> Result<()> {
        let SessionRecord { info, state_bytes, .. } = found;
        let (incarnation, version) = (info.incarnation, info.last_sequence);
        if !self.loaded.sessions.contains_key(&incarnation) {
            let own = ScopeState { row: incarnation.0, ..ScopeState::new(version, state_bytes) };
            let max_rows = i64::MAX as usize;
            let mut markers = self.tables.markers(incarnation.0, (0, version), max_rows)?;
            markers.reverse();
            self.grown += SESSION_BYTES + size_of_val(&*markers);
            self.loaded.addresses.insert(info.key.clone(), Some(incarnation));
            let session = SessionState { info, own, markers };
            self.loaded.sessions.insert(incarnation, session);
        }
        Ok(())
    }

    /// Loads an application and one of its users, with the keys that are needed. Returns the narrower one.
    fn load_scopes(
        &mut self,
        app: &AppName,
        user: Option<&UserId>,
        needs: &ReadSet<'_>,
    ) -> Result<ScopeKey> {
        let application = ScopeKey::Application(app.clone());
        self.load_scope(&application, needs)?;
        let Some(user) = user else { return Ok(application) };
        let user = ScopeKey::User(app.clone(), user.clone());
        self.load_scope(&user, needs)?;
        Ok(user)
    }

    pub(super) fn load_scope(&mut self, key: &ScopeKey, needs: &ReadSet<'_>) -> Result<()> {
        let is_known = self.loaded.scope(key).is_some();
        self.metrics().reads.looked_up(is_known);
        if !is_known {
            let sql =
                "SELECT id, version, state_bytes, base FROM scope WHERE app = ?1 AND user = ?2";
            let found = self.tables.one(sql, names(key), |row| row.all())?;
            let (row, version, state_bytes, base) = found.unwrap_or_default();
            self.grown += SCOPE_BYTES;
            if let Some(scope) = self.loaded.scope_mut(key) {
                *scope = ScopeState { row, base, ..ScopeState::new(version, state_bytes) };
            }
        }
        self.load_keys(key, needs)
    }

    fn load_keys(&mut self, scope: &ScopeKey, needs: &ReadSet<'_>) -> Result<()> {
        let Self { loaded, tables, grown, .. } = self;
        let Some(state) = loaded.scope_mut(scope).filter(|state| !state.complete) else {
            return Ok(());
        };
        let wanted = || needs.keys().filter(|key| key.scope() == Some(scope.kind()));
        if needs.all_state || wanted().nth(SINGLE_KEYS).is_some() {
            let sql = "SELECT name, value, version FROM state WHERE node = ?1";
            tables.each(sql, [state.row], |row| {
                let (name, value, version): (Box<str>, _, _) =
                    (row.get(0)?, row::value(row, 1)?, row.get(2)?);
                *grown += ENTRY_BYTES + name.len() + value.len();
                state.keys.insert(name, Some((value, version)));
                Ok(true)
            })?;
            state.complete = true;
            return Ok(());
        }
        for key in wanted() {
            let name = key.name();
            if !state.keys.contains_key(name) {
                let value = tables.key(state.row, name)?;
                *grown += ENTRY_BYTES + name.len() + value.as_ref().map_or(0, |(it, _)| it.len());
                state.keys.insert(name.into(), value);
            }
        }
        Ok(())
    }

    fn load_request(&mut self, scope: ScopeKey, id: Option<&RequestId>) -> Result<()> {
        let Some(id) = id else { return Ok(()) };
        let key = (scope, id.clone());
        if !self.loaded.requests.contains_key(&key) {
            let node = self.loaded.scope(&key.0).map_or(0, |scope| scope.row);
            let sql = "SELECT fingerprint FROM request WHERE node = ?1 AND request_id = ?2";
            let found = self.tables.value(sql, (node, id.as_str()))?;
            self.loaded.requests.insert(key, found);
        }
        Ok(())
    }

    /// Loads what a session has under an id: the whole event only if it has the fingerprint, and if the replays of its request, it included,
    /// are small enough.
    fn load_event(
        &mut self,
        incarnation: Incarnation,
        id: &EventId,
        fingerprint: Fingerprint,
        replayed: &mut usize,
    ) -> Result<()> {
        let key = (incarnation, id.clone());
        let is_whole =
            |known: &StoredEvent| known.event.is_some() || known.fingerprint != fingerprint;
        if self.loaded.events.get(&key).is_some_and(|known| known.as_ref().is_none_or(is_whole)) {
            return Ok(());
        }
        let mut stored = None;
        if let Some((found, bytes)) = self.tables.event_head(incarnation, id)? {
            *replayed += if found == fingerprint { bytes } else { 0 };
            let event = match found == fingerprint && *replayed <= REPLAY_BYTES {
                true => self.tables.event_with_id(incarnation, id)?,
                false => None,
            };
            self.passing += event.as_ref().map_or(0, |event| event.bytes());
            stored = Some(StoredEvent { fingerprint: found, event: event.map(Arc::new) });
        }
        self.loaded.events.insert(key, stored);
        Ok(())
    }

    fn load_sweep(&mut self) -> Result<()> {
        let now = self.loaded.now;
        let expired = self.tables.sessions(
            "expire_secs IS NOT NULL AND (expire_secs, expire_nanos) <= (?1, ?2)
             ORDER BY expire_secs, expire_nanos LIMIT ?3",
            (now.secs(), now.nanos(), SWEPT_SESSIONS),
        )?;
        self.loaded.expired.extend(expired.into_iter().map(|found| found.info));
        let sql = "SELECT id FROM tombstone WHERE lease_until <= ?1 ORDER BY id LIMIT ?2";
        let gone = (now.secs(), SWEPT_SESSIONS);
        self.loaded.tombstones = self.tables.all(sql, gone, |row| Ok(Incarnation(row.get(0)?)))?;
        self.load_emptied()
    }
}

/// The names of an application, whose user is '', or of a user.
pub(super) fn names(key: &ScopeKey) -> (&str, &str) {
    match key {
        ScopeKey::Application(app) => (app.as_str(), ""),
        ScopeKey::User(app, user) => (app.as_str(), user.as_str()),
        ScopeKey::Session(_) => ("", ""),
    }
}
