//! The request of each call, with the messages that only one of them has.

use prost_types::FieldMask;

use super::{
    fields::{enumeration, too_long},
    json::{BODY, Forms, entries, entries_of_text},
    read::{Asked, At, Decoded, Read, read},
};
use crate::{
    domain::{
        limits::{BATCH_BYTES, BATCH_EVENTS, TEMPLATE_BYTES},
        permission::Users,
    },
    engine::{StatePage, WatchFrom},
    rpc::prelude::*,
    store::{
        ApplicationsQuery, CreateSession, DeleteSession, EventsQuery, ForkSession, KeyChangeQuery,
        OnExisting, RequestKey, RewindSession, SessionOrder, SessionQuery, SessionUpdate,
        SessionsQuery, StateQuery, StateUpdate, UsersQuery,
    },
};

pub fn create_session(at: At<'_>, request: v1::CreateSessionRequest) -> Asked<CreateSession> {
    use v1::create_session_request::StateForm::{State, StateJson};
    read!(at: v1::CreateSessionRequest {
        app_name, user_id, session_id,
        state_form = match state_form {
            None => Ok(Vec::new()),
            Some(State(it)) => entries(at.field("state"), it),
            Some(StateJson(text)) => entries_of_text(at.field("state_json"), text),
        },
        session = session.unwrap_or_default().read(at.field("session")),
        allow_existing, json_form, include_versions
    } = request);
    let Settings { display_name, labels, expiration } = session;
    let session_id = Option::unwrap_or_else(session_id, new_session_id);
    let new = CreateSession {
        key: SessionKey { app_name, user_id, session_id },
        state: state_form,
        display_name,
        labels,
        expiration,
        on_existing: if allow_existing { OnExisting::Return } else { OnExisting::Refuse },
    };
    Ok((new, Mode { with_versions: include_versions, ..json_form }))
}

pub fn get_session(
    at: At<'_>,
    request: v1::GetSessionRequest,
) -> Asked<(SessionQuery, Option<InvocationId>)> {
    read!(at: v1::GetSessionRequest {
        key, events, as_of_sequence, invocation_id, without_state, json_form, include_versions
    } = request);
    let (session, as_of, with_state) = (key, as_of_sequence, !without_state);
    let mode = Mode { with_versions: include_versions, ..json_form };
    Ok(((SessionQuery { session, as_of, with_state, events }, invocation_id), mode))
}

pub fn list_sessions(
    at: At<'_>,
    request: v1::ListSessionsRequest,
) -> Asked<(SessionsQuery, Option<SessionToken>)> {
    read!(at: v1::ListSessionsRequest {
        app_name, user_id, page_size, page_token,
        order = enumeration(at.field("order"), order),
        labels, include_state, json_form
    } = request);
    let order = match order {
        v1::SessionOrder::LastEventTimeDesc => SessionOrder::MostRecent,
        v1::SessionOrder::Unspecified | v1::SessionOrder::LastEventTimeAsc => {
            SessionOrder::LeastRecent
        }
    };
    let query = SessionsQuery {
        app_name,
        user_id,
        seen: Users::All,
        labels,
        order,
        after: None,
        max_items: page_size,
        max_bytes: MESSAGE_BYTES,
        with_state: include_state,
    };
    Ok(((query, page_token), json_form))
}

/// UpdateSession. Settings that the mask does not name are not validated either.
pub fn update_session(at: At<'_>, request: v1::UpdateSessionRequest) -> Decoded<SessionUpdate> {
    let v1::UpdateSessionRequest { key, session, update_mask, precondition } = request;
    let no_mask = update_mask.is_none();
    let FieldMask { paths } = update_mask.unwrap_or_default();
    let names = |path: &str| no_mask || paths.iter().any(|named| named == path);
    let masks_expiration = names("expire_time") || names("ttl");
    let key = key.read(at.field("key"));
    let precondition = precondition.read(at.field("precondition"));
    let mut session = session.unwrap_or_default();
    session.display_name.retain(|_| names("display_name"));
    session.labels.retain(|_, _| names("labels"));
    session.expiration = session.expiration.filter(|_| masks_expiration);
    let settings = session.read(at.field("session"));
    let mask = at.field("update_mask");
    if paths.is_empty() {
        return Err(mask.missing());
    }
    mask.field("paths").each(paths.iter().collect(), |at, path: &String| match path.as_str() {
        "display_name" | "labels" | "expire_time" | "ttl" => Ok(()),
        _ => {
            let message = format!(
                "Path '{}' cannot be updated. Use display_name, labels, expire_time or ttl.",
                quoted(path)
            );
            Err(at.fault(Reason::BadMask, message, &[("path", path)]))
        }
    })?;
    let Settings { display_name, labels, expiration } = settings?;
    // Taken literally, the other form would clear what the caller has just sent.
    let other_form = match expiration {
        Some(Expiration::At(_)) if !names("expire_time") => Some("ttl"),
        Some(Expiration::After { .. }) if !names("ttl") => Some("expire_time"),
        _ => None,
    };
    if let Some(path) = other_form {
        let message = format!(
            "The mask names {path}, but the session sets the other form of the expiration. Name the form that is set."
        );
        return Err(mask.fault(Reason::BadMask, message, &[("path", &path)]));
    }
    Ok(SessionUpdate {
        key: key?,
        display_name: names("display_name").then_some(display_name),
        labels: names("labels").then_some(labels),
        expiration: masks_expiration.then_some(expiration),
        precondition: precondition?,
    })
}

pub fn delete_session(at: At<'_>, request: v1::DeleteSessionRequest) -> Decoded<DeleteSession> {
    read!(at: v1::DeleteSessionRequest { key, allow_missing, precondition } = request);
    Ok(DeleteSession { key, precondition, allow_missing })
}

pub fn fork_session(at: At<'_>, request: v1::ForkSessionRequest) -> Asked<ForkSession> {
    read!(at: v1::ForkSessionRequest {
        key, up_to_sequence, session_id, precondition, json_form
    } = request);
    let session_id = Option::unwrap_or_else(session_id, new_session_id);
    Ok((ForkSession { source: key, up_to: up_to_sequence, session_id, precondition }, json_form))
}

pub fn rewind_session(at: At<'_>, request: v1::RewindSessionRequest) -> Asked<RewindSession> {
    read!(at: v1::RewindSessionRequest {
        key,
        to_sequence = at.field("to_sequence").required(to_sequence),
        event_id, author, precondition, json_form
    } = request);
    let author = Option::unwrap_or_else(author, Author::system);
    let event_id = Option::unwrap_or_else(event_id, new_event_id);
    let (to, fingerprint) = (to_sequence, Fingerprint::of_rewind(to_sequence, &author));
    Ok((RewindSession { key, to, event_id, author, fingerprint, precondition }, json_form))
}

/// AppendEvent, and an item of AppendEventStream.
pub fn append_event(at: At<'_>, request: v1::AppendEventRequest) -> Asked<Append> {
    read!(at: v1::AppendEventRequest {
        key, event = at.field("event").required(event), precondition, return_state, json_form,
        include_versions
    } = request);
    let (session, events) = (key, vec![event]);
    let mode = Mode { with_versions: include_versions, ..json_form };
    Ok((Append { session, events, precondition, request: None, return_state }, mode))
}

pub fn append_events(at: At<'_>, request: v1::AppendEventsRequest) -> Asked<Append> {
    read!(at: v1::AppendEventsRequest {
        key, events = batch(at.field("events"), events), precondition, return_state, json_form,
        include_versions
    } = request);
    let mode = Mode { with_versions: include_versions, ..json_form };
    Ok((Append { session: key, events, precondition, request: None, return_state }, mode))
}

pub fn list_events(
    at: At<'_>,
    request: v1::ListEventsRequest,
) -> Asked<(SessionQuery, Option<EventToken>)> {
    read!(at: v1::ListEventsRequest {
        key, page_size, page_token,
        selection = selection.unwrap_or_default().read(at.field("selection")),
        descending, author, invocation_id, json_form
    } = request);
    let mut selection = EventSelection { descending, max_items: page_size, ..selection };
    (selection.filter.author, selection.filter.invocation_id) = (author, invocation_id);
    let session = SessionQuery::info(SessionRef::Full(key));
    Ok(((SessionQuery { events: Some(selection), ..session }, page_token), json_form))
}

pub fn batch_get_events(
    at: At<'_>,
    request: v1::BatchGetEventsRequest,
) -> Asked<(EventsQuery, Option<RefToken>)> {
    read!(at: v1::BatchGetEventsRequest {
        key,
        refs = match refs.is_empty() {
            true => Err(at.field("refs").missing()),
            false => refs.read(at.field("refs")),
        },
        page_token, json_form
    } = request);
    Ok(((EventsQuery { key, refs, max_bytes: MESSAGE_BYTES }, page_token), json_form))
}

pub fn get_state(
    at: At<'_>,
    request: v1::GetStateRequest,
) -> Asked<(StateQuery, StatePage, Option<InvocationId>)> {
    read!(at: v1::GetStateRequest {
        scope, keys, invocation_id, include_versions, json_form,
        // Not the number of other pages: without a size a page holds all that fits.
        page_size = if page_size == 0 { Ok(None) } else { page_size.read(at.field("page_size")).map(Some) },
        page_token
    } = request);
    let keys = Some(keys).filter(|keys: &Vec<_>| !keys.is_empty());
    let mode = Mode { with_versions: include_versions, ..json_form };
    let page = StatePage { max_items: page_size, token: page_token };
    Ok(((StateQuery { scope, keys }, page, invocation_id), mode))
}

pub fn update_state(at: At<'_>, request: v1::UpdateStateRequest) -> Asked<StateUpdate> {
    read!(at: v1::UpdateStateRequest {
        scope,
        delta = of(at, &scope).field("delta").required(delta),
        precondition = precondition.read(of(at, &scope).field("precondition")),
        author, request_id, json_form
    } = request);
    let delta = ScopeDelta::new(scope, delta).map_err(|key| {
        let message = "A key does not belong to the scope. Use the scope that its prefix names.";
        at.field("delta").fault(Reason::KeyOutsideScope, message, &[("key", &key)])
    })?;
    let author = Option::unwrap_or_else(author, Author::system);
    let fingerprint = Fingerprint(delta.delta().fingerprint());
    let request = Option::map(request_id, |id| RequestKey { id, fingerprint });
    Ok((StateUpdate { delta, precondition, author, request }, json_form))
}

pub fn list_key_changes(
    at: At<'_>,
    request: v1::ListKeyChangesRequest,
) -> Asked<(KeyChangeQuery, Option<ChangeToken>)> {
    read!(at: v1::ListKeyChangesRequest {
        scope,
        key = of(at, &scope).field("key").required((!key.is_empty()).then_some(key)),
        page_size, page_token, json_form
    } = request);
    let (max_items, max_bytes) = (page_size, MESSAGE_BYTES);
    let query = KeyChangeQuery { scope, key, before: None, max_items, max_bytes };
    Ok(((query, page_token), json_form))
}

/// Where only keys of this scope may be named. If the scope itself is at fault, that is every stored key.
fn of<'a>(at: At<'a>, scope: &Decoded<Scope>) -> At<'a> {
    At { keys: Some(scope.as_ref().map_or(ScopeKind::Session, Scope::kind)), ..at }
}

pub fn render_template(
    at: At<'_>,
    request: v1::RenderTemplateRequest,
) -> Decoded<(SessionKey, String, Option<InvocationId>)> {
    let here = at.field("template");
    read!(at: v1::RenderTemplateRequest {
        key,
        template = match template.len() {
            0 => Err(here.missing()),
            1..=TEMPLATE_BYTES => Ok(template),
            bytes => Err(too_long(here, Reason::FieldTooLong, bytes, TEMPLATE_BYTES)),
        },
        invocation_id,
    } = request);
    Ok((key, template, invocation_id))
}

pub fn end_invocation(
    at: At<'_>,
    request: v1::EndInvocationRequest,
) -> Decoded<(SessionKey, InvocationId)> {
    read!(at: v1::EndInvocationRequest { key, invocation_id } = request);
    Ok((key, invocation_id))
}

pub fn watch(at: At<'_>, request: v1::WatchRequest) -> Decoded<(Scope, WatchFrom, Mode)> {
    use v1::WatchStart::{Beginning, Now, Snapshot, Unspecified};
    read!(at: v1::WatchRequest {
        scope, start = enumeration(at.field("start"), start), cursor, json_form
    } = request);
    let from = match (cursor, start) {
        (Some(cursor), _) => WatchFrom::Cursor(cursor),
        (None, Unspecified | Snapshot) => WatchFrom::Snapshot,
        (None, Beginning) => WatchFrom::Beginning,
        (None, Now) => WatchFrom::Now,
    };
    Ok((scope, from, json_form))
}

pub fn list_applications(
    at: At<'_>,
    request: v1::ListApplicationsRequest,
) -> Decoded<(ApplicationsQuery, Option<NameToken>)> {
    read!(at: v1::ListApplicationsRequest { page_size, page_token } = request);
    Ok((ApplicationsQuery { seen: None, after: None, max_items: page_size }, page_token))
}

pub fn list_users(
    at: At<'_>,
    request: v1::ListUsersRequest,
) -> Decoded<(UsersQuery, Option<NameToken>)> {
    read!(at: v1::ListUsersRequest { app_name, page_size, page_token } = request);
    Ok((UsersQuery { app_name, seen: None, after: None, max_items: page_size }, page_token))
}

struct Settings {
    display_name: DisplayName,
    labels: Labels,
    expiration: Option<Expiration>,
}

impl Read<Settings> for v1::Session {
    fn read(self, at: At<'_>) -> Decoded<Settings> {
        use v1::session::Expiration::{ExpireTime, Ttl};
        read!(at: v1::Session {
            expiration = match expiration {
                None => Ok(None),
                Some(ExpireTime(it)) => {
                    it.read(at.field("expire_time")).map(|time| Some(Expiration::At(time)))
                }
                Some(Ttl(it)) => it.read(at.field("ttl")).map(Some),
            },
            display_name, labels;
            // What only answers hold, and state, which has its own requests.
            key, state_form, state_rounded, last_sequence, create_time, update_time,
            last_event_time, forked_from, versions, uid, state_omitted, damaged_keys,
        } = self);
        Ok(Settings { display_name, labels, expiration })
    }
}

impl Read<EventSelection> for v1::EventSelection {
    fn read(self, at: At<'_>) -> Decoded<EventSelection> {
        read!(at: v1::EventSelection {
            recent, after_time, after_sequence, include_rewound
        } = self);
        let filter = EventFilter { after_time, include_rewound, ..EventFilter::default() };
        Ok(EventSelection { filter, after: after_sequence, recent, ..EventSelection::default() })
    }
}

fn batch(at: At<'_>, events: Vec<v1::Event>) -> Decoded<Vec<NewEvent>> {
    let too_large = |unit, actual, limit| {
        at.over_limit(Reason::BatchTooLarge, (unit, actual, limit), "Split the batch.")
    };
    match events.len() {
        0 => return Err(at.missing()),
        1..=BATCH_EVENTS => {}
        many => return Err(too_large("events", many, BATCH_EVENTS)),
    }
    let events: Vec<NewEvent> = at.each(events, |at, event| event.read(at))?;
    let bytes = events.iter().map(NewEvent::bytes).sum();
    if bytes > BATCH_BYTES { Err(too_large("bytes", bytes, BATCH_BYTES)) } else { Ok(events) }
}

impl Read<NewEvent> for v1::Event {
    fn read(self, at: At<'_>) -> Decoded<NewEvent> {
        read!(at: v1::Event {
            event_id, invocation_id, author, branch, event_time, partial,
            state_delta = state_delta.unwrap_or_default().read(at.field("state_delta")),
            body_form = body_form.map(|form| form.json(at, BODY)).transpose();
            // What only answers hold.
            sequence, commit_time, rounded, rewind_to_sequence, rewound, trace_id,
        } = self);
        let mut event = NewEvent {
            event_id: Option::unwrap_or_else(event_id, new_event_id),
            invocation_id,
            author,
            branch,
            event_time,
            partial,
            delta: state_delta,
            body: body_form,
            fingerprint: Fingerprint::default(),
            refusal: None,
            field: FieldPath::from(at.field("state_delta").path),
        };
        event.fingerprint = event.content_fingerprint();
        Ok(event)
    }
}
