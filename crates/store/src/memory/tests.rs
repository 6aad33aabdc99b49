//! What the data of the store holds after calls, which no answer tells.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use super::{scope::ScopeRecord, *};
use crate::{
    account::Account,
    tests::{
        address, at, batch, call, change, creation, delta, event, fork_of, one, query, user_scope,
    },
};
use sessiond_core::{
    commit::{CreateSession, Fork, ScopeKey},
    domain::{
        delta::Delta,
        error::Bounded,
        id::AppName,
        json::Json,
        limits::SCOPE_BYTES,
        scope::{Scope, ScopeKind, StateKey},
        time::Time,
    },
};

/// A clock that tests set, and that panics when told to.
struct TestClock {
    now: Mutex<Time>,
    panics: AtomicBool,
}

impl Clock for TestClock {
    fn now(&self) -> Time {
        assert!(!self.panics.load(Ordering::SeqCst), "the clock panics");
        *self.now.lock().unwrap()
    }
}

fn store() -> (Arc<TestClock>, Arc<MemoryStore>) {
    let clock = Arc::new(TestClock { now: Mutex::new(at(0)), panics: AtomicBool::new(false) });
    (clock.clone(), Arc::new(MemoryStore::new(StoreId([0; 16]), clock)))
}

async fn commit(store: &MemoryStore, request: Request) -> Result<Answer, Error> {
    store.commit(&RequestContext::internal(), request).await
}

fn create(id: &str, key: &str) -> Request {
    Request::Create(CreateSession { state: delta(&[(key, "1")]).set, ..creation("u", id) })
}

fn update(scope: Scope, delta: Delta) -> Request {
    Request::UpdateState(change(scope, delta))
}

#[tokio::test]
async fn asking_leaves_nothing_behind() {
    let (_, store) = store();
    let scope = || user_scope("u");
    store.read_state(StateQuery { scope: scope(), keys: None }).await.unwrap();
    commit(&store, update(scope(), Delta::default())).await.unwrap();
    let delete = Request::Delete(address("s").into());
    assert!(matches!(commit(&store, delete).await, Ok(Answer::Deleted(None))));
    assert!(store.lock().scopes.is_empty());
}

/// Limits change between versions of the program: a scope may hold more than it would be given.
#[tokio::test]
async fn a_scope_over_its_limit_may_shrink_and_not_grow() {
    let (_, store) = store();
    let app = AppName::new("a").unwrap();
    let text = |bytes: usize| Json::string(&"x".repeat(bytes));
    let mut full = ScopeRecord::default();
    full.version = 1;
    full.state_bytes = "k".len() + text(SCOPE_BYTES).len();
    full.put("k", Some(text(SCOPE_BYTES)), 1);
    store.lock().scopes.insert(ScopeKey::Application(app.clone()), full);
    let set = async |bytes| {
        let delta =
            Delta { set: vec![(StateKey::new("app:k").unwrap(), text(bytes))], ..Delta::default() };
        commit(&store, update(Scope::Application(app.clone()), delta)).await
    };
    let grown = set(SCOPE_BYTES + 1).await;
    assert_eq!(grown.unwrap_err(), Error::StateTooLarge(ScopeKind::Application));
    for bytes in [SCOPE_BYTES, SCOPE_BYTES - 1, 0] {
        set(bytes).await.unwrap();
    }
}

#[tokio::test]
async fn a_panic_harms_nobody_else() {
    let (clock, store) = store();
    commit(&store, create("s", "k")).await.unwrap();
    clock.panics.store(true, Ordering::SeqCst);
    let other = Arc::clone(&store);
    tokio::spawn(async move { commit(&other, create("t", "k")).await }).await.unwrap_err();
    clock.panics.store(false, Ordering::SeqCst);
    commit(&store, create("t", "k")).await.unwrap();
    assert!(store.lock().sessions.contains_key(&address("s")));
}

#[tokio::test]
async fn an_unfinished_fork_is_kept_for_a_minute_after_its_last_piece() {
    let (clock, store) = store();
    commit(&store, create("s", "k")).await.unwrap();
    let begin = fork_of("s", "t", None);
    let Ok(Answer::ForkBegun(fork)) = commit(&store, Request::Fork(begin)).await else {
        panic!("the fork did not begin");
    };
    let sweep = async |secs| {
        *clock.now.lock().unwrap() = at(secs);
        commit(&store, Request::Sweep).await.unwrap();
        store.lock().forks.len()
    };
    let copy = async |fork: &Fork| commit(&store, Request::CopyEvents(fork.clone(), 0)).await;
    assert_eq!(sweep(59).await, 1);
    copy(&fork).await.unwrap();
    assert_eq!(sweep(60 + 58).await, 1);
    assert_eq!(sweep(60 + 59).await, 0);
    assert!(matches!(copy(&fork).await, Err(Error::StoreUnavailable(_))));
    assert_eq!(sweep(1_000).await, 0);
}

#[tokio::test]
async fn a_write_with_a_long_answer_waits_for_a_client_that_does_not_take_its_answers() {
    let (_, store) = store();
    let store: Arc<dyn Store> = store;
    let account = Account::new(400, || {});
    let connection = account.connection(true);
    let context = || {
        let account = connection.item();
        RequestContext { account, ..call() }
    };
    store.create_session(&context(), creation("u", "s")).await.unwrap();
    let first = context();
    let event = event(
        "1",
        &[(
            "k",
            "\"a value of more than a hundred bytes, so that one answer is more than the quarter of the account that a connection has\"",
        )],
    );
    let appended = store.append(&first, batch("s", [event])).await.unwrap();
    assert_eq!(account.bytes(), appended.events[0].event.bytes(), "its answer is charged");
    let refused = store.append(&context(), one("s", "2", &[])).await;
    assert!(matches!(refused, Err(Error::Overloaded { what: Bounded::Buffers, .. })));
    let info = store.read_session(query("s")).await.unwrap().info;
    assert_eq!(info.last_sequence, 1, "nothing was applied");
    store.delete_session(&context(), address("s").into()).await.unwrap();
    drop(first);
    assert_eq!(account.bytes(), 0);
    store.create_session(&context(), creation("u", "s")).await.unwrap();
}
