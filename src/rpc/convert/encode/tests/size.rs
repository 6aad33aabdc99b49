//! Every answer fits into what a client receives by default, measured in the form in which it is sent.

use prost::Message;

use super::{all, body_of_zeros, event, info, json, state, zeros};
use crate::{
    domain::{
        event::{Changes, Event},
        id::Branch,
        json::Json,
        limits::MESSAGE_BYTES,
        scope::StateKey,
        session::State,
    },
    engine::{List, SessionAnswer, WatchItem},
    proto::v1::{self, event::BodyForm, session::StateForm, watch_response::Kind},
    rpc::convert::{Form, Mode, encode},
    store::{Appended, AppendedEvent, StateUpdated},
};

/// What [`body_of_zeros`] has as text where it fills about a megabyte as a message.
const ZEROS_OF_A_MEGABYTE: usize = 96_000;

fn list(bodies: impl IntoIterator<Item = Json>) -> List<Event> {
    all((1..).zip(bodies).map(|(at, body)| event(at, body)).collect())
}

fn appended(bodies: impl IntoIterator<Item = Json>, state: Option<State>) -> Appended {
    let events = list(bodies).items.into_iter();
    let events =
        events.map(|event| AppendedEvent { event: event.into(), replayed: true }).collect();
    Appended { info: info(), events, state, request_replayed: false }
}

fn text_of(bytes: usize) -> Json {
    json(format!("{{\"b\":\"{}\"}}", "x".repeat(bytes - 8)))
}

#[test]
fn a_page_ends_before_it_is_too_large_in_its_own_form() {
    let bodies = || vec![body_of_zeros(ZEROS_OF_A_MEGABYTE); 8];
    let page = encode::list_events(list(bodies()), Form::Struct.into());
    assert_eq!(page.events.len(), 3);
    assert!(page.encoded_len() <= MESSAGE_BYTES);
    let page = encode::list_events(list(bodies()), Form::Text.into());
    assert_eq!(page.events.len(), 8);
    let page = encode::list_events(list(vec![text_of(1 << 20); 8]), Form::Text.into());
    assert_eq!(page.events.len(), 3);
    assert!(page.encoded_len() <= MESSAGE_BYTES);
}

#[test]
fn a_page_is_measured_to_the_byte() {
    for bytes in [10, 127, 128, 200, 16_383, 16_384, 20_000] {
        let page = encode::list_events(list([text_of(bytes), text_of(bytes)]), Form::Text.into());
        let sum: usize = page.events.iter().map(encode::field_bytes).sum();
        assert_eq!(page.encoded_len(), sum);
    }
}

#[test]
fn what_is_too_large_for_a_read_comes_as_text_and_the_rest_as_it_was_asked_for() {
    use crate::proto::v1::get_state_response::StateForm as InState;
    let huge = || body_of_zeros(400_000);
    // Too large as a message only together: the one, by more than an answer holds; the other, by its delta beside its body.
    let mut pair = event(4, body_of_zeros(2 * ZEROS_OF_A_MEGABYTE));
    pair.changes.set = Some(body_of_zeros(2 * ZEROS_OF_A_MEGABYTE));
    let mut list = list([json("{}"), huge(), json("{}")]);
    list.items.push(pair);
    let page = encode::list_events(list, Form::Struct.into()).events;
    let is_text = |event: &v1::Event| matches!(event.body_form, Some(BodyForm::BodyJson(_)));
    assert_eq!(page.iter().map(is_text).collect::<Vec<_>>(), [false, true, false, true]);
    assert!(page.iter().all(|event| event.body_form.is_some()));
    for form in [Form::Struct, Form::Text] {
        let state = all(state([("k", zeros(400_000))]).0);
        let answer = encode::get_state((state, None), Mode { with_versions: true, ..form.into() });
        assert!(
            matches!(answer.state_form, Some(InState::StateJson(text)) if text.len() > 800_000)
        );
        assert_eq!((answer.versions["k"], answer.state_omitted), (3, false));
    }
}

/// Sessions that are too large as a message are text, those that are too large as text lack their state, and none blocks a list.
#[test]
fn a_list_of_sessions_goes_on_behind_each() {
    let text = |bytes| Some(state([("k", json(format!("\"{}\"", "x".repeat(bytes))))]));
    let states = [text(9), Some(state([("k", zeros(400_000))])), text(5 << 20), text(9), None];
    let sessions = states.map(|state| (info(), state));
    let page = encode::list_sessions(all(sessions.into()), Form::Struct.into());
    assert!(page.encoded_len() <= MESSAGE_BYTES);
    let kinds = page.sessions.iter().map(|it| match (&it.state_form, it.state_omitted) {
        (Some(StateForm::State(_)), false) => "struct",
        (Some(StateForm::StateJson(_)), false) => "text",
        (None, true) => "omitted",
        (None, false) => "none",
        (Some(_), true) => panic!("omitted, and there"),
    });
    assert_eq!(kinds.collect::<Vec<_>>(), ["struct", "text", "omitted", "struct", "none"]);
}

#[test]
fn events_take_what_the_state_beside_them_leaves() {
    let get = |state_zeros, bodies: Vec<Json>| {
        let state = Some(state([("k", zeros(state_zeros))]));
        let answer = SessionAnswer { info: info(), state, events: list(bodies) };
        encode::get_session(answer, Form::Struct.into())
    };
    let megabytes = |many| vec![body_of_zeros(ZEROS_OF_A_MEGABYTE); many];
    let answer = get(2 * ZEROS_OF_A_MEGABYTE, megabytes(4));
    assert_eq!(answer.events.len(), 1);
    assert!(answer.encoded_len() <= MESSAGE_BYTES);
    let full = get(3 * ZEROS_OF_A_MEGABYTE + 90_000, megabytes(4));
    assert_eq!(full.events.len(), 0);
    let as_text = get(400_000, megabytes(1));
    assert!(matches!(as_text.events[0].body_form, Some(BodyForm::Body(_))));
    let session = as_text.session.unwrap();
    assert!(matches!(session.state_form, Some(StateForm::StateJson(_))));
}

#[test]
fn an_item_fits_exactly_or_not_at_all() {
    // One that fills what is left to the byte, and one beyond: found by search, so that the sums may change.
    let fits = |bytes: usize| {
        let list = list([text_of(1 << 20), text_of(1 << 20), text_of(1 << 20), text_of(bytes)]);
        let page = encode::list_events(list, Form::Text.into());
        assert!(page.encoded_len() <= MESSAGE_BYTES);
        page.events.len() == 4
    };
    let (mut low, mut high) = (1000, 1 << 20);
    assert!(fits(low) && !fits(high));
    while high - low > 1 {
        let middle = (low + high) / 2;
        if fits(middle) { low = middle } else { high = middle }
    }
    // All but what is kept for a token is used.
    assert!(3 * (1 << 20) + low > MESSAGE_BYTES - 8192);
}

#[test]
fn what_is_too_large_for_a_write_comes_as_text() {
    let answer = appended([body_of_zeros(400_000)], Some(state([("k", zeros(100))])));
    let response = encode::append_event(answer, vec![], Mode::from(Form::Struct));
    assert!(response.encoded_len() <= MESSAGE_BYTES && response.replayed);
    let body = response.event.unwrap().body_form.unwrap();
    assert!(matches!(body, BodyForm::BodyJson(text) if text == body_of_zeros(400_000).as_str()));
    let state = response.session.unwrap().state_form.unwrap();
    assert!(matches!(state, StateForm::State(_)));
}

#[test]
fn a_state_beside_written_events_is_left_out_where_even_text_is_too_large() {
    let append = |state_bytes: usize| {
        let value = json(format!("\"{}\"", "x".repeat(state_bytes)));
        let answer = appended(vec![text_of(1 << 20); 3], Some(state([("k", value)])));
        let mode = Mode { with_versions: true, ..Form::Text.into() };
        let response = encode::append_events(answer, vec![], mode);
        assert!(response.encoded_len() <= MESSAGE_BYTES);
        assert_eq!((response.events.len(), response.replayed.len()), (3, 3));
        assert!(response.events.iter().all(|event| event.body_form.is_some()));
        let session = response.session.unwrap();
        assert_eq!(session.last_sequence, 7);
        assert_eq!(session.versions.len(), usize::from(session.state_form.is_some()));
        assert_eq!(session.state_omitted, session.state_form.is_none());
        session.state_form.is_some()
    };
    assert!(append(1_000_000));
    assert!(!append(1_048_576));
}

#[test]
fn a_batch_turns_to_text_where_it_is_too_large_as_messages() {
    let bodies = vec![body_of_zeros(ZEROS_OF_A_MEGABYTE); 12];
    let response =
        encode::append_events(appended(bodies.clone(), None), vec![], Form::Struct.into());
    assert!(response.encoded_len() <= MESSAGE_BYTES);
    let texts = response.events.iter().filter(|event| {
        matches!(&event.body_form, Some(BodyForm::BodyJson(text)) if text == bodies[0].as_str())
    });
    assert!(texts.count() >= 9);
    assert!(response.events.iter().all(|event| event.body_form.is_some()));
}

#[test]
fn a_write_is_answered_even_where_text_is_larger_than_an_answer() {
    // Not to be had from a store, which counts keys as text; but an answer must not depend on that.
    let keys = (0..1400).map(|at| format!("{}{at}", "\u{1}".repeat(500)));
    let member = |key: String| format!("{}:1", serde_json::to_string(&key).unwrap());
    let set = json(format!("{{{}}}", keys.clone().map(member).collect::<Vec<_>>().join(",")));
    assert!(set.len() > MESSAGE_BYTES);
    let with_set = |sequence| {
        let mut event = event(sequence, json("{}"));
        event.changes = Changes { set: Some(set.clone()), remove: vec![] };
        event.branch = Branch::new("b".repeat(1024)).unwrap();
        event
    };
    let events = (1..=999).map(|at| event(at, json("{\"small\":1}"))).chain([with_set(1000)]);
    let events =
        events.map(|event| AppendedEvent { event: event.into(), replayed: false }).collect();
    let answer = Appended { info: info(), events, state: None, request_replayed: false };
    let response = encode::append_events(answer, vec![], Form::Text.into());
    assert!(response.encoded_len() <= MESSAGE_BYTES);
    assert_eq!(response.events.len(), 1000);
    assert!(response.events[..999].iter().all(|event| event.body_form.is_some()));
    let last = &response.events[999];
    assert_eq!((last.sequence, &last.state_delta, &last.body_form), (1000, &None, &None));

    let state = || {
        let keys: Vec<String> = keys.clone().collect();
        state(keys.iter().map(|key| (key.as_str(), json("1"))))
    };
    let update = StateUpdated { state: state(), replayed: true, life: None };
    let response = encode::update_state(update, Form::Text.into());
    assert_eq!((response.state_form, response.replayed), (None, true));
    assert!(response.state_omitted);
    // A page of it, and no state in one that could not hold a single value.
    let response = encode::get_state((all(state().0), None), Form::Text.into());
    assert!(response.encoded_len() <= MESSAGE_BYTES && !response.state_omitted);
    let huge = super::state([("k", json(format!("\"{}\"", "x".repeat(MESSAGE_BYTES))))]);
    let response = encode::get_state((all(huge.0), None), Form::Text.into());
    assert_eq!((response.state_form, response.state_omitted), (None, true));
    let snapshot = |form: Form| {
        let item = WatchItem::Snapshot { state: state(), last_sequence: 1, life: None };
        let Some(Kind::Snapshot(it)) = encode::watch(item, "c".into(), form.into()).kind else {
            panic!()
        };
        (it.state_form.is_some(), it.state_omitted, it.last_sequence)
    };
    assert_eq!(snapshot(Form::Text), (false, true, 1));
    assert_eq!(snapshot(Form::Struct), (true, false, 1));
}

/// As many keys as fit, whatever they need to be quoted, and whether their versions come as well.
#[test]
fn a_page_of_state_is_as_large_as_an_answer() {
    for (name, with_versions) in [("k", false), ("k", true), ("\u{1}", false), ("\u{1}", true)] {
        let keys: Vec<String> = (0..500_000).map(|at| format!("{name}{at:06}")).collect();
        let entries = state(keys.iter().map(|key| (key.as_str(), json("1")))).0;
        let answer =
            encode::get_state((all(entries), None), Mode { with_versions, ..Form::Text.into() });
        let bytes = answer.encoded_len();
        assert!((MESSAGE_BYTES - 8192..=MESSAGE_BYTES).contains(&bytes), "{bytes}");
    }
}

#[test]
fn a_thousand_envelopes_of_the_longest_names_fit() {
    let long = |sequence| {
        let mut event = event(sequence, text_of(3000));
        event.branch = Branch::new("b".repeat(1024)).unwrap();
        event.author = crate::domain::id::Author::new("a".repeat(256)).unwrap();
        event.event_id = crate::domain::id::EventId::new("e".repeat(128)).unwrap();
        event.changes =
            Changes { set: None, remove: vec![StateKey::new("k".repeat(512)).unwrap()] };
        AppendedEvent { event: event.into(), replayed: true }
    };
    let answer = Appended {
        info: info(),
        events: (1..=1000).map(long).collect(),
        state: None,
        request_replayed: false,
    };
    let response = encode::append_events(answer, vec![], Form::Struct.into());
    assert!(response.encoded_len() <= MESSAGE_BYTES);
    assert_eq!(response.events.len(), 1000);
}

#[test]
fn a_change_that_is_too_large_for_a_watch_comes_as_text() {
    let set = json(format!("{{\"app:k\":{}}}", zeros(400_000).as_str()));
    let changes = Changes { set: Some(set), remove: vec![] };
    let commit_time = super::time(9);
    let item = WatchItem::StateChange { changes, commit_time };
    let response = encode::watch(item, "c".into(), Form::Struct.into());
    assert!(response.encoded_len() <= MESSAGE_BYTES);
    // The most that a scope holds, in keys that are nearly nothing but punctuation, all changed at once.
    let members: Vec<String> = (0..131_000).map(|at| format!("\"user:{at:05x}\":1")).collect();
    let set = Some(json(format!("{{{}}}", members.join(","))));
    for form in [Form::Struct, Form::Text] {
        let changes = Changes { set: set.clone(), remove: vec![] };
        let item = WatchItem::StateChange { changes, commit_time };
        let response = encode::watch(item, "c".into(), form.into());
        assert!(response.encoded_len() <= MESSAGE_BYTES);
        let Some(Kind::StateChange(change)) = response.kind else { panic!() };
        assert!(change.delta.unwrap().set_form.is_some());
    }
}
