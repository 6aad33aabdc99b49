//! JSON as `Struct`: what it cannot say is refused on its way in, and rounded or sent as text on its way out.

use prost_types::{ListValue, Struct, Value, value::Kind};
use serde_json::{Value as Json, json};
use sessiond::{
    domain::error::Reason,
    proto::v1::{
        AppendEventRequest, AppendEventsRequest, CreateSessionRequest, Event, ForkSessionRequest,
        GetSessionRequest, GetStateRequest, ListEventsRequest, ListKeyChangesRequest,
        ListSessionsRequest, RewindSessionRequest, StateDelta, UpdateStateRequest, WatchRequest,
        WatchStart, create_session_request, event::BodyForm, get_state_response, key_change,
        session::StateForm, state_delta::SetForm, state_snapshot, update_state_response,
        watch_response::Kind as Said,
    },
};

use crate::{
    harness::{Service, with_server},
    judge::{faulty, refused},
    make::{
        APP, STRUCT, app_scope, append, append_all, create, get, get_state, get_with_events, key,
        list_events, plain, rewind, saying, session_scope, set, setting, update,
    },
    read::{HasState, body_text, state_text},
    streams::Appends,
    watching::{Watching, watch},
};

with_server! {
    numbers_that_are_not_exact_are_refused
    what_json_does_not_have_is_refused
    whole_doubles_become_integers
    what_is_rounded_says_so
    a_read_of_what_nests_too_deep_is_answered_as_text
    one_too_deep_value_of_an_application_stops_no_default_read
    a_write_of_what_nests_too_deep_is_answered_as_text
    thirty_levels_are_taken_as_a_struct_everywhere
    what_comes_as_a_struct_is_never_too_deep_for_its_client
    an_unknown_form_is_refused
}

fn number(value: f64) -> Value {
    Value { kind: Some(Kind::NumberValue(value)) }
}

fn object(key: &str, value: Value) -> Struct {
    Struct { fields: [(key.to_owned(), value)].into() }
}

/// An event with this Struct for a body.
fn with_body(body: Struct) -> Event {
    Event { body_form: Some(BodyForm::Body(body)), ..plain() }
}

/// An event that sets this Struct.
fn with_set(set: Struct) -> Event {
    let delta = StateDelta { set_form: Some(SetForm::Set(set)), ..Default::default() };
    Event { state_delta: Some(delta), ..plain() }
}

const EXACT: f64 = 9_007_199_254_740_992.0;

async fn numbers_that_are_not_exact_are_refused(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    for value in [EXACT, -EXACT, EXACT * 2.0, 1e300, -f64::MAX] {
        let body = with_body(object("n", number(value)));
        let result = service.append_event(append("s1", body)).await;
        faulty(result, Reason::NumberNotExact, "event.body.n");
        let result = service.append_event(append("s1", with_set(object("n", number(value))))).await;
        faulty(result, Reason::NumberNotExact, "event.state_delta.set[\"n\"]");
        let request = CreateSessionRequest {
            state_form: Some(create_session_request::StateForm::State(object("n", number(value)))),
            ..create("s2", "")
        };
        faulty(service.create_session(request).await, Reason::NumberNotExact, "state[\"n\"]");
    }
    // One less is exact, and so is every fraction.
    for (value, text) in [
        (EXACT - 1.0, "9007199254740991"),
        (1.0 - EXACT, "-9007199254740991"),
        (4_503_599_627_370_495.5, "4503599627370495.5"),
    ] {
        let body = with_body(object("n", number(value)));
        let answer = service.append_event(append("s1", body)).await.unwrap();
        assert_eq!(body_text(&answer.event.unwrap()), format!("{{\"n\":{text}}}"));
    }
}

async fn what_json_does_not_have_is_refused(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    for value in
        [number(f64::NAN), number(f64::INFINITY), number(-f64::INFINITY), Value { kind: None }]
    {
        let list = Value {
            kind: Some(Kind::ListValue(ListValue { values: vec![number(1.0), value.clone()] })),
        };
        let result =
            service.append_event(append("s1", with_body(object("n", value.clone())))).await;
        faulty(result, Reason::BadJson, "event.body.n");
        let result = service.append_event(append("s1", with_body(object("n", list.clone())))).await;
        faulty(result, Reason::BadJson, "event.body.n[1]");
        let result = service.append_event(append("s1", with_set(object("n", list)))).await;
        faulty(result, Reason::BadJson, "event.state_delta.set[\"n\"][1]");
    }
    assert_eq!(service.get_session(get("s1")).await.unwrap().session.unwrap().last_sequence, 0);
}

async fn whole_doubles_become_integers(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    for (value, text) in [
        (42.0, "42"),
        (-1.0, "-1"),
        (0.0, "0"),
        (1e15, "1000000000000000"),
        (0.5, "0.5"),
        (0.1, "0.1"),
        (1e-7, "1e-7"),
    ] {
        let answer = service.append_event(append("s1", with_set(object("n", number(value))))).await;
        let session = answer.unwrap().session.unwrap();
        assert_eq!(state_text(&session), format!("{{\"n\":{text}}}"));
    }
}

async fn what_is_rounded_says_so(service: &Service) {
    const BIG: &str = r#"{"n":9007199254740993}"#;
    const EVEN: &str = r#"{"n":9007199254740994,"m":1e5,"o":0.1}"#;
    for (id, content, rounded) in [("big", BIG, true), ("even", EVEN, false)] {
        let request = CreateSessionRequest { json_form: STRUCT, ..create(id, content) };
        let created = service.create_session(request).await.unwrap().session.unwrap();
        assert_eq!(created.state_rounded, rounded);
        assert_eq!(created.state()["n"].as_f64(), Some(if rounded { EXACT } else { EXACT + 2.0 }));
        // The body alone, the delta alone.
        let event = |event| AppendEventRequest { json_form: STRUCT, ..append(id, event) };
        let by_body = service.append_event(event(saying(content))).await.unwrap();
        assert_eq!(by_body.event.unwrap().rounded, rounded);
        assert_eq!(by_body.session.unwrap().state_rounded, rounded);
        let by_delta = service.append_event(event(setting(content))).await.unwrap();
        assert_eq!(by_delta.event.unwrap().rounded, rounded);
        let batch = append_all(id, vec![plain(), saying(content)]);
        let batch = AppendEventsRequest { json_form: STRUCT, ..batch };
        let batch = service.append_events(batch).await.unwrap();
        assert_eq!(batch.events.iter().map(|it| it.rounded).collect::<Vec<_>>(), [false, rounded]);

        let read = GetSessionRequest { json_form: STRUCT, ..get_with_events(id) };
        let read = service.get_session(read).await.unwrap();
        assert_eq!(read.session.unwrap().state_rounded, rounded);
        let flags = [rounded, rounded, false, rounded];
        assert_eq!(read.events.iter().map(|it| it.rounded).collect::<Vec<_>>(), flags);
        let listed = ListEventsRequest { json_form: STRUCT, ..list_events(id) };
        let listed = service.list_events(listed).await.unwrap();
        assert_eq!(listed.events.iter().map(|it| it.rounded).collect::<Vec<_>>(), flags);
        let state = GetStateRequest { json_form: STRUCT, ..get_state(session_scope(id)) };
        assert_eq!(service.get_state(state).await.unwrap().state_rounded, rounded);
        let change =
            UpdateStateRequest { json_form: STRUCT, ..update(session_scope(id), set("{}")) };
        assert_eq!(service.update_state(change).await.unwrap().state_rounded, rounded);
        let snapshot = watch(session_scope(id), WatchStart::Snapshot);
        let snapshot = WatchRequest { json_form: STRUCT, ..snapshot };
        let mut watching = Watching::open(service, snapshot).await;
        let Said::Snapshot(snapshot) = watching.next().await else { panic!() };
        assert_eq!(snapshot.state_rounded, rounded);
        let fork =
            ForkSessionRequest { key: Some(key(id)), json_form: STRUCT, ..Default::default() };
        assert_eq!(
            service.fork_session(fork).await.unwrap().session.unwrap().state_rounded,
            rounded
        );
        let back = RewindSessionRequest { json_form: STRUCT, ..rewind(id, 0) };
        let back = service.rewind_session(back).await.unwrap();
        assert_eq!(back.session.unwrap().state_rounded, rounded);
        // As text nothing is rounded, and nothing says so.
        let read = service.get_session(get_with_events(id)).await.unwrap();
        assert!(!read.session.unwrap().state_rounded);
        assert!(read.events.iter().all(|event| !event.rounded));
    }
    let list = ListSessionsRequest {
        app_name: APP.into(),
        include_state: true,
        json_form: STRUCT,
        ..Default::default()
    };
    let sessions = service.list_sessions(list).await.unwrap().sessions;
    let rounded = sessions.iter().filter(|session| session.state_rounded).count();
    assert_eq!((sessions.len(), rounded), (4, 2));
    // A value of a key's history is rounded silently: there is no flag for it.
    let changes = ListKeyChangesRequest {
        scope: Some(session_scope("big")),
        key: "n".into(),
        json_form: STRUCT,
        ..Default::default()
    };
    let changes = service.list_key_changes(changes).await.unwrap().changes;
    assert_eq!(changes[0].value_form, Some(key_change::ValueForm::Value(number(EXACT))));
}

/// An object with arrays nested to a depth.
fn deep(levels: usize) -> String {
    format!("{{\"deep\":{}{}}}", "[".repeat(levels), "]".repeat(levels))
}

/// A session whose own state nests deep, with events whose body and whose delta do.
async fn create_deep(service: &Service, id: &str) {
    service.create_session(create(id, &deep(90))).await.unwrap();
    service.append_event(append(id, setting(&deep(91)))).await.unwrap();
    service.append_event(append(id, saying(&deep(92)))).await.unwrap();
}

async fn a_read_of_what_nests_too_deep_is_answered_as_text(service: &Service) {
    create_deep(service, "s1").await;
    let request = GetSessionRequest { json_form: STRUCT, ..get_with_events("s1") };
    let read = service.get_session(request).await.unwrap();
    assert_eq!(state_text(&read.session.unwrap()), deep(91));
    assert_eq!(body_text(&read.events[1]), deep(92));
    let state = GetStateRequest { json_form: STRUCT, ..get_state(session_scope("s1")) };
    let state = service.get_state(state).await.unwrap().state_form;
    assert_eq!(state, Some(get_state_response::StateForm::StateJson(deep(91))));
    let list = ListSessionsRequest {
        app_name: APP.into(),
        include_state: true,
        json_form: STRUCT,
        ..Default::default()
    };
    let listed = service.list_sessions(list).await.unwrap().sessions;
    assert_eq!(state_text(&listed[0]), deep(91));
    let events = ListEventsRequest { json_form: STRUCT, ..list_events("s1") };
    let events = service.list_events(events).await.unwrap().events;
    let set = events[0].state_delta.as_ref().unwrap().set_form.as_ref();
    assert_eq!(set, Some(&SetForm::SetJson(deep(91))));
    assert_eq!(body_text(&events[1]), deep(92));
    let changes = ListKeyChangesRequest {
        scope: Some(session_scope("s1")),
        key: "deep".into(),
        json_form: STRUCT,
        ..Default::default()
    };
    let changes = service.list_key_changes(changes).await.unwrap().changes;
    let value = deep(91).replace("{\"deep\":", "").replace('}', "");
    assert_eq!(changes[0].value_form, Some(key_change::ValueForm::ValueJson(value)));
}

/// Everybody reads the state of the application, in the form that is the default.
async fn one_too_deep_value_of_an_application_stops_no_default_read(service: &Service) {
    service.create_session(create("s1", r#"{"own":1}"#)).await.unwrap();
    let value = deep(90).replace("deep", "app:deep");
    service.update_state(update(app_scope(), set(&value))).await.unwrap();
    service.append_event(append("s1", saying(r#"{"n":1}"#))).await.unwrap();
    let read = GetSessionRequest { json_form: 0, ..get_with_events("s1") };
    let read = service.get_session(read).await.unwrap();
    assert!(matches!(read.session.unwrap().state_form, Some(StateForm::StateJson(_))));
    assert!(matches!(read.events[0].body_form, Some(BodyForm::Body(_))), "the rest stays Struct");
}

async fn a_write_of_what_nests_too_deep_is_answered_as_text(service: &Service) {
    let request = CreateSessionRequest { json_form: STRUCT, ..create("s1", &deep(90)) };
    let created = service.create_session(request.clone()).await.unwrap().session.unwrap();
    assert_eq!(state_text(&created), deep(90));
    let again = CreateSessionRequest { allow_existing: true, ..request };
    service.create_session(again).await.unwrap();

    let struct_of = |event| AppendEventRequest { json_form: STRUCT, ..append("s1", event) };
    let answer = service.append_event(struct_of(saying(&deep(92)))).await.unwrap();
    assert_eq!(body_text(&answer.event.unwrap()), deep(92));
    assert_eq!(state_text(&answer.session.unwrap()), deep(90));
    let answer = service.append_event(struct_of(setting(&deep(91)))).await.unwrap();
    let set_form = answer.event.unwrap().state_delta.unwrap().set_form;
    assert_eq!(set_form, Some(SetForm::SetJson(deep(91))));
    // What fits comes in the form asked for, beside what does not.
    let batch = append_all("s1", vec![saying(&deep(92)), saying("{\"flat\":1}")]);
    let batch = AppendEventsRequest { json_form: STRUCT, ..batch };
    let batch = service.append_events(batch).await.unwrap();
    assert_eq!(body_text(&batch.events[0]), deep(92));
    assert!(matches!(batch.events[1].body_form, Some(BodyForm::Body(_))));

    let change = UpdateStateRequest { json_form: STRUCT, ..update(session_scope("s1"), set("{}")) };
    let form = service.update_state(change).await.unwrap().state_form;
    assert_eq!(form, Some(update_state_response::StateForm::StateJson(deep(91))));
    let back = RewindSessionRequest { json_form: STRUCT, ..rewind("s1", 0) };
    let back = service.rewind_session(back).await.unwrap();
    assert_eq!(state_text(&back.session.unwrap()), deep(90));
    let fork = ForkSessionRequest { key: Some(key("s1")), json_form: STRUCT, ..Default::default() };
    let fork = service.fork_session(fork).await.unwrap().session.unwrap();
    assert_eq!(state_text(&fork), deep(90));

    // A watch goes on likewise.
    let request = watch(session_scope("s1"), WatchStart::Snapshot);
    let request = WatchRequest { json_form: STRUCT, ..request };
    let mut watching = Watching::open(service, request).await;
    let Said::Snapshot(snapshot) = watching.next().await else { panic!() };
    assert_eq!(snapshot.state_form, Some(state_snapshot::StateForm::StateJson(deep(90))));
    watching.caught_up().await;
    service.append_event(append("s1", saying(&deep(92)))).await.unwrap();
    assert_eq!(body_text(&watching.event().await), deep(92));
    let change = deep(90).replace("deep", "app:deep");
    service.update_state(update(app_scope(), set(&change))).await.unwrap();
    let Said::StateChange(told) = watching.next().await else { panic!() };
    assert_eq!(told.delta.unwrap().set_form, Some(SetForm::SetJson(change)));
}

/// The generated client decodes at most 100 messages inside one another: what it cannot decode must not be sent to it.
async fn what_comes_as_a_struct_is_never_too_deep_for_its_client(service: &Service) {
    let objects = |levels: usize| format!("{}1{}", "{\"k\":".repeat(levels), "}".repeat(levels));
    for (kind, nest) in [("arrays", deep as fn(usize) -> String), ("objects", objects)] {
        let mut fits = Vec::new();
        for levels in 20..60 {
            let id = format!("{kind}{levels}");
            let text = nest(levels);
            service.create_session(create(&id, &text)).await.unwrap();
            let appending = |event| AppendEventRequest { json_form: STRUCT, ..append(&id, event) };
            service.append_event(appending(saying(&text))).await.unwrap();
            service.append_event(appending(setting(&text))).await.unwrap();
            let request = watch(session_scope(&id), WatchStart::Beginning);
            let request = WatchRequest { json_form: STRUCT, ..request };
            let mut watching = Watching::open(service, request).await;
            watching.event().await;
            watching.event().await;

            let read = GetSessionRequest { json_form: STRUCT, ..get(&id) };
            let read = service.get_session(read).await.unwrap();
            assert_eq!(read.state(), serde_json::from_str::<Json>(&text).unwrap());
            let form = read.session.unwrap().state_form;
            fits.push(matches!(form, Some(StateForm::State(_))));
            let events = ListEventsRequest { json_form: STRUCT, ..list_events(&id) };
            assert_eq!(service.list_events(events).await.unwrap().events.len(), 2);
        }
        assert!(fits.is_sorted_by_key(|fits| !fits), "all below some depth, none beyond: {fits:?}");
        assert!(fits[5] && !fits[39], "some thirty levels fit: {fits:?}");
    }
}

/// A value nested to a depth, as an object of objects.
fn nested(levels: usize) -> Struct {
    (1..levels).fold(object("k", number(1.0)), |inner, _| {
        object("k", Value { kind: Some(Kind::StructValue(inner)) })
    })
}

/// The README's promise, where the message around the Struct is deepest; beyond it the decoder of messages ends the call.
async fn thirty_levels_are_taken_as_a_struct_everywhere(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let mut appends = Appends::open(service).await;
    appends.send(append("s1", with_set(nested(30))));
    appends.send(append("s1", with_body(nested(30))));
    assert_eq!(appends.appended().await.sequence, 1);
    assert_eq!(appends.appended().await.sequence, 2);
    appends.end().await;
    let mut client = service.events();
    let status = client.append_event(append("s1", with_set(nested(40)))).await.unwrap_err();
    assert!(status.message().contains("recursion limit"), "{status:?}");
    refused::<()>(Err(status), Reason::BadMessage);
    // As an item of a stream it ends the stream.
    let mut appends = Appends::open(service).await;
    appends.send(append("s1", with_set(nested(40))));
    refused::<()>(Err(appends.message().await.unwrap_err()), Reason::BadMessage);
    assert_eq!(service.get_session(get("s1")).await.unwrap().session.unwrap().last_sequence, 2);
}

async fn an_unknown_form_is_refused(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    for json_form in [3, -1, i32::MAX] {
        let request = GetSessionRequest { json_form, ..get("s1") };
        faulty(service.get_session(request).await, Reason::BadValue, "json_form");
        let request = AppendEventRequest { json_form, ..append("s1", plain()) };
        faulty(service.append_event(request).await, Reason::BadValue, "json_form");
    }
    let read = service.get_session(get("s1")).await.unwrap();
    assert_eq!((read.state(), read.session.unwrap().last_sequence), (json!({}), 0));
}
