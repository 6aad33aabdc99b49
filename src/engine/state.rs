//! State without events: reading it, changing it, its history, and templates.

use crate::{
    domain::{
        Version,
        delta::ScopeDelta,
        error::{Error, Reason},
        event::{Fingerprint, NewEvent},
        field::FieldPath,
        id::{Author, Branch, InvocationId, RequestId},
        limits::MESSAGE_BYTES,
        precondition::Precondition,
        scope::{Scope, ScopeKind, SessionKey, SessionRef, StateKey},
        session::{Incarnation, State},
        template::{RenderFault, render},
        token::{ChangeToken, scope_hash},
    },
    engine::{Engine, new_event_id},
    store::{
        Append, KeyChange, KeyChangeQuery, RequestContext, RequestKey, SessionQuery, StateQuery,
        StateUpdate,
    },
};

/// Bytes of a rendered template: one answer without its envelope.
const RENDERED_BYTES: usize = MESSAGE_BYTES - 64;

/// A read of state.
#[derive(Clone, Debug)]
pub struct GetState {
    pub scope: Scope,
    /// Only these; none: all.
    pub keys: Vec<StateKey>,
    /// Include the `temp:` keys of this invocation, if the scope is a session.
    pub invocation_id: Option<InvocationId>,
}

/// State as read.
#[derive(Clone, Debug)]
pub struct StateAnswer {
    /// Visible keys; `temp:` keys have version 0.
    pub state: State,
}

/// A change of state outside of an invocation.
#[derive(Clone, Debug)]
pub struct UpdateState {
    pub delta: ScopeDelta,
    pub precondition: Precondition,
    pub author: Author,
    /// Makes it idempotent.
    pub request_id: Option<RequestId>,
}

/// The outcome of a change of state.
#[derive(Clone, Debug)]
pub struct UpdateAnswer {
    /// The keys that are visible from the scope now.
    pub state: State,
    /// The same request was committed before.
    pub replayed: bool,
}

/// A read of a key's changes.
#[derive(Clone, Debug)]
pub struct ListKeyChanges {
    pub scope: Scope,
    /// A key that is visible from the scope.
    pub key: StateKey,
    /// Maximum number of items.
    pub page_size: usize,
    /// From the previous page.
    pub page_token: Option<ChangeToken>,
}

/// Changes of one page, newest first. The caller may send fewer and continue behind them.
#[derive(Clone, Debug)]
pub struct KeyChangeList {
    pub changes: Vec<KeyChange>,
    request: u64,
    incarnation: Incarnation,
    more: bool,
}

impl KeyChangeList {
    /// The token that continues behind the first `taken` changes, at least one if there are any; `None` if nothing follows them.
    pub fn next_page_token(&self, taken: usize) -> Option<String> {
        if taken >= self.changes.len() && !self.more {
            return None;
        }
        let before: Version = self.changes.get(taken.checked_sub(1)?)?.version;
        let token = ChangeToken { request: self.request, incarnation: self.incarnation, before };
        Some(token.encode())
    }
}

/// A template to render.
#[derive(Clone, Debug)]
pub struct RenderTemplate {
    pub key: SessionKey,
    /// At most 256 KiB.
    pub template: String,
    /// Include the `temp:` keys of this invocation.
    pub invocation_id: Option<InvocationId>,
}

impl Engine {
    /// Reads what is visible from a scope.
    pub async fn get_state(
        &self,
        _context: &RequestContext,
        request: GetState,
    ) -> Result<StateAnswer, Error> {
        let GetState { scope, keys, invocation_id } = request;
        let now = self.now();
        let only = (!keys.is_empty()).then_some(keys);
        let query = StateQuery { scope, keys: only.clone() };
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

    /// Changes state outside of an invocation. Through a session it becomes an event of its log.
    pub async fn update_state(
        &self,
        context: &RequestContext,
        request: UpdateState,
    ) -> Result<UpdateAnswer, Error> {
        let UpdateState { delta, precondition, author, request_id } = request;
        let fingerprint = Fingerprint(delta.delta().fingerprint());
        let request = request_id.map(|id| RequestKey { id, fingerprint });
        if delta.scope().kind() != ScopeKind::Session {
            let update = StateUpdate { delta, precondition, author, request };
            let updated = self.store.update_state(context, update).await?;
            return Ok(UpdateAnswer { state: updated.state, replayed: updated.replayed });
        }
        let (Scope::Session(key), delta) = delta.into_parts() else {
            return Err(Error::internal("the scope is a session"));
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
            field: FieldPath::new("delta"),
        };
        let append = Append {
            session: SessionRef::Full(key),
            events: vec![event],
            precondition,
            request,
            return_state: true,
        };
        let appended = self.store.append(context, append).await?;
        Ok(UpdateAnswer {
            state: appended.state.unwrap_or_default(),
            replayed: appended.request_replayed,
        })
    }

    /// Lists the changes of a key.
    pub async fn list_key_changes(
        &self,
        _context: &RequestContext,
        request: ListKeyChanges,
    ) -> Result<KeyChangeList, Error> {
        let ListKeyChanges { scope, key, page_size, page_token: token } = request;
        // Different scopes see the same history of a wider key, but a token belongs to the scope of its request.
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

    /// Renders a template with state.
    pub async fn render_template(
        &self,
        _context: &RequestContext,
        request: RenderTemplate,
    ) -> Result<String, Error> {
        let RenderTemplate { key, template, invocation_id } = request;
        let now = self.now();
        let query = SessionQuery {
            session: SessionRef::Full(key),
            as_of: None,
            with_state: true,
            events: None,
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
        _context: &RequestContext,
        key: SessionKey,
        invocation: InvocationId,
    ) -> Result<(), Error> {
        let query = SessionQuery {
            session: SessionRef::Full(key),
            as_of: None,
            with_state: false,
            events: None,
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
        "The page token belongs to another request. Send the token of the previous page for the same scope and key, or none.",
    )
}
