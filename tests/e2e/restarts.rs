//! A restart of the server on the same file: what was begun goes on.

use prost_types::Timestamp;
use serde_json::json;
use sessiond::{
    domain::error::Reason,
    proto::v1::{GetSessionRequest, ListEventsRequest, UpdateStateRequest},
};

use crate::{
    harness::Service,
    judge::refused,
    make::{
        append, append_all, create, event, get, list_events, plain, rewind, saying, scope, set,
        setting, setting_in, update,
    },
    read::{HasState, sequences},
};

async fn fill(service: &Service) {
    service
        .create_session(create("s1", r#"{"n":1e0,"user:n":"\u0041","app:n":[1 ,2]}"#))
        .await
        .unwrap();
    for at in 1..=4 {
        let state = json!({"n": at, "user:n": at, "app:n": at}).to_string();
        let mut event = setting(&state);
        event.event_id = format!("e{at}");
        event.event_time = Some(Timestamp { seconds: -5, nanos: at });
        service.append_event(append("s1", event)).await.unwrap();
    }
    service.rewind_session(rewind("s1", 2)).await.unwrap();
    let bodies = [r#"{ "odd" : 1E5 }"#, "{\"line\":\"\\n\u{2028}\"}"].map(saying);
    service.append_events(append_all("s1", bodies.to_vec())).await.unwrap();
    let request = UpdateStateRequest {
        request_id: "r1".into(),
        ..update(scope("other", "", ""), set(r#"{"app:k":1}"#))
    };
    service.update_state(request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_begun_goes_on() {
    let service = Service::on_sqlite(&[]).await;
    fill(&service).await;
    let first = ListEventsRequest { page_size: 1, ..list_events("s1") };
    let page = service.list_events(first.clone()).await.unwrap();
    let held = setting_in("turn", r#"{"temp:t":1}"#);
    service.append_event(append("s1", held)).await.unwrap();
    let service = service.restart().await;

    // The list goes on where it was.
    let next = ListEventsRequest { page_token: page.next_page_token, page_size: 9, ..first };
    let rest = service.list_events(next).await.unwrap().events;
    assert_eq!([sequences(&page.events), sequences(&rest)].concat(), [1, 2, 6, 7, 8]);
    // Repetitions are known, and sequences and versions go on without a gap.
    let state = json!({"n": 4, "user:n": 4, "app:n": 4}).to_string();
    let mut again = setting(&state);
    again.event_id = "e4".into();
    again.event_time = Some(Timestamp { seconds: -5, nanos: 4 });
    assert!(service.append_event(append("s1", again)).await.unwrap().replayed);
    refused(service.append_event(append("s1", event("e4"))).await, Reason::EventIdReused);
    let request = UpdateStateRequest {
        request_id: "r1".into(),
        ..update(scope("other", "", ""), set(r#"{"app:k":1}"#))
    };
    assert!(service.update_state(request).await.unwrap().replayed);
    let answer = service.append_event(append("s1", plain())).await.unwrap();
    assert_eq!(answer.event.unwrap().sequence, 9);
    // What a turn held was in memory alone.
    let request = GetSessionRequest { invocation_id: "turn".into(), ..get("s1") };
    assert_eq!(service.get_session(request).await.unwrap().state().get("temp:t"), None);
    service.stop().await;
}
