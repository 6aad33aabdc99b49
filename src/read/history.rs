//! The history of a key: how it came to its value, newest first.

use super::{
    Bases, Budget, KeyChange, KeyChangePage, KeyChangeQuery, Read, Rows, log,
    past::snapshot,
    session::{shared, some_keys, visible_from},
};
use crate::{commit::ScopeLogRow, domain::prelude::*};

impl Read for KeyChangeQuery {
    type Answer = KeyChangePage;

    async fn step<R: Rows>(&mut self, rows: &R) -> Result<Option<KeyChangePage>, Error> {
        let (nodes, info) = visible_from(rows, &self.scope).await?;
        let kind = self.key.scope();
        let own = info.filter(|_| kind == Some(ScopeKind::Session));
        let incarnation = own.as_ref().map_or(Incarnation(0), |own| own.incarnation);
        let mut page = KeyChangePage { changes: Vec::new(), more: false, incarnation };
        let Some(node) = kind.and_then(|kind| nodes.get(kind as usize)) else {
            return Ok(Some(page));
        };
        let now = some_keys(rows, &nodes, std::slice::from_ref(&self.key)).await?;
        if now.0.first().is_some_and(|entry| entry.value.is_damaged()) {
            return Err(Error::damaged_key(&self.key));
        }
        // What an earlier life has left is not read.
        let (newest, base) = match &own {
            Some(own) => (own.last_sequence, 0),
            None => {
                let head = shared(rows, &nodes).await?[node.kind() as usize];
                (head.version, Bases::of(head.version, head.base))
            }
        };
        let mut budget = Budget::new(self.max_items, self.max_bytes);
        // One snapshot tells the change before it, and serves all the changes that follow it.
        let mut left = match self.before {
            Some(before) => before.checked_sub(1).map(|at| at.min(newest)),
            None => Some(newest),
        };
        let is_of_life = |at: &Version| own.is_some() || *at > base;
        left = left.filter(is_of_life);
        while let Some(mut at) = left {
            let (mut past, from) = snapshot(rows, node, base, at.saturating_sub(1)).await?;
            let earlier = past.remove(self.key.name());
            if let (0, Some(own)) = (at, &own) {
                if let Some((value, version)) = earlier {
                    let (commit_time, author) = (own.create_time, Author::from_stored(""));
                    let creation = KeyChange { version, value, commit_time, author, source: None };
                    page.put(creation, &mut budget);
                }
                break;
            }
            while at > from && !page.more {
                for row in log::changes(rows, node, (from, at), None, true).await? {
                    at = row.version - 1;
                    if let Some(change) = self.change(row, own.as_ref())
                        && !page.put(change, &mut budget)
                    {
                        break;
                    }
                }
            }
            left = earlier.map(|(_, version)| version).filter(is_of_life).filter(|_| !page.more);
        }
        Ok(Some(page))
    }
}

impl KeyChangeQuery {
    /// What a row changed of the key.
    fn change(&self, row: ScopeLogRow, own: Option<&SessionInfo>) -> Option<KeyChange> {
        let ScopeLogRow { version, commit_time, author, source, changes } = row;
        let (_, value) = changes.results().find(|(changed, _)| *changed == self.key)?;
        let source = match own {
            Some(own) => Some((own.key.clone(), version)),
            None => source.map(|source| (source.key, source.sequence)),
        };
        Some(KeyChange { version, value, commit_time, author, source })
    }
}
