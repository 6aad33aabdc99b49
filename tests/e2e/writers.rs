//! Several writers at once: nothing is lost, whatever way it is written and wherever it belongs.

use std::sync::Arc;

use serde_json::json;
use sessiond::{
    domain::error::Reason,
    proto::v1::{AppendEventRequest, Event, UpdateStateRequest},
};
use tokio::task::JoinSet;

use crate::{
    harness::{Service, owning_each_store},
    judge::refused,
    make::{
        app_scope, append, append_all, create, event, expecting, get, get_state, increment,
        list_append, list_events, operating, operations, plain, session_scope, setting, update,
        user_scope,
    },
    read::{HasState, sequences},
    streams::Appends,
};

owning_each_store! {
    increments_through_every_way_of_writing_are_all_counted
    two_writers_on_one_key_never_lose_an_update
    of_those_that_expect_the_same_sequence_one_succeeds
    the_same_event_from_many_is_stored_once
    the_same_session_from_many_is_created_once
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

async fn two_writers_on_one_key_never_lose_an_update(service: Service) {
    let service = Arc::new(service);
    service.create_session(create("s1", "")).await.unwrap();
    at_once(2, |task| {
        let service = Arc::clone(&service);
        async move {
            for at in 0..100 {
                let operation = list_append("log", &format!("[[{task},{at}]]"), 0);
                // Through the log and beside it.
                if task == 0 {
                    service.append_event(append("s1", operating(operation))).await.unwrap();
                } else {
                    let delta = operations([operation]);
                    service.update_state(update(session_scope("s1"), delta)).await.unwrap();
                }
            }
        }
    })
    .await;
    let read = service.get_session(get("s1")).await.unwrap();
    let log = read.state()["log"].as_array().unwrap().clone();
    assert_eq!(log.len(), 200);
    for task in 0..2 {
        let own: Vec<_> =
            log.iter().filter(|entry| entry[0] == task).map(|entry| entry[1].clone()).collect();
        assert_eq!(own, (0..100).map(|at| json!(at)).collect::<Vec<_>>(), "in the writer's order");
    }
    stop(service).await;
}

/// Reads, decides and writes with what it read as its condition, again until it holds.
async fn of_those_that_expect_the_same_sequence_one_succeeds(service: Service) {
    let service = Arc::new(service);
    service.create_session(create("s1", r#"{"n":0}"#)).await.unwrap();
    at_once(8, |_| {
        let service = Arc::clone(&service);
        async move {
            for _ in 0..10 {
                loop {
                    let read = service.get_session(get("s1")).await.unwrap();
                    let next = read.state()["n"].as_i64().unwrap() + 1;
                    let event = setting(&json!({"n": next}).to_string());
                    let request = AppendEventRequest {
                        precondition: expecting(read.session.unwrap().last_sequence),
                        ..append("s1", event)
                    };
                    match service.append_event(request).await {
                        Ok(_) => break,
                        stale => drop(refused(stale, Reason::SequenceConflict)),
                    }
                }
            }
        }
    })
    .await;
    let read = service.get_session(get("s1")).await.unwrap();
    assert_eq!((read.state(), read.session.unwrap().last_sequence), (json!({"n": 80}), 80));

    // A wider scope likewise, by its version.
    at_once(8, |task| {
        let service = Arc::clone(&service);
        async move {
            let scope = [app_scope(), user_scope()][task % 2].clone();
            let key = ["app:n", "user:n"][task % 2];
            for _ in 0..5 {
                for expected in 0.. {
                    let request = UpdateStateRequest {
                        precondition: expecting(expected),
                        ..update(scope.clone(), operations([increment(key, 1)]))
                    };
                    match service.update_state(request).await {
                        Ok(_) => break,
                        stale => drop(refused(stale, Reason::SequenceConflict)),
                    }
                }
            }
        }
    })
    .await;
    let user = service.get_state(get_state(user_scope())).await.unwrap();
    assert_eq!(user.state(), json!({"app:n": 20, "user:n": 20}));
    stop(service).await;
}

async fn the_same_event_from_many_is_stored_once(service: Service) {
    let service = Arc::new(service);
    service.create_session(create("s1", "")).await.unwrap();
    for round in 0..10 {
        at_once(8, |task| {
            let service = Arc::clone(&service);
            async move {
                let own = Event { event_id: format!("e{round}"), ..counted() };
                if task % 2 == 0 {
                    service.append_event(append("s1", own)).await.unwrap();
                } else {
                    let batch = append_all("s1", vec![own, event(&format!("b{round}"))]);
                    service.append_events(batch).await.unwrap();
                }
            }
        })
        .await;
    }
    let read = service.get_session(get("s1")).await.unwrap();
    assert_eq!(read.state(), json!({"own": 10, "user:n": 10, "app:n": 10}));
    assert_eq!(read.session.unwrap().last_sequence, 20);
    stop(service).await;
}

async fn the_same_session_from_many_is_created_once(service: Service) {
    let service = Arc::new(service);
    for round in 0..10 {
        let id = format!("s{round}");
        let (sender, mut created) = tokio::sync::mpsc::unbounded_channel();
        at_once(6, |task| {
            let (service, sender, id) = (Arc::clone(&service), sender.clone(), id.clone());
            async move {
                let mut request = create(&id, &json!({"by": task}).to_string());
                request.allow_existing = true;
                let answer = service.create_session(request).await.unwrap();
                sender.send((answer.created, answer.state())).unwrap();
            }
        })
        .await;
        drop(sender);
        let mut answers = Vec::new();
        while let Some(answer) = created.recv().await {
            answers.push(answer);
        }
        assert_eq!(answers.iter().filter(|(created, _)| *created).count(), 1);
        assert!(answers.iter().all(|(_, state)| *state == answers[0].1), "{answers:?}");
    }
    stop(service).await;
}
