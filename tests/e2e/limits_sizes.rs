//! Limits of values, bodies, deltas, batches, scopes, depth and messages: the last legal size and one beyond.

use sessiond::{
    domain::error::Reason,
    proto::v1::{
        AppendEventRequest, AppendEventsRequest, Event, StateDelta, event::BodyForm,
        key_check::Condition,
    },
};
use tonic::codec::CompressionEncoding;

use crate::{
    harness::{Service, with_server},
    judge::{detail, faulty, refused},
    make::{
        app_scope, append, append_all, check, checking, create, event, get, increment, list_append,
        merge_patch, operating, operations, plain, saying, session_scope, set, set_if_absent,
        set_struct, setting, setting_in, structure, update, user_scope,
    },
    pages::{KIB, large},
    read::HasState,
};

with_server! {
    a_value_has_at_most_256_kib
    what_an_operation_makes_has_at_most_256_kib
    a_body_has_at_most_one_mib
    a_delta_has_at_most_one_mib
    a_scope_holds_at_most_one_mib
    json_nests_at_most_100_levels
    a_batch_has_at_most_1000_events
    a_batch_has_at_most_three_mib
    the_operations_of_a_batch_write_at_most_sixteen_mib
    lists_in_a_request_have_at_most_1000_items
    a_message_has_at_most_four_mib
    messages_that_would_fill_the_memory_are_not_decoded
}

fn one(key: &str, bytes: usize) -> String {
    format!("{{\"{key}\":{}}}", large(bytes))
}

async fn a_value_has_at_most_256_kib(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let full = 256 * KIB;
    for prefix in ["", "app:", "user:", "temp:"] {
        let key = format!("{prefix}k");
        let event =
            |delta| Event { invocation_id: "turn".into(), state_delta: Some(delta), ..plain() };
        for (delta, form) in [
            (set as fn(&str) -> StateDelta, "set_json"),
            (set_struct as fn(&str) -> StateDelta, "set"),
        ] {
            let fits = event(delta(&one(&key, full)));
            service.append_event(append("s1", fits)).await.unwrap();
            let result =
                service.append_event(append("s1", event(delta(&one(&key, full + 1))))).await;
            let field = format!("event.state_delta.{form}[\"{key}\"]");
            let status = faulty(result, Reason::ValueTooLarge, &field);
            assert_eq!(detail(&status, "limit"), "262144");
        }
    }
    service.create_session(create("s2", &one("k", full))).await.unwrap();
    let result = service.create_session(create("s3", &one("k", full + 1))).await;
    faulty(result, Reason::ValueTooLarge, "state_json[\"k\"]");
    let condition = |bytes| AppendEventRequest {
        precondition: checking([check("k", Condition::ValueJson(large(bytes)))]),
        ..append("s2", plain())
    };
    service.append_event(condition(full)).await.unwrap();
    let result = service.append_event(condition(full + 1)).await;
    faulty(result, Reason::ValueTooLarge, "precondition.keys[0].value_json");
}

async fn what_an_operation_makes_has_at_most_256_kib(service: &Service) {
    let full = 256 * KIB;
    let path = "event.state_delta.operations[0]";
    service
        .create_session(create("s1", &format!("{{\"list\":[{}]}}", large(full - 3))))
        .await
        .unwrap();
    let result = service.append_event(append("s1", operating(list_append("list", "[1]", 0)))).await;
    let status = faulty(result, Reason::ValueTooLarge, path);
    assert_eq!((&*detail(&status, "key"), &*detail(&status, "bytes")), ("list", "262145"));
    service
        .create_session(create("s2", &format!("{{\"list\":[{}]}}", large(full - 3))))
        .await
        .unwrap();
    // A bound on the list makes room.
    let bounded = operating(list_append("list", "[1]", 1));
    let answer = service.append_event(append("s2", bounded)).await.unwrap();
    assert_eq!(answer.state()["list"], serde_json::json!([1]));
    for operation in [
        list_append("new", &format!("[{}]", large(full)), 0),
        set_if_absent("new", &large(full + 1)),
        merge_patch("new", &one("k", full)),
    ] {
        let result = service.append_event(append("s1", operating(operation))).await;
        refused(result, Reason::ValueTooLarge);
    }
    let fitting = operating(set_if_absent("new", &large(full)));
    service.append_event(append("s1", fitting)).await.unwrap();
}

async fn a_body_has_at_most_one_mib(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let full = KIB * KIB;
    let body = |bytes: usize| one("k", bytes - 6);
    let request = |event| AppendEventRequest { return_state: false, ..append("s1", event) };
    service.append_event(request(saying(&body(full)))).await.unwrap();
    // White space around it does not count, for it is not kept.
    service.append_event(request(saying(&format!("  {}\n", body(full))))).await.unwrap();
    let result = service.append_event(request(saying(&body(full + 1)))).await;
    let status = faulty(result, Reason::EventTooLarge, "event.body_json");
    assert_eq!(detail(&status, "limit"), "1048576");
    let form =
        |bytes| Event { body_form: Some(BodyForm::Body(structure(&body(bytes)))), ..plain() };
    service.append_event(request(form(full))).await.unwrap();
    let result = service.append_event(request(form(full + 1))).await;
    faulty(result, Reason::EventTooLarge, "event.body");
}

/// A delta of four values whose keys and values have that many bytes together.
fn delta_of(bytes: usize, keys: [&str; 4]) -> StateDelta {
    let rest = bytes - 3 * (2 + 256 * KIB - 2) - 2;
    let sizes = [256 * KIB - 2, 256 * KIB - 2, 256 * KIB - 2, rest];
    let members: Vec<_> = keys
        .iter()
        .zip(sizes)
        .map(|(key, size)| format!("\"{key}\":{}", large(size - (key.len() - 2))))
        .collect();
    set(&format!("{{{}}}", members.join(",")))
}

const FOUR: [&str; 4] = ["k1", "k2", "k3", "k4"];

async fn a_delta_has_at_most_one_mib(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let full = KIB * KIB;
    let event = |delta| Event { state_delta: Some(delta), ..plain() };
    service.append_event(append("s1", event(delta_of(full, FOUR)))).await.unwrap();
    let result = service.append_event(append("s1", event(delta_of(full + 1, FOUR)))).await;
    let status = faulty(result, Reason::ValueTooLarge, "event.state_delta");
    assert_eq!((&*detail(&status, "bytes"), &*detail(&status, "limit")), ("1048577", "1048576"));
    // Removals and operands count as well.
    let removing = StateDelta { remove: vec!["x".into()], ..delta_of(full - 1, FOUR) };
    service.append_event(append("s1", event(removing))).await.unwrap();
    let removing = StateDelta { remove: vec!["xy".into()], ..delta_of(full - 1, FOUR) };
    faulty(
        service.append_event(append("s1", event(removing))).await,
        Reason::ValueTooLarge,
        "event.state_delta",
    );
    let result = service.update_state(update(session_scope("s1"), delta_of(full + 1, FOUR))).await;
    faulty(result, Reason::ValueTooLarge, "delta");
}

async fn a_scope_holds_at_most_one_mib(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    for (prefix, scope, kind) in [
        ("app:", app_scope(), "application"),
        ("user:", user_scope(), "user"),
        ("", session_scope("s1"), "session"),
    ] {
        // Keys count without their prefix: two bytes each.
        for at in 0..4 {
            let state = one(&format!("{prefix}k{at}"), 256 * KIB - 2);
            service.update_state(update(scope.clone(), set(&state))).await.unwrap();
        }
        let more =
            update(scope.clone(), set(&format!("{{\"{prefix}\":1}}").replace("\"\"", "\"x\"")));
        let status = refused(service.update_state(more).await, Reason::StateTooLarge);
        assert_eq!(detail(&status, "scope"), kind);
        assert_eq!(detail(&status, "limit"), "1048576");
        // Through an event and through a creation as well, whole.
        let key = format!("{prefix}x");
        let event = setting(&format!("{{\"other\":1,\"{key}\":1}}"));
        if kind != "session" {
            let mut request = create("fresh", &format!("{{\"{key}\":1}}"));
            request.allow_existing = true;
            refused(service.create_session(request).await, Reason::StateTooLarge);
            refused(service.get_session(get("fresh")).await, Reason::SessionNotFound);
        }
        refused(service.append_event(append("s1", event)).await, Reason::StateTooLarge);
        let state = service.get_session(get("s1")).await.unwrap().state();
        assert_eq!(
            (&state["other"], &state[&key]),
            (&serde_json::Value::Null, &serde_json::Value::Null)
        );
    }
}

async fn json_nests_at_most_100_levels(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let arrays = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let objects = |levels: usize| format!("{}1{}", "{\"k\":".repeat(levels), "}".repeat(levels));
    for nest in [&arrays as &dyn Fn(usize) -> String, &objects] {
        let body = |levels: usize| format!("{{\"k\":{}}}", nest(levels - 1));
        service.append_event(append("s1", saying(&body(100)))).await.unwrap();
        let result = service.append_event(append("s1", saying(&body(101)))).await;
        faulty(result, Reason::BadJson, "event.body_json");
        service.append_event(append("s1", setting(&body(100)))).await.unwrap();
        let result = service.append_event(append("s1", setting(&body(101)))).await;
        faulty(result, Reason::BadJson, "event.state_delta.set_json");
        let result = service.create_session(create("s2", &body(101))).await;
        faulty(result, Reason::BadJson, "state_json");
    }
    // What an operation would nest deeper than that is refused as well.
    let full = operating(set_if_absent("full", &arrays(100)));
    service.append_event(append("s1", full)).await.unwrap();
    for (operation, field) in [
        (set_if_absent("new", &arrays(101)), ".set_if_absent.value_json"),
        (list_append("list", &arrays(101), 0), ".list_append.values_json"),
        (merge_patch("object", &objects(101)), ".merge_patch.patch_json"),
    ] {
        let result = service.append_event(append("s1", operating(operation))).await;
        let field = format!("event.state_delta.operations[0]{field}");
        faulty(result, Reason::BadJson, &field);
    }
    // State that holds all of it can be read, rendered and watched as text.
    let read = service.get_session(get("s1")).await.unwrap();
    assert_eq!(read.state()["full"].to_string(), arrays(100));
}

async fn a_batch_has_at_most_1000_events(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let batch = |count| append_all("s1", vec![plain(); count]);
    let answer = service.append_events(batch(1000)).await.unwrap();
    assert_eq!((answer.events.len(), answer.replayed.len()), (1000, 1000));
    let status = faulty(service.append_events(batch(1001)).await, Reason::BatchTooLarge, "events");
    assert_eq!((&*detail(&status, "events"), &*detail(&status, "limit")), ("1001", "1000"));
    faulty(service.append_events(batch(0)).await, Reason::MissingField, "events");
    assert_eq!(service.get_session(get("s1")).await.unwrap().session.unwrap().last_sequence, 1000);
}

async fn messages_that_would_fill_the_memory_are_not_decoded(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let events = vec![Event::default(); 200_000];
    let batch = AppendEventsRequest { events, ..append_all("s1", Vec::new()) };
    let status = service.append_events(batch).await.unwrap_err();
    assert!(status.message().contains("too many messages within it"), "{status:?}");
    refused::<()>(Err(status), Reason::BadMessage);
}

async fn a_batch_has_at_most_three_mib(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let body = |bytes: usize| saying(&one("k", bytes - 6));
    let delta = setting(r#"{"k":1}"#);
    let batch = |last: usize| AppendEventsRequest {
        return_state: false,
        ..append_all("s1", vec![body(KIB * KIB), body(KIB * KIB), body(last), delta.clone()])
    };
    service.append_events(batch(KIB * KIB - 2)).await.unwrap();
    let result = service.append_events(batch(KIB * KIB - 1)).await;
    let status = faulty(result, Reason::BatchTooLarge, "events");
    assert_eq!((&*detail(&status, "bytes"), &*detail(&status, "limit")), ("3145729", "3145728"));
}

async fn the_operations_of_a_batch_write_at_most_sixteen_mib(service: &Service) {
    let state = format!("{{\"list\":[{}]}}", large(250 * KIB));
    service.create_session(create("s1", &state)).await.unwrap();
    // Each copies the list, and changes nothing.
    let batch = |count, turn: &str, key: &str| {
        let event = Event { invocation_id: turn.into(), ..operating(list_append(key, "[]", 0)) };
        append_all("s1", vec![event; count])
    };
    service.append_events(batch(66, "", "list")).await.unwrap();
    let status = refused(service.append_events(batch(68, "", "list")).await, Reason::BatchTooLarge);
    assert_eq!(detail(&status, "limit"), "16777216");
    let read = service.get_session(get("s1")).await.unwrap();
    assert_eq!(read.session.unwrap().last_sequence, 66, "all or none");
    // The same for keys of an invocation.
    let delta = format!("{{\"temp:list\":[{}]}}", large(250 * KIB));
    service.append_event(append("s1", setting_in("turn", &delta))).await.unwrap();
    service.append_events(batch(66, "turn", "temp:list")).await.unwrap();
    let result = service.append_events(batch(68, "turn", "temp:list")).await;
    refused(result, Reason::BatchTooLarge);
}

async fn lists_in_a_request_have_at_most_1000_items(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let operating = |count| Event {
        state_delta: Some(operations((0..count).map(|_| increment("n", 1)))),
        ..plain()
    };
    let answer = service.append_event(append("s1", operating(1000))).await.unwrap();
    assert_eq!(answer.state()["n"], 1000);
    let result = service.append_event(append("s1", operating(1001))).await;
    faulty(result, Reason::BadValue, "event.state_delta.operations");
    let checked = |count| AppendEventRequest {
        precondition: checking((0..count).map(|_| check("n", Condition::Exists(true)))),
        ..append("s1", plain())
    };
    service.append_event(checked(1000)).await.unwrap();
    let result = service.append_event(checked(1001)).await;
    faulty(result, Reason::BadValue, "precondition.keys");
}

async fn a_message_has_at_most_four_mib(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let request = |bytes: usize| {
        // A page token is the one text without a limit of its own.
        let mut request = crate::make::list_events("s1");
        request.page_token = "x".repeat(bytes);
        let rest = prost::Message::encoded_len(&request) - bytes;
        request.page_token = "x".repeat(bytes - rest);
        assert_eq!(prost::Message::encoded_len(&request), bytes);
        request
    };
    faulty(service.list_events(request(4 * KIB * KIB)).await, Reason::BadPageToken, "page_token");
    let large = service.events().list_events(request(4 * KIB * KIB + 1)).await.unwrap_err();
    refused::<()>(Err(large), Reason::MessageTooLarge);
    // What counts is the size before compression.
    let gzip = || service.events().send_compressed(CompressionEncoding::Gzip);
    let page = gzip().list_events(request(4 * KIB * KIB)).await;
    faulty(page, Reason::BadPageToken, "page_token");
    let large = gzip().list_events(request(4 * KIB * KIB + 1)).await;
    refused(large, Reason::MessageTooLarge);
    // The connection lives on.
    service.append_event(append("s1", event("e1"))).await.unwrap();
}
