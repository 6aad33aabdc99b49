//! The history of a key: how it came to its value, newest first.

use super::{
    Bases, Budget, KeyChange, KeyChangePage, KeyChangeQuery, Node, Read, Rows, log,
    past::snapshot,
    session::{shared, some_keys, visible_from},
};
use crate::{commit::ScopeLogRow, domain::prelude::*};

/// A key's history on its way.
pub struct HistoryRead {
    query: KeyChangeQuery,
    /// Of the earlier steps.
    begun: Option<Begun>,
}

struct Begun {
    life: KeyLife,
    page: KeyChangePage,
    budget: Budget,
    /// The newest version that is left to read; `None`: none of this life.
    left: Option<Version>,
}

/// The life of a scope to which a key belongs.
struct KeyLife {
    node: Node,
    /// The session, if the key is its own.
    own: Option<SessionInfo>,
    /// What an earlier life has left, up to this version, is not read.
    base: Version,
}

impl From<KeyChangeQuery> for HistoryRead {
    fn from(query: KeyChangeQuery) -> Self {
        Self { query, begun: None }
    }
}

impl Read for HistoryRead {
    type Answer = KeyChangePage;

    async fn step<R: Rows>(&mut self, rows: &R) -> Result<Option<KeyChangePage>, Error> {
        let Self { query, begun } = self;
        let (nodes, info) = visible_from(rows, &query.scope).await?;
        let kind = query.key.scope();
        let own = info.filter(|_| kind == Some(ScopeKind::Session));
        let Some(node) = kind.and_then(|kind| nodes.get(kind as usize)) else {
            return Ok(Some(KeyChangePage::empty(Incarnation(0))));
        };
        let (newest, base) = match &own {
            Some(own) => (own.last_sequence, 0),
            None => {
                let head = shared(rows, &nodes).await?[node.kind() as usize];
                (head.version, Bases::of(head.version, head.base))
            }
        };
        let life = KeyLife { node: node.clone(), own, base };
        // If another life has begun since, its history is the answer.
        let begun = match begun {
            Some(begun) if begun.life.is_same(&life) => begun,
            begun => {
                let now = some_keys(rows, &nodes, std::slice::from_ref(&query.key)).await?;
                if now.0.first().is_some_and(|entry| entry.value.is_damaged()) {
                    return Err(Error::damaged_key(&query.key));
                }
                begun.insert(Begun::new(life, query, newest))
            }
        };
        let is_complete = match begun.read(rows, &query.key).await {
            // What lies before the damage is a page. The next one begins with the damage.
            Err(Error::Damaged(..)) if !begun.page.changes.is_empty() => {
                begun.page.more = true;
                true
            }
            is_complete => is_complete?,
        };
        Ok(self.begun.take_if(|_| is_complete).map(|begun| begun.page))
    }
}

impl KeyLife {
    fn incarnation(&self) -> Incarnation {
        self.own.as_ref().map_or(Incarnation(0), |own| own.incarnation)
    }

    fn is_same(&self, other: &Self) -> bool {
        self.incarnation() == other.incarnation() && self.base == other.base
    }

    fn has(&self, version: Version) -> bool {
        self.own.is_some() || version > self.base
    }
}

impl Begun {
    fn new(life: KeyLife, query: &KeyChangeQuery, newest: Version) -> Self {
        let left = match query.before {
            Some(before) => before.checked_sub(1).map(|at| at.min(newest)),
            None => Some(newest),
        };
        let left = left.filter(|at| life.has(*at));
        let page = KeyChangePage::empty(life.incarnation());
        Self { life, page, budget: Budget::new(query.max_items, query.max_bytes), left }
    }

    /// Puts changes of the key on the page. Returns whether that is all of them; otherwise another step follows.
    async fn read<R: Rows>(&mut self, rows: &R, key: &StateKey) -> Result<bool, Error> {
        let Self { life, page, budget, left } = self;
        let KeyLife { node, own, base } = &*life;
        let mut scanned = 0;
        // One snapshot tells the change before it, and serves all the changes that follow it.
        while let Some(mut at) = *left {
            if scanned >= PAGE_SCANNED {
                return Ok(false);
            }
            let (mut past, from) = snapshot(rows, node, *base, at.saturating_sub(1)).await?;
            scanned += 1 + past.len();
            let earlier = past.remove(key.name());
            if let (0, Some(own)) = (at, own) {
                if let Some((value, version)) = earlier {
                    let (commit_time, author) = (own.create_time, Author::from_stored(""));
                    let creation = KeyChange { version, value, commit_time, author, source: None };
                    page.put(creation, budget);
                }
                break;
            }
            // A piece at least, however many names the snapshot has: each step gets on.
            while at > from {
                for row in log::changes(rows, node, (from, at), None, true).await? {
                    at = row.version - 1;
                    // With the page, so that a step that is repeated goes on from here.
                    *left = Some(at);
                    scanned += 1;
                    if let Some(change) = change(key, row, own.as_ref())
                        && !page.put(change, budget)
                    {
                        return Ok(true);
                    }
                }
                if at > from && scanned >= PAGE_SCANNED {
                    return Ok(false);
                }
            }
            *left = earlier.map(|(_, version)| version).filter(|at| life.has(*at));
        }
        Ok(true)
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
