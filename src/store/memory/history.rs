//! Reads of what changed: the history of a key, and what follows a position.

use super::{
    scope::{ScopeRecord, results},
    world::{Log, World},
};
use crate::{
    commit::{EventRow, ScopeLogRow},
    domain::{
        delta,
        error::Error,
        event::Event,
        id::Author,
        json::Json,
        limits::PAGE_SCANNED,
        scope::{Scope, ScopeKind},
        session::Incarnation,
    },
    store::{Budget, KeyChange, KeyChangePage, KeyChangeQuery, ScopeChange, WatchPage, WatchQuery},
};

impl World {
    pub(super) fn list_key_changes(&self, query: &KeyChangeQuery) -> Result<KeyChangePage, Error> {
        let session = self.session_of(&query.scope)?;
        let kind = query.key.scope();
        let own = session.filter(|_| kind == Some(ScopeKind::Session));
        let incarnation = own.map_or(Incarnation(0), |own| own.incarnation);
        let mut page = KeyChangePage { changes: Vec::new(), more: false, incarnation };
        let scopes = self.visible(&query.scope, session);
        let Some(scope) = kind.and_then(|kind| scopes[kind as usize]) else {
            return Ok(page);
        };
        let changes = scope.changes(query.key.name());
        let end = changes
            .partition_point(|(version, _)| query.before.is_none_or(|before| *version < before));
        let mut budget = Budget::new(query.max_items, query.max_bytes);
        for (version, value) in changes[..end].iter().rev() {
            if !budget.take(value.as_ref().map_or(0, Json::len)) {
                page.more = true;
                break;
            }
            let (version, value) = (*version, value.clone());
            let (commit_time, author, source) = match own {
                None => match scope.row(version) {
                    None => continue,
                    Some(ScopeLogRow { commit_time, author, source, .. }) => {
                        let source = source.as_ref().map(|it| (it.key.clone(), it.sequence));
                        (*commit_time, author.clone(), source)
                    }
                },
                Some(own) => match self.log(own.incarnation).event(version) {
                    // Version 0 is the creation.
                    None => (own.create_time, Author::from_stored(""), None),
                    Some(EventRow { event, .. }) => {
                        (event.commit_time, event.author.clone(), Some((own.key.clone(), version)))
                    }
                },
            };
            page.changes.push(KeyChange { version, value, commit_time, author, source });
        }
        Ok(page)
    }

    pub(super) fn read_changes(&self, query: &WatchQuery) -> Result<WatchPage, Error> {
        let session = self.session_of(&query.scope)?;
        if let (Scope::Session(key), Some(session)) = (&query.scope, session)
            && session.incarnation != query.position.incarnation
        {
            return Err(Error::not_found(key));
        }
        let mut budget = Budget::new(query.max_items, query.max_bytes);
        let mut page = WatchPage {
            events: Vec::new(),
            changes: Vec::new(),
            position: query.position,
            complete: true,
            expire_time: session.and_then(|session| session.expire_time),
        };
        let own = session.map(|session| session.incarnation);
        // Changes of wider scopes come when no event is left: those that events overwrote are not sent.
        if let Some(own) = own {
            page.complete = self.log(own).follow(&mut page, &mut budget);
        }
        let [application, user, _] = self.visible(&query.scope, session);
        for (kind, scope) in [(ScopeKind::Application, application), (ScopeKind::User, user)] {
            if let (Some(scope), true) = (scope, page.complete) {
                page.complete = scope.follow(kind, own, &mut page, &mut budget);
            }
        }
        Ok(page)
    }
}

impl Log {
    /// Takes the events after a position. Returns whether none is left.
    fn follow(&self, page: &mut WatchPage, budget: &mut Budget) -> bool {
        let visible = self.visible(self.events.len() as u64);
        for row in self.between(page.position.sequence, self.events.len() as u64) {
            let event = &row.event;
            if !budget.take(event.bytes()) {
                return false;
            }
            page.position.sequence = event.sequence;
            let rewound = !visible.contains(event.sequence);
            page.events.push(Event { rewound, ..Event::clone(event) });
        }
        true
    }
}

impl ScopeRecord {
    /// Takes the changes after a position that are still the newest of their keys, except those that the session `own` made. Returns
    /// whether none is left.
    fn follow(
        &self,
        kind: ScopeKind,
        own: Option<Incarnation>,
        page: &mut WatchPage,
        budget: &mut Budget,
    ) -> bool {
        let versions = &mut page.position.versions;
        let position = match kind {
            ScopeKind::Application => &mut versions.application,
            ScopeKind::User | ScopeKind::Session => &mut versions.user,
        };
        for _ in 0..PAGE_SCANNED {
            let version = position.saturating_add(1);
            let Some(row) = self.row(version) else {
                return true;
            };
            let is_own = row.source.as_ref().is_some_and(|source| Some(source.incarnation) == own);
            let newest = |name: &str| self.changes(name).last().map(|(version, _)| *version);
            let mut kept = if is_own { Vec::new() } else { results(&row.changes) };
            kept.retain(|(key, _)| newest(key.name()) == Some(version));
            if !kept.is_empty() {
                let (changes, commit_time) = (delta::changes(kept.iter()), row.commit_time);
                if !budget.take(changes.text_len()) {
                    return false;
                }
                page.changes.push(ScopeChange { scope: kind, version, changes, commit_time });
            }
            *position = version;
        }
        false
    }
}
