//! Which session is meant: the uid of each life of a session id, in every answer, and as a precondition of every write.

use sessiond::{
    domain::error::Reason,
    proto::v1::{
        AppendEventRequest, AppendEventStreamRequest, AppendEventsRequest, DeleteSessionRequest,
        Event, ForkSessionRequest, ListSessionsRequest, Precondition, RewindSessionRequest,
        Session, UpdateSessionRequest, UpdateStateRequest, WatchRequest,
        append_event_stream_response::Outcome, watch_response::Kind,
    },
};
use tonic::Status;

use crate::{
    harness::{Service, with_server},
    judge::{faulty, metadata, refused},
    make::{
        APP, USER, append, append_all, checking, create, expecting, get, get_state, key, plain,
        rewind, session_scope, set, setting, update,
    },
};

with_server! {
    every_answer_has_the_uid_of_the_life
    every_write_that_means_an_earlier_life_is_refused_and_changes_nothing
    every_write_that_means_the_present_life_goes_on
    a_replay_of_an_earlier_life_is_refused
    a_repeated_deletion_leaves_the_next_life_alone
    all_fields_of_a_precondition_count_for_updates_deletions_and_forks
    a_text_that_no_answer_had_names_no_life
}

fn meant(uid: &str) -> Option<Precondition> {
    Some(Precondition { uid: uid.into(), ..Default::default() })
}

fn delete(precondition: Option<Precondition>, allow_missing: bool) -> DeleteSessionRequest {
    DeleteSessionRequest { key: Some(key("s1")), allow_missing, precondition }
}

fn rename(precondition: Option<Precondition>) -> UpdateSessionRequest {
    let session = Some(Session { display_name: "new".into(), ..Default::default() });
    let update_mask = Some(prost_types::FieldMask { paths: vec!["display_name".into()] });
    UpdateSessionRequest { key: Some(key("s1")), session, update_mask, precondition }
}

fn fork(session_id: &str, precondition: Option<Precondition>) -> ForkSessionRequest {
    let (key, session_id) = (Some(key("s1")), session_id.into());
    ForkSessionRequest { key, session_id, precondition, ..Default::default() }
}

async fn created(service: &Service) -> Session {
    service.create_session(create("s1", r#"{"k":1}"#)).await.unwrap().session.unwrap()
}

/// The uids of two lives of one session id; the second is there.
async fn two_lives(service: &Service) -> (String, String) {
    let first = created(service).await.uid;
    service.append_event(append("s1", with_id("e1"))).await.unwrap();
    service.delete_session(delete(None, false)).await.unwrap();
    let second = created(service).await.uid;
    service.append_event(append("s1", with_id("e1"))).await.unwrap();
    (first, second)
}

fn with_id(event_id: &str) -> Event {
    Event { event_id: event_id.into(), ..setting(r#"{"k":2}"#) }
}

/// Every write, named, with the refusal or the success of each.
async fn every_write(
    service: &Service,
    precondition: Option<Precondition>,
) -> Vec<(&'static str, Result<(), Status>)> {
    let with = || precondition.clone();
    let one = AppendEventRequest { precondition: with(), ..append("s1", plain()) };
    let partial = Event { partial: true, ..plain() };
    let partial = AppendEventRequest { precondition: with(), ..append("s1", partial) };
    let temp = Event { invocation_id: "i".into(), ..setting(r#"{"temp:k":1}"#) };
    let temp = AppendEventRequest { precondition: with(), ..append("s1", temp) };
    let several = AppendEventsRequest { precondition: with(), ..append_all("s1", vec![plain()]) };
    let state = update(session_scope("s1"), set(r#"{"k":3}"#));
    let state = UpdateStateRequest { precondition: with(), ..state };
    let rewind = RewindSessionRequest { precondition: with(), ..rewind("s1", 0) };
    let item = AppendEventStreamRequest { append: Some(one.clone()) };
    let stream = service.events().append_event_stream(tokio_stream::iter([item])).await;
    let answer = stream.unwrap().into_inner().message().await.unwrap().unwrap();
    let streamed = match answer.outcome.unwrap() {
        Outcome::Appended(_) => Ok(()),
        Outcome::Failure(failure) => Err(Status::new(failure.code.into(), failure.reason)),
    };
    vec![
        ("AppendEventStream", streamed),
        ("AppendEvent", service.append_event(one).await.map(drop)),
        ("AppendEvent, partial", service.append_event(partial).await.map(drop)),
        ("AppendEvent, temp:", service.append_event(temp).await.map(drop)),
        ("AppendEvents", service.append_events(several).await.map(drop)),
        ("UpdateState", service.update_state(state).await.map(drop)),
        ("RewindSession", service.rewind_session(rewind).await.map(drop)),
        ("UpdateSession", service.update_session(rename(with())).await.map(drop)),
        ("ForkSession", service.fork_session(fork("f1", with())).await.map(drop)),
        ("DeleteSession", service.delete_session(delete(with(), false)).await.map(drop)),
    ]
}

async fn every_answer_has_the_uid_of_the_life(service: &Service) {
    let (first, second) = two_lives(service).await;
    assert!(!first.is_empty() && first != second && first.len() <= 128);
    let found = service.get_session(get("s1")).await.unwrap().session.unwrap();
    let appended = service.append_event(append("s1", plain())).await.unwrap().session.unwrap();
    let batch = append_all("s1", vec![plain()]);
    let batch = service.append_events(batch).await.unwrap().session.unwrap();
    let renamed = service.update_session(rename(None)).await.unwrap().session.unwrap();
    let back = service.rewind_session(rewind("s1", 1)).await.unwrap().session.unwrap();
    let list = ListSessionsRequest { app_name: APP.into(), ..Default::default() };
    let listed = service.list_sessions(list).await.unwrap().sessions.remove(0);
    for session in [found, appended, batch, renamed, back, listed] {
        assert_eq!(session.uid, second);
    }
    let state = service.get_state(get_state(session_scope("s1"))).await.unwrap();
    assert_eq!(state.uid, second);
    let update = update(session_scope("s1"), set(r#"{"k":4}"#));
    assert_eq!(service.update_state(update).await.unwrap().uid, second);
    let forked = service.fork_session(fork("f1", None)).await.unwrap().session.unwrap();
    assert!(!forked.uid.is_empty() && forked.uid != second);
    let request = WatchRequest { scope: Some(session_scope("s1")), ..Default::default() };
    let mut watch = service.watches().watch(request).await.unwrap().into_inner();
    let Some(Kind::Snapshot(snapshot)) = watch.message().await.unwrap().unwrap().kind else {
        panic!("no snapshot");
    };
    assert_eq!(snapshot.uid, second);
    service.delete_session(delete(None, false)).await.unwrap();
    let deleted = loop {
        match watch.message().await.unwrap().unwrap().kind {
            Some(Kind::SessionDeleted(deleted)) => break deleted,
            _ => continue,
        }
    };
    assert_eq!(deleted.uid, second);
}

async fn every_write_that_means_an_earlier_life_is_refused_and_changes_nothing(service: &Service) {
    let (first, second) = two_lives(service).await;
    let before = service.get_session(get("s1")).await.unwrap();
    // Numbers that agree by chance do not help.
    let precondition = Some(Precondition { expected_sequence: Some(1), ..meant(&first).unwrap() });
    for (name, result) in every_write(service, precondition).await {
        let status = result.expect_err(name);
        assert_eq!(status.code(), tonic::Code::Aborted, "{name}: {status:?}");
        if name == "AppendEventStream" {
            assert_eq!(status.message(), Reason::SessionReplaced.as_str());
            continue;
        }
        let status = refused(Err::<(), _>(status), Reason::SessionReplaced);
        assert_eq!(metadata(&status)["session_id"], "s1", "{name}");
        assert_eq!(metadata(&status)["app_name"], APP, "{name}");
        assert_eq!(metadata(&status)["user_id"], USER, "{name}");
    }
    let after = service.get_session(get("s1")).await.unwrap();
    assert_eq!(before, after);
    assert_eq!(after.session.unwrap().uid, second);
}

async fn every_write_that_means_the_present_life_goes_on(service: &Service) {
    let (_, second) = two_lives(service).await;
    for (name, result) in every_write(service, meant(&second)).await {
        assert!(result.is_ok(), "{name}: {result:?}");
    }
    refused(service.get_session(get("s1")).await, Reason::SessionNotFound);
    for (name, result) in every_write(service, meant(&second)).await {
        if name != "AppendEventStream" {
            refused(Err::<(), _>(result.expect_err(name)), Reason::SessionNotFound);
        }
    }
}

/// The next life has an event of the same id and content, and has seen a request of the same id.
async fn a_replay_of_an_earlier_life_is_refused(service: &Service) {
    let (first, second) = two_lives(service).await;
    let again =
        |uid| AppendEventRequest { precondition: meant(uid), ..append("s1", with_id("e1")) };
    refused(service.append_event(again(&first)).await, Reason::SessionReplaced);
    assert!(service.append_event(again(&second)).await.unwrap().replayed);
    let request = |uid| UpdateStateRequest {
        request_id: "r1".into(),
        precondition: meant(uid),
        ..update(session_scope("s1"), set(r#"{"r":1}"#))
    };
    assert!(!service.update_state(request(&second)).await.unwrap().replayed);
    assert!(service.update_state(request(&second)).await.unwrap().replayed);
    refused(service.update_state(request(&first)).await, Reason::SessionReplaced);
    let rewind = |uid| RewindSessionRequest {
        event_id: "m1".into(),
        precondition: meant(uid),
        ..rewind("s1", 0)
    };
    service.rewind_session(rewind(&second)).await.unwrap();
    assert!(service.rewind_session(rewind(&second)).await.unwrap().replayed);
    refused(service.rewind_session(rewind(&first)).await, Reason::SessionReplaced);
}

async fn a_repeated_deletion_leaves_the_next_life_alone(service: &Service) {
    let first = created(service).await.uid;
    service.delete_session(delete(meant(&first), true)).await.unwrap();
    service.delete_session(delete(meant(&first), true)).await.unwrap();
    refused(service.delete_session(delete(meant(&first), false)).await, Reason::SessionNotFound);
    let second = created(service).await.uid;
    service.delete_session(delete(meant(&first), true)).await.unwrap();
    refused(service.delete_session(delete(meant(&first), false)).await, Reason::SessionReplaced);
    assert_eq!(service.get_session(get("s1")).await.unwrap().session.unwrap().uid, second);
    service.delete_session(delete(meant(&second), true)).await.unwrap();
    refused(service.get_session(get("s1")).await, Reason::SessionNotFound);
}

async fn all_fields_of_a_precondition_count_for_updates_deletions_and_forks(service: &Service) {
    created(service).await;
    service.append_event(append("s1", setting(r#"{"user:u":1,"app:a":1}"#))).await.unwrap();
    let fails = || {
        let keys = ["k", "user:u", "app:a"];
        let missing =
            |key| crate::make::check(key, sessiond::proto::v1::key_check::Condition::Exists(false));
        checking(keys.map(missing))
    };
    for allow_missing in [true, false] {
        let stale = service.delete_session(delete(expecting(0), allow_missing)).await;
        refused(stale, Reason::SequenceConflict);
        let status = refused(
            service.delete_session(delete(fails(), allow_missing)).await,
            Reason::KeyConflict,
        );
        assert_eq!(metadata(&status)["keys"], r#"["k","user:u","app:a"]"#);
    }
    refused(service.update_session(rename(expecting(0))).await, Reason::SequenceConflict);
    refused(service.update_session(rename(fails())).await, Reason::KeyConflict);
    refused(service.fork_session(fork("f1", expecting(0))).await, Reason::SequenceConflict);
    refused(service.fork_session(fork("f1", fails())).await, Reason::KeyConflict);
    let session = service.get_session(get("s1")).await.unwrap().session.unwrap();
    assert_eq!(session.display_name, "");
    refused(service.get_session(get("f1")).await, Reason::SessionNotFound);
    service.update_session(rename(expecting(1))).await.unwrap();
    service.fork_session(fork("f1", expecting(1))).await.unwrap();
    service.delete_session(delete(expecting(1), false)).await.unwrap();
}

async fn a_text_that_no_answer_had_names_no_life(service: &Service) {
    let session = created(service).await;
    let other = service.create_session(create("s2", "")).await.unwrap().session.unwrap();
    for uid in [&other.uid, "", "1", &"x".repeat(128), &session.uid[1..]] {
        let request = AppendEventRequest { precondition: meant(uid), ..append("s1", plain()) };
        let answer = service.append_event(request).await;
        match uid {
            "" => drop(answer.unwrap()),
            _ => drop(refused(answer, Reason::SessionReplaced)),
        }
    }
    let request =
        AppendEventRequest { precondition: meant(&"x".repeat(129)), ..append("s1", plain()) };
    faulty(service.append_event(request).await, Reason::FieldTooLong, "precondition.uid");
}
