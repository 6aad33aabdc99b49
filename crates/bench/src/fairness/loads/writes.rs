//! Writes that cost much more than they weigh.

use std::{sync::Arc, time::Duration};

use super::requests::{append, create, event, fill_keys, key};
use crate::fairness::attacker::{Attacker, Call};
use sessiond::{
    cli::Failure,
    proto::v1::{
        Event, ForkSessionRequest, JsonForm, ListAppend, RewindSessionRequest, StateDelta,
        StateOperation, event::BodyForm, list_append::ValuesForm, state_operation::Operation,
    },
};

const EMPTY_EVENTS: usize = 600;

pub async fn set_up_many_keys(it: Arc<Attacker>) -> Result<(), Failure> {
    it.ask(&create(&it.app, "many", "{}")).await?;
    let keys = fill_keys(&it, "many", "").await?;
    it.counts().notes.push(format!("{keys} keys"));
    let request = append(&it.app, "many", vec![event("{}"); EMPTY_EVENTS]);
    it.make(1, 1, move |_| request.clone()).await;
    Ok(())
}

/// A sequence in the past of the session with many keys, another one each time.
fn past(number: usize) -> Option<i64> {
    i64::try_from(30 + number % 500).ok()
}

pub async fn rewinds(it: Arc<Attacker>) -> Result<(), Failure> {
    let key = key(&it.app, "many");
    it.keep(128, move |number| {
        let request = RewindSessionRequest {
            key: Some(key.clone()),
            to_sequence: past(number),
            json_form: JsonForm::Text.into(),
            ..Default::default()
        };
        Call::new("SessionService/RewindSession", &request)
    })
    .await;
    Ok(())
}

pub async fn forks(it: Arc<Attacker>) -> Result<(), Failure> {
    let key = key(&it.app, "many");
    it.keep(128, move |number| {
        let request = ForkSessionRequest {
            key: Some(key.clone()),
            up_to_sequence: past(number),
            json_form: JsonForm::Text.into(),
            ..Default::default()
        };
        Call::new("SessionService/ForkSession", &request)
    })
    .await;
    Ok(())
}

/// Sessions whose lists are appended to.
const LISTS: usize = 8;

async fn set_up_lists(it: &Arc<Attacker>, elements: usize, element: &str) {
    let list = format!("{{\"l\":[{}]}}", vec![element; elements].join(","));
    let app = it.app.clone();
    it.make(LISTS, LISTS, move |number| create(&app, &format!("list-{number}"), &list)).await;
}

/// Events of `operations` appends each to the list of one of the sessions.
fn list_appends(
    app: &str,
    number: usize,
    events: usize,
    operations: usize,
    max_length: i32,
) -> Call {
    let operation = StateOperation {
        key: "l".to_owned(),
        operation: Some(Operation::ListAppend(ListAppend {
            values_form: Some(ValuesForm::ValuesJson("[1]".to_owned())),
            max_length,
        })),
    };
    let delta = StateDelta { operations: vec![operation; operations], ..Default::default() };
    let event = Event { state_delta: Some(delta), ..event("{}") };
    append(app, &format!("list-{}", number % LISTS), vec![event; events])
}

pub async fn set_up_large_lists(it: Arc<Attacker>) -> Result<(), Failure> {
    // 240 KB.
    set_up_lists(&it, 40_000, "12345").await;
    Ok(())
}

pub async fn batches_of_list_appends(it: Arc<Attacker>) -> Result<(), Failure> {
    let app = it.app.clone();
    it.keep(500, move |number| list_appends(&app, number, 12, 1, 0)).await;
    Ok(())
}

pub async fn set_up_operations(it: Arc<Attacker>) -> Result<(), Failure> {
    // 110 KB.
    set_up_lists(&it, 20_000, "1234").await;
    Ok(())
}

/// 1.7 KB that append a hundred times to a list of 20,000 numbers.
pub async fn operations<const IN_FLIGHT: usize>(it: Arc<Attacker>) -> Result<(), Failure> {
    let app = it.app.clone();
    it.keep(IN_FLIGHT, move |number| list_appends(&app, number, 5, 20, 20_000)).await;
    Ok(())
}

const REPLAYED: usize = 300;

fn replayed_id(number: usize) -> String {
    format!("event-{number}")
}

/// Events of 2 MiB.
pub async fn set_up_replays(it: Arc<Attacker>) -> Result<(), Failure> {
    it.ask(&create(&it.app, "replayed", "{}")).await?;
    let keys = (0..4).map(|key| format!("\"k{key}\":\"{}\"", "x".repeat(255_000)));
    let state = format!("{{{}}}", keys.collect::<Vec<_>>().join(","));
    let body = format!("{{\"text\":\"{}\"}}", "y".repeat(1_000_000));
    let app = it.app.clone();
    it.make(4, REPLAYED, move |number| {
        let body_form = Some(BodyForm::BodyJson(body.clone()));
        let event = Event { event_id: replayed_id(number), body_form, ..event(&state) };
        append(&app, "replayed", vec![event])
    })
    .await;
    Ok(())
}

/// The same ids with other content.
pub async fn replays(it: Arc<Attacker>) -> Result<(), Failure> {
    let ids = (0..REPLAYED).map(replayed_id);
    let events = ids.map(|event_id| Event { event_id, ..event("{}") }).collect();
    let request = append(&it.app, "replayed", events);
    it.keep(4, move |_| request.clone()).await;
    Ok(())
}

/// A call has come to the server by then, and waits: 64 others are before it.
const GIVEN_UP_AFTER: Duration = Duration::from_millis(20);

pub async fn set_up_session(it: Arc<Attacker>) -> Result<(), Failure> {
    let request = create(&it.app, "temporary", "{}");
    it.make(1, 1, move |_| request.clone()).await;
    Ok(())
}

/// An invocation whose name comes last. Locks are taken in the order of names.
const BUSY: &str = "~";

/// Batches that begin 999 invocations with `temp:` state, and are given up while they wait for one that others hold.
pub async fn cancelled_batches(it: Arc<Attacker>) -> Result<(), Failure> {
    let begun = |invocation_id| Event { invocation_id, ..event(r#"{"temp:key":1}"#) };
    let busy = append(&it.app, "temporary", vec![begun(BUSY.to_owned())]);
    let given_up = async {
        for batch in 0..20 {
            let fresh = (0..999).map(|number| begun(format!("{batch}-{number}")));
            let events = fresh.chain([begun(BUSY.to_owned())]).collect();
            it.give_up(append(&it.app, "temporary", events), GIVEN_UP_AFTER).await?;
        }
        Ok(())
    };
    let ((), given_up) = tokio::join!(it.keep(64, move |_| busy.clone()), given_up);
    given_up
}
