//! Sessions, lists of what the store holds, and state without events: reading it, changing it, its history, and templates.

use std::{
    cell::OnceCell,
    collections::{HashMap, HashSet},
    fmt::Display,
};

use super::{
    Engine, List, bad_page_token, events, new_event_id, place, position::life, prelude::*,
};
use crate::{
    domain::{json::Json, template::render},
    read::list_key,
    store::{
        ApplicationsQuery, DeleteSession, EndInvocation, KeyChange, KeyChangePage, KeyChangeQuery,
        NamePage, SessionOrder, SessionPage, SessionsQuery, StateQuery, StateUpdate, StateUpdated,
        UsersQuery,
    },
};

/// Bytes of a rendered template: one answer without its envelope.
const RENDERED_BYTES: usize = MESSAGE_BYTES - 64;

/// What the requests of one list share.
const SAME_STATE: &str = "with the same scope, keys and invocation";
const SAME_KEY: &str = "for the same scope and key";

#[derive(Debug, Default)]
pub struct StatePage {
    /// `None`: as many as fit.
    pub max_items: Option<usize>,
    pub token: Option<StateToken>,
}

pub struct SessionAnswer {
    pub info: SessionInfo,
    pub state: Option<State>,
    /// Events, oldest first.
    pub events: List<Event>,
}

impl Engine {
    /// Reads a session; its state includes the `temp:` keys of `invocation`.
    pub async fn get_session(
        &self,
        context: &RequestContext,
        query: SessionQuery,
        invocation: Option<InvocationId>,
    ) -> Result<SessionAnswer, Error> {
        let now = self.now();
        let selection = query.events.clone();
        let SessionView { info, mut state, events } =
            self.store.read_session(context, query).await?;
        self.invocations.add_to(state.as_mut(), info.incarnation, invocation, now).await;
        let events = selection.zip(events).map(|(selection, page)| {
            events::list(page, events::token(&info, &selection, true), false)
        });
        Ok(SessionAnswer { info, state, events: events.unwrap_or_default() })
    }

    /// Lists sessions; `token` is from the previous page.
    pub async fn list_sessions(
        &self,
        context: &RequestContext,
        mut query: SessionsQuery,
        token: Option<SessionToken>,
    ) -> Result<List<(SessionInfo, Option<State>)>, Error> {
        let request = list_hash(&query);
        query.after = place(token, request, "with the same filters and order")?;
        let SessionPage { sessions, rest } = self.store.list_sessions(context, query).await?;
        Ok(List::behind(sessions, rest, request, |(info, _)| list_key(info)))
    }

    /// Deletes a session. A missing one is an error unless that is allowed.
    pub async fn delete_session(
        &self,
        context: &RequestContext,
        delete: DeleteSession,
    ) -> Result<(), Error> {
        let deleted = self.store.delete_session(context, delete).await?;
        deleted.into_iter().for_each(|incarnation| self.invocations.end_session(incarnation));
        Ok(())
    }

    /// Reads what is visible from a scope, and which life of the scope it is. `temp:` keys of `invocation` are included with version 0, if the scope is a session. Each
    /// page reads the whole state, which the limits of three scopes keep as small as a page.
    pub async fn get_state(
        &self,
        context: &RequestContext,
        query: StateQuery,
        page: StatePage,
        invocation: Option<InvocationId>,
    ) -> Result<(List<StateEntry>, Option<Life>), Error> {
        let StatePage { max_items, token } = page;
        let request = state_hash(&query, invocation.as_ref());
        let (now, only, scope) = (self.now(), query.keys.clone(), query.scope.clone());
        let view = self.store.read_state(context, query).await?;
        let mut state = view.state;
        if only.is_some()
            && let Some(entry) = state.0.iter().find(|it| it.value.is_damaged())
        {
            return Err(Error::damaged_key(&entry.key));
        }
        let life = life(&scope, view.info.as_ref(), view.bases, view.position);
        let incarnation = view.info.map_or(Incarnation(0), |info| info.incarnation);
        self.invocations.add_to(Some(&mut state), incarnation, invocation, now).await;
        if let Some(only) = only {
            let only: HashSet<StateKey> = only.into_iter().collect();
            state.0.retain(|entry| only.contains(&entry.key));
        }
        if let Some((of, after)) = place(token, request, SAME_STATE)? {
            if of != incarnation {
                return Err(bad_page_token(SAME_STATE));
            }
            let after = StateKey::from_stored(after);
            state.0.retain(|entry| entry.key > after);
        }
        let max_items = max_items.unwrap_or(usize::MAX);
        let more = state.0.len() > max_items;
        state.0.truncate(max_items);
        let behind = move |entry: &StateEntry| (incarnation, entry.key.to_string());
        let rest = state.0.last().filter(|_| more).map(behind);
        Ok((List::behind(state.0, rest, request, behind), life))
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
            partial: false,
            fingerprint: Fingerprint(delta.delta().fingerprint()),
            delta: delta.into_delta(),
            body: None,
            refusal: None,
            field: FieldPath::from("delta"),
        };
        let append =
            Append { session, events: vec![event], precondition, request, return_state: true };
        let appended = self.store.append(context, append).await?;
        let Appended { info, state, request_replayed: replayed, .. } = appended;
        let (state, life) = (state.unwrap_or_default(), Some(Life::of_session(&info)));
        Ok(StateUpdated { state, replayed, life })
    }

    /// Lists the changes of a key; `token` is from the previous page.
    pub async fn list_key_changes(
        &self,
        context: &RequestContext,
        mut query: KeyChangeQuery,
        token: Option<ChangeToken>,
    ) -> Result<List<KeyChange>, Error> {
        // Different scopes see the same history of a shared key, but a token belongs to the scope of its request.
        let scope = Digest::of_scope(&query.scope).0.to_string();
        let request = Digest::of_texts(&["changes", &scope, query.key.as_str()]);
        let is_own = query.key.scope() == Some(ScopeKind::Session);
        let (of, before) = place(token, request, SAME_KEY)?.unzip();
        query.before = before;
        let page = self.store.list_key_changes(context, query).await?;
        let KeyChangePage { changes, rest, incarnation } = page;
        if is_own && of.is_some_and(|of| of != incarnation) {
            return Err(bad_page_token(SAME_KEY));
        }
        let behind = move |change: &KeyChange| (incarnation, change.version);
        let rest = rest.map(|before| (incarnation, before));
        Ok(List::behind(changes, rest, request, behind))
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
        // The first damaged value that the template names.
        let damaged = OnceCell::new();
        let rendered = render(&template, RENDERED_BYTES, |key| {
            let value = values.get(key).copied();
            if value.is_some_and(Json::is_damaged) {
                damaged.get_or_init(|| Error::damaged_key(&StateKey::from_stored(key)));
            }
            value
        });
        damaged.into_inner().map_or(rendered, Err)
    }

    /// Lists applications; `token` is from the previous page.
    pub async fn list_applications(
        &self,
        context: &RequestContext,
        mut query: ApplicationsQuery,
        token: Option<NameToken>,
    ) -> Result<List<AppName>, Error> {
        let request = Digest::of_texts(&["applications"]);
        query.after = name_place(token, request)?;
        Ok(names(self.store.list_applications(context, query).await?, request))
    }

    /// Lists users; `token` is from the previous page.
    pub async fn list_users(
        &self,
        context: &RequestContext,
        mut query: UsersQuery,
        token: Option<NameToken>,
    ) -> Result<List<UserId>, Error> {
        let request = Digest::of_texts(&["users", query.app_name.as_str()]);
        query.after = name_place(token, request)?;
        Ok(names(self.store.list_users(context, query).await?, request))
    }

    /// Ends an invocation: its `temp:` keys are gone.
    pub async fn end_invocation(
        &self,
        context: &RequestContext,
        key: SessionKey,
        invocation: InvocationId,
    ) -> Result<(), Error> {
        let mut end = EndInvocation { key, invocation };
        self.store.check(context, &mut end)?;
        let query = SessionQuery::info(SessionRef::Full(end.key));
        let view = self.store.read_session(context, query).await?;
        self.invocations.end((view.info.incarnation, end.invocation), self.now()).await
    }
}

/// Hash of what a page token of a state belongs to.
fn state_hash(query: &StateQuery, invocation: Option<&InvocationId>) -> Digest {
    let StateQuery { scope, keys } = query;
    let scope = Digest::of_scope(scope).0.to_string();
    let mut parts = vec!["state", &scope, invocation.map_or("", InvocationId::as_str)];
    parts.extend(keys.iter().flatten().map(StateKey::as_str));
    Digest::of_texts(&parts)
}

/// Hash of what a page token of a list of sessions belongs to.
fn list_hash(query: &SessionsQuery) -> Digest {
    let order = match query.order {
        SessionOrder::LeastRecent => "least",
        SessionOrder::MostRecent => "most",
    };
    let user = query.user_id.as_ref();
    let mut parts =
        vec!["sessions", query.app_name.as_str(), user.map_or("", UserId::as_str), order];
    for (key, value) in query.labels.as_map() {
        parts.extend([key.as_str(), value.as_str()]);
    }
    Digest::of_texts(&parts)
}

fn names<T: Display + 'static>(page: NamePage<T>, request: Digest) -> List<T> {
    let behind = |name: &T| NamePlace { name: name.to_string(), within: None };
    List::behind(page.names, page.rest, request, behind)
}

/// A place is no name: texts that lie between names are places as well.
fn name_place(token: Option<NameToken>, request: Digest) -> Result<Option<NamePlace>, Error> {
    const SAME: &str = "of the same list";
    let found = place(token, request, SAME)?;
    let has_nul = |place: &NamePlace| {
        let (user, session) = place.within.clone().unwrap_or_default();
        [&place.name, &user, &session].iter().any(|text| text.contains('\0'))
    };
    // No database takes that as text.
    if found.as_ref().is_some_and(has_nul) { Err(bad_page_token(SAME)) } else { Ok(found) }
}
