//! Pages of a session's events.

use super::{connection::Tables, log::Log, prelude::*, row};
use crate::store::rows::EVENT_COLUMNS;
pub(super) use crate::store::search::Search;

impl Search {
    /// Goes on reading, in a snapshot in which the session may be gone. `None`: call again.
    pub(super) fn resume(&mut self, tables: &Tables) -> Result<Option<EventPage>> {
        let exists: Option<u8> =
            tables.value("SELECT 1 FROM session WHERE id = ?1", [self.incarnation.0])?;
        match exists {
            Some(_) => self.step(tables),
            None => Err(Error::not_found(&self.key)),
        }
    }

    /// Begins to read, in a snapshot that has the session. `None`: [`Self::resume`] goes on.
    pub(super) fn step(&mut self, tables: &Tables) -> Result<Option<EventPage>> {
        let log = Log::of_session(self.incarnation);
        let visible = tables.visible(log.node, self.limit)?;
        self.begin(&visible);
        for range in self.uncounted(&visible) {
            let is_whole = tables.each_row(log, EVENT_COLUMNS, range, true, |row| {
                let passes = row::passes(row, self.filter())?;
                Ok(self.count(row.get(0)?, passes))
            })?;
            if !is_whole {
                break;
            }
        }
        if !self.end_count() {
            return Ok(None);
        }
        let descending = self.descending();
        for range in self.unread(&visible) {
            let read = tables.each_row(log, EVENT_COLUMNS, range, descending, |row| {
                let sequence = row.get(0)?;
                let event = match row::passes(row, self.filter())? {
                    true => Some(row::event(row, !visible.contains(sequence))?),
                    false => None,
                };
                Ok(self.take(sequence, event))
            });
            if !matches!(read, Ok(true)) {
                return self.end(read);
            }
        }
        self.end(Ok(true))
    }
}
