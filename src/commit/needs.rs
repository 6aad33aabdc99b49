//! Needs: the reads of a decision, as data, so that a store can fetch them for a whole group in few statements or from its cache.

use super::{Append, Request};
use crate::domain::{
    Sequence,
    id::{EventId, RequestId, SessionId},
    precondition::Precondition,
    scope::{Scope, ScopeKind, SessionKey, SessionRef, StateKey},
    session::Incarnation,
};

/// The reads of the decision about one request.
#[derive(Clone, Debug)]
pub struct Needs<'r> {
    pub address: Option<Address<'r>>,
    /// Another session of the same user whose address has to be known: the target of a fork.
    pub target: Option<&'r SessionId>,
    /// By kind, from wide to narrow. Of scopes that are not visible from the address nothing is needed.
    pub scopes: [ScopeNeeds<'r>; 3],
    /// Stored events of the session.
    pub event_ids: Vec<&'r EventId>,
    /// A request of the addressed scope.
    pub request_id: Option<&'r RequestId>,
    /// The session's own state as of an event.
    pub past: Option<Sequence>,
    /// The end of a piece of copied events that begins behind an event.
    pub copy: Option<(Incarnation, Sequence, Sequence)>,
    /// Whether a fork's target still has its lease.
    pub fork: Option<Incarnation>,
    /// Sessions that have expired, and one that is to be removed.
    pub sweep: bool,
}

/// The address, which is resolved first.
#[derive(Clone, Copy, Debug)]
pub enum Address<'r> {
    Session(&'r SessionKey),
    /// A session by its id alone.
    Bare(&'r SessionId),
    /// An application or a user.
    Wide(&'r Scope),
}

/// The needs of one scope.
#[derive(Clone, Debug)]
pub struct ScopeNeeds<'r> {
    pub mode: Mode,
    pub keys: KeysNeeded<'r>,
}

/// The use of a scope by a decision, for stores that lock rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Only its version is recorded.
    Observe,
    /// A precondition reads it.
    Check,
    /// Its version rises.
    Write,
}

/// Keys of a scope whose values are needed.
#[derive(Clone, Debug)]
pub enum KeysNeeded<'r> {
    Some(Vec<&'r StateKey>),
    All,
}

impl<'r> Needs<'r> {
    fn of(address: Option<Address<'r>>) -> Self {
        let observed = || ScopeNeeds { mode: Mode::Observe, keys: KeysNeeded::Some(Vec::new()) };
        Self {
            address,
            target: None,
            scopes: [observed(), observed(), observed()],
            event_ids: Vec::new(),
            request_id: None,
            past: None,
            copy: None,
            fork: None,
            sweep: false,
        }
    }

    fn key(&mut self, key: &'r StateKey, mode: Mode) {
        if let Some(kind) = key.scope() {
            let scope = &mut self.scopes[kind as usize];
            scope.mode = scope.mode.max(mode);
            if let KeysNeeded::Some(keys) = &mut scope.keys {
                keys.push(key);
            }
        }
    }

    fn precondition(&mut self, precondition: &'r Precondition) {
        for (key, _) in &precondition.keys {
            self.key(key, Mode::Check);
        }
    }

    fn writes(&mut self, kind: ScopeKind) {
        self.scopes[kind as usize].mode = Mode::Write;
    }

    fn all_state(&mut self) {
        for scope in &mut self.scopes {
            scope.keys = KeysNeeded::All;
        }
    }
}

/// The needs of a request.
pub fn needs(request: &Request) -> Needs<'_> {
    match request {
        Request::Create(create) => {
            let mut needs = Needs::of(Some(Address::Session(&create.key)));
            for (key, _) in &create.state {
                needs.key(key, Mode::Write);
            }
            needs.all_state();
            needs
        }
        Request::Update(update) => metadata(&update.key),
        Request::Delete(delete) => metadata(&delete.key),
        Request::Fork(fork) => Needs { target: Some(&fork.session_id), ..metadata(&fork.source) },
        Request::CopyEvents(copy) => {
            let mut needs = Needs::of(Some(Address::Session(&copy.fork.source)));
            needs.copy = Some((copy.fork.source_incarnation, copy.after, copy.fork.up_to));
            needs.fork = Some(copy.fork.target_incarnation);
            needs
        }
        Request::FinishFork(finish) => {
            let mut needs = Needs::of(Some(Address::Session(&finish.fork.source)));
            needs.target = Some(&finish.fork.target.session_id);
            needs.all_state();
            needs.past = Some(finish.fork.up_to);
            needs.fork = Some(finish.fork.target_incarnation);
            needs
        }
        Request::Append(append) => append_needs(append),
        Request::Rewind(rewind) => {
            let mut needs = Needs::of(Some(Address::Session(&rewind.key)));
            needs.precondition(&rewind.precondition);
            needs.writes(ScopeKind::Session);
            needs.all_state();
            needs.event_ids.push(&rewind.event_id);
            needs.past = Some(rewind.to);
            needs
        }
        Request::UpdateState(update) => {
            let mut needs = Needs::of(Some(Address::Wide(update.delta.scope())));
            for key in update.delta.delta().keys() {
                needs.key(key, Mode::Write);
            }
            needs.precondition(&update.precondition);
            needs.all_state();
            needs.request_id = update.request.as_ref().map(|request| &request.id);
            needs
        }
        Request::Sweep => Needs { sweep: true, ..Needs::of(None) },
    }
}

fn metadata(key: &SessionKey) -> Needs<'_> {
    let mut needs = Needs::of(Some(Address::Session(key)));
    needs.writes(ScopeKind::Session);
    needs
}

fn append_needs(append: &Append) -> Needs<'_> {
    let mut needs = Needs::of(Some(match &append.session {
        SessionRef::Full(key) => Address::Session(key),
        SessionRef::Bare(id) => Address::Bare(id),
    }));
    needs.event_ids.reserve_exact(append.events.len());
    for event in &append.events {
        needs.event_ids.push(&event.event_id);
        for key in event.delta.keys() {
            needs.key(key, Mode::Write);
        }
    }
    needs.precondition(&append.precondition);
    needs.writes(ScopeKind::Session);
    if append.return_state {
        needs.all_state();
    }
    needs.request_id = append.request.as_ref().map(|request| &request.id);
    needs
}
