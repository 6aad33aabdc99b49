//! What the engine adds to a store, over the memory store, with a clock that only moves when told.

mod measured;
mod pages;
mod rights;
mod temp;
mod watching;

use crate::store::RequestContext;
use std::sync::{Mutex, PoisonError};

use super::*;
use crate::{
    domain::{
        delta::Delta,
        event::{Fingerprint, NewEvent},
        field::FieldPath,
        id::{AppName, Author, Branch, DisplayName, InvocationId, UserId},
        json::Json,
        precondition::Precondition,
        scope::{SessionKey, SessionRef, StateKey},
        session::{Expiration, Labels},
        token::StoreId,
    },
    store::{
        Append, Appended, CreateSession, Created, OnExisting, SessionQuery, memory::MemoryStore,
    },
};

/// A clock that is set by hand.
struct SetClock(Mutex<Time>);

impl SetClock {
    fn forward(&self, secs: i64) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *now = now.plus(secs, 0).unwrap();
    }
}

impl Clock for SetClock {
    fn now(&self) -> Time {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An engine over an empty memory store, and its clock.
struct World {
    engine: Arc<Engine>,
    clock: Arc<SetClock>,
}

fn world_with(options: EngineOptions) -> World {
    let clock = Arc::new(SetClock(Mutex::new(Time::new(1_700_000_000, 0).unwrap())));
    let store: Arc<dyn Store> =
        Arc::new(MemoryStore::new(StoreId([1; 16]), Arc::clone(&clock) as Arc<dyn Clock>));
    let engine = Arc::new(Engine::new(store, options));
    World { engine, clock }
}

fn world() -> World {
    world_with(EngineOptions::default())
}

fn key(text: &str) -> StateKey {
    StateKey::new(text).unwrap()
}

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

fn set(pairs: &[(&str, &str)]) -> Delta {
    let set = pairs.iter().map(|(name, value)| (key(name), json(value))).collect();
    Delta { set, ..Delta::default() }
}

fn invocation(text: &str) -> InvocationId {
    InvocationId::new(text).unwrap()
}

impl World {
    async fn create(&self, user: &str, session: &str) -> SessionKey {
        self.create_until(user, session, None).await.info.key
    }

    async fn create_until(&self, user: &str, session: &str, at: Option<Expiration>) -> Created {
        let request = CreateSession {
            key: SessionKey {
                app_name: AppName::new("app").unwrap(),
                user_id: UserId::new(user).unwrap(),
                session_id: SessionId::new(session).unwrap(),
            },
            state: Vec::new(),
            display_name: DisplayName::default(),
            labels: Labels::default(),
            expiration: at,
            on_existing: OnExisting::Refuse,
        };
        self.engine.store.create_session(&RequestContext::internal(), request).await.unwrap()
    }

    async fn append(
        &self,
        session: &SessionKey,
        turn: Option<&str>,
        delta: Delta,
    ) -> Result<Appended, Error> {
        self.append_all(session, vec![event(turn, delta)]).await
    }

    async fn append_all(
        &self,
        session: &SessionKey,
        events: Vec<NewEvent>,
    ) -> Result<Appended, Error> {
        let request = Append {
            session: SessionRef::Full(session.clone()),
            events,
            precondition: Precondition::default(),
            request: None,
            return_state: true,
        };
        self.engine.append_events(&RequestContext::internal(), request).await
    }

    async fn state(&self, session: &SessionKey, turn: Option<&str>) -> String {
        let info = SessionQuery::info(SessionRef::Full(session.clone()));
        let query = SessionQuery { with_state: true, ..info };
        let turn = turn.map(invocation);
        let context = RequestContext::internal();
        let answer = self.engine.get_session(&context, query, turn).await.unwrap();
        answer.state.unwrap().to_json().into_string()
    }
}

fn event(turn: Option<&str>, delta: Delta) -> NewEvent {
    let mut event = NewEvent {
        event_id: new_event_id(),
        invocation_id: turn.map(invocation),
        author: Author::new("agent").unwrap(),
        branch: Branch::new("").unwrap(),
        event_time: None,
        partial: false,
        delta,
        body: None,
        fingerprint: Fingerprint::default(),
        refusal: None,
        field: FieldPath::from("event.state_delta"),
    };
    event.fingerprint = event.content_fingerprint();
    event
}
