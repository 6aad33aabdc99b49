//! AppendEventStream: items without waiting, answers in their order, failures that end nothing.

use std::collections::BTreeMap;

use sessiond::{
    domain::error::Reason,
    proto::v1::{
        AppendEventRequest, AppendEventStreamRequest, AppendEventStreamResponse, AppendFailure,
        Event, FieldViolation, append_event_stream_response::Outcome,
    },
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, UnboundedReceiverStream};
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt as _;

use crate::{
    harness::{Service, with_server, within},
    judge::{code, reason},
    make::{
        TEXT, address, append, bare, create, event, expecting, get_with_events, increment, key,
        operating, operations, plain, saying, setting,
    },
    read::{HasState, ids, sequences},
};

with_server! {
    hundreds_are_under_way_before_the_first_answer_is_read
    answers_come_in_the_order_of_the_items
    items_of_one_session_commit_in_their_order_between_failures
    every_kind_of_failure_leaves_the_stream_alive
    a_stream_reaches_any_sessions
    an_item_is_answered_before_the_next_is_sent
    repetitions_and_fragments_are_items_as_well
    a_stream_that_is_closed_ends
    a_client_that_leaves_harms_nobody
}

/// Metadata and violations of a failure.
fn details(failure: &AppendFailure) -> Details {
    let violations = failure.field_violations.iter();
    let violation =
        |it: &FieldViolation| [it.field.clone(), it.description.clone(), it.reason.clone()];
    (failure.metadata.clone().into_iter().collect(), violations.map(violation).collect())
}

/// Those of a status.
fn details_of(status: &Status) -> Details {
    let details = status.get_error_details();
    let metadata = details.error_info().unwrap().metadata.clone();
    let violations = details.bad_request().into_iter().flat_map(|it| &it.field_violations);
    let violation = |it: &tonic_types::FieldViolation| {
        [it.field.clone(), it.description.clone(), it.reason.clone()]
    };
    (metadata.into_iter().collect(), violations.map(violation).collect())
}

type Details = (BTreeMap<String, String>, Vec<[String; 3]>);

/// One stream of appends.
pub struct Appends {
    items: Option<mpsc::UnboundedSender<AppendEventStreamRequest>>,
    answers: Streaming<AppendEventStreamResponse>,
    next: i64,
}

impl Appends {
    pub async fn open(service: &Service) -> Self {
        let (items, receiver) = mpsc::unbounded_channel();
        let stream = UnboundedReceiverStream::new(receiver);
        let mut client = service.events();
        let answers = within("a stream", client.append_event_stream(stream)).await;
        let answers = answers.unwrap().into_inner();
        Self { items: Some(items), answers, next: 0 }
    }

    pub fn send(&self, append: AppendEventRequest) {
        let request = AppendEventStreamRequest { append: Some(append) };
        self.items.as_ref().unwrap().send(request).unwrap();
    }

    /// Sends no more.
    pub fn close(&mut self) {
        self.items = None;
    }

    /// The next message, or how the stream ended.
    pub async fn message(&mut self) -> Result<Option<AppendEventStreamResponse>, Status> {
        within("an answer", self.answers.message()).await
    }

    /// The next answer, of which there has to be one, with the next index.
    pub async fn next(&mut self) -> Outcome {
        let AppendEventStreamResponse { index, outcome } = self.message().await.unwrap().unwrap();
        assert_eq!(index, self.next);
        self.next += 1;
        outcome.unwrap()
    }

    /// The event that the next answer tells of.
    pub async fn appended(&mut self) -> Event {
        match self.next().await {
            Outcome::Appended(answer) => answer.event.unwrap(),
            Outcome::Failure(failure) => panic!("{failure:?}"),
        }
    }

    /// The failure that the next answer tells of.
    async fn failure(&mut self) -> AppendFailure {
        match self.next().await {
            Outcome::Appended(answer) => panic!("{answer:?}"),
            Outcome::Failure(failure) => failure,
        }
    }

    /// Sees that nothing follows.
    pub async fn end(mut self) {
        self.close();
        assert_eq!(self.message().await.unwrap(), None);
    }
}

async fn hundreds_are_under_way_before_the_first_answer_is_read(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let mut appends = Appends::open(service).await;
    for at in 1..=600 {
        appends.send(append("s1", event(&format!("e{at}"))));
    }
    // As many as a stream holds are stored while no answer has been read, unless the server waits for its reader.
    let last = crate::harness::eventually("what a stream holds", async || {
        let read = service.get_session(get_with_events("s1")).await.unwrap();
        (read.session.unwrap().last_sequence >= 256).then_some(())
    });
    last.await;
    for at in 1..=600 {
        assert_eq!(appends.appended().await.sequence, at);
    }
    appends.end().await;
}

async fn answers_come_in_the_order_of_the_items(service: &Service) {
    for id in ["s1", "s2", "s3"] {
        service.create_session(create(id, "")).await.unwrap();
    }
    let mut appends = Appends::open(service).await;
    for at in 0..90 {
        // Large and small, with and without temp: state: what takes longer does not come later.
        let body = format!("{{\"at\":{at},\"text\":\"{}\"}}", "x".repeat((at % 3) * 20_000));
        let mut event = Event { event_id: format!("e{at}"), ..saying(&body) };
        if at % 4 == 0 {
            event.invocation_id = "turn".into();
            event.state_delta = Some(operations([increment("temp:n", 1)]));
        }
        let request =
            AppendEventRequest { return_state: false, ..append(["s1", "s2", "s3"][at % 3], event) };
        appends.send(request);
    }
    appends.close();
    for at in 0..90 {
        let event = appends.appended().await;
        assert_eq!(event.event_id, format!("e{at}"));
        assert_eq!(event.sequence, at / 3 + 1);
    }
    appends.end().await;
}

async fn items_of_one_session_commit_in_their_order_between_failures(service: &Service) {
    service.create_session(create("s1", r#"{"log":[]}"#)).await.unwrap();
    let mut appends = Appends::open(service).await;
    for at in 0..200 {
        let id = format!("e{at}");
        let item = match at % 5 {
            // Refused when it is read, by the store, and for its precondition.
            1 => append("s1", Event { event_id: id, ..saying("{") }),
            2 => append("none", event(&id)),
            3 => AppendEventRequest { precondition: expecting(9999), ..append("s1", event(&id)) },
            _ => {
                let noted = crate::make::list_append("log", &format!("[{at}]"), 0);
                append("s1", Event { event_id: id, ..operating(noted) })
            }
        };
        appends.send(item);
    }
    let mut kept = Vec::new();
    for at in 0..200 {
        match appends.next().await {
            Outcome::Appended(answer) => {
                assert!(matches!(at % 5, 0 | 4), "{at}");
                kept.push(at);
                assert_eq!(answer.event.unwrap().sequence, kept.len() as i64);
            }
            Outcome::Failure(failure) => assert!(matches!(at % 5, 1..=3), "{at}: {failure:?}"),
        }
    }
    appends.end().await;
    let read = service.get_session(get_with_events("s1")).await.unwrap();
    assert_eq!(read.state()["log"], serde_json::json!(kept));
    assert_eq!(sequences(&read.events), (1..=80).collect::<Vec<_>>());
    assert_eq!(ids(&read.events)[79], "e199");
}

async fn every_kind_of_failure_leaves_the_stream_alive(service: &Service) {
    service.create_session(create("s1", r#"{"text":"x","n":9223372036854775807}"#)).await.unwrap();
    for user in ["a", "b"] {
        let mut same = create("same", "");
        same.user_id = user.into();
        service.create_session(same).await.unwrap();
    }
    service.append_event(append("s1", event("taken"))).await.unwrap();
    let large = format!("{{\"k\":\"{}\"}}", "x".repeat(256 * 1024));
    let half = AppendEventRequest { key: Some(address("app", "", "s1")), ..append("", plain()) };
    let ambiguous = AppendEventRequest { key: Some(bare("same")), ..append("", plain()) };
    let items = [
        (AppendEventRequest { event: None, ..append("s1", plain()) }, Reason::MissingField),
        (half, Reason::MissingField),
        (append("none", plain()), Reason::SessionNotFound),
        (append("s1", saying("[]")), Reason::BadJson),
        (append("s1", event(&"x".repeat(129))), Reason::BadId),
        (append("s1", setting(&large)), Reason::ValueTooLarge),
        (
            append("s1", Event { event_id: "taken".into(), ..setting(r#"{"other":1}"#) }),
            Reason::EventIdReused,
        ),
        (
            AppendEventRequest { precondition: expecting(7), ..append("s1", plain()) },
            Reason::SequenceConflict,
        ),
        (append("s1", operating(increment("text", 1))), Reason::TypeMismatch),
        (append("s1", operating(increment("n", 1))), Reason::NumberOverflow),
        (ambiguous, Reason::AmbiguousSessionId),
    ];
    let mut appends = Appends::open(service).await;
    for (at, (item, wanted)) in (1..).zip(items) {
        // The same as a call of its own is told.
        let status = service.append_event(item.clone()).await.unwrap_err();
        appends.send(item);
        let failure = appends.failure().await;
        assert_eq!(details(&failure), details_of(&status));
        let AppendFailure { code: number, reason: text, message, .. } = failure;
        assert_eq!((number, &*text), (code(wanted) as i32, wanted.as_str()));
        assert_eq!((reason(&status), status.message()), (text, &*message));
        appends.send(append("s1", plain()));
        assert_eq!(appends.appended().await.sequence, at + 1);
    }
    // An item without anything to append.
    let empty = AppendEventStreamRequest { append: None };
    appends.items.as_ref().unwrap().send(empty).unwrap();
    let failure = appends.failure().await;
    assert_eq!((failure.code, &*failure.reason), (Code::InvalidArgument as i32, "MISSING_FIELD"));
    appends.end().await;
}

async fn a_stream_reaches_any_sessions(service: &Service) {
    let mut appends = Appends::open(service).await;
    for at in 0..20 {
        let mut request = create(&format!("s{at}"), "");
        request.user_id = format!("user{}", at % 4);
        service.create_session(request).await.unwrap();
        // By its whole address and by its id alone.
        let whole = address("my_app", &format!("user{}", at % 4), &format!("s{at}"));
        for key in [whole, bare(&format!("s{at}"))] {
            appends.send(AppendEventRequest { key: Some(key), ..append("", plain()) });
        }
    }
    for _ in 0..20 {
        assert_eq!(appends.appended().await.sequence, 1);
        assert_eq!(appends.appended().await.sequence, 2);
    }
    appends.end().await;
}

async fn an_item_is_answered_before_the_next_is_sent(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let mut appends = Appends::open(service).await;
    for at in 1..=10 {
        appends.send(append("s1", operating(increment("n", 1))));
        let Outcome::Appended(answer) = appends.next().await else { panic!() };
        assert_eq!(answer.state(), serde_json::json!({"n": at}));
        assert_eq!(answer.session.unwrap().last_sequence, at);
    }
    appends.end().await;
}

async fn repetitions_and_fragments_are_items_as_well(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let mut appends = Appends::open(service).await;
    let partial = Event { partial: true, ..plain() };
    for event in [event("e1"), partial, event("e1"), event("e2"), event("e2")] {
        appends.send(AppendEventRequest { json_form: TEXT, ..append("s1", event) });
    }
    let mut found = Vec::new();
    for _ in 0..5 {
        let Outcome::Appended(answer) = appends.next().await else { panic!() };
        found.push((answer.event.unwrap().sequence, answer.replayed));
    }
    assert_eq!(found, [(1, false), (0, false), (1, true), (2, false), (2, true)]);
    appends.end().await;
}

async fn a_stream_that_is_closed_ends(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    Appends::open(service).await.end().await;
    // What was sent before the close is still answered.
    let mut appends = Appends::open(service).await;
    for _ in 0..50 {
        appends.send(append("s1", plain()));
    }
    appends.close();
    for at in 1..=50 {
        assert_eq!(appends.appended().await.sequence, at);
    }
    appends.end().await;
}

async fn a_client_that_leaves_harms_nobody(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    for _ in 0..5 {
        let (items, receiver) = mpsc::channel(100);
        for _ in 0..100 {
            items
                .send(AppendEventStreamRequest { append: Some(append("s1", plain())) })
                .await
                .unwrap();
        }
        let stream = ReceiverStream::new(receiver);
        let mut answers = service.events().append_event_stream(stream).await.unwrap().into_inner();
        within("an answer", answers.message()).await.unwrap().unwrap();
        // Gone, with the most of it unanswered.
    }
    let mut appends = Appends::open(service).await;
    appends.send(append("s1", event("last")));
    let last = appends.appended().await.sequence;
    appends.end().await;
    // What was stored of theirs is dense.
    let request = sessiond::proto::v1::ListEventsRequest {
        key: Some(key("s1")),
        page_size: 1000,
        ..Default::default()
    };
    let events = service.list_events(request).await.unwrap().events;
    let before: Vec<i64> = sequences(&events).into_iter().take_while(|&at| at <= last).collect();
    assert_eq!(before, (1..=last).collect::<Vec<_>>());
}
