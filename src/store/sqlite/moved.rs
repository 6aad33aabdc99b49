//! Keeping the lists of sessions: a session in use leaves its place in the indexes once, not with every event.
//!
//! Its number goes into `moved`, and lists read where it really belongs from its newest event. Only when too many have moved are
//! those that moved first given their new places.

use std::collections::VecDeque;

use rusqlite::Connection;

use super::{fault::Outcome, find::lost, schema::NodeId, writer::Writer};

/// Sessions that may have moved: every list reads all of them, at a microsecond or two each.
const MOVED_MAX: usize = 512;

/// A session that is not where the indexes have it.
#[derive(Clone, Copy, Debug)]
pub(super) struct MovedSession {
    app: NodeId,
    user: NodeId,
    session: NodeId,
}

pub(super) fn load(connection: &Connection) -> rusqlite::Result<VecDeque<MovedSession>> {
    let mut statement = connection.prepare("SELECT app_scope, user_scope, session FROM moved")?;
    let rows = statement.query_map((), |row| {
        Ok(MovedSession { app: row.get(0)?, user: row.get(1)?, session: row.get(2)? })
    })?;
    rows.collect()
}

impl Writer<'_> {
    /// Notes that an open session's last event is not where the lists' indexes have it.
    pub(super) fn mark_moved(&mut self, id: NodeId) -> Outcome<()> {
        let live = self.cache.live(id).ok_or_else(lost)?;
        if live.moved {
            return Ok(());
        }
        live.moved = true;
        let moved = MovedSession { app: live.found.app, user: live.found.user, session: id };
        self.writes.insert_moved.execute((moved.app, moved.user, moved.session))?;
        self.moved.push_back(moved);
        while self.moved.len() > MOVED_MAX {
            let Some(first) = self.moved.pop_front() else {
                break;
            };
            self.settle(first)?;
        }
        Ok(())
    }

    /// Gives a session that moved its place in the indexes.
    fn settle(&mut self, moved: MovedSession) -> Outcome<()> {
        let MovedSession { app, user, session } = moved;
        if self.writes.delete_moved.execute((app, user, session))? == 0 {
            // It was deleted in the meantime.
            return Ok(());
        }
        let time = match self.cache.live(session) {
            Some(live) => {
                live.moved = false;
                Some(live.found.info.last_event_time)
            }
            None => self.reads.session_of(session)?.map(|found| found.info.last_event_time),
        };
        if let Some(time) = time {
            self.writes.list_session.execute((session, time.secs(), time.nanos()))?;
        }
        Ok(())
    }
}
