//! Writing the rows of logs, and the steps in which their indexes follow.

use rusqlite::params;

use super::{
    history::TailEntry,
    node::Node,
    row::removed_text,
    schema::{INDEX_STEP, NodeId},
    statements::Writes,
};
use crate::domain::{
    Sequence, Version,
    event::{Changes, Event, Fingerprint},
    id::{Author, InvocationId},
    json::Json,
    scope::{ScopeKind, SessionKey},
    time::Time,
};

/// A change of a wider scope.
pub(super) struct LogRow<'a> {
    pub(super) version: Version,
    pub(super) time: Time,
    pub(super) author: &'a Author,
    /// The session and the event that made it.
    pub(super) source: Option<(NodeId, &'a SessionKey, Sequence)>,
    pub(super) changes: &'a Changes,
}

impl Writes<'_> {
    /// Writes an event of a session. `names` are the keys of its own that it changed.
    pub(super) fn store_event(
        &mut self,
        session: &mut Node,
        event: &Event,
        fingerprint: Fingerprint,
        names: Vec<Box<str>>,
    ) -> rusqlite::Result<()> {
        let rewind_to = event.rewind_to.map(u64::cast_signed);
        let row = self.insert_event.insert(params![
            session.id,
            event.sequence.cast_signed(),
            event.event_id.as_str(),
            event.invocation_id.as_ref().map(InvocationId::as_str),
            event.author.as_str(),
            event.branch.as_str(),
            event.event_time.secs(),
            event.event_time.nanos(),
            event.commit_time.secs(),
            event.commit_time.nanos(),
            event.versions.application.cast_signed(),
            event.versions.user.cast_signed(),
            rewind_to,
            fingerprint.0.to_le_bytes(),
            removed_text(&event.changes.remove),
            event.changes.set.as_ref().map(Json::as_str),
            event.body.as_ref().map(Json::as_str),
        ])?;
        if let Some(to) = rewind_to {
            self.insert_marker.execute((session.id, event.sequence.cast_signed(), to))?;
        }
        let event_id = Some(event.event_id.as_str().into());
        self.follow(session, TailEntry { version: event.sequence, row, names, event_id })
    }

    /// Writes a change of a wider scope. `names` are the keys that it changed there.
    pub(super) fn store_log(
        &mut self,
        node: &mut Node,
        row: &LogRow<'_>,
        names: Vec<Box<str>>,
    ) -> rusqlite::Result<()> {
        let LogRow { version, time, author, source, changes } = row;
        // A user's log is that user's.
        let user = source.as_ref().filter(|_| node.kind() == ScopeKind::Application);
        let row = self.insert_log.insert(params![
            node.id,
            version.cast_signed(),
            time.secs(),
            time.nanos(),
            author.as_str(),
            source.as_ref().map(|(id, _, _)| *id),
            user.map(|(_, key, _)| key.user_id.as_str()),
            source.as_ref().map(|(_, key, _)| key.session_id.as_str()),
            source.as_ref().map(|(_, _, sequence)| sequence.cast_signed()),
            removed_text(&changes.remove),
            changes.set.as_ref().map(Json::as_str),
        ])?;
        self.follow(node, TailEntry { version: *version, row, names, event_id: None })
    }

    /// Adds an entry to the end of a node's log, and indexes that end when a step is complete.
    fn follow(&mut self, node: &mut Node, entry: TailEntry) -> rusqlite::Result<()> {
        node.last_rows.push(entry.row);
        let complete = entry.version.is_multiple_of(INDEX_STEP);
        node.weight += entry.weight();
        node.tail.push(entry);
        if complete {
            self.index(node.id, &node.tail)?;
            for indexed in node.tail.drain(..) {
                node.weight = node.weight.saturating_sub(indexed.weight());
            }
        }
        Ok(())
    }

    /// Writes the index entries of rows of a log, beside each other.
    pub(super) fn index(&mut self, node: NodeId, rows: &[TailEntry]) -> rusqlite::Result<()> {
        for row in rows {
            self.insert_log_row.execute((node, row.version.cast_signed(), row.row))?;
        }
        let names = |row: &'_ TailEntry| row.names.len();
        let mut changes = Vec::with_capacity(rows.iter().map(names).sum());
        for row in rows {
            changes.extend(row.names.iter().map(|name| (&**name, row.version)));
        }
        changes.sort_unstable();
        for (name, version) in changes {
            self.insert_change.execute((node, name, version.cast_signed()))?;
        }
        let ids = rows.iter().filter_map(|row| Some((row.event_id.as_deref()?, row.version)));
        let mut ids: Vec<_> = ids.collect();
        ids.sort_unstable();
        for (event_id, sequence) in ids {
            self.insert_event_id.execute((node, event_id, sequence.cast_signed()))?;
        }
        Ok(())
    }
}

/// A number of bytes as it is stored.
pub(super) fn size(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
