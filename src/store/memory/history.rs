//! Reads of what changed: how a key came to its value, and what follows a position.

use super::{room::Room, session::Session, wide::Wide, world::World};
use crate::{
    domain::{
        Version, delta,
        error::Error,
        event::{Changes, Event},
        id::Author,
        json::Json,
        limits::PAGE_SCANNED,
        scope::{Scope, ScopeKind, StateKey},
        session::Incarnation,
    },
    store::{KeyChange, KeyChangePage, KeyChangeQuery, ScopeChange, WatchPage, WatchQuery},
};

impl World {
    pub(super) fn list_key_changes(&self, query: &KeyChangeQuery) -> Result<KeyChangePage, Error> {
        let session = self.session_of(&query.scope, query.now)?;
        let kind = query.key.scope();
        let own = session.filter(|_| kind == Some(ScopeKind::Session));
        let wide = kind.and_then(|kind| self.wides.get(&query.scope, kind));
        let keys = own.map(|own| &own.keys).or_else(|| wide.map(|wide| &wide.keys));
        let changes = keys.map_or(&[][..], |keys| keys.changes(query.key.name()));
        let end = match query.before {
            None => changes.len(),
            Some(before) => changes.partition_point(|change| change.version < before),
        };
        let mut room = Room::new(query.max_items, query.max_bytes);
        let mut page = KeyChangePage {
            changes: Vec::new(),
            more: false,
            incarnation: own.map_or(Incarnation(0), |own| own.info.incarnation),
        };
        for change in changes[..end].iter().rev() {
            let value = change.value.as_deref();
            if !room.take(value.map_or(0, Json::len)) {
                page.more = true;
                break;
            }
            let (version, value) = (change.version, value.cloned());
            page.changes.extend(match own {
                Some(own) => Some(own.key_change(version, value)),
                None => wide.and_then(|wide| wide.key_change(version, value)),
            });
        }
        Ok(page)
    }

    pub(super) fn read_changes(&self, query: &WatchQuery) -> Result<WatchPage, Error> {
        let session = self.session_of(&query.scope, query.now)?;
        if let (Scope::Session(key), Some(session)) = (&query.scope, session)
            && session.info.incarnation != query.position.incarnation
        {
            return Err(Error::not_found(key));
        }
        let mut room = Room::new(query.max_items, query.max_bytes);
        let mut page = WatchPage {
            events: Vec::new(),
            changes: Vec::new(),
            position: query.position,
            complete: false,
            expire_time: session.and_then(|session| session.info.expire_time),
        };
        page.complete = session.is_none_or(|session| session.follow(&mut page, &mut room));
        let own = session.map(|session| session.info.incarnation);
        let versions = &mut page.position.versions;
        for (kind, position) in [
            (ScopeKind::Application, &mut versions.application),
            (ScopeKind::User, &mut versions.user),
        ] {
            if let Some(wide) = self.wides.get(&query.scope, kind)
                && page.complete
            {
                page.complete = wide.follow(kind, own, position, &mut page.changes, &mut room);
            }
        }
        Ok(page)
    }
}

impl Session {
    /// How one of its own keys changed. Version 0 is the creation.
    fn key_change(&self, version: Version, value: Option<Json>) -> KeyChange {
        let event = self.event(version);
        KeyChange {
            version,
            value,
            commit_time: event.map_or(self.info.create_time, |event| event.commit_time),
            author: event.map_or_else(|| Author::from_stored(""), |event| event.author.clone()),
            source: event.map(|event| (self.info.key.clone(), event.sequence)),
        }
    }

    /// Takes the events behind a position; whether none is left.
    fn follow(&self, page: &mut WatchPage, room: &mut Room) -> bool {
        let visible = self.visible(self.info.last_sequence);
        while let Some(event) = self.event(page.position.sequence.saturating_add(1)) {
            if !room.take(event.bytes()) {
                return false;
            }
            page.position.sequence = event.sequence;
            page.events
                .push(Event { rewound: !visible.contains(event.sequence), ..Event::clone(event) });
        }
        true
    }
}

impl Wide {
    /// How one of its keys changed.
    fn key_change(&self, version: Version, value: Option<Json>) -> Option<KeyChange> {
        let stamp = &self.row(version)?.stamp;
        let source = stamp.source.as_ref();
        Some(KeyChange {
            version,
            value,
            commit_time: stamp.commit_time,
            author: stamp.author.clone(),
            source: source.map(|source| (source.session.clone(), source.sequence)),
        })
    }

    /// Takes the changes behind a position that are still the newest of their keys, but for those that the session `own` made by
    /// itself; whether none is left.
    fn follow(
        &self,
        kind: ScopeKind,
        own: Option<Incarnation>,
        position: &mut Version,
        changes: &mut Vec<ScopeChange>,
        room: &mut Room,
    ) -> bool {
        let mut scanned = 0;
        while let Some(row) = self.row(position.saturating_add(1)) {
            if scanned == PAGE_SCANNED {
                return false;
            }
            let version = *position + 1;
            let source = row.stamp.source.as_ref();
            let by_itself = source.is_some_and(|source| Some(source.incarnation) == own);
            let newest = match by_itself {
                true => Changes::default(),
                false => self.newest(&row.names, kind, version),
            };
            if !newest.is_empty() {
                if !room.take(newest.text_len()) {
                    return false;
                }
                changes.push(ScopeChange {
                    scope: kind,
                    version,
                    changes: newest,
                    commit_time: row.stamp.commit_time,
                });
            }
            *position = version;
            scanned += 1;
        }
        true
    }

    /// What these keys became by a change, as far as nothing has changed them since.
    fn newest(&self, names: &[String], kind: ScopeKind, version: Version) -> Changes {
        let newest = names.iter().filter_map(|name| {
            let last = self.keys.changes(name).last()?;
            let key = StateKey::in_scope(kind, name);
            (last.version == version).then(|| (key, last.value.as_deref().cloned()))
        });
        delta::changes(&newest.collect::<Vec<_>>())
    }
}
