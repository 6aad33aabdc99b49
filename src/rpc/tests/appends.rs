//! Streams of appends: in order, many at a time, and each for itself.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_stream::{StreamExt, wrappers::ReceiverStream};
use tonic::{Code, Streaming};
use tonic_types::StatusExt as _;

use super::{Server, append, gated::GatedStore, key, serve, server, set};
use crate::{
    proto::v1::{
        AppendEventRequest, AppendEventStreamRequest, AppendEventStreamResponse, AppendFailure,
        Event, Increment, JsonForm, ListEventsRequest, StateOperation,
        append_event_stream_response::Outcome, increment, session::StateForm, state_operation,
    },
    rpc::BareIds,
};

type Items = mpsc::Sender<AppendEventStreamRequest>;

/// An open stream: where its items go in and where its answers come out.
async fn open(server: &Server) -> (Items, Streaming<AppendEventStreamResponse>) {
    let (items, receiver) = mpsc::channel(1024);
    let stream = server.events().append_event_stream(ReceiverStream::new(receiver)).await.unwrap();
    (items, stream.into_inner())
}

async fn send(items: &Items, append: AppendEventRequest) {
    items.send(AppendEventStreamRequest { append: Some(append) }).await.unwrap();
}

/// An append that changes an invocation's `temp:` keys, too.
fn with_temp(id: &str) -> AppendEventRequest {
    let mut request = append(id, "{\"temp:t\":1,\"n\":1}");
    if let Some(event) = &mut request.event {
        event.invocation_id = "turn".into();
    }
    request
}

/// Sets a number and adds one to it.
fn with_number(set_json: &str) -> AppendEventRequest {
    let increment = Increment { amount: Some(increment::Amount::By(1)) };
    let add = StateOperation {
        key: "app:n".into(),
        operation: Some(state_operation::Operation::Increment(increment)),
    };
    let mut request = append("n", set_json);
    if let Some(delta) = request.event.as_mut().and_then(|event| event.state_delta.as_mut()) {
        delta.operations = vec![add];
    }
    request
}

/// The sequence of an item that was appended.
fn sequence(response: AppendEventStreamResponse) -> (i64, i64) {
    match response.outcome {
        Some(Outcome::Appended(appended)) => (response.index, appended.event.unwrap().sequence),
        other => panic!("not appended: {other:?}"),
    }
}

fn failure(response: AppendEventStreamResponse) -> AppendFailure {
    match response.outcome {
        Some(Outcome::Failure(failure)) => failure,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn items_are_answered_in_order_and_one_that_fails_does_not_end_the_stream() {
    let server = server().await;
    server.create("s", "{}").await;
    let (items, mut answers) = open(&server).await;
    send(&items, append("e1", "{}")).await;
    send(&items, append("e2", "[]")).await;
    items.send(AppendEventStreamRequest { append: None }).await.unwrap();
    send(&items, AppendEventRequest { key: Some(key("missing")), ..append("e3", "{}") }).await;
    send(&items, append("e1", "{\"other\":1}")).await;
    send(&items, with_number("{\"app:n\":9223372036854775807}")).await;
    send(&items, append("e4", "{}")).await;
    drop(items);
    assert_eq!(sequence(answers.next().await.unwrap().unwrap()), (0, 1));
    let mut refused = Vec::new();
    for index in 1..6 {
        let answer = answers.next().await.unwrap().unwrap();
        assert_eq!(answer.index, index);
        let AppendFailure { code, reason, message, .. } = failure(answer);
        assert!(message.ends_with('.'), "{message}");
        refused.push((Code::from(code), reason, message));
    }
    let reasons: Vec<_> =
        refused.iter().map(|(code, reason, _)| (*code, reason.as_str())).collect();
    assert_eq!(
        reasons,
        [
            (Code::InvalidArgument, "BAD_JSON"),
            (Code::InvalidArgument, "MISSING_FIELD"),
            (Code::NotFound, "SESSION_NOT_FOUND"),
            (Code::AlreadyExists, "EVENT_ID_REUSED"),
            (Code::InvalidArgument, "NUMBER_OVERFLOW"),
        ]
    );
    assert!(refused[0].2.starts_with("event.state_delta.set_json: "));
    assert!(refused[4].2.starts_with("event.state_delta.operations[0]: "));
    assert_eq!(sequence(answers.next().await.unwrap().unwrap()), (6, 2));
    assert!(answers.next().await.is_none());
}

#[tokio::test]
async fn many_items_are_on_their_way_at_once_and_in_the_order_sent() {
    let store = Arc::new(GatedStore::new());
    let server = serve(store.clone(), BareIds::Allowed).await;
    server.create("s", "{}").await;
    let (items, mut answers) = open(&server).await;
    for at in 0..100 {
        send(&items, append(&format!("e{at}"), "{}")).await;
    }
    // All have reached the store before the first of them is answered.
    let expected: Vec<String> = (0..100).map(|at| format!("e{at}")).collect();
    assert_eq!(store.came(100).await, expected);
    store.open(1);
    assert_eq!(sequence(answers.next().await.unwrap().unwrap()), (0, 1));
    store.open(99);
    for at in 1..100 {
        assert_eq!(sequence(answers.next().await.unwrap().unwrap()), (at, at + 1));
    }
    let list = ListEventsRequest { key: Some(key("s")), page_size: 1000, ..Default::default() };
    let events = server.events().list_events(list).await.unwrap().into_inner().events;
    let ids: Vec<_> = events.into_iter().map(|event| event.event_id).collect();
    assert_eq!(ids, expected);
}

#[tokio::test]
async fn a_stream_holds_no_more_than_its_bounds() {
    let store = Arc::new(GatedStore::new());
    let server = serve(store.clone(), BareIds::Allowed).await;
    server.create("s", "{}").await;
    let (items, mut answers) = open(&server).await;
    for at in 0..300 {
        send(&items, append(&format!("e{at}"), "{}")).await;
    }
    assert_eq!(store.came(256).await.len(), 256);
    for answered in 0..300_usize {
        store.open(1);
        sequence(answers.next().await.unwrap().unwrap());
        assert!(store.came_now().len() <= answered + 1 + 256);
    }
    // Those that ask for the state count for what it may be.
    let (items, mut answers) = open(&server).await;
    for at in 300..340 {
        let request = AppendEventRequest { return_state: true, ..append(&format!("e{at}"), "{}") };
        send(&items, request).await;
    }
    assert_eq!(store.came(316).await.len(), 316);
    for answered in 0..40_usize {
        store.open(1);
        sequence(answers.next().await.unwrap().unwrap());
        assert!(store.came_now().len() <= 300 + answered + 1 + 16);
    }
}

#[tokio::test]
async fn what_reaches_the_store_late_holds_back_its_own_session_alone() {
    let store = Arc::new(GatedStore::new());
    let server = serve(store.clone(), BareIds::Allowed).await;
    server.create("s", "{}").await;
    server.create("t", "{}").await;
    let (items, mut answers) = open(&server).await;
    send(&items, append("e0", "{}")).await;
    send(&items, with_temp("e1")).await;
    send(&items, AppendEventRequest { key: Some(key("t")), ..append("t0", "{}") }).await;
    send(&items, append("e2", "{}")).await;
    send(&items, with_temp("e3")).await;
    send(&items, append("e4", "{}")).await;
    let mut came = store.came(3).await;
    assert_eq!(came.remove(0), "e0");
    came.sort();
    assert_eq!(came, ["e1", "t0"]);
    store.open(100);
    let mut sequences = Vec::new();
    for _ in 0..6 {
        sequences.push(sequence(answers.next().await.unwrap().unwrap()));
    }
    assert_eq!(sequences, [(0, 1), (1, 2), (2, 1), (3, 3), (4, 4), (5, 5)]);
}

#[tokio::test]
async fn items_of_one_session_are_committed_in_the_order_sent_whatever_they_change() {
    let server = server().await;
    server.create("s", "{}").await;
    let (items, mut answers) = open(&server).await;
    for at in 0..200 {
        let id = format!("e{at}");
        let by_id = crate::proto::v1::SessionKey { session_id: "s".into(), ..Default::default() };
        let request = if at % 3 == 0 { with_temp(&id) } else { append(&id, "{\"n\":1}") };
        let key = if at % 2 == 0 { Some(by_id) } else { request.key.clone() };
        send(&items, AppendEventRequest { key, ..request }).await;
    }
    drop(items);
    for at in 0..200 {
        assert_eq!(sequence(answers.next().await.unwrap().unwrap()), (at, at + 1));
    }
    assert!(answers.next().await.is_none());
}

#[tokio::test]
async fn a_server_that_stops_finishes_what_has_begun_and_says_so() {
    let store = Arc::new(GatedStore::new());
    let server = serve(store.clone(), BareIds::Allowed).await;
    server.create("s", "{}").await;
    let (items, mut answers) = open(&server).await;
    send(&items, append("e0", "{}")).await;
    send(&items, with_temp("e1")).await;
    // This one waits for the one before, and is never begun.
    send(&items, append("e2", "{}")).await;
    assert_eq!(store.came(2).await, ["e0", "e1"]);
    server.engine.drain();
    store.open(100);
    assert_eq!(sequence(answers.next().await.unwrap().unwrap()), (0, 1));
    assert_eq!(sequence(answers.next().await.unwrap().unwrap()), (1, 2));
    let end = answers.next().await.unwrap().unwrap_err();
    let info = end.get_details_error_info().unwrap();
    assert_eq!((end.code(), info.reason.as_str()), (Code::Unavailable, "DRAINING"));
    assert_eq!(info.metadata.get("answered").map(String::as_str), Some("2"));
    assert!(answers.next().await.is_none());
    assert_eq!(store.came_now().len(), 2);
}

#[tokio::test]
async fn an_answer_holds_what_append_event_would_have_answered() {
    let server = server().await;
    server.create("s", "{\"a\":1}").await;
    let (items, mut answers) = open(&server).await;
    let request = AppendEventRequest { return_state: true, ..append("e0", "{\"b\":2}") };
    send(&items, request.clone()).await;
    send(&items, request).await;
    let partial = Event { partial: true, state_delta: set("{\"c\":1}"), ..Default::default() };
    let json_form = JsonForm::Struct.into();
    let event = Some(partial);
    send(&items, AppendEventRequest { event, json_form, ..append("", "{}") }).await;
    for replayed in [false, true] {
        let answer = answers.next().await.unwrap().unwrap();
        let Some(Outcome::Appended(appended)) = answer.outcome else { panic!("refused") };
        assert_eq!(appended.replayed, replayed);
        let state = appended.session.unwrap().state_form;
        assert_eq!(state, Some(StateForm::StateJson("{\"a\":1,\"b\":2}".into())));
    }
    let answer = answers.next().await.unwrap().unwrap();
    let Some(Outcome::Appended(appended)) = answer.outcome else { panic!("refused") };
    let event = appended.event.unwrap();
    assert!(event.partial && event.sequence == 0);
}
