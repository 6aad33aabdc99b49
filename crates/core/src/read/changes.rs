//! A page of a watch: what follows a position.

use futures_util::future::{join, try_join};

use super::{
    Bases, Budget, Node, PIECE_ROWS, Read, Rows, ScopeChange, ScopeHead, WatchPage, WatchQuery,
    first_of, log,
    scan::Scan,
    session::{shared, visible_from},
};
use crate::domain::{delta::changes, prelude::*};

impl Read for WatchQuery {
    type Answer = WatchPage;

    async fn read<R: Rows>(&self, rows: &R) -> Result<WatchPage, Error> {
        let (nodes, info) = visible_from(rows, &self.scope).await?;
        if let Some(info) = &info
            && info.incarnation != self.position.incarnation
        {
            return Err(Error::not_found(&info.key));
        }
        let mut page = WatchPage {
            events: Vec::new(),
            changes: Vec::new(),
            position: self.position,
            complete: true,
            expire_time: info.as_ref().and_then(|info| info.expire_time),
            bases: Bases(ScopeVersions::default()),
        };
        let mut budget = Budget::new(self.max_items, self.max_bytes);
        let last = info.as_ref().map_or(0, |info| info.last_sequence);
        if self.position.sequence > last {
            return Err(Error::cursor_ahead());
        }
        let own = info.map(|info| info.incarnation);
        let events = async {
            match nodes.get(ScopeKind::Session as usize) {
                Some(session) if self.position.sequence < last => {
                    let followed = follow_events(rows, session, last, &mut page, &mut budget).await;
                    page.end_before_damage(followed)
                }
                _ => Ok(()),
            }
        };
        let ((), heads) = try_join(events, shared(rows, &nodes)).await?;
        page.bases = Bases::of_heads(heads);
        let [application, user] = heads.map(|head| head.version);
        if self.position.versions.are_ahead(ScopeVersions { application, user }) {
            return Err(Error::cursor_ahead());
        }
        // Changes of shared scopes come when no event is left: those that events overwrote are not sent.
        for (node, ScopeHead { version, .. }) in nodes.iter().zip(heads) {
            if page.complete {
                let followed = follow_changes(rows, node, version, own, &mut page, &mut budget);
                let followed = followed.await;
                page.end_before_damage(followed)?;
            }
        }
        Ok(page)
    }
}

impl WatchPage {
    /// What lies before damage is a page. The next one begins with the damage.
    fn end_before_damage(&mut self, followed: Result<(), Error>) -> Result<(), Error> {
        let is_empty = self.events.is_empty() && self.changes.is_empty();
        if is_empty || !matches!(followed, Err(Error::Damaged(..))) {
            return followed;
        }
        self.complete = false;
        Ok(())
    }
}

/// Puts the events after the page's position on it, as far as they fit.
async fn follow_events<R: Rows>(
    rows: &R,
    session: &Node,
    last: Sequence,
    page: &mut WatchPage,
    budget: &mut Budget,
) -> Result<(), Error> {
    let begin = page.position.sequence;
    let read = async {
        while page.position.sequence < last {
            let (items_left, bytes_left) = budget.left();
            let max_rows = PIECE_ROWS.min(items_left.saturating_add(1));
            let wanted = first_of(&[(page.position.sequence, last)], false, max_rows);
            for event in log::events(rows, session, &wanted, bytes_left).await? {
                if !budget.take(event.bytes()) {
                    page.complete = false;
                    return Ok(());
                }
                page.position.sequence = event.sequence;
                page.events.push(event);
            }
        }
        Ok(())
    };
    let mut visible = Visible::as_of(last);
    let found = log::find_visible(rows, session, &mut visible, (begin, last), u64::MAX);
    let (found, read) = join(found, read).await;
    // Without the markers, no event is known to be visible.
    found.inspect_err(|_| page.events.clear())?;
    for event in &mut page.events {
        event.rewound = !visible.contains(event.sequence);
    }
    read
}

/// Puts the changes of a shared scope behind the page's position on it, up to its version, as far as they fit: those that are still the
/// newest of their keys, and were not made by the session `own`.
async fn follow_changes<R: Rows>(
    rows: &R,
    node: &Node,
    last: Version,
    own: Option<Incarnation>,
    page: &mut WatchPage,
    budget: &mut Budget,
) -> Result<(), Error> {
    let kind = node.kind();
    let versions = &mut page.position.versions;
    let (at, base) = match kind {
        ScopeKind::Application => (&mut versions.application, page.bases.0.application),
        ScopeKind::User | ScopeKind::Session => (&mut versions.user, page.bases.0.user),
    };
    if *at < last {
        *at = (*at).max(base);
    }
    let mut scan = Scan::new(rows);
    while *at < last {
        let found = log::changes(rows, node, (*at, last), own, false).await?;
        let results: Vec<Vec<KeyResult>> =
            found.iter().map(|row| row.changes.results().collect()).collect();
        let mut names: Vec<&str> = results.iter().flatten().map(|(key, _)| key.name()).collect();
        names.sort_unstable();
        names.dedup();
        let newest = rows.newest(node, &names).await?;
        for (row, results) in found.iter().zip(&results) {
            if scan.is_over() {
                page.complete = false;
                return Ok(());
            }
            let is_newest = |(key, _): &&KeyResult| newest.get(key.name()) == Some(&row.version);
            let changes: Changes = changes(results.iter().filter(is_newest));
            // Each key was looked up, which counts as a row.
            let looked_at = 1 + results.len();
            scan.look(looked_at, if changes.is_empty() { 0 } else { looked_at });
            if !changes.is_empty() {
                if !budget.take(changes.text_len()) {
                    page.complete = false;
                    return Ok(());
                }
                let (version, commit_time) = (row.version, row.commit_time);
                page.changes.push(ScopeChange { scope: kind, version, changes, commit_time });
            }
            *at = row.version;
        }
    }
    Ok(())
}
