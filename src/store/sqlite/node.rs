//! What the writer keeps in memory of one scope: where its log ends, and the keys that were needed.

use std::collections::BTreeMap;

use super::{
    head::LastRows,
    history::{Log, TailEntry},
    schema::NodeId,
    statements::Reads,
};
use crate::domain::{
    Version,
    delta::KeyResult,
    error::Error,
    json::{Json, text_bytes},
    limits::SCOPE_BYTES,
    scope::{Scope, ScopeKind, StateKey},
    session::StateEntry,
};

/// Bytes that a key takes in memory beside its name and its value.
const KEY_OVERHEAD: usize = 96;

/// An application, a user or a life of a session, as its log leaves it. The rows of its keys are written at the end of a group.
pub(super) struct Node {
    pub(super) id: NodeId,
    pub(super) scope: Scope,
    pub(super) version: Version,
    pub(super) bytes: usize,
    /// The end of the log that is not indexed yet.
    pub(super) tail: Vec<TailEntry>,
    /// Where the log's last rows lie.
    pub(super) last_rows: LastRows,
    /// Up to which version the database has its head.
    pub(super) stored_version: Version,
    /// Bytes in memory, about.
    pub(super) weight: usize,
    keys: BTreeMap<Box<str>, Key>,
    /// Whether a key that is not in `keys` has no value.
    complete: bool,
    dirty: Vec<Box<str>>,
}

#[derive(Clone)]
struct Key {
    current: Option<(Json, Version)>,
    /// Whether the database has something else.
    dirty: bool,
}

impl Key {
    fn weight(&self) -> usize {
        KEY_OVERHEAD + self.current.as_ref().map_or(0, |(value, _)| value.len())
    }
}

/// How to take back what one command did to a node.
pub(super) struct Undo {
    kind: ScopeKind,
    name: Box<str>,
    before: Option<Key>,
}

impl Node {
    /// A node whose state has this size, without its log. `is_new`: the database has no keys of it.
    pub(super) fn new(id: NodeId, scope: Scope, bytes: usize, is_new: bool) -> Self {
        Self {
            id,
            scope,
            version: 0,
            bytes,
            tail: Vec::new(),
            last_rows: LastRows::default(),
            stored_version: 0,
            weight: 512,
            keys: BTreeMap::new(),
            complete: is_new,
            dirty: Vec::new(),
        }
    }

    pub(super) fn kind(&self) -> ScopeKind {
        self.scope.kind()
    }

    pub(super) fn head(&self) -> (Version, usize) {
        (self.version, self.bytes)
    }

    pub(super) fn log(&self) -> Log {
        Log { node: self.id, kind: self.kind(), version: self.version }
    }

    /// A key's value and version now.
    pub(super) fn value(
        &mut self,
        reads: &mut Reads<'_>,
        name: &str,
    ) -> rusqlite::Result<Option<&(Json, Version)>> {
        if !self.complete && !self.keys.contains_key(name) {
            let current = reads.value(self.id, name)?;
            self.remember(name, Key { current, dirty: false });
        }
        Ok(self.keys.get(name).and_then(|key| key.current.as_ref()))
    }

    /// Gives a key its new value, and says how to take it back.
    pub(super) fn put(&mut self, name: &str, value: Option<Json>, version: Version) -> Undo {
        let current = value.map(|value| (value, version));
        let before = self.remember(name, Key { current, dirty: true });
        if before.as_ref().is_none_or(|key| !key.dirty) {
            self.dirty.push(name.into());
        }
        Undo { kind: self.kind(), name: name.into(), before }
    }

    fn undo(&mut self, undo: Undo) {
        match undo.before {
            Some(key) => drop(self.remember(&undo.name, key)),
            None => drop(self.keys.remove(&undo.name)),
        }
    }

    fn remember(&mut self, name: &str, key: Key) -> Option<Key> {
        self.weight += key.weight();
        if let Some(known) = self.keys.get_mut(name) {
            self.weight = self.weight.saturating_sub(known.weight());
            return Some(std::mem::replace(known, key));
        }
        self.weight += name.len();
        self.keys.insert(name.into(), key)
    }

    /// All keys that have a value, in order.
    pub(super) fn entries(
        &mut self,
        reads: &mut Reads<'_>,
        out: &mut Vec<StateEntry>,
    ) -> rusqlite::Result<()> {
        if !self.complete {
            let mut rows = Vec::new();
            reads.state_of(self.id, self.kind(), &mut rows)?;
            for StateEntry { key, value, version } in rows {
                if !self.keys.contains_key(key.name()) {
                    self.remember(
                        key.name(),
                        Key { current: Some((value, version)), dirty: false },
                    );
                }
            }
            self.complete = true;
        }
        let kind = self.kind();
        out.extend(self.keys.iter().filter_map(|(name, key)| {
            let (value, version) = key.current.clone()?;
            Some(StateEntry { key: StateKey::in_scope(kind, name), value, version })
        }));
        Ok(())
    }

    /// Keys whose rows are not written, with what they are; they count as written afterwards.
    pub(super) fn take_dirty<E>(
        &mut self,
        mut write: impl FnMut(&str, Option<&(Json, Version)>) -> Result<(), E>,
    ) -> Result<(), E> {
        for name in self.dirty.drain(..) {
            if let Some(key) = self.keys.get_mut(&name).filter(|key| key.dirty) {
                key.dirty = false;
                write(&name, key.current.as_ref())?;
            }
        }
        Ok(())
    }

    /// Whether the head or rows of keys are not written.
    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty() || self.stored_version != self.last_rows.version()
    }
}

/// The nodes that a change may touch.
pub(super) struct Trio<'a> {
    pub(super) app: &'a mut Node,
    pub(super) user: Option<&'a mut Node>,
    pub(super) own: Option<&'a mut Node>,
}

impl Trio<'_> {
    /// The node of a scope. A key of a scope that is not there has been refused long before; it is taken for the application's.
    pub(super) fn node(&mut self, kind: ScopeKind) -> &mut Node {
        match (kind, &mut self.user, &mut self.own) {
            (ScopeKind::User, Some(user), _) => user,
            (ScopeKind::Session, _, Some(own)) => own,
            _ => self.app,
        }
    }

    pub(super) fn value(
        &mut self,
        reads: &mut Reads<'_>,
        key: &StateKey,
    ) -> rusqlite::Result<Option<&(Json, Version)>> {
        match key.scope() {
            None => Ok(None),
            Some(kind) => self.node(kind).value(reads, key.name()),
        }
    }

    /// What the sizes of the scopes become, in the order of the merge; refused where one grows beyond its limit.
    pub(super) fn sizes_after(
        &mut self,
        reads: &mut Reads<'_>,
        results: &[KeyResult],
    ) -> rusqlite::Result<Result<[usize; 3], Error>> {
        const KINDS: [ScopeKind; 3] = [ScopeKind::Application, ScopeKind::User, ScopeKind::Session];
        let (mut gone, mut come, mut touched) = ([0; 3], [0; 3], [false; 3]);
        for (key, value) in results {
            let Some(kind) = key.scope() else {
                continue;
            };
            let before = self.node(kind).value(reads, key.name())?;
            let name = text_bytes(key.name());
            gone[kind as usize] += before.map_or(0, |(value, _)| name + value.len());
            come[kind as usize] += value.as_ref().map_or(0, |value| name + value.len());
            touched[kind as usize] = true;
        }
        let mut sizes = [0; 3];
        for kind in KINDS {
            let at = kind as usize;
            let bytes = self.node(kind).bytes;
            sizes[at] = (bytes + come[at]).saturating_sub(gone[at]);
            if touched[at] && sizes[at] > bytes && sizes[at] > SCOPE_BYTES {
                return Ok(Err(Error::StateTooLarge(kind)));
            }
        }
        Ok(Ok(sizes))
    }

    /// Gives keys their new values, at the versions that their scopes have by now, and says how to take that back.
    pub(super) fn put_all(&mut self, results: Vec<KeyResult>) -> impl Iterator<Item = Undo> {
        results.into_iter().filter_map(|(key, value)| {
            let node = self.node(key.scope()?);
            let version = node.version;
            Some(node.put(key.name(), value, version))
        })
    }

    /// Takes back what was put, newest first.
    pub(super) fn undo(&mut self, undo: Vec<Undo>) {
        for undo in undo.into_iter().rev() {
            self.node(undo.kind).undo(undo);
        }
    }
}
