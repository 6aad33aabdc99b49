//! Refusals over a socket: each with its reason, its metadata and the caller's own field.

use std::sync::Arc;

use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::{append, key, memory, refusal, serve, server, set};
use crate::{
    domain::limits::MESSAGE_BYTES,
    proto::v1::{
        AppendEventRequest, AppendEventsRequest, CreateSessionRequest, Event, EventSelection,
        GetSessionRequest, GetStateRequest, Increment, JsonForm, KeyCheck, ListEventsRequest,
        Precondition, RenderTemplateRequest, Scope, SessionKey, StateDelta, StateOperation,
        UpdateStateRequest, event::BodyForm, get_state_response, increment::Amount,
        key_check::Condition, state_operation::Operation,
    },
    rpc::BareIds,
};

fn metadata(status: &Status, name: &str) -> String {
    status.get_details_error_info().unwrap().metadata[name].clone()
}

/// Fields of the violations.
fn fields(status: &Status) -> Vec<String> {
    let violations = status.get_details_bad_request().unwrap().field_violations;
    violations.into_iter().map(|violation| violation.field).collect()
}

fn scope() -> Option<Scope> {
    let SessionKey { app_name, user_id, session_id } = key("s");
    Some(Scope { app_name, user_id, session_id })
}

/// Adds until the number leaves its range.
fn overflow() -> Option<StateDelta> {
    let by = |amount| StateOperation {
        key: "n".into(),
        operation: Some(Operation::Increment(Increment { amount: Some(Amount::By(amount)) })),
    };
    Some(StateDelta { operations: vec![by(1), by(i64::MAX)], ..Default::default() })
}

#[tokio::test]
async fn a_conflict_tells_both_what_was_expected_and_which_keys_differ() {
    let server = server().await;
    server.create("s", "{\"a\":1}").await;
    let check = |key: &str| KeyCheck { key: key.into(), condition: Some(Condition::Exists(false)) };
    let precondition = Some(Precondition {
        expected_sequence: Some(3),
        keys: vec![check("a"), check("b"), check("a")],
        ..Default::default()
    });
    let request = AppendEventRequest { precondition, ..append("e", "{}") };
    let status = server.events().append_event(request).await.unwrap_err();
    assert_eq!(refusal::<()>(Err(status.clone())), (Code::Aborted, "SEQUENCE_CONFLICT".into()));
    assert_eq!(metadata(&status, "expected"), "3");
    assert_eq!(metadata(&status, "actual"), "0");
    assert_eq!(metadata(&status, "keys"), "[\"a\"]");
}

#[tokio::test]
async fn what_a_store_finds_is_named_by_the_field_of_the_request() {
    let server = server().await;
    server.create("s", "{}").await;
    let event = Event { state_delta: overflow(), ..Default::default() };
    let single = AppendEventRequest { event: Some(event.clone()), ..append("e", "{}") };
    let status = server.events().append_event(single).await.unwrap_err();
    assert_eq!(fields(&status), ["event.state_delta.operations[1]"]);
    assert_eq!(metadata(&status, "field"), "event.state_delta.operations[1]");
    let events = vec![Event::default(), event];
    let batch = AppendEventsRequest { key: Some(key("s")), events, ..Default::default() };
    let status = server.events().append_events(batch).await.unwrap_err();
    assert_eq!(fields(&status), ["events[1].state_delta.operations[1]"]);
    let update = UpdateStateRequest { scope: scope(), delta: overflow(), ..Default::default() };
    let status = server.states().update_state(update).await.unwrap_err();
    assert_eq!(fields(&status), ["delta.operations[1]"]);
    assert_eq!(refusal::<()>(Err(status)).1, "NUMBER_OVERFLOW");
}

#[tokio::test]
async fn a_bare_id_is_enough_where_it_is_alone_and_where_the_server_takes_it() {
    let bare =
        |session: &str| Some(SessionKey { session_id: session.into(), ..Default::default() });
    let open = server().await;
    open.create("s", "{}").await;
    let get = |key| GetSessionRequest { key, ..Default::default() };
    let found = open.sessions().get_session(get(bare("s"))).await.unwrap().into_inner();
    assert_eq!(found.session.unwrap().key, Some(key("s")));
    let missing = open.sessions().get_session(get(bare("t"))).await;
    assert_eq!(refusal(missing), (Code::NotFound, "SESSION_NOT_FOUND".into()));
    let other = CreateSessionRequest {
        app_name: "other".into(),
        user_id: "user".into(),
        session_id: "s".into(),
        ..Default::default()
    };
    open.sessions().create_session(other).await.unwrap();
    let ambiguous = AppendEventRequest { key: bare("s"), ..append("e", "{}") };
    let ambiguous = open.events().append_event(ambiguous).await;
    assert_eq!(refusal(ambiguous), (Code::FailedPrecondition, "AMBIGUOUS_SESSION_ID".into()));

    let strict = serve(Arc::new(memory()), BareIds::Refused).await;
    strict.create("s", "{}").await;
    let status = strict.sessions().get_session(get(bare("s"))).await.unwrap_err();
    assert_eq!(fields(&status), ["key.app_name", "key.user_id"]);
    let appended = AppendEventRequest { key: bare("s"), ..append("e", "{}") };
    assert_eq!(refusal(strict.events().append_event(appended).await).1, "MISSING_FIELD");
}

#[tokio::test]
async fn what_is_too_deep_for_a_struct_comes_as_text_from_reads_and_writes() {
    let server = server().await;
    server.create("s", "{}").await;
    let deep = format!("{{\"deep\":{}{}}}", "[".repeat(90), "]".repeat(90));
    let mut request = append("e", &deep);
    request.json_form = JsonForm::Struct.into();
    let written = server.events().append_event(request).await.unwrap().into_inner();
    let set = written.event.unwrap().state_delta.unwrap().set_form;
    let text = crate::proto::v1::state_delta::SetForm::SetJson(deep.clone());
    assert_eq!(set, Some(text.clone()));
    let list = ListEventsRequest { key: Some(key("s")), ..Default::default() };
    let read = server.events().list_events(list.clone()).await.unwrap().into_inner();
    assert_eq!(read.events[0].state_delta.as_ref().unwrap().set_form, Some(text));
    let get = GetStateRequest { scope: scope(), ..Default::default() };
    let read = server.states().get_state(get).await.unwrap().into_inner();
    assert_eq!(read.state_form, Some(get_state_response::StateForm::StateJson(deep)));
    let text = ListEventsRequest { json_form: JsonForm::Text.into(), ..list };
    assert!(server.events().list_events(text).await.is_ok());
}

#[tokio::test]
async fn pages_end_where_the_form_is_full_and_go_on_behind_it() {
    let server = server().await;
    server.create("s", "{}").await;
    let zeros = vec!["0"; 96_000].join(",");
    let body = |at: i32| BodyForm::BodyJson(format!("{{\"at\":{at},\"zeros\":[{zeros}]}}"));
    for at in 0..5 {
        let event = Event { body_form: Some(body(at)), ..Default::default() };
        let request = AppendEventRequest { event: Some(event), ..append("", "{}") };
        server.events().append_event(request).await.unwrap();
    }
    for (descending, expected) in [(false, vec![1, 2, 3, 4, 5]), (true, vec![5, 4, 3, 2, 1])] {
        let mut found = Vec::new();
        let mut pages = Vec::new();
        let mut page_token = String::new();
        loop {
            let list = ListEventsRequest {
                key: Some(key("s")),
                page_token,
                descending,
                ..Default::default()
            };
            let page = server.events().list_events(list).await.unwrap().into_inner();
            pages.push(page.events.len());
            found.extend(page.events.into_iter().map(|event| event.sequence));
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        assert_eq!((found, pages), (expected, vec![3, 2]));
    }
    let huge = vec!["0"; 400_000].join(",");
    let event = Event {
        body_form: Some(BodyForm::BodyJson(format!("{{\"zeros\":[{huge}]}}"))),
        ..Default::default()
    };
    let request = AppendEventRequest { event: Some(event), ..append("", "{}") };
    server.events().append_event(request).await.unwrap();
    let descending = true;
    let list = ListEventsRequest { key: Some(key("s")), descending, ..Default::default() };
    let page = server.events().list_events(list).await.unwrap().into_inner();
    let form = page.events[0].body_form.as_ref().unwrap();
    assert!(matches!(form, BodyForm::BodyJson(text) if text.len() > 800_000));
}

#[tokio::test]
async fn events_that_do_not_fit_beside_the_state_are_behind_the_token() {
    let server = server().await;
    let zeros = |many| format!("[{}]", vec!["0"; many].join(","));
    server.create("s", "{}").await;
    // Three values below the limit of one: three megabytes as a message, so that one event fits beside them.
    let values = [("a", 90_000), ("b", 90_000), ("c", 90_000)];
    let set = values.map(|(name, many)| format!("\"{name}\":{}", zeros(many))).join(",");
    server.append(&key("s"), "big", &format!("{{{set}}}")).await;
    for at in 0..3 {
        let body = BodyForm::BodyJson(format!("{{\"at\":{at},\"zeros\":{}}}", zeros(90_000)));
        let event = Event { body_form: Some(body), ..Default::default() };
        let request = AppendEventRequest { event: Some(event), ..append("", "{}") };
        server.events().append_event(request).await.unwrap();
    }
    let after_sequence = 1;
    let events = Some(EventSelection { after_sequence, ..Default::default() });
    let get = GetSessionRequest { key: Some(key("s")), events, ..Default::default() };
    let got = server.sessions().get_session(get).await.unwrap().into_inner();
    let mut found: Vec<_> = got.events.iter().map(|event| event.sequence).collect();
    assert_eq!(found, [2]);
    // What comes behind is of the same moment.
    server.append(&key("s"), "later", "{}").await;
    let (page_token, key) = (got.next_page_token, Some(key("s")));
    let list = ListEventsRequest { key, page_token, ..Default::default() };
    let page = server.events().list_events(list).await.unwrap().into_inner();
    found.extend(page.events.iter().map(|event| event.sequence));
    assert_eq!((found, page.next_page_token.as_str()), (vec![2, 3, 4], ""));
}

#[tokio::test]
async fn a_template_names_what_it_lacks() {
    let server = server().await;
    server.create("s", "{\"name\":\"Ada\"}").await;
    let render = |template: &str| RenderTemplateRequest {
        key: Some(key("s")),
        template: template.into(),
        ..Default::default()
    };
    let text = server.states().render_template(render("Hello {name}{x?}")).await.unwrap();
    assert_eq!(text.into_inner().text, "Hello Ada");
    let status = server.states().render_template(render("{x} {app:y} {x}")).await.unwrap_err();
    assert_eq!(metadata(&status, "keys"), "[\"x\",\"app:y\"]");
    assert_eq!(refusal::<()>(Err(status)).1, "MISSING_STATE_KEY");
}

#[tokio::test]
async fn a_message_beyond_four_megabytes_is_refused_by_the_transport() {
    let server = server().await;
    server.create("s", "{}").await;
    let event = |bytes: usize| Event {
        body_form: Some(BodyForm::BodyJson(format!("{{\"b\":\"{}\"}}", "x".repeat(bytes)))),
        state_delta: set("{}"),
        ..Default::default()
    };
    let send = async |bytes| {
        let request = AppendEventRequest { event: Some(event(bytes)), ..append("", "{}") };
        server.events().append_event(request).await.unwrap_err()
    };
    let ours = send(MESSAGE_BYTES - 1024).await;
    assert_eq!(refusal::<()>(Err(ours)).1, "EVENT_TOO_LARGE");
    let theirs = send(MESSAGE_BYTES + 1).await;
    assert_eq!(refusal::<()>(Err(theirs)), (Code::OutOfRange, String::new()));
}
