//! Creating a session from another one's past. The events are copied a piece at a time, so that a long log does not hold up the
//! writer: what is copied never changes, and until the last piece the copy is listed as garbage, so that a crash leaves nothing
//! behind but work for the sweep.

use super::{
    command::{Ready, Reply, Trouble, carry_out},
    fault::Outcome,
    head::{LastRows, Walk},
    history::index_entry,
    lookup::Found,
    row,
    schema::{NodeId, indexed},
    statements::Reads,
    writer::Writer,
};
use crate::{
    domain::{
        Sequence,
        error::{Bounded, Error},
        id::DisplayName,
        json::text_bytes,
        scope::{SessionKey, SessionRef},
        session::{ForkOrigin, Incarnation, SessionInfo},
    },
    store::{ForkSession, SessionView},
};

/// Events and bytes of one piece: a few milliseconds of the writer's time.
const PIECE_EVENTS: usize = 256;
const PIECE_BYTES: usize = 1 << 20;

/// Forks under way at once; each takes a piece of every group.
const FORKS_MAX: usize = 16;

/// Milliseconds after which a retry makes sense when too many forks are under way.
const RETRY_AFTER_MILLIS: u64 = 500;

/// A fork under way.
pub(super) struct Fork {
    request: ForkSession,
    source: NodeId,
    up_to: Sequence,
    /// The new session.
    id: NodeId,
    /// Where the last events that are copied lie.
    copied: LastRows,
    reply: Reply<SessionView>,
}

impl Fork {
    /// The number of the session that is being made.
    pub(super) fn id(&self) -> NodeId {
        self.id
    }

    pub(super) fn refuse(self, error: Error) {
        drop(self.reply.send(Err(error)));
    }
}

impl Writer<'_> {
    /// Begins a fork and, where its log is short, finishes it.
    pub(super) fn begin_fork(
        &mut self,
        request: ForkSession,
        reply: Reply<SessionView>,
    ) -> Option<(Ready, Option<Trouble>)> {
        if self.forks.len() >= FORKS_MAX {
            let error =
                Error::Overloaded { what: Bounded::Forks, retry_after_millis: RETRY_AFTER_MILLIS };
            return Some(carry_out(reply, || Err(error.into())));
        }
        match self.prepare_fork(&request) {
            Ok((source, up_to, id)) => {
                let copied = LastRows::default();
                let fork = Fork { request, source, up_to, id, copied, reply };
                self.go_on(fork)
            }
            Err(fault) => Some(carry_out(reply, || Err(fault))),
        }
    }

    /// Copies another piece of every fork that is under way.
    pub(super) fn go_on_forking(&mut self, answers: &mut Vec<Ready>) -> Option<Trouble> {
        let mut forks = std::mem::take(&mut self.forks).into_iter();
        let mut trouble = None;
        while trouble.is_none()
            && let Some(fork) = forks.next()
        {
            if let Some((answer, failed)) = self.go_on(fork) {
                answers.push(answer);
                trouble = failed;
            }
        }
        // Those that are left share the fate of the group.
        self.forks.extend(forks);
        trouble
    }

    fn prepare_fork(&mut self, request: &ForkSession) -> Outcome<(NodeId, Sequence, NodeId)> {
        let ForkSession { source, up_to, session_id, now } = request;
        self.flush()?;
        let found = self.reads.live(source, *now)?;
        let last_sequence = found.info.last_sequence;
        let up_to = up_to.unwrap_or(last_sequence);
        if up_to > last_sequence {
            return Err(Error::BeyondLastSequence { asked: up_to, last_sequence }.into());
        }
        let key = SessionKey { session_id: session_id.clone(), ..source.clone() };
        if self.make_way(&key, *now)?.is_some() {
            return Err(Error::SessionExists(key).into());
        }
        let id = self.new_node()?;
        self.writes.insert_garbage.execute([id])?;
        Ok((found.id(), up_to, id))
    }

    /// Copies a piece; the answer where that was the last one.
    fn go_on(&mut self, mut fork: Fork) -> Option<(Ready, Option<Trouble>)> {
        let copied = match fork.copied.version() < fork.up_to {
            true => self.copy_piece(&mut fork),
            false => Ok(()),
        };
        match copied {
            Ok(()) if fork.copied.version() < fork.up_to => {
                self.forks.push(fork);
                None
            }
            Ok(()) => {
                let Fork { request, source, up_to: _, id, copied, reply } = fork;
                Some(carry_out(reply, || self.finish_fork(&request, source, id, &copied)))
            }
            Err(fault) => Some(carry_out(fork.reply, || Err(fault))),
        }
    }

    /// Copies events behind the last one copied, with their index entries as far as they would be indexed.
    fn copy_piece(&mut self, fork: &mut Fork) -> Outcome<()> {
        if !self.still_there(fork.source)? {
            return Err(Error::not_found(&fork.request.source).into());
        }
        let last_rows = self.reads.last_rows(fork.source)?;
        let Reads { events_index, event_index, .. } = &mut self.reads;
        let walk = Walk { range: events_index, one: event_index, descending: false };
        let mut piece = Vec::new();
        let mut bytes = 0;
        walk.rows(fork.source, &last_rows, (fork.copied.version(), fork.up_to), |row| {
            let entry = index_entry(row)?;
            if entry.version != fork.copied.version() + 1 + piece.len() as Sequence {
                // The file is damaged. Going on would copy something else, or for ever nothing.
                return Err(rusqlite::Error::QueryReturnedNoRows.into());
            }
            piece.push(entry);
            bytes += row::bytes(row, 5)?;
            Ok(piece.len() < PIECE_EVENTS && bytes < PIECE_BYTES)
        })?;
        if piece.is_empty() {
            return Err(rusqlite::Error::QueryReturnedNoRows.into());
        }
        for entry in &mut piece {
            entry.row = self.writes.copy_event.insert((fork.id, entry.row))?;
            fork.copied.push(entry.row);
        }
        piece.retain(|entry| entry.version <= indexed(fork.up_to));
        self.writes.index(fork.id, &piece)?;
        // The size is known with the last piece only; until then nobody looks at it.
        self.writes.store_head(fork.id, &fork.copied, 0)?;
        Ok(())
    }

    /// Gives the copy its state and its address.
    fn finish_fork(
        &mut self,
        request: &ForkSession,
        source: NodeId,
        id: NodeId,
        copied: &LastRows,
    ) -> Outcome<SessionView> {
        let up_to = copied.version();
        let ForkSession { source: source_key, up_to: _, session_id, now } = request;
        self.flush()?;
        // Both may have changed since the first piece.
        let from = self.reads.live(source_key, *now)?;
        if from.id() != source {
            return Err(Error::not_found(source_key).into());
        }
        let key = SessionKey { session_id: session_id.clone(), ..source_key.clone() };
        if self.make_way(&key, *now)?.is_some() {
            return Err(Error::SessionExists(key).into());
        }
        let mut state = Vec::new();
        self.reads.state_as_of(from.log(), up_to, &mut state)?;
        for entry in &state {
            let row = (id, entry.key.name(), entry.value.as_str(), entry.version.cast_signed());
            self.writes.put_state.execute(row)?;
        }
        self.writes.copy_markers.execute((id, source, up_to.cast_signed()))?;
        self.writes.copy_initial.execute((id, source))?;
        let initial = self.reads.initial_state(source)?;
        let initial_bytes =
            initial.iter().map(|(name, value)| text_bytes(name) + value.len()).sum();
        let bytes =
            state.iter().map(|entry| text_bytes(entry.key.name()) + entry.value.len()).sum();
        let newest = match copied.newest() {
            None => None,
            Some(row) => {
                self.writes.store_head(id, copied, bytes)?;
                Some(self.reads.event_times(row)?)
            }
        };
        // The clock may have gone back since the last event that is taken over; the times of commits must not.
        let update_time = newest.map_or(*now, |(_, commit_time)| commit_time.max(*now));
        let info = SessionInfo {
            key: key.clone(),
            incarnation: Incarnation(id.cast_unsigned()),
            last_sequence: up_to,
            create_time: *now,
            update_time,
            last_event_time: newest.map_or(*now, |(event_time, _)| event_time),
            expire_time: None,
            display_name: DisplayName::from_stored(""),
            labels: from.info.labels.clone(),
            forked_from: Some(ForkOrigin { key: source_key.clone(), sequence: up_to }),
            created_versions: from.info.created_versions,
        };
        let found = Found { info: info.clone(), app: from.app, user: from.user, bytes };
        self.store_session(&found, initial_bytes)?;
        self.writes.delete_garbage.execute([id])?;
        self.find(&SessionRef::Full(key), *now)?;
        self.changed.push(id);
        let state = self.reads.merged(found.nodes())?;
        Ok(SessionView { info, state: Some(state), events: None })
    }
}
