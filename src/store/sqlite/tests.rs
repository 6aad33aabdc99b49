//! What is this store's own business: the file, its failures, and the shortcuts that the suite for every store cannot aim at.

mod damage;
mod leftovers;
mod lists;
mod memory;
mod opening;
mod scans;
mod steps;

use std::path::Path;

use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::{
    domain::{
        delta::Delta,
        event::{Fingerprint, NewEvent},
        id::{AppName, Author, Branch, DisplayName, EventId, SessionId, UserId},
        json::Json,
        page::{EventFilter, EventSelection},
        precondition::Precondition,
        scope::{Scope, SessionRef, StateKey},
        session::{Labels, State},
    },
    store::{OnExisting, SessionOrder},
};

/// Identity of every store that a test makes.
const NEW_ID: StoreId = StoreId([7; 16]);

/// A store in a folder that goes with the test.
struct Fixture {
    folder: TempDir,
    store: SqliteStore,
    options: SqliteOptions,
}

impl Fixture {
    async fn new() -> Self {
        Self::with(|options| options).await
    }

    async fn with(choose: impl FnOnce(SqliteOptions) -> SqliteOptions) -> Self {
        let folder = TempDir::new().unwrap();
        let options = choose(SqliteOptions::new(folder.path().join("test.db"), NEW_ID));
        let store = open(options.clone()).await.unwrap();
        Self { folder, store, options }
    }

    async fn reopen(&mut self) {
        self.store.close().await;
        self.store = open(self.options.clone()).await.unwrap();
    }

    /// A look at the tables past the store.
    fn tables(&self) -> Connection {
        Connection::open(self.folder.path().join("test.db")).unwrap()
    }

    async fn create(&self, user: &str, session: &str, secs: i64) {
        self.store.create_session(creation(user, session, secs)).await.unwrap();
    }

    async fn append(&self, session: &str, id: &str, set: &[(&str, &str)]) -> Appended {
        self.store.append(one(session, id, set)).await.unwrap()
    }

    async fn state(&self, session: &str, as_of: Option<u64>) -> Vec<String> {
        let query = SessionQuery { as_of, with_state: true, ..query(session) };
        shown(&self.store.read_session(query).await.unwrap().state.unwrap())
    }
}

/// A writer without its thread, so that a test can stand between it and the database.
struct Bench {
    connection: Connection,
    shared: writer::Shared,
    _copier: JoinHandle<()>,
    _lock: File,
}

impl Bench {
    fn open(folder: &Path) -> Self {
        let opened = super::open::open(&folder.join("test.db"), NEW_ID).unwrap();
        let (checkpoints, copier) = Checkpoints::start(opened.path.clone()).unwrap();
        let shared = writer::Shared {
            path: opened.path,
            queue: Arc::new(Queue::new(10, 1 << 20)),
            tails: Arc::default(),
            group_commands: 10,
            group_bytes: 1 << 20,
            cache_bytes: 1 << 20,
            crash: None,
            commits: 0,
            checkpoints,
        };
        Self { connection: opened.connection, shared, _copier: copier, _lock: opened.lock }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.shared.checkpoints.close();
    }
}

type Answer<T> = oneshot::Receiver<Result<T, Error>>;

/// Every key with its value and its version.
fn shown(state: &State) -> Vec<String> {
    let entries = state.0.iter();
    entries.map(|it| format!("{}={}@{}", it.key, it.value, it.version)).collect()
}

fn at(secs: i64) -> Time {
    Time::new(secs, 0).unwrap()
}

/// The address of a session of the user `u`.
fn address(session: &str) -> SessionKey {
    of_user("u", session)
}

fn of_user(user: &str, session: &str) -> SessionKey {
    SessionKey {
        app_name: AppName::new("a").unwrap(),
        user_id: UserId::new(user).unwrap(),
        session_id: SessionId::new(session).unwrap(),
    }
}

fn creation(user: &str, session: &str, secs: i64) -> CreateSession {
    CreateSession {
        key: of_user(user, session),
        state: Vec::new(),
        display_name: DisplayName::new("").unwrap(),
        labels: Labels::default(),
        expire_time: None,
        on_existing: OnExisting::Refuse,
        now: at(secs),
    }
}

fn delta(set: &[(&str, &str)]) -> Delta {
    let json = |text: &str| Json::parse(text.to_owned()).unwrap();
    let set = set.iter().map(|(key, value)| (StateKey::new(*key).unwrap(), json(value)));
    Delta { set: set.collect(), ..Delta::default() }
}

fn event(id: &str, set: &[(&str, &str)]) -> NewEvent {
    NewEvent {
        event_id: EventId::new(id).unwrap(),
        invocation_id: None,
        author: Author::new("agent").unwrap(),
        branch: Branch::new("").unwrap(),
        event_time: None,
        delta: delta(set),
        body: None,
        fingerprint: Fingerprint(1),
        refusal: None,
    }
}

fn batch(session: &str, events: impl IntoIterator<Item = NewEvent>) -> Append {
    Append {
        session: SessionRef::Full(address(session)),
        events: events.into_iter().collect(),
        precondition: Precondition::default(),
        request: None,
        return_state: false,
        now: at(1000),
    }
}

fn one(session: &str, id: &str, set: &[(&str, &str)]) -> Append {
    batch(session, [event(id, set)])
}

fn query(session: &str) -> SessionQuery {
    SessionQuery {
        session: SessionRef::Full(address(session)),
        as_of: None,
        with_state: false,
        events: None,
        now: at(1000),
    }
}

fn selection(recent: Option<u64>) -> EventSelection {
    EventSelection {
        filter: EventFilter::default(),
        after: 0,
        up_to: None,
        recent,
        descending: false,
        max_items: 1000,
        max_bytes: usize::MAX,
    }
}

fn fork_of(source: &str, session: &str, up_to: Option<u64>) -> ForkSession {
    ForkSession {
        source: address(source),
        up_to,
        session_id: SessionId::new(session).unwrap(),
        now: at(1000),
    }
}

fn list(user: Option<&str>, order: SessionOrder, max_items: usize) -> SessionsQuery {
    SessionsQuery {
        app_name: AppName::new("a").unwrap(),
        user_id: user.map(|user| UserId::new(user).unwrap()),
        labels: Labels::default(),
        order,
        after: None,
        max_items,
        max_bytes: usize::MAX,
        with_state: false,
        now: at(1000),
    }
}

fn change(user: &str, delta: Delta) -> StateUpdate {
    StateUpdate {
        scope: Scope::User(AppName::new("a").unwrap(), UserId::new(user).unwrap()),
        delta,
        precondition: Precondition::default(),
        author: Author::new("a").unwrap(),
        request: None,
        now: at(3),
    }
}
