//! Requests that several loads make.

use sessiond::{
    cli::Failure,
    proto::v1::{
        AppendEventsRequest, CreateSessionRequest, Event, JsonForm, SessionKey, StateDelta,
        create_session_request::StateForm, state_delta::SetForm,
    },
};
use tonic::Code;

use crate::fairness::attacker::{Attacker, Call};

/// Keys of one byte with names of five: 917 KB, which a scope's bound of bytes allows.
const MANY_KEYS: usize = 131_000;

pub fn key(app: &str, session: &str) -> SessionKey {
    SessionKey {
        app_name: app.to_owned(),
        user_id: "user-0".to_owned(),
        session_id: session.to_owned(),
    }
}

pub fn create(app: &str, session: &str, state: &str) -> Call {
    let SessionKey { app_name, user_id, session_id } = key(app, session);
    let request = CreateSessionRequest {
        app_name,
        user_id,
        session_id,
        state_form: Some(StateForm::StateJson(state.to_owned())),
        json_form: JsonForm::Text.into(),
        ..Default::default()
    };
    Call::new("SessionService/CreateSession", &request)
}

/// An event that sets the keys of an object.
pub fn event(set: &str) -> Event {
    let set_form = Some(SetForm::SetJson(set.to_owned()));
    Event {
        author: "attacker".to_owned(),
        state_delta: Some(StateDelta { set_form, ..Default::default() }),
        ..Default::default()
    }
}

pub fn append(app: &str, session: &str, events: Vec<Event>) -> Call {
    let request = AppendEventsRequest {
        key: Some(key(app, session)),
        events,
        json_form: JsonForm::Text.into(),
        ..Default::default()
    };
    Call::new("EventService/AppendEvents", &request)
}

/// Sets as many small keys as the server takes. Returns their number.
pub async fn fill_keys(it: &Attacker, session: &str, prefix: &str) -> Result<usize, Failure> {
    const STEP: usize = 10_000;
    for first in (0..MANY_KEYS).step_by(STEP) {
        let keys = first..(first + STEP).min(MANY_KEYS);
        let keys: Vec<_> = keys.map(|key| format!("\"{prefix}{key:05x}\":1")).collect();
        let request = append(&it.app, session, vec![event(&format!("{{{}}}", keys.join(",")))]);
        if it.ask(&request).await? != Code::Ok {
            return Ok(first);
        }
    }
    Ok(MANY_KEYS)
}
