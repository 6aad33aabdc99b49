//! State without events: reading it, changing it, how it came to be, and templates.

use crate::{
    domain::{
        Version,
        delta::Delta,
        error::{Error, Reason},
        event::{Fingerprint, NewEvent},
        id::{Author, Branch, InvocationId, RequestId},
        limits::MESSAGE_BYTES,
        precondition::Precondition,
        scope::{Scope, ScopeKind, SessionKey, SessionRef, StateKey},
        session::{Incarnation, State},
        template::{RenderFault, render},
        token::{ChangeToken, scope_hash},
    },
    engine::{Engine, new_event_id},
    store::{Append, KeyChange, KeyChangeQuery, Request, SessionQuery, StateQuery, StateUpdate},
};

/// Bytes of a rendered template: what one answer holds beside its envelope.
const RENDERED_BYTES: usize = MESSAGE_BYTES - 64;

/// A read of state.
#[derive(Clone, Debug)]
pub struct GetState {
    /// From where.
    pub scope: Scope,
    /// Only these; none: all.
    pub keys: Vec<StateKey>,
    /// Whose `temp:` keys to show, where the scope is a session.
    pub invocation_id: Option<InvocationId>,
}

/// State as read.
#[derive(Clone, Debug)]
pub struct StateAnswer {
    /// What is visible; `temp:` keys have version 0.
    pub state: State,
}

/// A change of state outside of a turn.
#[derive(Clone, Debug)]
pub struct UpdateState {
    /// Where.
    pub scope: Scope,
    /// Only keys that the scope takes.
    pub delta: Delta,
    /// What must hold.
    pub precondition: Precondition,
    /// Who.
    pub author: Author,
    /// Makes it idempotent.
    pub request_id: Option<RequestId>,
}

/// What a change of state did.
#[derive(Clone, Debug)]
pub struct UpdateAnswer {
    /// What is visible from the scope now.
    pub state: State,
    /// It had been carried out before.
    pub replayed: bool,
}

/// A read of a key's changes.
#[derive(Clone, Debug)]
pub struct ListKeyChanges {
    /// From where.
    pub scope: Scope,
    /// A key that is visible from there.
    pub key: StateKey,
    /// Items at most.
    pub page_size: usize,
    /// From the previous page.
    pub page_token: Option<ChangeToken>,
}

/// Changes of one page, newest first; the caller may answer with fewer and still go on.
#[derive(Clone, Debug)]
pub struct KeyChangeList {
    /// The changes.
    pub changes: Vec<KeyChange>,
    request: u64,
    incarnation: Incarnation,
    more: bool,
}

impl KeyChangeList {
    /// The token behind the first `taken` changes, at least one where there are any; `None` where nothing follows them.
    pub fn next_page_token(&self, taken: usize) -> Option<String> {
        if taken >= self.changes.len() && !self.more {
            return None;
        }
        let before: Version = self.changes.get(taken.checked_sub(1)?)?.version;
        let token = ChangeToken { request: self.request, incarnation: self.incarnation, before };
        Some(token.encode())
    }
}

/// A template to fill.
#[derive(Clone, Debug)]
pub struct RenderTemplate {
    /// The session whose state fills it.
    pub key: SessionKey,
    /// At most 256 KiB.
    pub template: String,
    /// Whose `temp:` keys to use as well.
    pub invocation_id: Option<InvocationId>,
}

impl Engine {
    /// Reads what is visible from a scope.
    pub async fn get_state(&self, request: GetState) -> Result<StateAnswer, Error> {
        let GetState { scope, keys, invocation_id } = request;
        let now = self.now();
        let only = (!keys.is_empty()).then_some(keys);
        let query = StateQuery { scope, keys: only.clone(), now };
        let view = self.store.read_state(query).await?;
        let mut state = view.state;
        if let (Some(info), Some(invocation)) = (view.info, invocation_id) {
            self.invocations.add_to(&mut state, info.incarnation, &invocation, now).await;
            if let Some(only) = only {
                state.0.retain(|entry| only.contains(&entry.key));
            }
        }
        Ok(StateAnswer { state })
    }

    /// Changes state outside of a turn; through a session, as an event of its log.
    pub async fn update_state(&self, request: UpdateState) -> Result<UpdateAnswer, Error> {
        let UpdateState { scope, delta, precondition, author, request_id } = request;
        let now = self.now();
        let fingerprint = Fingerprint(delta.fingerprint());
        let request = request_id.map(|id| Request { id, fingerprint });
        let Scope::Session(key) = scope else {
            let update = StateUpdate { scope, delta, precondition, author, request, now };
            let updated = self.store.update_state(update).await?;
            return Ok(UpdateAnswer { state: updated.state, replayed: updated.replayed });
        };
        let event = NewEvent {
            event_id: new_event_id(),
            invocation_id: None,
            author,
            branch: Branch::from_stored(""),
            event_time: None,
            delta,
            body: None,
            fingerprint,
            refusal: None,
        };
        let append = Append {
            session: SessionRef::Full(key),
            events: vec![event],
            precondition,
            request,
            return_state: true,
            now,
        };
        let appended = self.store.append(append).await?;
        Ok(UpdateAnswer {
            state: appended.state.unwrap_or_default(),
            replayed: appended.request_replayed,
        })
    }

    /// Lists how a key came to its value.
    pub async fn list_key_changes(&self, request: ListKeyChanges) -> Result<KeyChangeList, Error> {
        let ListKeyChanges { scope, key, page_size, page_token: token } = request;
        // The scope that holds the key is the same from wherever one looks, but the token of one place is not that of another.
        let hash = scope_hash(&scope) ^ xxhash_rust::xxh3::xxh3_64(key.as_str().as_bytes());
        if token.as_ref().is_some_and(|token| token.request != hash) {
            return Err(bad_page_token());
        }
        let own = key.scope() == Some(ScopeKind::Session);
        let query = KeyChangeQuery {
            scope,
            key,
            before: token.as_ref().map(|token| token.before),
            max_items: page_size,
            max_bytes: MESSAGE_BYTES,
            now: self.now(),
        };
        let page = self.store.list_key_changes(query).await?;
        if own && token.is_some_and(|token| token.incarnation != page.incarnation) {
            return Err(bad_page_token());
        }
        Ok(KeyChangeList {
            changes: page.changes,
            request: hash,
            incarnation: page.incarnation,
            more: page.more,
        })
    }

    /// Puts state into a template.
    pub async fn render_template(&self, request: RenderTemplate) -> Result<String, Error> {
        let RenderTemplate { key, template, invocation_id } = request;
        let now = self.now();
        let query = SessionQuery {
            session: SessionRef::Full(key),
            as_of: None,
            with_state: true,
            events: None,
            now,
        };
        let view = self.store.read_session(query).await?;
        let mut state = view.state.unwrap_or_default();
        if let Some(invocation) = invocation_id {
            self.invocations.add_to(&mut state, view.info.incarnation, &invocation, now).await;
        }
        let values: std::collections::HashMap<&str, _> =
            state.0.iter().map(|entry| (entry.key.as_str(), &entry.value)).collect();
        render(&template, RENDERED_BYTES, |key| values.get(key).copied()).map_err(|fault| {
            match fault {
                RenderFault::Missing(keys) => Error::MissingStateKey(keys),
                RenderFault::TooLarge { .. } => Error::AnswerTooLarge,
            }
        })
    }

    /// Ends an invocation: its `temp:` keys are gone.
    pub async fn end_invocation(
        &self,
        key: SessionKey,
        invocation: InvocationId,
    ) -> Result<(), Error> {
        let query = SessionQuery {
            session: SessionRef::Full(key),
            as_of: None,
            with_state: false,
            events: None,
            now: self.now(),
        };
        let view = self.store.read_session(query).await?;
        self.invocations.end(view.info.incarnation, &invocation);
        Ok(())
    }
}

fn bad_page_token() -> Error {
    Error::invalid(
        "page_token",
        Reason::BadPageToken,
        "The page token does not belong to this request; use the token of the previous page for the same scope and key, or begin without one.",
    )
}
