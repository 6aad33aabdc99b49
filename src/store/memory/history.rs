//! Reads of what changed: the history of a key, and what follows a position.

use super::{
    scope::{KeyVersion, ScopeRecord},
    session::Session,
    world::World,
};
use crate::{
    domain::{
        Sequence, Version, delta,
        error::Error,
        event::{Changes, Event},
        id::Author,
        json::Json,
        limits::PAGE_SCANNED,
        scope::{Scope, ScopeKind, SessionKey, StateKey},
        session::Incarnation,
        time::Time,
    },
    store::{
        KeyChange, KeyChangePage, KeyChangeQuery, ScopeChange, WatchPage, WatchQuery,
        budget::Budget,
    },
};

impl World {
    pub(super) fn list_key_changes(&self, query: &KeyChangeQuery) -> Result<KeyChangePage, Error> {
        let session = self.session_of(&query.scope)?;
        let kind = query.key.scope();
        let own = session.filter(|_| kind == Some(ScopeKind::Session));
        let incarnation = own.map_or(Incarnation(0), |own| own.info.incarnation);
        let mut page = KeyChangePage { changes: Vec::new(), more: false, incarnation };
        let Some(scope) = kind.and_then(|kind| self.visible(&query.scope, session).scope(kind))
        else {
            return Ok(page);
        };
        let changes = scope.changes(query.key.name());
        let is_before = |change: &KeyVersion| query.before.is_none_or(|it| change.version < it);
        let end = changes.partition_point(is_before);
        let mut budget = Budget::new(query.max_items, query.max_bytes);
        for KeyVersion { version, value } in changes[..end].iter().rev() {
            if !budget.take(value.as_deref().map_or(0, Json::len)) {
                page.more = true;
                break;
            }
            let origin = match own {
                Some(own) => Some(own.origin(*version)),
                None => scope.origin(*version),
            };
            page.changes.extend(origin.map(|(commit_time, author, source)| KeyChange {
                version: *version,
                value: value.as_deref().cloned(),
                commit_time,
                author,
                source,
            }));
        }
        Ok(page)
    }

    pub(super) fn read_changes(&self, query: &WatchQuery) -> Result<WatchPage, Error> {
        let session = self.session_of(&query.scope)?;
        if let (Scope::Session(key), Some(session)) = (&query.scope, session)
            && session.info.incarnation != query.position.incarnation
        {
            return Err(Error::not_found(key));
        }
        let mut budget = Budget::new(query.max_items, query.max_bytes);
        let mut page = WatchPage {
            events: Vec::new(),
            changes: Vec::new(),
            position: query.position,
            complete: false,
            expire_time: session.and_then(|session| session.info.expire_time),
        };
        // Changes of wider scopes come when no event is left: those that events overwrote are not sent.
        page.complete = session.is_none_or(|session| session.follow(&mut page, &mut budget));
        let own = session.map(|session| session.info.incarnation);
        let visible = self.visible(&query.scope, session);
        let versions = &mut page.position.versions;
        for (kind, position) in [
            (ScopeKind::Application, &mut versions.application),
            (ScopeKind::User, &mut versions.user),
        ] {
            if let Some(scope) = visible.scope(kind)
                && page.complete
            {
                page.complete = scope.follow(kind, own, position, &mut page.changes, &mut budget);
            }
        }
        Ok(page)
    }
}

/// When and by whom a version was made, and by which event.
type Origin = (Time, Author, Option<(SessionKey, Sequence)>);

impl Session {
    /// Of a version of its own state. Version 0 is the creation.
    fn origin(&self, version: Version) -> Origin {
        let key = &self.info.key;
        match self.log.event(version) {
            None => (self.info.create_time, Author::from_stored(""), None),
            Some(event) => (event.commit_time, event.author.clone(), Some((key.clone(), version))),
        }
    }

    /// Takes the events after a position. Returns whether none is left.
    fn follow(&self, page: &mut WatchPage, budget: &mut Budget) -> bool {
        let visible = self.log.visible(self.info.last_sequence);
        while let Some(event) = self.log.event(page.position.sequence.saturating_add(1)) {
            if !budget.take(event.bytes()) {
                return false;
            }
            page.position.sequence = event.sequence;
            page.events
                .push(Event { rewound: !visible.contains(event.sequence), ..Event::clone(event) });
        }
        true
    }
}

impl ScopeRecord {
    /// Of a version of an application or a user.
    fn origin(&self, version: Version) -> Option<Origin> {
        let row = self.row(version)?;
        let source = row.source.as_ref().map(|source| (source.key.clone(), source.sequence));
        Some((row.commit_time, row.author.clone(), source))
    }

    /// Takes the changes after a position that are still the newest of their keys, except those that the session `own` made. Returns
    /// whether none is left.
    fn follow(
        &self,
        kind: ScopeKind,
        own: Option<Incarnation>,
        position: &mut Version,
        changes: &mut Vec<ScopeChange>,
        budget: &mut Budget,
    ) -> bool {
        for _ in 0..PAGE_SCANNED {
            let version = position.saturating_add(1);
            let Some(row) = self.row(version) else {
                return true;
            };
            let is_own = row.source.as_ref().is_some_and(|source| Some(source.incarnation) == own);
            let newest = match is_own {
                true => Changes::default(),
                false => self.newest(&row.keys, version),
            };
            if !newest.is_empty() {
                if !budget.take(newest.text_len()) {
                    return false;
                }
                let commit_time = row.commit_time;
                changes.push(ScopeChange { scope: kind, version, changes: newest, commit_time });
            }
            *position = version;
        }
        false
    }

    /// The part of a change that nothing has changed since.
    fn newest(&self, keys: &[StateKey], version: Version) -> Changes {
        let newest = keys.iter().filter_map(|key| {
            let last = self.changes(key.name()).last()?;
            (last.version == version).then(|| (key.clone(), last.value.as_deref().cloned()))
        });
        delta::changes(newest.collect::<Vec<_>>().iter())
    }
}
