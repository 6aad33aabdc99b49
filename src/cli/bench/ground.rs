//! What a benchmark runs on: sessions of an application of its own, made before and removed after.

use std::{
    collections::BTreeSet,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::task::JoinSet;

use super::raw::{Call, RawClient};
use crate::{
    cli::{args::JSON_FORM, connect::Server, failure::Failure, json},
    proto::v1::{
        AppendEventRequest, AppendEventStreamRequest, AppendEventsRequest, CreateSessionRequest,
        DeleteSessionRequest, Event, EventSelection, GetSessionRequest, ListSessionsRequest, Scope,
        SessionKey, SessionOrder, StateDelta, UpdateStateRequest, create_session_request,
        event::BodyForm, state_delta::SetForm,
    },
};

const APPEND: &str = "/sessiond.v1.EventService/AppendEvent";
const GET: &str = "/sessiond.v1.SessionService/GetSession";
const LIST: &str = "/sessiond.v1.SessionService/ListSessions";
/// Keys of each scope that a read returns.
const KEYS: usize = 20;
/// The newest events that a read returns.
const RECENT: i32 = 20;
/// Of a list, what a page of people's sessions shows.
const PAGE: i32 = 50;
/// Events filled in at a time; 3 MiB of them are the server's limit.
const BATCH: u64 = 1000;
const BATCH_BYTES: usize = 2 << 20;
/// Sessions made or removed at the same time.
const AT_ONCE: usize = 64;

/// The application that is measured in.
pub struct Ground {
    servers: Vec<Server>,
    app: String,
    body: String,
    /// What was made, to be removed.
    sessions: Vec<SessionKey>,
    /// Set when nobody wants to wait any longer.
    pub stop: Arc<AtomicBool>,
}

impl Ground {
    /// An empty application over connections that are shared by all workers.
    pub fn new(servers: Vec<Server>, app: String, body_bytes: usize) -> Self {
        let frame = r#"{"content":{"role":"model","parts":[{"text":""}]}}"#.len();
        let text = "x".repeat(body_bytes.saturating_sub(frame));
        let body = format!(r#"{{"content":{{"role":"model","parts":[{{"text":"{text}"}}]}}}}"#);
        let stop = Arc::new(AtomicBool::new(false));
        Self { servers, app, body, sessions: Vec::new(), stop }
    }

    /// A client for the worker of that number.
    pub fn client(&self, worker: usize) -> RawClient {
        RawClient::new(self.server(worker).channel())
    }

    fn server(&self, worker: usize) -> &Server {
        &self.servers[worker % self.servers.len()]
    }

    /// Makes sessions `{name}-0`, `{name}-1`, … of these numbers, each of a user of its own, with
    /// state of `keys` keys in each scope.
    ///
    /// # Errors
    ///
    /// When the server refuses, or nobody wants to wait any longer.
    pub async fn sessions(
        &mut self,
        name: &str,
        numbers: Range<u64>,
        keys: usize,
    ) -> Result<Vec<SessionKey>, Failure> {
        let made: Vec<_> = numbers.map(|number| self.key(name, number)).collect();
        self.sessions.extend(made.iter().cloned());
        let state = state(keys);
        self.for_all(&made, |server, key| {
            let request = CreateSessionRequest {
                app_name: key.app_name,
                user_id: key.user_id,
                session_id: key.session_id,
                state_form: Some(create_session_request::StateForm::StateJson(state.clone())),
                json_form: JSON_FORM,
                ..CreateSessionRequest::default()
            };
            async move { Ok(server.sessions().create_session(request).await.map(drop)?) }
        })
        .await?;
        Ok(made)
    }

    /// The key of the session `{name}-{number}`.
    pub fn key(&self, name: &str, number: u64) -> SessionKey {
        SessionKey {
            app_name: self.app.clone(),
            user_id: format!("{name}-user-{number}"),
            session_id: format!("{name}-{number}"),
        }
    }

    /// Appends events without state until the session has `events`.
    ///
    /// # Errors
    ///
    /// As [`Ground::sessions`].
    pub async fn fill(&self, key: &SessionKey, events: u64) -> Result<(), Failure> {
        let fits = u64::try_from(BATCH_BYTES / self.body.len().max(1)).unwrap_or(BATCH);
        let per_batch = fits.clamp(1, BATCH);
        let event = Event {
            author: "bench".to_owned(),
            body_form: Some(BodyForm::BodyJson(self.body.clone())),
            ..Event::default()
        };
        let mut left = events;
        while left > 0 {
            self.check_stop()?;
            let now = left.min(per_batch);
            let count = usize::try_from(now).unwrap_or(usize::MAX);
            let request = AppendEventsRequest {
                key: Some(key.clone()),
                events: vec![event.clone(); count],
                json_form: JSON_FORM,
                ..AppendEventsRequest::default()
            };
            self.server(0).events().append_events(request).await?;
            left -= now;
        }
        Ok(())
    }

    /// An append of one event that changes one key of each scope.
    pub fn append(&self, key: &SessionKey) -> Call {
        Call::new(APPEND, &self.append_request(key))
    }

    /// The same as an item of a stream.
    pub fn stream_item(&self, key: &SessionKey) -> Call {
        let append = Some(self.append_request(key));
        Call::new(APPEND, &AppendEventStreamRequest { append })
    }

    fn append_request(&self, key: &SessionKey) -> AppendEventRequest {
        let event = Event {
            invocation_id: "bench-invocation".to_owned(),
            author: "bench".to_owned(),
            state_delta: Some(StateDelta {
                set_form: Some(SetForm::SetJson(
                    r#"{"app:key-0":"value","user:key-0":12345,"key-0":{"step":"done"}}"#
                        .to_owned(),
                )),
                ..StateDelta::default()
            }),
            body_form: Some(BodyForm::BodyJson(self.body.clone())),
            ..Event::default()
        };
        AppendEventRequest {
            key: Some(key.clone()),
            event: Some(event),
            json_form: JSON_FORM,
            ..AppendEventRequest::default()
        }
    }

    /// A read of the session's state and its newest events.
    pub fn read(&self, key: &SessionKey) -> Call {
        let events = Some(EventSelection { recent: Some(RECENT), ..EventSelection::default() });
        let request = GetSessionRequest {
            key: Some(key.clone()),
            events,
            json_form: JSON_FORM,
            ..GetSessionRequest::default()
        };
        Call::new(GET, &request)
    }

    /// The first page of the application's sessions, most recently used first.
    pub fn list(&self) -> Call {
        let request = ListSessionsRequest {
            app_name: self.app.clone(),
            page_size: PAGE,
            order: SessionOrder::LastEventTimeDesc.into(),
            json_form: JSON_FORM,
            ..ListSessionsRequest::default()
        };
        Call::new(LIST, &request)
    }

    /// Removes every session that was made, and the keys that they left in the wider scopes.
    ///
    /// # Errors
    ///
    /// When the server refuses.
    pub async fn remove(&mut self) -> Result<(), Failure> {
        self.stop.store(false, Ordering::Relaxed);
        let sessions = std::mem::take(&mut self.sessions);
        self.for_all(&sessions, |server, key| {
            let request = DeleteSessionRequest { key: Some(key), allow_missing: true };
            async move { Ok(server.sessions().delete_session(request).await.map(drop)?) }
        })
        .await?;
        let users: BTreeSet<_> = sessions.into_iter().map(|key| key.user_id).collect();
        let users: Vec<_> = users.into_iter().map(|user_id| self.user(user_id)).collect();
        self.for_all(&users, |server, key| {
            let request = UpdateStateRequest {
                scope: Some(Scope {
                    app_name: key.app_name,
                    user_id: key.user_id,
                    session_id: String::new(),
                }),
                delta: Some(StateDelta {
                    remove: scoped_keys(KEYS).filter(|key| key.contains(':')).collect(),
                    ..StateDelta::default()
                }),
                json_form: JSON_FORM,
                ..UpdateStateRequest::default()
            };
            async move { Ok(server.state().update_state(request).await.map(drop)?) }
        })
        .await
    }

    fn user(&self, user_id: String) -> SessionKey {
        SessionKey { app_name: self.app.clone(), user_id, session_id: String::new() }
    }

    /// Does something for each key, many at a time.
    async fn for_all<F>(
        &self,
        keys: &[SessionKey],
        act: impl Fn(Server, SessionKey) -> F,
    ) -> Result<(), Failure>
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let mut running = JoinSet::new();
        for (number, key) in keys.iter().enumerate() {
            self.check_stop()?;
            running.spawn(act(self.server(number).clone(), key.clone()));
            if running.len() >= AT_ONCE {
                finish_one(&mut running).await?;
            }
        }
        while !running.is_empty() {
            finish_one(&mut running).await?;
        }
        Ok(())
    }

    fn check_stop(&self) -> Result<(), Failure> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Failure::Failed("interrupted".to_owned()));
        }
        Ok(())
    }
}

async fn finish_one(running: &mut JoinSet<Result<(), Failure>>) -> Result<(), Failure> {
    match running.join_next().await {
        Some(Ok(outcome)) => outcome,
        Some(Err(error)) => Err(Failure::Failed(error.to_string())),
        None => Ok(()),
    }
}

/// `count` keys of each scope.
fn scoped_keys(count: usize) -> impl Iterator<Item = String> {
    (0..count)
        .flat_map(|number| ["app:", "user:", ""].map(|prefix| format!("{prefix}key-{number}")))
}

fn state(keys: usize) -> String {
    let keys: Vec<_> = scoped_keys(keys).collect();
    json::write_object(keys.iter().map(|key| (key.as_str(), r#""a value of some length""#)))
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    fn ground() -> Ground {
        Ground::new(Vec::new(), "bench-app".to_owned(), 1024)
    }

    #[test]
    fn a_body_has_the_size_asked_for() {
        assert_eq!(ground().body.len(), 1024);
        assert!(json::object(&ground().body).is_ok());
        assert!(json::object(&Ground::new(Vec::new(), String::new(), 0).body).is_ok());
    }

    #[test]
    fn state_has_as_many_keys_in_each_scope() {
        let state = state(KEYS);
        let object = json::Object::read(&state).unwrap();
        let with = |prefix| object.members.iter().filter(|m| m.key.starts_with(prefix)).count();
        assert_eq!((with("app:"), with("user:"), with("key-")), (KEYS, KEYS, KEYS));
    }

    #[test]
    fn an_append_changes_a_key_of_each_scope() {
        let key = ground().key("s", 3);
        let call = ground().append(&key);
        let request = AppendEventRequest::decode(call.message).unwrap();
        assert_eq!(request.key, Some(key.clone()));
        let delta = request.event.as_ref().and_then(|event| event.state_delta.clone()).unwrap();
        let Some(SetForm::SetJson(set)) = delta.set_form else { panic!("not as text") };
        assert_eq!(json::Object::read(&set).unwrap().members.len(), 3);
        let item = AppendEventStreamRequest::decode(ground().stream_item(&key).message).unwrap();
        assert_eq!(item.append, Some(request));
    }
}
