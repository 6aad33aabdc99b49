//! The table of errors, row by row: every reason provoked by a call, with its code, its metadata and its fields.

use std::collections::BTreeMap;

use prost_types::{FieldMask, Struct, Value, value::Kind};
use serde_json::json;
use sessiond::{
    domain::error::Reason,
    proto::v1::{
        self, AppendEventRequest, Event, GetSessionRequest, ListEventsRequest,
        UpdateSessionRequest, UpdateStateRequest, WatchStart, event::BodyForm,
        key_check::Condition,
    },
};
use tonic::Status;

use crate::{
    deadlines::append_due,
    harness::{Service, with_server},
    judge::{REASONS, metadata, refused, violations},
    make::{
        USER, app_scope, append, append_all, bare, check, checking, create, event, expecting, get,
        increment, key, list_events, operating, plain, render, saying, set, setting, setting_in,
        structure, update,
    },
    watching::{Watching, resume, watch},
};

with_server! { ["--max-invocations", "1"] every_reason_is_provoked_or_excused }

/// A row of the table as a call shows it.
struct Row {
    status: Status,
    /// Every variable part; `*` stands for any text.
    metadata: Vec<(&'static str, String)>,
    /// The fields at fault.
    fields: Vec<&'static str>,
}

/// A row of a request that is at fault itself: its field is in the metadata as well.
fn fault<T>(result: Result<T, Status>, field: &'static str, parts: &[(&'static str, &str)]) -> Row {
    let row = refusal(result, &[&[("field", field)], parts].concat());
    Row { fields: vec![field], ..row }
}

fn refusal<T>(result: Result<T, Status>, parts: &[(&'static str, &str)]) -> Row {
    let Err(status) = result else { panic!("not refused: {parts:?}") };
    let metadata = parts.iter().map(|&(name, value)| (name, value.to_owned())).collect();
    Row { status, metadata, fields: Vec::new() }
}

async fn every_reason_is_provoked_or_excused(service: &Service) {
    service.create_session(create("s1", r#"{"text":"x"}"#)).await.unwrap();
    service.append_event(append("s1", event("taken"))).await.unwrap();
    let mut excused = Vec::new();
    for &reason in REASONS {
        let Row { status, metadata: wanted, fields } = match row(service, reason).await {
            Ok(row) => row,
            Err(why) => {
                excused.push((reason, why));
                continue;
            }
        };
        let status = refused::<()>(Err(status), reason);
        let found = metadata(&status);
        let hidden = |(name, value): (&str, String)| {
            let value =
                if value == "*" { found.get(name).cloned().unwrap_or(value) } else { value };
            (name.to_owned(), value)
        };
        let wanted: BTreeMap<_, _> = wanted.into_iter().map(hidden).collect();
        assert_eq!(found, wanted, "{status:?}");
        let faults: Vec<_> = violations(&status).into_iter().map(|(field, _)| field).collect();
        assert_eq!(faults, fields, "{status:?}");
    }
    let names: Vec<_> = excused.iter().map(|(reason, _)| reason.as_str()).collect();
    assert_eq!(
        names,
        [
            "DISK_FULL",
            "STARTING",
            "STORE_UNAVAILABLE",
            "STORE_BEHIND",
            "FILE_LOST",
            "OUTCOME_UNKNOWN",
            "DAMAGED",
            "CREDENTIAL_MISSING",
            "CREDENTIAL_INVALID",
            "CREDENTIAL_EXPIRED",
            "INTERNAL",
            "PERMISSION_DENIED",
            "READ_ONLY_LISTENER",
            "NOT_OVER_HTTP"
        ],
        "{excused:?}"
    );
}

/// Provokes one reason, or says why no caller can.
async fn row(service: &Service, reason: Reason) -> Result<Row, &'static str> {
    Ok(match reason {
        Reason::Starting => {
            return Err(
                "only in the moments before the store is open; the front of the server is tested for it",
            );
        }
        Reason::StoreUnavailable => {
            return Err("needs a disk that fails; the stores and the program are tested with one");
        }
        Reason::StoreBehind => {
            return Err("needs a database that went back; the stores are tested with one");
        }
        Reason::DiskFull | Reason::FileLost | Reason::Damaged => {
            return Err(
                "needs a disk that is full or a file that is lost or damaged; the program is tested with them",
            );
        }
        Reason::OutcomeUnknown => {
            return Err(
                "needs a disk that fails in the middle of a commit; the stores are tested with one",
            );
        }
        Reason::ExpiredInQueue => {
            refusal(append_due(service, "1n", append("s1", plain())).await, &[])
        }
        Reason::CredentialMissing | Reason::CredentialInvalid | Reason::CredentialExpired => {
            return Err(
                "needs a server that asks for credentials; the program is tested with them",
            );
        }
        Reason::Internal => {
            return Err("needs a defect; the table of statuses is tested for its fixed text");
        }
        Reason::ReadOnlyListener | Reason::NotOverHttp => {
            return Err("needs a call over HTTP; its listener is tested for both");
        }
        Reason::PermissionDenied => {
            return Err("needs a policy; each RPC is tested with one");
        }
        Reason::RateLimited => {
            let parts =
                [("what", "application_watches"), ("limit", "1"), ("retry_after_millis", "10000")];
            refusal(rate_limited().await, &parts)
        }
        Reason::Draining => refusal(draining().await, &[("cursor", "*")]),
        Reason::CursorOfOtherStore => refusal(cursor_of_other_store(service).await, &[]),
        Reason::StateTooLarge
        | Reason::AnswerTooLarge
        | Reason::MessageTooLarge
        | Reason::Overloaded => resources(service, reason).await,
        Reason::MissingField
        | Reason::FieldTooLong
        | Reason::BadId
        | Reason::BadKey
        | Reason::BadValue
        | Reason::BadJson
        | Reason::NumberNotExact
        | Reason::NumberOverflow
        | Reason::ValueTooLarge
        | Reason::EventTooLarge
        | Reason::BatchTooLarge
        | Reason::BadPageToken
        | Reason::BadCursor
        | Reason::BadMask
        | Reason::BadMessage
        | Reason::KeyOutsideScope => faults(service, reason).await,
        Reason::SessionNotFound
        | Reason::SessionExists
        | Reason::EventIdReused
        | Reason::RequestIdReused
        | Reason::SequenceConflict
        | Reason::KeyConflict
        | Reason::SessionReplaced
        | Reason::AmbiguousSessionId
        | Reason::TypeMismatch
        | Reason::MissingStateKey
        | Reason::BeyondLastSequence => conflicts(service, reason).await,
    })
}

/// The rows of INVALID_ARGUMENT.
async fn faults(service: &Service, reason: Reason) -> Row {
    let append_one = async |event| service.append_event(append("s1", event)).await;
    let long = |bytes: usize| "x".repeat(bytes);
    match reason {
        Reason::MissingField => fault(append_missing(service).await, "event", &[]),
        Reason::FieldTooLong => {
            let event = Event { branch: long(1025), ..plain() };
            let parts = [("bytes", "1025"), ("limit", "1024")];
            fault(append_one(event).await, "event.branch", &parts)
        }
        Reason::BadId => {
            let parts = [("bytes", "129"), ("limit", "128")];
            fault(append_one(event(&long(129))).await, "event.event_id", &parts)
        }
        Reason::BadKey => {
            fault(append_one(setting(r#"{"":1}"#)).await, "event.state_delta.set_json[\"\"]", &[])
        }
        Reason::BadValue => {
            let request = ListEventsRequest { page_size: -7, ..list_events("s1") };
            fault(service.list_events(request).await, "page_size", &[("value", "-7")])
        }
        Reason::BadJson => {
            fault(append_one(saying("{")).await, "event.body_json", &[("fault", "*")])
        }
        Reason::NumberNotExact => {
            let mut body = structure(r#"{"n":0}"#);
            let large = prost_types::value::Kind::NumberValue(9_007_199_254_740_992.0);
            body.fields.get_mut("n").unwrap().kind = Some(large);
            let event = Event { body_form: Some(BodyForm::Body(body)), ..plain() };
            fault(append_one(event).await, "event.body.n", &[("number", "9.007199254740992e15")])
        }
        Reason::NumberOverflow => {
            append_one(setting(r#"{"n":9223372036854775807}"#)).await.unwrap();
            let field = "event.state_delta.operations[0]";
            fault(append_one(operating(increment("n", 1))).await, field, &[("key", "n")])
        }
        Reason::ValueTooLarge => {
            let event = setting(&json!({"k": long(256 * 1024)}).to_string());
            let field = "event.state_delta.set_json[\"k\"]";
            fault(append_one(event).await, field, &[("limit", "262144")])
        }
        Reason::EventTooLarge => {
            let event = saying(&json!({"k": long(1024 * 1024)}).to_string());
            fault(append_one(event).await, "event.body_json", &[("limit", "1048576")])
        }
        Reason::BatchTooLarge => {
            let batch = append_all("s1", vec![plain(); 1001]);
            let parts = [("events", "1001"), ("limit", "1000")];
            fault(service.append_events(batch).await, "events", &parts)
        }
        Reason::BadPageToken => {
            let request = ListEventsRequest { page_token: "x".into(), ..list_events("s1") };
            fault(service.list_events(request).await, "page_token", &[])
        }
        Reason::BadCursor => {
            let request = resume(app_scope(), "x");
            fault(Watching::try_open(service, request).await, "cursor", &[])
        }
        Reason::BadMessage => {
            let object = |value| Struct { fields: [("k".to_owned(), value)].into() };
            let body = (0..40).fold(object(Value { kind: None }), |inner, _| {
                object(Value { kind: Some(Kind::StructValue(inner)) })
            });
            let event = Event { body_form: Some(BodyForm::Body(body)), ..plain() };
            fault(append_one(event).await, "", &[("cause", "*")])
        }
        Reason::BadMask => {
            let update_mask = Some(FieldMask { paths: vec!["labels".into(), "state".into()] });
            let request = UpdateSessionRequest {
                key: Some(key("s1")),
                session: None,
                update_mask,
                ..Default::default()
            };
            let parts = [("path", "state")];
            fault(service.update_session(request).await, "update_mask.paths[1]", &parts)
        }
        _ => {
            let request = update(app_scope(), set(r#"{"user:k":1}"#));
            let parts = [("key", "user:k"), ("scope", "application"), ("needed", "user")];
            fault(service.update_state(request).await, "delta.set_json[\"user:k\"]", &parts)
        }
    }
}

async fn append_missing(service: &Service) -> Result<(), Status> {
    let request = AppendEventRequest { event: None, ..append("s1", plain()) };
    service.append_event(request).await.map(drop)
}

/// The rows of what is there already, is not there, or is another than the caller thought.
async fn conflicts(service: &Service, reason: Reason) -> Row {
    let append_one = async |event| service.append_event(append("s1", event)).await;
    let address = |id| [("app_name", "my_app"), ("user_id", USER), ("session_id", id)];
    match reason {
        Reason::SessionNotFound => {
            refusal(service.get_session(get("none")).await, &address("none"))
        }
        Reason::SessionExists => {
            refusal(service.create_session(create("s1", "")).await, &address("s1"))
        }
        Reason::EventIdReused => {
            let other = Event { event_id: "taken".into(), ..setting(r#"{"other":1}"#) };
            refusal(append_one(other).await, &[("event_id", "taken")])
        }
        Reason::RequestIdReused => {
            let request = |state| UpdateStateRequest {
                request_id: "r1".into(),
                ..update(app_scope(), set(state))
            };
            service.update_state(request(r#"{"app:k":1}"#)).await.unwrap();
            let other = service.update_state(request(r#"{"app:k":2}"#)).await;
            refusal(other, &[("request_id", "r1")])
        }
        Reason::SequenceConflict => {
            let last = service.get_session(get("s1")).await.unwrap().session.unwrap().last_sequence;
            let request =
                AppendEventRequest { precondition: expecting(99), ..append("s1", plain()) };
            let parts = [("expected", "99"), ("actual", &*last.to_string())];
            refusal(service.append_event(request).await, &parts)
        }
        Reason::KeyConflict => {
            let keys = ["none", "app:none"].map(|key| check(key, Condition::Exists(true)));
            let request =
                AppendEventRequest { precondition: checking(keys), ..append("s1", plain()) };
            refusal(service.append_event(request).await, &[("keys", r#"["none","app:none"]"#)])
        }
        Reason::SessionReplaced => {
            let precondition =
                Some(v1::Precondition { uid: "another".into(), ..Default::default() });
            let request = AppendEventRequest { precondition, ..append("s1", plain()) };
            refusal(service.append_event(request).await, &address("s1"))
        }
        Reason::AmbiguousSessionId => {
            for user in ["a", "b"] {
                let mut request = create("same", "");
                request.user_id = user.into();
                service.create_session(request).await.unwrap();
            }
            let request = GetSessionRequest { key: Some(bare("same")), ..get("") };
            refusal(service.get_session(request).await, &[("session_id", "same")])
        }
        Reason::TypeMismatch => {
            let parts = [("key", "text"), ("type", "string"), ("wanted", "number")];
            refusal(append_one(operating(increment("text", 1))).await, &parts)
        }
        Reason::MissingStateKey => {
            let request = render("s1", "{b} {text} {a} {b}");
            refusal(service.render_template(request).await, &[("keys", r#"["b","a"]"#)])
        }
        _ => {
            let last = service.get_session(get("s1")).await.unwrap().session.unwrap().last_sequence;
            let request = GetSessionRequest { as_of_sequence: Some(99), ..get("s1") };
            let parts = [("asked", "99"), ("last_sequence", &*last.to_string())];
            refusal(service.get_session(request).await, &parts)
        }
    }
}

/// The rows of what is too deep, too large, or too much.
async fn resources(service: &Service, reason: Reason) -> Row {
    let full = |key: &str| json!({key: "x".repeat(256 * 1024 - 5)}).to_string();
    match reason {
        Reason::StateTooLarge => {
            for at in 0..4 {
                let delta = set(&full(&format!("app:k{at}")));
                service.update_state(update(app_scope(), delta)).await.unwrap();
            }
            let request = update(app_scope(), set(r#"{"app:another":"one that does not fit"}"#));
            let parts = [("scope", "application"), ("limit", "1048576")];
            refusal(service.update_state(request).await, &parts)
        }
        Reason::AnswerTooLarge => {
            let state = full("k");
            service.create_session(create("large", &state)).await.unwrap();
            let request = render("large", &"{k}".repeat(20));
            refusal(service.render_template(request).await, &[("limit", "4194304")])
        }
        Reason::MessageTooLarge => {
            let page_token = "x".repeat(4 * 1024 * 1024);
            let request = ListEventsRequest { page_token, ..list_events("s1") };
            refusal(service.list_events(request).await, &[("limit", "4194304")])
        }
        _ => {
            let held = |turn| append("s1", setting_in(turn, r#"{"temp:k":1}"#));
            service.append_event(held("one")).await.unwrap();
            let parts = [("what", "temp_invocations"), ("retry_after_millis", "60000")];
            refusal(service.append_event(held("two")).await, &parts)
        }
    }
}

async fn cursor_of_other_store(service: &Service) -> Result<(), Status> {
    let other = Service::in_memory(&[]).await;
    let mut watching = Watching::open(&other, watch(app_scope(), WatchStart::Now)).await;
    watching.caught_up().await;
    let request = resume(app_scope(), &watching.cursor);
    other.stop().await;
    Watching::try_open(service, request).await.map(drop)
}

async fn rate_limited() -> Result<(), Status> {
    let service = Service::in_memory(&["--max-watches-per-application", "1"]).await;
    let request = || watch(app_scope(), WatchStart::Now);
    let _open = Watching::open(&service, request()).await;
    let refused = Watching::try_open(&service, request()).await.map(drop);
    service.stop().await;
    refused
}

async fn draining() -> Result<(), Status> {
    let service = Service::in_memory(&[]).await;
    let mut watching = Watching::open(&service, watch(app_scope(), WatchStart::Now)).await;
    watching.caught_up().await;
    service.stop().await;
    watching.ends().await
}
