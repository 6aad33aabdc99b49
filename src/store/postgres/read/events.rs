//! Pages of a session's events.

use super::{
    super::{
        columns::Columns,
        log::{PIECE_ROWS, first_of, rows},
        node::Node,
        prelude::*,
        row::{self, number},
    },
    pool::Reader,
};
use crate::store::{rows::EVENT_COLUMNS, search::Search};

/// Rows that one statement looks at for a filter: it reads short columns only.
const FILTERED_ROWS: usize = 2000;

/// The columns of [`EVENT_COLUMNS`] that filters look at, in their places.
const FILTER_COLUMNS: &str = "sequence, NULL, invocation_id, author, NULL, event_secs, event_nanos";

impl Reader<'_> {
    /// Goes on with a search in another snapshot. `None`: call again.
    pub(in super::super) async fn continue_events(
        &self,
        search: &mut Search,
    ) -> Result<Option<EventPage>, Error> {
        let Search { key, incarnation, .. } = &*search;
        let sql = "SELECT 1 FROM session
            WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND incarnation = $4";
        let exists =
            Columns::new(sql).address(key).number(incarnation.0).all(self.connection).await?;
        if exists.is_empty() {
            return Err(Error::not_found(key));
        }
        self.read_events(search).await
    }

    /// Goes on with a search of a session that is there. `None`: call again.
    pub(super) async fn read_events(
        &self,
        search: &mut Search,
    ) -> Result<Option<EventPage>, Error> {
        let node = Node::session(&search.key, search.incarnation);
        let visible = self.visible(&node, search.limit).await?;
        search.begin(&visible);
        let mut counts = true;
        while counts {
            let wanted = first_of(&search.uncounted(&visible), true, FILTERED_ROWS);
            let filtered = self.filter(&node, &wanted, search.filter()).await?;
            counts = !wanted.is_empty()
                && filtered.into_iter().all(|(sequence, passes)| search.count(sequence, passes));
        }
        if !search.end_count() {
            return Ok(None);
        }
        let read = self.fill(search, &node, &visible).await;
        search.end(read)
    }

    /// Fills the page. Returns whether nothing is left for it.
    async fn fill(
        &self,
        search: &mut Search,
        node: &Node,
        visible: &Visible,
    ) -> Result<bool, Error> {
        loop {
            let (items_left, bytes_left) = search.left();
            let piece_rows = PIECE_ROWS.min(items_left.saturating_add(1));
            let max_rows = if search.all_pass() { piece_rows } else { FILTERED_ROWS };
            let wanted = first_of(&search.unread(visible), search.descending(), max_rows);
            if wanted.is_empty() {
                return Ok(true);
            }
            let filtered = match search.all_pass() {
                true => wanted.into_iter().map(|sequence| (sequence, true)).collect(),
                false => self.filter(node, &wanted, search.filter()).await?,
            };
            let passing = filtered.iter().filter(|(_, passes)| *passes);
            let passing: Vec<_> = passing.map(|(at, _)| *at).take(piece_rows).collect();
            let max_bytes = Some(bytes_left);
            let found = rows(self.connection, node, EVENT_COLUMNS, &passing, max_bytes).await?;
            let mut found = found.iter();
            for (sequence, passes) in filtered {
                let event = match passes {
                    true => match found.next() {
                        Some(row) => Some(row::event(row, 0, !visible.contains(sequence))?),
                        // The others are another piece.
                        None => break,
                    },
                    false => None,
                };
                if !search.take(sequence, event) {
                    return Ok(false);
                }
            }
        }
    }

    /// Which of some events pass a filter, rewinds aside.
    async fn filter(
        &self,
        node: &Node,
        wanted: &[Sequence],
        filter: &EventFilter,
    ) -> Result<Vec<(Sequence, bool)>, Error> {
        let found = rows(self.connection, node, FILTER_COLUMNS, wanted, None).await?;
        found.iter().map(|row| Ok((number(row, 0)?, row::passes(row, filter)?))).collect()
    }
}
