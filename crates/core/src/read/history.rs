//! The history of a key: how it came to its value, newest first.

use super::{
    Bases, Budget, KeyChange, KeyChangePage, KeyChangeQuery, Node, Read, Rows, log,
    past::snapshot,
    scan::Scan,
    session::{shared, some_keys, visible_from},
};
use crate::{commit::ScopeLogRow, domain::prelude::*};

/// The life of a scope to which a key belongs.
struct KeyLife {
    node: Node,
    /// The session, if the key is its own.
    own: Option<SessionInfo>,
    /// What an earlier life has left, up to this version, is not read.
    base: Version,
}

impl Read for KeyChangeQuery {
    type Answer = KeyChangePage;

    async fn read<R: Rows>(&self, rows: &R) -> Result<KeyChangePage, Error> {
        let (nodes, info) = visible_from(rows, &self.scope).await?;
        let kind = self.key.scope();
        let own = info.filter(|_| kind == Some(ScopeKind::Session));
        let Some(node) = kind.and_then(|kind| nodes.get(kind as usize)) else {
            return Ok(KeyChangePage::empty(Incarnation(0)));
        };
        let (newest, base) = match &own {
            Some(own) => (own.last_sequence, 0),
            None => {
                let head = shared(rows, &nodes).await?[node.kind() as usize];
                (head.version, Bases::of(head.version, head.base))
            }
        };
        let now = some_keys(rows, &nodes, std::slice::from_ref(&self.key)).await?;
        if now.0.first().is_some_and(|entry| entry.value.is_damaged()) {
            return Err(Error::damaged_key(&self.key));
        }
        let mut page =
            KeyChangePage::empty(own.as_ref().map_or(Incarnation(0), |it| it.incarnation));
        page.rest = Some(self.before.map_or(newest + 1, |before| before.min(newest + 1)));
        let life = KeyLife { node: node.clone(), own, base };
        match self.fill(rows, &life, &mut page).await {
            // What lies before the damage is a page. The next one begins with the damage.
            Err(Error::Damaged(..)) if !page.changes.is_empty() => {}
            end => end?,
        }
        Ok(page)
    }
}

impl KeyLife {
    /// The newest version of this life below one.
    fn below(&self, before: Version) -> Option<Version> {
        before.checked_sub(1).filter(|&version| self.own.is_some() || version > self.base)
    }
}

impl KeyChangeQuery {
    /// Puts the changes below the page's rest on it, as far as they fit.
    async fn fill<R: Rows>(
        &self,
        rows: &R,
        life: &KeyLife,
        page: &mut KeyChangePage,
    ) -> Result<(), Error> {
        let KeyLife { node, own, base } = life;
        let mut budget = Budget::new(self.max_items, self.max_bytes);
        let mut scan = Scan::new(rows);
        // One snapshot tells the change before it, and serves all the changes that follow it.
        while let Some(mut at) = page.rest.and_then(|before| life.below(before)) {
            if scan.is_over() {
                return Ok(());
            }
            let (mut past, from) = snapshot(rows, node, *base, at.saturating_sub(1)).await?;
            // It is no row that the page misses.
            scan.look(1 + past.len(), 1 + past.len());
            let earlier = past.remove(self.key.name());
            if let (0, Some(own)) = (at, own) {
                let creation = earlier.map(|(value, version)| {
                    let (commit_time, author) = (own.create_time, Author::from_stored(""));
                    KeyChange { version, value, commit_time, author, source: None }
                });
                if creation.is_none_or(|creation| page.put(creation, &mut budget)) {
                    break;
                }
                return Ok(());
            }
            // A piece at least, however many names the snapshot has: each page gets on.
            while at > from {
                for row in log::changes(rows, node, (from, at), None, true).await? {
                    let version = row.version;
                    let change = change(&self.key, row, own.as_ref());
                    scan.look(1, usize::from(change.is_some()));
                    if change.is_some_and(|change| !page.put(change, &mut budget)) {
                        return Ok(());
                    }
                    at = version - 1;
                    page.rest = Some(version);
                }
                if at > from && scan.is_over() {
                    return Ok(());
                }
            }
            page.rest = earlier.map(|(_, version)| version + 1);
        }
        page.rest = None;
        Ok(())
    }
}

/// What a row changed of a key.
fn change(key: &StateKey, row: ScopeLogRow, own: Option<&SessionInfo>) -> Option<KeyChange> {
    let ScopeLogRow { version, commit_time, author, source, changes } = row;
    let (_, value) = changes.results().find(|(changed, _)| changed == key)?;
    let source = match own {
        Some(own) => Some((own.key.clone(), version)),
        None => source.map(|source| (source.key, source.sequence)),
    };
    Some(KeyChange { version, value, commit_time, author, source })
}
