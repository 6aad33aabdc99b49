//! The fixture of a benchmark: sessions in an application of their own, and the calls to them.

use std::{mem, ops::Range, time::Duration};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use prost::Message as _;
use tonic::{Response, Status};

use super::load::Call;
use crate::{
    cli::{
        args::JSON_FORM,
        calls::{get_request, retry, shared_scope},
        connect::{ConnectArgs, Server},
        failure::Failure,
    },
    domain::{json::object_text, limits::BATCH_EVENTS, scope::ScopeKind},
    proto::v1::{self, create_session_request::StateForm, event::BodyForm, state_delta::SetForm},
};

/// Keys of each scope in a session with full state.
pub const KEYS: usize = 20;
/// The newest events that a read returns.
const RECENT: i32 = 20;
/// Bytes of the events of one batch; the server takes 3 MiB.
const BATCH_BODIES: usize = 2 << 20;
/// Calls in flight while sessions are created or deleted, so that many share a commit.
const IN_FLIGHT: usize = 256;

pub async fn connect(connections: usize, connect: &ConnectArgs) -> Result<Vec<Server>, Failure> {
    // A slow call is measured, not given up.
    let connect = ConnectArgs { timeout: Duration::ZERO, ..connect.clone() };
    let mut servers = Vec::new();
    for _ in 0..connections {
        servers.push(Server::connect(&connect).await?);
    }
    Ok(servers)
}

pub struct Fixture {
    pub servers: Vec<Server>,
    pub app: String,
    /// The event that every append appends.
    event: v1::Event,
    /// Created sessions, to be deleted at the end.
    sessions: Vec<v1::SessionKey>,
}

impl Fixture {
    /// An empty application. All workers share the connections to `servers`.
    pub fn new(servers: Vec<Server>, app: String, body_bytes: usize) -> Self {
        Self { servers, app, event: event(body_bytes), sessions: Vec::new() }
    }

    /// Creates the sessions `{name}-{number}`, each of a user of its own, with `keys` keys in each scope.
    pub async fn sessions(
        &mut self,
        name: &str,
        numbers: Range<usize>,
        keys: usize,
    ) -> Result<Vec<v1::SessionKey>, Failure> {
        let created: Vec<_> = numbers.map(|number| self.key(name, number)).collect();
        self.sessions.extend(created.iter().cloned());
        let names = scoped_keys(keys);
        let state = names.iter().map(|key| (key.as_str(), r#""a value of some length""#));
        let state = object_text(state).into_string();
        self.for_all(&created, async |server, key| {
            let request = v1::CreateSessionRequest {
                app_name: key.app_name,
                user_id: key.user_id,
                session_id: key.session_id,
                state_form: Some(StateForm::StateJson(state.clone())),
                ..Default::default()
            };
            server.sessions().create_session(request).await.map(drop)
        })
        .await?;
        Ok(created)
    }

    pub fn key(&self, name: &str, number: usize) -> v1::SessionKey {
        v1::SessionKey {
            app_name: self.app.clone(),
            user_id: format!("{name}-user-{number}"),
            session_id: format!("{name}-{number}"),
        }
    }

    /// Appends `events` events without state.
    pub async fn fill(&self, key: &v1::SessionKey, events: usize) -> Result<(), Failure> {
        let event = v1::Event { state_delta: None, ..self.event.clone() };
        let per_batch = (BATCH_BODIES / event.encoded_len()).clamp(1, BATCH_EVENTS);
        for first in (0..events).step_by(per_batch) {
            let request = v1::AppendEventsRequest {
                key: Some(key.clone()),
                events: vec![event.clone(); per_batch.min(events - first)],
                json_form: JSON_FORM,
                ..Default::default()
            };
            self.servers[0].events().append_events(request).await?;
        }
        Ok(())
    }

    /// An append of one event that changes one key of each scope.
    pub fn append(&self, key: &v1::SessionKey) -> v1::AppendEventRequest {
        v1::AppendEventRequest {
            key: Some(key.clone()),
            event: Some(self.event.clone()),
            json_form: JSON_FORM,
            ..Default::default()
        }
    }

    pub fn appends<'a>(&self, keys: impl IntoIterator<Item = &'a v1::SessionKey>) -> Vec<Call> {
        keys.into_iter().map(|key| Call::Append(Box::new(self.append(key)))).collect()
    }

    /// A read of the session's state and its newest events.
    pub fn read(&self, key: &v1::SessionKey) -> Call {
        let events = Some(v1::EventSelection { recent: Some(RECENT), ..Default::default() });
        Call::Read(v1::GetSessionRequest { events, ..get_request(key) })
    }

    /// Deletes all sessions, and the keys that they leave in shared scopes.
    pub async fn remove(&mut self) -> Result<(), Failure> {
        let sessions = mem::take(&mut self.sessions);
        let mut shared = scoped_keys(KEYS);
        shared.retain(|key| key.contains(':'));
        self.for_all(&sessions, async |server, key| {
            let scope = Some(shared_scope(&key));
            let delete = v1::DeleteSessionRequest {
                key: Some(key),
                allow_missing: true,
                ..Default::default()
            };
            server.sessions().delete_session(delete).await?;
            let update = v1::UpdateStateRequest {
                scope,
                delta: Some(v1::StateDelta { remove: shared.clone(), ..Default::default() }),
                json_form: JSON_FORM,
                ..Default::default()
            };
            server.state().update_state(update).await.map(drop)
        })
        .await
    }

    /// Calls `act` for each key, with [`IN_FLIGHT`] calls at a time. A server that limits appends refuses some of them at first.
    async fn for_all(
        &self,
        keys: &[v1::SessionKey],
        act: impl AsyncFn(Server, v1::SessionKey) -> Result<(), Status>,
    ) -> Result<(), Failure> {
        let servers = self.servers.iter().cycle();
        let act = &act;
        let calls = keys.iter().zip(servers).map(|(key, server)| {
            retry(async move || act(server.clone(), key.clone()).await.map(Response::new))
        });
        stream::iter(calls).buffer_unordered(IN_FLIGHT).try_collect().await
    }
}

fn event(body_bytes: usize) -> v1::Event {
    let body =
        |text: &str| format!(r#"{{"content":{{"role":"model","parts":[{{"text":"{text}"}}]}}}}"#);
    let body = body(&"x".repeat(body_bytes.saturating_sub(body("").len())));
    let set = r#"{"app:key-0":"value","user:key-0":12345,"key-0":{"step":"done"}}"#;
    let set_form = Some(SetForm::SetJson(set.to_owned()));
    v1::Event {
        invocation_id: "bench-invocation".to_owned(),
        author: "bench".to_owned(),
        state_delta: Some(v1::StateDelta { set_form, ..Default::default() }),
        body_form: Some(BodyForm::BodyJson(body)),
        ..Default::default()
    }
}

fn scoped_keys(count: usize) -> Vec<String> {
    let keys = |number| ScopeKind::ALL.map(|scope| format!("{}key-{number}", scope.prefix()));
    (0..count).flat_map(keys).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::Json;

    #[test]
    fn a_body_has_the_size_asked_for() {
        let body = |bytes| match event(bytes).body_form {
            Some(BodyForm::BodyJson(text)) => Json::object(text).unwrap().len(),
            other => panic!("{other:?}"),
        };
        assert_eq!(body(1024), 1024);
        assert!(body(0) > 0);
    }

    #[test]
    fn state_has_as_many_keys_in_each_scope() {
        let keys = scoped_keys(KEYS);
        let with = |prefix| keys.iter().filter(|key| key.starts_with(prefix)).count();
        assert_eq!((with("app:"), with("user:"), with("key-")), (KEYS, KEYS, KEYS));
    }

    #[test]
    fn an_append_changes_a_key_of_each_scope() {
        let fixture = Fixture::new(Vec::new(), "bench-app".to_owned(), 1024);
        let key = fixture.key("s", 3);
        let request = fixture.append(&key);
        assert_eq!(request.key, Some(key));
        let delta = request.event.and_then(|event| event.state_delta).unwrap();
        let Some(SetForm::SetJson(set)) = delta.set_form else { panic!("not as text") };
        assert_eq!(Json::object(set).unwrap().members().len(), 3);
    }
}
