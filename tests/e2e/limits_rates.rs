//! Limits of the appends and watches of an application: whom they refuse, and whom they do not.

use std::time::{Duration, Instant};

use sessiond::{
    domain::error::Reason,
    proto::v1::{
        AppendEventRequest, AppendEventsRequest, CreateSessionRequest, SessionKey, WatchRequest,
        WatchStart, append_event_stream_response::Outcome,
    },
};
use tonic::Status;
use tonic_types::StatusExt as _;

use crate::{
    deadlines::append_all_due,
    harness::{Service, eventually, with_server},
    judge::{detail, reason, refused},
    make::{
        APP, USER, address, append, append_all, bare, create, event, get, list_events, plain, scope,
    },
    streams::Appends,
    watching::{Watching, watch},
};

with_server! {
    ["--max-appends-per-application", "2"]
    a_batch_counts_its_events_against_its_application_alone
    a_retry_after_the_wait_that_a_refusal_names_passes
    an_append_that_is_not_begun_counts_for_nothing
}

with_server! {
    ["--max-appends-per-application", "1000000"]
    a_limit_leaves_the_items_of_a_stream_in_order
}

with_server! {
    ["--max-watches-per-application", "2"]
    watches_give_their_places_back
}

/// An application beside that of most tests.
const OTHER: &str = "other_app";

fn in_other() -> SessionKey {
    address(OTHER, USER, "s2")
}

fn create_in_other() -> CreateSessionRequest {
    CreateSessionRequest { app_name: OTHER.into(), ..create("s2", "") }
}

fn append_in_other() -> AppendEventRequest {
    AppendEventRequest { key: Some(in_other()), ..append("s2", plain()) }
}

fn delay(status: &Status) -> Duration {
    status.get_details_retry_info().unwrap().retry_delay.unwrap()
}

/// Calls until it passes. Each refusal has to be that of the limit, and a call after the delay of the first has to pass.
async fn patiently<T: std::fmt::Debug>(mut call: impl AsyncFnMut() -> Result<T, Status>) -> T {
    let mut due = None;
    eventually("a call that is not refused any more", async || {
        let began = Instant::now();
        let status = match call().await {
            Ok(answer) => return Some(answer),
            Err(status) => refused::<T>(Err(status), Reason::RateLimited),
        };
        let due = *due.get_or_insert(Instant::now() + delay(&status));
        assert!(began < due, "the delay was too short: {status:?}");
        None
    })
    .await
}

fn batch(events: usize) -> AppendEventsRequest {
    AppendEventsRequest { key: Some(bare("s1")), ..append_all("s1", vec![plain(); events]) }
}

/// After this the application may append nothing for almost a minute, which is longer than the rest of a test takes.
async fn exhaust(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    patiently(async || service.append_events(batch(120)).await).await;
}

async fn a_batch_counts_its_events_against_its_application_alone(service: &Service) {
    exhaust(service).await;
    for key in [bare("s1"), address(APP, USER, "s1")] {
        let request = AppendEventRequest { key: Some(key), ..append("s1", plain()) };
        let status = refused(service.append_event(request).await, Reason::RateLimited);
        assert_eq!(detail(&status, "what"), "application_appends");
        assert_eq!(detail(&status, "limit"), "2");
        let millis: u128 = detail(&status, "retry_after_millis").parse().unwrap();
        assert_eq!(delay(&status).as_millis(), millis);
        assert!((1..60_000).contains(&millis), "{millis}");
    }
    refused(service.create_session(create("s3", "")).await, Reason::RateLimited);
    service.create_session(create_in_other()).await.unwrap();
    // Items of a stream are refused one by one.
    let mut appends = Appends::open(service).await;
    appends.send(append("s1", plain()));
    appends.send(append_in_other());
    let Outcome::Failure(failure) = appends.next().await else { panic!("not refused") };
    assert_eq!(failure.reason, Reason::RateLimited.as_str());
    assert_eq!(failure.metadata["what"], "application_appends");
    appends.appended().await;
    // Reads are not limited.
    assert_eq!(service.get_session(get("s1")).await.unwrap().session.unwrap().last_sequence, 120);
}

async fn a_retry_after_the_wait_that_a_refusal_names_passes(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    for _ in 0..3 {
        patiently(async || service.append_events(batch(3)).await).await;
        patiently(async || service.append_event(append("s1", plain())).await).await;
    }
}

async fn an_append_that_is_not_begun_counts_for_nothing(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let late = append_all_due(service, "1n", append_all("s1", vec![plain(); 1000])).await;
    refused(late, Reason::ExpiredInQueue);
    service.append_event(append("s1", plain())).await.unwrap();
}

async fn a_limit_leaves_the_items_of_a_stream_in_order(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let mut appends = Appends::open(service).await;
    let names: Vec<_> = (0..100).map(|number| format!("e{number}")).collect();
    for (at, name) in names.iter().enumerate() {
        // The application of a bare id is looked up first.
        let key = if at % 3 == 0 { bare("s1") } else { address(APP, USER, "s1") };
        appends.send(AppendEventRequest { key: Some(key), ..append("s1", event(name)) });
    }
    for name in &names {
        assert_eq!(appends.appended().await.event_id, *name);
    }
    let events = service.list_events(list_events("s1")).await.unwrap().events;
    let stored: Vec<_> = events.into_iter().map(|event| event.event_id).collect();
    assert_eq!(stored, names);
}

async fn watches_give_their_places_back(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let open = async |scope| Watching::try_open(service, watch(scope, WatchStart::Now)).await;
    let of_app = || scope(APP, "", "");
    let mut first = open(of_app()).await.unwrap();
    first.caught_up().await;
    // Watches that are refused for another reason hold no place.
    for _ in 0..3 {
        let missing = open(scope(APP, USER, "missing")).await.map(drop);
        refused(missing, Reason::SessionNotFound);
        let request =
            WatchRequest { scope: Some(of_app()), cursor: "x".into(), ..Default::default() };
        refused(Watching::try_open(service, request).await.map(drop), Reason::BadCursor);
    }
    let second = open(scope(APP, USER, "s1")).await.unwrap();
    let status = refused(open(of_app()).await.map(drop), Reason::RateLimited);
    assert_eq!(detail(&status, "what"), "application_watches");
    let _other = open(scope(OTHER, "", "")).await.unwrap();
    drop(second);
    let _third = eventually("the place of a watch whose client has left", async || {
        open(of_app()).await.inspect_err(|status| assert_eq!(reason(status), "RATE_LIMITED")).ok()
    })
    .await;
}
