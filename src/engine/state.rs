//! State without events: reading it, changing it, its history, and templates.

use std::collections::HashMap;

use xxhash_rust::xxh3::xxh3_64;

use crate::{
    domain::{
        error::Error,
        event::{Fingerprint, NewEvent},
        field::FieldPath,
        id::{Branch, InvocationId},
        limits::MESSAGE_BYTES,
        scope::{Scope, ScopeKind, SessionKey, SessionRef},
        session::State,
        template::render,
        token::{ChangeToken, Digest},
    },
    engine::{Engine, bad_page_token, new_event_id},
    store::{
        Append, KeyChangePage, KeyChangeQuery, RequestContext, SessionQuery, StateQuery,
        StateUpdate, StateUpdated,
    },
};

/// Bytes of a rendered template: one answer without its envelope.
const RENDERED_BYTES: usize = MESSAGE_BYTES - 64;

/// Changes of one page, newest first. The caller may send fewer and continue behind them.
#[derive(Clone, Debug)]
pub struct KeyChangeList {
    pub page: KeyChangePage,
    request: Digest,
}

impl KeyChangeList {
    /// The token that continues behind the first `taken` changes, at least one if there are any; `None` if nothing follows them.
    pub fn next_page_token(&self, taken: usize) -> Option<String> {
        let KeyChangePage { changes, more, incarnation } = &self.page;
        if taken >= changes.len() && !more {
            return None;
        }
        let before = changes.get(taken.checked_sub(1)?)?.version;
        Some(ChangeToken { request: self.request, incarnation: *incarnation, before }.encode())
    }
}

impl Engine {
    /// Reads what is visible from a scope. `temp:` keys of `invocation` are included with version 0, if the scope is a session.
    pub async fn get_state(
        &self,
        _context: &RequestContext,
        query: StateQuery,
        invocation: Option<InvocationId>,
    ) -> Result<State, Error> {
        let (now, only) = (self.now(), query.keys.clone());
        let view = self.store.read_state(query).await?;
        let mut state = view.state;
        if let (Some(info), Some(invocation)) = (view.info, invocation) {
            self.invocations.add_to(&mut state, info.incarnation, &invocation, now).await;
            if let Some(only) = only {
                state.0.retain(|entry| only.contains(&entry.key));
            }
        }
        Ok(state)
    }

    /// Changes state outside of an invocation. Through a session it becomes an event of its log.
    pub async fn update_state(
        &self,
        context: &RequestContext,
        update: StateUpdate,
    ) -> Result<StateUpdated, Error> {
        let Scope::Session(key) = update.delta.scope() else {
            return self.store.update_state(context, update).await;
        };
        let session = SessionRef::Full(key.clone());
        let StateUpdate { delta, precondition, author, request } = update;
        let event = NewEvent {
            event_id: new_event_id(),
            invocation_id: None,
            author,
            branch: Branch::from_stored(""),
            event_time: None,
            fingerprint: Fingerprint(delta.delta().fingerprint()),
            delta: delta.into_delta(),
            body: None,
            refusal: None,
            field: FieldPath::from("delta"),
        };
        let append =
            Append { session, events: vec![event], precondition, request, return_state: true };
        let appended = self.store.append(context, append).await?;
        let state = appended.state.unwrap_or_default();
        Ok(StateUpdated { state, replayed: appended.request_replayed })
    }

    /// Lists the changes of a key; `token` is from the previous page.
    pub async fn list_key_changes(
        &self,
        _context: &RequestContext,
        mut query: KeyChangeQuery,
        token: Option<ChangeToken>,
    ) -> Result<KeyChangeList, Error> {
        // Different scopes see the same history of a wider key, but a token belongs to the scope of its request.
        let scope = Digest::of_scope(&query.scope);
        let request = Digest(scope.0 ^ xxh3_64(query.key.as_str().as_bytes()));
        let own = query.key.scope() == Some(ScopeKind::Session);
        query.before = token.as_ref().map(|token| token.before);
        if token.as_ref().is_some_and(|token| token.request != request) {
            return Err(bad_page_token("for the same scope and key"));
        }
        let page = self.store.list_key_changes(query).await?;
        if own && token.is_some_and(|token| token.incarnation != page.incarnation) {
            return Err(bad_page_token("for the same scope and key"));
        }
        Ok(KeyChangeList { page, request })
    }

    /// Renders a template with a session's state, which includes the `temp:` keys of `invocation`.
    pub async fn render_template(
        &self,
        context: &RequestContext,
        key: SessionKey,
        template: String,
        invocation: Option<InvocationId>,
    ) -> Result<String, Error> {
        let query = SessionQuery { with_state: true, ..SessionQuery::info(SessionRef::Full(key)) };
        let state = self.get_session(context, query, invocation).await?.state.unwrap_or_default();
        let values: HashMap<&str, _> =
            state.0.iter().map(|entry| (entry.key.as_str(), &entry.value)).collect();
        render(&template, RENDERED_BYTES, |key| values.get(key).copied())
    }

    /// Ends an invocation: its `temp:` keys are gone.
    pub async fn end_invocation(
        &self,
        _context: &RequestContext,
        key: SessionKey,
        invocation: InvocationId,
    ) -> Result<(), Error> {
        let view = self.store.read_session(SessionQuery::info(SessionRef::Full(key))).await?;
        self.invocations.end(view.info.incarnation, &invocation);
        Ok(())
    }
}
