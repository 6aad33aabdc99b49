//! Taking a session back to an earlier event.

use std::collections::BTreeMap;

use super::{
    fault::Outcome, find::lost, history::names_of, node::Trio, plan::check, schema::NodeId,
    writer::Writer,
};
use crate::{
    domain::{
        Sequence,
        delta::{KeyResult, changes},
        error::Error,
        event::{Event, ScopeVersions},
        id::Branch,
        json::Json,
        scope::{ScopeKind, SessionRef, StateKey},
        session::StateEntry,
    },
    store::{Appended, AppendedEvent, RewindSession},
};

impl Writer<'_> {
    pub(super) fn rewind(&mut self, rewind: RewindSession) -> Outcome<Appended> {
        let RewindSession { key, to, event_id, author, fingerprint, precondition, now } = rewind;
        let id = self.find(&SessionRef::Full(key), now)?;
        let (live, app, user) = self.cache.open(id).ok_or_else(lost)?;
        if let Some((event, stored)) = live.stored(&mut self.reads, event_id.as_str())? {
            if stored != fingerprint {
                return Err(Error::EventIdReused(event_id).into());
            }
            return self.appended(id, vec![AppendedEvent { event, replayed: true }], true);
        }
        let last_sequence = live.own.version;
        if to > last_sequence {
            return Err(Error::BeyondLastSequence { asked: to, last_sequence }.into());
        }
        let versions = ScopeVersions { application: app.version, user: user.version };
        let time = now.max(live.found.info.update_time);
        let mut trio = Trio { app, user: Some(user), own: Some(&mut live.own) };
        check(&mut trio, &mut self.reads, &precondition, ScopeKind::Session)?;
        let sequence = last_sequence + 1;
        self.flush()?;
        let results = self.restoring(id, to)?;
        let event = Event {
            event_id,
            sequence,
            invocation_id: None,
            author,
            branch: Branch::from_stored(""),
            event_time: time,
            commit_time: time,
            changes: changes(&results),
            body: None,
            rewind_to: Some(to),
            rewound: true,
            versions,
        };
        let (live, app, user) = self.cache.open(id).ok_or_else(lost)?;
        let names = names_of(ScopeKind::Session, &results);
        let mut trio = Trio { app, user: Some(user), own: Some(&mut live.own) };
        let sizes = trio.sizes_after(&mut self.reads, &results)??;
        let own = trio.node(ScopeKind::Session);
        own.version = sequence;
        own.bytes = sizes[ScopeKind::Session as usize];
        trio.put_all(results).for_each(drop);
        self.writes.store_event(&mut live.own, &event, fingerprint, names)?;
        live.count_id(event.event_id.as_str());
        live.found.bytes = live.own.bytes;
        let info = &mut live.found.info;
        info.last_sequence = sequence;
        info.last_event_time = time;
        info.update_time = time;
        self.unwritten.push(id);
        self.changed.push(id);
        self.mark_moved(id)?;
        self.appended(id, vec![AppendedEvent { event, replayed: false }], true)
    }

    /// What makes a session's own state what it was right after an event. Everything in memory has been written.
    fn restoring(&mut self, id: NodeId, to: Sequence) -> Outcome<Vec<KeyResult>> {
        let (live, _, _) = self.cache.open(id).ok_or_else(lost)?;
        let log = live.own.log();
        let (mut then, mut now) = (Vec::new(), Vec::new());
        self.reads.state_as_of(log, to, &mut then)?;
        self.reads.state_of(id, ScopeKind::Session, &mut now)?;
        let by_key = |state: Vec<StateEntry>| -> BTreeMap<StateKey, Json> {
            state.into_iter().map(|entry| (entry.key, entry.value)).collect()
        };
        let (then, mut now) = (by_key(then), by_key(now));
        let mut results = Vec::new();
        for (key, value) in then {
            if now.remove(&key).as_ref() != Some(&value) {
                results.push((key, Some(value)));
            }
        }
        results.extend(now.into_keys().map(|key| (key, None)));
        Ok(results)
    }
}
