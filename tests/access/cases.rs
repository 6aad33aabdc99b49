//! A valid request of each RPC, and the rights that it needs.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sessiond::domain::permission::Right::{self, Admin, Read, Write, WriteAppState};

use crate::calls;

/// An address: application, user and session.
#[derive(Clone, Debug)]
pub struct Address {
    pub app: String,
    pub user: String,
    pub session: String,
}

pub fn at(app: &str, user: &str, session: &str) -> Address {
    Address { app: app.into(), user: user.into(), session: session.into() }
}

impl Address {
    pub fn key(&self) -> Value {
        json!({"app_name": self.app, "user_id": self.user, "session_id": self.session})
    }

    fn bare(&self) -> Value {
        json!({"session_id": self.session})
    }

    fn user_scope(&self) -> Value {
        json!({"app_name": self.app, "user_id": self.user})
    }

    fn app_scope(&self) -> Value {
        json!({"app_name": self.app})
    }
}

/// The things that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// A user, and perhaps a session.
    User,
    /// A session by its id alone.
    BareId,
    Application,
    Nothing,
}

pub struct Case {
    pub method: &'static str,
    pub about: &'static str,
    pub names: Names,
    pub needs: &'static [Right],
    pub request: fn(&Address) -> Value,
}

const fn case(
    method: &'static str,
    about: &'static str,
    names: Names,
    needs: &'static [Right],
    request: fn(&Address) -> Value,
) -> Case {
    Case { method, about, names, needs, request }
}

fn create(at: &Address, state: &str) -> Value {
    let mut request = at.key();
    request["allow_existing"] = json!(true);
    request["state_json"] = json!(state);
    request
}

fn event(set: &str) -> Value {
    json!({"author": "a", "body_json": "{}", "state_delta": {"set_json": set}})
}

fn temp() -> Value {
    json!({"author": "a", "invocation_id": "turn", "state_delta": {"set_json": "{\"temp:k\":1}"}})
}

fn partial(set: &str) -> Value {
    let mut event = event(set);
    event["partial"] = json!(true);
    event
}

const OWN: &str = "{\"k\":1}";
const APP: &str = "{\"k\":1,\"app:k\":1}";
const BOTH: &[Right] = &[Write, WriteAppState];

/// Also the forms that the gate treats differently, such as partial events and keys of the application. Answers have content of the
/// session if it has keys as those of `tenants`.
#[rustfmt::skip]
pub const CASES: &[Case] = &[
    case("CreateSession", "", Names::User, &[Write], |at| create(at, OWN)),
    case("CreateSession", "app:", Names::User, BOTH, |at| create(at, APP)),
    case("GetSession", "", Names::User, &[Read], |at| json!({"key": at.key(), "events": {}})),
    case("GetSession", "temp:", Names::User, &[Read], |at| json!({"key": at.key(), "invocation_id": "turn"})),
    case("GetSession", "bare id", Names::BareId, &[Read], |at| json!({"key": at.bare(), "events": {}})),
    case("ListSessions", "of a user", Names::User, &[Read], Address::user_scope),
    case("ListSessions", "of an application", Names::Application, &[Read], Address::app_scope),
    case("UpdateSession", "", Names::User, &[Write], |at| {
        json!({"key": at.key(), "session": {"display_name": "d"}, "update_mask": "displayName"})
    }),
    case("DeleteSession", "", Names::User, &[Write], |at| json!({"key": at.key()})),
    case("DeleteSession", "allow_missing", Names::User, &[Write], |at| json!({"key": at.key(), "allow_missing": true})),
    case("ForkSession", "", Names::User, &[Write], |at| {
        json!({"key": at.key(), "session_id": format!("{}-fork", at.session)})
    }),
    case("RewindSession", "", Names::User, &[Write], |at| json!({"key": at.key(), "to_sequence": 0, "author": "a"})),
    case("AppendEvent", "", Names::User, &[Write], |at| json!({"key": at.key(), "event": event(OWN), "return_state": true})),
    case("AppendEvent", "app:", Names::User, BOTH, |at| json!({"key": at.key(), "event": event(APP)})),
    case("AppendEvent", "operation on app:", Names::User, BOTH, |at| {
        let add = json!({"key": "app:count", "increment": {"by": 1}});
        json!({"key": at.key(), "event": {"author": "a", "state_delta": {"operations": [add]}}})
    }),
    case("AppendEvent", "removes app:", Names::User, BOTH, |at| {
        json!({"key": at.key(), "event": {"author": "a", "state_delta": {"remove": ["app:none"]}}})
    }),
    case("AppendEvent", "bare id", Names::BareId, &[Write], |at| json!({"key": at.bare(), "event": event(OWN)})),
    case("AppendEvent", "bare id, app:", Names::BareId, BOTH, |at| json!({"key": at.bare(), "event": event(APP)})),
    case("AppendEvent", "bare id, temp:", Names::BareId, &[Write], |at| json!({"key": at.bare(), "event": temp()})),
    case("AppendEvent", "partial", Names::User, &[Write], |at| json!({"key": at.key(), "event": partial(OWN)})),
    case("AppendEvent", "partial, app:", Names::User, &[Write], |at| json!({"key": at.key(), "event": partial(APP)})),
    case("AppendEvent", "partial, bare id", Names::BareId, &[Write], |at| json!({"key": at.bare(), "event": partial(OWN)})),
    case("AppendEvent", "temp:", Names::User, &[Write], |at| json!({"key": at.key(), "event": temp()})),
    case("AppendEvents", "", Names::User, &[Write], |at| json!({"key": at.key(), "events": [event(OWN), temp(), partial(OWN)], "return_state": true})),
    case("AppendEvents", "app: in the second", Names::User, BOTH, |at| json!({"key": at.key(), "events": [event(OWN), event(APP)]})),
    case("AppendEvents", "bare id", Names::BareId, &[Write], |at| json!({"key": at.bare(), "events": [event(OWN), temp()]})),
    case("AppendEventStream", "", Names::User, &[Write], |at| json!({"append": {"key": at.key(), "event": event(OWN)}})),
    case("AppendEventStream", "app:", Names::User, BOTH, |at| json!({"append": {"key": at.key(), "event": event(APP)}})),
    case("AppendEventStream", "bare id", Names::BareId, &[Write], |at| json!({"append": {"key": at.bare(), "event": event(OWN)}})),
    case("AppendEventStream", "partial", Names::User, &[Write], |at| json!({"append": {"key": at.key(), "event": partial(OWN)}})),
    case("BatchGetEvents", "", Names::User, &[Read], |at| json!({"key": at.key(), "refs": [{"sequence": 1}, {"event_id": "none"}]})),
    case("ListEvents", "", Names::User, &[Read], |at| json!({"key": at.key()})),
    case("GetState", "of a session", Names::User, &[Read], |at| json!({"scope": at.key()})),
    case("GetState", "temp:", Names::User, &[Read], |at| json!({"scope": at.key(), "invocation_id": "turn"})),
    case("GetState", "of a user", Names::User, &[Read], |at| json!({"scope": at.user_scope()})),
    case("GetState", "of an application", Names::Application, &[Read], |at| json!({"scope": at.app_scope()})),
    case("UpdateState", "of a session", Names::User, &[Write], |at| {
        json!({"scope": at.key(), "delta": {"set_json": OWN}, "author": "a"})
    }),
    case("UpdateState", "of a session, app:", Names::User, BOTH, |at| {
        json!({"scope": at.key(), "delta": {"set_json": APP}, "author": "a"})
    }),
    case("UpdateState", "of a user", Names::User, &[Write], |at| {
        json!({"scope": at.user_scope(), "delta": {"set_json": "{\"user:k\":1}"}, "author": "a"})
    }),
    case("UpdateState", "of a user, app:", Names::User, BOTH, |at| {
        json!({"scope": at.user_scope(), "delta": {"set_json": "{\"user:k\":1,\"app:k\":1}"}, "author": "a"})
    }),
    case("UpdateState", "of a user, removes app:", Names::User, BOTH, |at| {
        json!({"scope": at.user_scope(), "delta": {"remove": ["app:none"]}, "author": "a"})
    }),
    case("UpdateState", "of an application", Names::Application, &[Read, WriteAppState], |at| {
        json!({"scope": at.app_scope(), "delta": {"set_json": "{\"app:k\":1}"}, "author": "a"})
    }),
    case("ListKeyChanges", "of a session", Names::User, &[Read], |at| json!({"scope": at.key(), "key": "k1"})),
    case("ListKeyChanges", "app: from a session", Names::User, &[Read], |at| json!({"scope": at.key(), "key": "app:k"})),
    case("ListKeyChanges", "of a user", Names::User, &[Read], |at| json!({"scope": at.user_scope(), "key": "user:k"})),
    case("ListKeyChanges", "of an application", Names::Application, &[Read], |at| json!({"scope": at.app_scope(), "key": "app:k"})),
    case("RenderTemplate", "", Names::User, &[Read], |at| json!({"key": at.key(), "template": "{k0?}", "invocation_id": "turn"})),
    case("EndInvocation", "", Names::User, &[Write], |at| json!({"key": at.key(), "invocation_id": "turn"})),
    case("Watch", "a session", Names::User, &[Read], |at| json!({"scope": at.key(), "start": "WATCH_START_BEGINNING"})),
    case("Watch", "a user", Names::User, &[Read], |at| json!({"scope": at.user_scope()})),
    case("Watch", "an application", Names::Application, &[Read], |at| json!({"scope": at.app_scope()})),
    case("ListApplications", "", Names::Nothing, &[Admin], |_| json!({})),
    case("ListUsers", "", Names::Application, &[Admin], Address::app_scope),
];

#[test]
fn every_rpc_has_a_case() {
    let all: BTreeSet<_> = calls::methods().iter().map(|it| it.name().to_owned()).collect();
    let tested: BTreeSet<_> = CASES.iter().map(|case| case.method.to_owned()).collect();
    assert_eq!(all, tested);
}
