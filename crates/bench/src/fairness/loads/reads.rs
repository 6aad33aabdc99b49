//! Reads that look at much more than they return.

use std::sync::Arc;

use sessiond::{
    cli::Failure,
    proto::v1::{
        CreateSessionRequest, EventSelection, GetSessionRequest, JsonForm, ListEventsRequest,
        ListSessionsRequest, RewindSessionRequest,
    },
};

use super::requests::{append, create, event, fill_keys, key};
use crate::fairness::{
    attacker::{Attacker, Call, MANY},
    server::{NAMED_USERS, READER},
};

/// Reads that are kept in flight.
const IN_FLIGHT: usize = 64;

async fn set_up_sessions(it: Arc<Attacker>, sessions: usize) {
    let app = it.app.clone();
    it.make(MANY, sessions, move |number| {
        let request = CreateSessionRequest {
            app_name: app.clone(),
            user_id: format!("user-{}", number % NAMED_USERS),
            json_form: JsonForm::Text.into(),
            ..Default::default()
        };
        Call::new("SessionService/CreateSession", &request)
    })
    .await;
}

pub async fn set_up_many_sessions(it: Arc<Attacker>) -> Result<(), Failure> {
    set_up_sessions(it, 100_000).await;
    Ok(())
}

pub async fn lists_by_label(it: Arc<Attacker>) -> Result<(), Failure> {
    let request = ListSessionsRequest {
        app_name: it.app.clone(),
        labels: [("colour".to_owned(), "none".to_owned())].into(),
        json_form: JsonForm::Text.into(),
        ..Default::default()
    };
    it.keep(IN_FLIGHT, move |_| Call::new("SessionService/ListSessions", &request)).await;
    Ok(())
}

pub async fn set_up_sessions_of_named_users(it: Arc<Attacker>) -> Result<(), Failure> {
    set_up_sessions(it, 10_000).await;
    Ok(())
}

pub async fn lists_of_named_users(it: Arc<Attacker>) -> Result<(), Failure> {
    let request = ListSessionsRequest {
        app_name: it.app.clone(),
        json_form: JsonForm::Text.into(),
        ..Default::default()
    };
    let call = Call::new("SessionService/ListSessions", &request).with_token(READER);
    it.keep(IN_FLIGHT, move |_| call.clone()).await;
    Ok(())
}

pub async fn set_up_many_events(it: Arc<Attacker>) -> Result<(), Failure> {
    it.ask(&create(&it.app, "long", "{}")).await?;
    let request = append(&it.app, "long", vec![event("{}"); 1000]);
    it.make(4, 200, move |_| request.clone()).await;
    Ok(())
}

pub async fn events_of_absent_author(it: Arc<Attacker>) -> Result<(), Failure> {
    let request = ListEventsRequest {
        key: Some(key(&it.app, "long")),
        author: "absent".to_owned(),
        json_form: JsonForm::Text.into(),
        ..Default::default()
    };
    it.keep(IN_FLIGHT, move |_| Call::new("EventService/ListEvents", &request)).await;
    Ok(())
}

pub async fn set_up_large_scopes(it: Arc<Attacker>) -> Result<(), Failure> {
    it.ask(&create(&it.app, "large", "{}")).await?;
    let keys = [fill_keys(&it, "large", "").await?, fill_keys(&it, "large", "user:").await?];
    it.counts().notes.push(format!("{} and {} keys", keys[0], keys[1]));
    Ok(())
}

pub async fn reads_of_large_scopes(it: Arc<Attacker>) -> Result<(), Failure> {
    get(it, "large", None).await
}

pub async fn set_up_many_rewinds(it: Arc<Attacker>) -> Result<(), Failure> {
    it.ask(&create(&it.app, "rewound", "{}")).await?;
    let request = append(&it.app, "rewound", vec![event("{}"); 10]);
    it.make(1, 1, move |_| request.clone()).await;
    let request = RewindSessionRequest {
        key: Some(key(&it.app, "rewound")),
        to_sequence: Some(5),
        json_form: JsonForm::Text.into(),
        ..Default::default()
    };
    it.make(MANY, 100_000, move |_| Call::new("SessionService/RewindSession", &request)).await;
    Ok(())
}

pub async fn reads_of_a_rewound_session(it: Arc<Attacker>) -> Result<(), Failure> {
    get(it, "rewound", Some(1)).await
}

async fn get(it: Arc<Attacker>, session: &str, recent: Option<i32>) -> Result<(), Failure> {
    let request = GetSessionRequest {
        key: Some(key(&it.app, session)),
        events: Some(EventSelection { recent, ..Default::default() }),
        json_form: JsonForm::Text.into(),
        ..Default::default()
    };
    it.keep(IN_FLIGHT, move |_| Call::new("SessionService/GetSession", &request)).await;
    Ok(())
}
