//! Appending events. An append is worked out whole, in memory, before its first row is written, so that one that is refused leaves
//! nothing behind for its neighbours in the commit, and no savepoint is needed.

use super::{
    fault::Outcome,
    find::lost,
    log::LogRow,
    node::{Node, Trio},
    plan::{Accepted, Plan, ScopeRow},
    replay::slots,
    schema::NodeId,
    writer::Writer,
};
use crate::{
    domain::{
        event::NewEvent, precondition::Precondition, scope::ScopeKind, session::State, time::Time,
    },
    store::{Append, Appended, AppendedEvent},
};

impl Writer<'_> {
    pub(super) fn append(&mut self, append: Append) -> Outcome<Appended> {
        let Append { session, events, precondition, request, return_state, now } = append;
        let id = self.find(&session, now)?;
        if let Some(request) = &request
            && self.seen(id, request)?
        {
            let mut appended = self.appended(id, Vec::new(), return_state)?;
            appended.request_replayed = true;
            return Ok(appended);
        }
        let events = self.append_to(id, events, &precondition, now)?;
        if let Some(request) = &request {
            self.remember(id, request)?;
        }
        self.appended(id, events, return_state)
    }

    /// Works out and writes events of a session that is open.
    fn append_to(
        &mut self,
        id: NodeId,
        events: Vec<NewEvent>,
        precondition: &Precondition,
        now: Time,
    ) -> Outcome<Vec<AppendedEvent>> {
        let (live, app, user) = self.cache.open(id).ok_or_else(lost)?;
        let slots = slots(live, &mut self.reads, &events)?;
        let time = now.max(live.found.info.update_time);
        let before = [app.head(), user.head(), live.own.head()];
        let trio = Trio { app, user: Some(user), own: Some(&mut live.own) };
        let mut plan = Plan::new(&mut self.reads, trio, time);
        if let Err(fault) = plan.work_out(events, slots, precondition) {
            let Plan { mut trio, undo, .. } = plan;
            trio.undo(undo);
            let kinds = [ScopeKind::Application, ScopeKind::User, ScopeKind::Session];
            for (kind, (version, bytes)) in kinds.into_iter().zip(before) {
                let node = trio.node(kind);
                (node.version, node.bytes) = (version, bytes);
            }
            return Err(fault);
        }
        let Plan { events, accepted, .. } = plan;
        if !accepted.is_empty() {
            self.write_events(id, &events, accepted)?;
        }
        Ok(events)
    }

    /// Writes the rows of accepted events, and keeps the session as they leave it.
    fn write_events(
        &mut self,
        id: NodeId,
        events: &[AppendedEvent],
        accepted: Vec<Accepted>,
    ) -> Outcome<()> {
        let (live, app, user) = self.cache.open(id).ok_or_else(lost)?;
        for Accepted { at, fingerprint, own_names, logs } in accepted {
            let event = &events[at].event;
            self.writes.store_event(&mut live.own, event, fingerprint, own_names)?;
            live.count_id(event.event_id.as_str());
            for ScopeRow { kind, version, changes, names } in logs {
                let key = &live.found.info.key;
                let row = LogRow {
                    version,
                    time: event.commit_time,
                    author: &event.author,
                    source: Some((id, key, event.sequence)),
                    changes: &changes,
                };
                let node: &mut Node = if kind == ScopeKind::User { user } else { app };
                self.writes.store_log(node, &row, names)?;
                self.changed.push(node.id);
            }
            let info = &mut live.found.info;
            info.last_sequence = event.sequence;
            info.last_event_time = event.event_time;
            info.update_time = event.commit_time;
        }
        live.found.bytes = live.own.bytes;
        let nodes = [&live.own, app, user];
        self.unwritten.extend(nodes.iter().filter(|node| node.is_dirty()).map(|node| node.id));
        self.changed.push(id);
        self.mark_moved(id)
    }

    /// The answer to an append of a session that is open.
    pub(super) fn appended(
        &mut self,
        id: NodeId,
        events: Vec<AppendedEvent>,
        with_state: bool,
    ) -> Outcome<Appended> {
        let state = if with_state { Some(self.visible_from(id)?) } else { None };
        let (live, _, _) = self.cache.open(id).ok_or_else(lost)?;
        let info = live.found.info.clone();
        Ok(Appended { info, events, state, request_replayed: false })
    }

    /// Everything that is visible from a session that is open.
    pub(super) fn visible_from(&mut self, id: NodeId) -> Outcome<State> {
        let (live, app, user) = self.cache.open(id).ok_or_else(lost)?;
        let mut entries = Vec::new();
        app.entries(&mut self.reads, &mut entries)?;
        user.entries(&mut self.reads, &mut entries)?;
        live.own.entries(&mut self.reads, &mut entries)?;
        Ok(State(entries))
    }
}
