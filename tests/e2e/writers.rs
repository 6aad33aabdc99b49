//! Several writers at once: nothing is lost, whatever way it is written and wherever it belongs.

use std::sync::Arc;

use serde_json::json;
use sessiond::proto::v1::{AppendEventRequest, Event};
use tokio::task::JoinSet;

use crate::{
    harness::{Service, owning_server},
    make::{
        append, append_all, create, get_state, increment, list_events, operations, plain, update,
    },
    read::{HasState, sequences},
    streams::Appends,
};

owning_server! {
    increments_through_every_way_of_writing_are_all_counted
}

/// Stops a server that tasks have shared and let go.
async fn stop(service: Arc<Service>) {
    Arc::into_inner(service).unwrap().stop().await;
}

/// Runs `count` tasks at once and waits for all of them.
async fn at_once<F: Future<Output = ()> + Send + 'static>(count: usize, task: impl Fn(usize) -> F) {
    let mut tasks: JoinSet<()> = (0..count).map(task).collect();
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}

const ROUNDS: usize = 20;

/// One increment of a key of each scope.
fn counted() -> Event {
    let keys = ["own", "user:n", "app:n"];
    Event { state_delta: Some(operations(keys.map(|key| increment(key, 1)))), ..plain() }
}

/// 16 tasks: each way of writing from four of them, through two sessions of each of two users.
async fn increments_through_every_way_of_writing_are_all_counted(service: Service) {
    let service = Arc::new(service);
    for user in ["alice", "bob"] {
        for id in ["s0", "s1"] {
            let mut request = create(id, "");
            request.user_id = user.into();
            service.create_session(request).await.unwrap();
        }
    }
    at_once(16, |task| {
        let service = Arc::clone(&service);
        async move {
            let (user, id) = (["alice", "bob"][task % 2], ["s0", "s1"][task / 2 % 2]);
            let key = Some(crate::make::address("my_app", user, id));
            let single = AppendEventRequest { key: key.clone(), ..append("", counted()) };
            match task / 4 {
                0 => {
                    for _ in 0..ROUNDS {
                        service.append_event(single.clone()).await.unwrap();
                    }
                }
                1 => {
                    for _ in 0..ROUNDS / 4 {
                        let mut batch = append_all("", vec![counted(); 4]);
                        batch.key = key.clone();
                        service.append_events(batch).await.unwrap();
                    }
                }
                2 => {
                    let mut appends = Appends::open(&service).await;
                    for _ in 0..ROUNDS {
                        appends.send(single.clone());
                    }
                    for _ in 0..ROUNDS {
                        appends.appended().await;
                    }
                    appends.end().await;
                }
                _ => {
                    let scope = crate::make::scope("my_app", user, id);
                    let delta = counted().state_delta.unwrap();
                    for _ in 0..ROUNDS {
                        let request = update(scope.clone(), delta.clone());
                        service.update_state(request).await.unwrap();
                    }
                }
            }
        }
    })
    .await;
    // Each session was written by four tasks, each user's state by eight, the application's by all.
    let rounds = ROUNDS as i64;
    for user in ["alice", "bob"] {
        for id in ["s0", "s1"] {
            let mut request = list_events(id);
            (request.key.as_mut().unwrap().user_id, request.page_size) = (user.into(), 1000);
            let events = service.list_events(request).await.unwrap().events;
            assert_eq!(sequences(&events), (1..=4 * rounds).collect::<Vec<_>>());
            let scope = crate::make::scope("my_app", user, id);
            let request =
                sessiond::proto::v1::GetStateRequest { include_versions: true, ..get_state(scope) };
            let answer = service.get_state(request).await.unwrap();
            let wanted = json!({"own": 4 * rounds, "user:n": 8 * rounds, "app:n": 16 * rounds});
            assert_eq!(answer.state(), wanted);
            let versions = ["own", "user:n", "app:n"].map(|key| answer.versions[key]);
            assert_eq!(versions, [4 * rounds, 8 * rounds, 16 * rounds], "each change counts");
        }
    }
    stop(service).await;
}
