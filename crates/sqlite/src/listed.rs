//! The order of lists, and the users that changes of an application name.
//!
//! The list indexes have a session at the time in `listed_*`, which an append leaves as it is: a new place there would be three pages
//! more to write. They follow later, for many sessions at once. Until then a session has *moved*, and lists sort it in by the time of
//! its last event. The events of moved sessions are behind `meta.listed_through`, so that nothing has to be remembered elsewhere.
//!
//! `scope_log_user` follows at the same times: the changes that one commit makes for many users would be a page each.

use std::collections::BTreeSet;

use rusqlite::{Transaction, TransactionBehavior};

use super::prelude::*;

/// Events after which the list indexes follow. Each list reads the sessions of that many events, which takes about a millisecond.
pub(super) const UNLISTED_EVENTS: u64 = 1024;

impl Tables {
    /// The events that the list indexes do not follow yet: their number, or more.
    pub(super) fn unlisted(&self) -> Result<u64> {
        let sql = "SELECT max(0, (SELECT coalesce(max(id), 0) FROM event) - listed_through)
            FROM meta WHERE id = 1";
        Ok(self.value(sql, ())?.unwrap_or(0))
    }

    /// The sessions that have moved, as a JSON array of their numbers. An event that cannot be read leaves its session where it was, and
    /// other sessions in their lists.
    pub(super) fn moved(&self) -> Result<String> {
        Ok(self.read_moved()?.0)
    }

    /// The same, and whether all events could be read.
    fn read_moved(&self) -> Result<(String, bool)> {
        let sql = "SELECT session FROM event
            WHERE id > (SELECT listed_through FROM meta WHERE id = 1)";
        let mut moved = BTreeSet::<NodeId>::new();
        let read = self.each(sql, (), |row| {
            moved.insert(row.get(0)?);
            Ok(true)
        });
        let is_whole = match read {
            Ok(_) => true,
            Err(Error::Damaged(..)) => false,
            Err(error) => return Err(error),
        };
        Ok((serde_json::to_string(&moved).unwrap_or_default(), is_whole))
    }

    /// Lets the list indexes follow all events, and `scope_log_user` all changes: the ends of users look at those behind it one by one.
    pub(super) fn follow_events(&self) -> Result<()> {
        match self.follow(true) {
            // Lists go on where changes cannot be read.
            Err(Error::Damaged(..)) => self.follow(false),
            followed => followed,
        }
    }

    fn follow(&self, with_names: bool) -> Result<()> {
        // Before the transaction, because none can be committed after a damaged page.
        let (moved, is_whole) = self.read_moved()?;
        let last = match self.value::<NodeId>("SELECT coalesce(max(id), 0) FROM event", ()) {
            Err(Error::Damaged(..)) => None,
            last => last?,
        };
        let transaction =
            Transaction::new_unchecked(&self.0, TransactionBehavior::Immediate).map_err(driver)?;
        let follow = "UPDATE session SET listed_secs = last_event_secs, listed_nanos = last_event_nanos WHERE";
        let changed = "(listed_secs, listed_nanos) <> (last_event_secs, last_event_nanos)";
        let of_moved = "id IN (SELECT value FROM json_each(?1))";
        match is_whole {
            true => self.run(&format!("{follow} {of_moved}"), [moved])?,
            false => self.run(&format!("{follow} {changed}"), ())?,
        };
        let name = "UPDATE scope_log SET is_named = 1
            WHERE id > (SELECT named_through FROM meta WHERE id = 1) AND source_user IS NOT NULL";
        if with_names {
            self.run(name, ())?;
            let through =
                "UPDATE meta SET named_through = (SELECT coalesce(max(id), 0) FROM scope_log)";
            self.run(through, ())?;
        }
        // Without the last event, lists sort in sessions that need not be.
        self.run("UPDATE meta SET listed_through = coalesce(?1, listed_through)", [last])?;
        transaction.commit().map_err(driver)
    }

    /// Keeps new rows behind `listed_through` and `named_through` where the last ones were removed: their numbers are given out again.
    pub(super) fn lower_listed(&self) -> Result<()> {
        for (column, table) in [("listed_through", "event"), ("named_through", "scope_log")] {
            let last = format!("(SELECT coalesce(max(id), 0) FROM {table})");
            self.run(&format!("UPDATE meta SET {column} = {last} WHERE {column} > {last}"), ())?;
        }
        Ok(())
    }
}
