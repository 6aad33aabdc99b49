//! Watches, with paused time.

use super::*;
use crate::domain::{delta::ScopeDelta, error::Reason, scope::Scope, token::Cursor};
use crate::store::{RequestContext, StateQuery, StateUpdate, account::Account};

impl World {
    async fn watch(&self, key: &SessionKey, from: WatchFrom) -> Result<Watch, Error> {
        self.engine.watch(&RequestContext::internal(), Scope::Session(key.clone()), from).await
    }
}

async fn next(watch: &mut Watch) -> (WatchItem, String) {
    watch.next().await.expect("a watch that goes on").expect("no error")
}

fn sequence(item: &WatchItem) -> u64 {
    match item {
        WatchItem::Event(event) => event.sequence,
        other => panic!("{other:?} is no event"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_catches_up_goes_live_and_says_that_it_lives() {
    let world = world();
    let session = world.create("alice", "s").await;
    world.append(&session, None, set(&[("a", "1")])).await.unwrap();
    let mut watch = world.watch(&session, WatchFrom::Beginning).await.unwrap();
    assert_eq!(sequence(&next(&mut watch).await.0), 1);
    assert_eq!(next(&mut watch).await.0, WatchItem::CaughtUp);
    assert!(matches!(next(&mut watch).await.0, WatchItem::Heartbeat(_)));
    world.append(&session, None, Delta::default()).await.unwrap();
    assert_eq!(sequence(&next(&mut watch).await.0), 2);
    assert!(matches!(next(&mut watch).await.0, WatchItem::Heartbeat(_)));
}

/// It waits for its turn to be encoded.
#[tokio::test(start_paused = true)]
async fn a_snapshot_is_charged_until_the_next_message_is_asked_for() {
    let world = world();
    let session = world.create("alice", "s").await;
    let value = format!("\"{}\"", "x".repeat(100_000));
    world.append(&session, None, set(&[("a", &value)])).await.unwrap();
    let account = Account::new(100 << 20, || {});
    let context =
        RequestContext { account: account.connection(true).item(), ..RequestContext::internal() };
    let scope = Scope::Session(session.clone());
    let mut watch = world.engine.watch(&context, scope, WatchFrom::Snapshot).await.unwrap();
    let (snapshot, _) = next(&mut watch).await;
    assert!(account.bytes() > 100_000, "{}", account.bytes());
    drop(snapshot);
    next(&mut watch).await;
    assert_eq!(account.bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_watch_has_a_cursor_before_its_first_message_unless_that_is_the_state() {
    let world = world();
    let session = world.create("alice", "s").await;
    let watches = [WatchFrom::Now, WatchFrom::Beginning];
    let mut cursors = Vec::new();
    for from in watches {
        cursors.push(world.watch(&session, from).await.unwrap().first_cursor().unwrap());
    }
    let snapshot = world.watch(&session, WatchFrom::Snapshot).await.unwrap();
    assert_eq!(snapshot.first_cursor(), None);
    world.append(&session, None, Delta::default()).await.unwrap();
    for cursor in cursors {
        let from = WatchFrom::Cursor(Cursor::decode(&cursor).unwrap());
        let mut watch = world.watch(&session, from).await.unwrap();
        assert_eq!(watch.first_cursor(), Some(cursor));
        assert_eq!(sequence(&next(&mut watch).await.0), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn own_changes_are_not_repeated_and_those_of_others_are_told() {
    let world = world();
    let session = world.create("alice", "s").await;
    let other = world.create("alice", "t").await;
    let mut watch = world.watch(&session, WatchFrom::Now).await.unwrap();
    assert_eq!(next(&mut watch).await.0, WatchItem::CaughtUp);
    world.append(&session, None, set(&[("app:k", "1"), ("user:k", "1")])).await.unwrap();
    assert_eq!(sequence(&next(&mut watch).await.0), 1);
    assert!(matches!(next(&mut watch).await.0, WatchItem::Heartbeat(_)));
    world.append(&other, None, set(&[("app:k", "2"), ("own", "1")])).await.unwrap();
    let WatchItem::StateChange { changes, .. } = next(&mut watch).await.0 else { panic!() };
    assert_eq!(changes.set.unwrap().as_str(), r#"{"app:k":2}"#);
    assert!(matches!(next(&mut watch).await.0, WatchItem::Heartbeat(_)));
}

#[tokio::test(start_paused = true)]
async fn a_fold_of_the_watch_ends_with_the_newest_value_whoever_wrote_last() {
    let world = world();
    let session = world.create("alice", "s").await;
    let other = world.create("alice", "t").await;
    let mut watch = world.watch(&session, WatchFrom::Now).await.unwrap();
    // Written elsewhere first and by the session last: the older value must not come behind the newer one.
    world.append(&other, None, set(&[("app:k", "1")])).await.unwrap();
    world.append(&session, None, set(&[("app:k", "2")])).await.unwrap();
    assert_eq!(sequence(&next(&mut watch).await.0), 1);
    assert_eq!(next(&mut watch).await.0, WatchItem::CaughtUp);
}

#[tokio::test(start_paused = true)]
async fn every_cursor_resumes_right_behind_its_message() {
    let world = world();
    let session = world.create("alice", "s").await;
    let other = world.create("alice", "t").await;
    for at in 0..5 {
        let value = at.to_string();
        world.append(&session, None, set(&[("user:mine", &value)])).await.unwrap();
        let name = format!("app:{at}");
        world.append(&other, None, set(&[(&name, &value)])).await.unwrap();
    }
    let mut watch = world.watch(&session, WatchFrom::Beginning).await.unwrap();
    let mut messages = Vec::new();
    loop {
        let (item, cursor) = next(&mut watch).await;
        if item == WatchItem::CaughtUp {
            break;
        }
        messages.push((item, cursor));
    }
    assert_eq!(messages.len(), 10);
    for (at, (_, cursor)) in messages.iter().enumerate() {
        let mut again = world.watch(&session, from(cursor)).await.unwrap();
        for (item, _) in &messages[at + 1..] {
            assert_eq!(&next(&mut again).await.0, item);
        }
        assert_eq!(next(&mut again).await.0, WatchItem::CaughtUp);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_session_ends_its_watch_also_when_it_is_created_anew() {
    let world = world();
    for anew in [false, true] {
        let info = world.create_until("alice", "s", None).await.info;
        let (session, life) = (info.key.clone(), Life::of_session(&info));
        let mut watch = world.watch(&session, WatchFrom::Now).await.unwrap();
        assert_eq!(next(&mut watch).await.0, WatchItem::CaughtUp);
        world
            .engine
            .delete_session(&RequestContext::internal(), session.clone().into())
            .await
            .unwrap();
        if anew {
            world.create("alice", "s").await;
        }
        assert_eq!(next(&mut watch).await.0, WatchItem::SessionDeleted(life));
        assert!(watch.next().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_expires_ends_its_watch() {
    let world = world();
    let at = Expiration::After { secs: 25, nanos: 0 };
    let info = world.create_until("alice", "s", Some(at)).await.info;
    let (session, life) = (info.key.clone(), Life::of_session(&info));
    let mut watch = world.watch(&session, WatchFrom::Now).await.unwrap();
    assert_eq!(next(&mut watch).await.0, WatchItem::CaughtUp);
    for _ in 0..2 {
        assert!(matches!(next(&mut watch).await.0, WatchItem::Heartbeat(_)));
        world.clock.forward(10);
    }
    let waiting = tokio::spawn(async move { next(&mut watch).await.0 });
    // Wakes after the five seconds that are left, which the clock has then counted too.
    world.clock.forward(5);
    assert_eq!(waiting.await.unwrap(), WatchItem::SessionDeleted(life));
}

fn from(cursor: &str) -> WatchFrom {
    WatchFrom::Cursor(Cursor::decode(cursor).unwrap())
}

#[tokio::test]
async fn cursors_of_others_are_refused() {
    let world = world();
    let session = world.create("alice", "s").await;
    let cursor_of = async |world: &World, key: &SessionKey| {
        next(&mut world.watch(key, WatchFrom::Snapshot).await.unwrap()).await.1
    };
    let cursor = cursor_of(&world, &session).await;
    let refused = async |key: &SessionKey, text: &str| {
        let watch = world.watch(key, from(text)).await;
        matches!(watch, Err(Error::Invalid(violations))
            if violations[0].reason == crate::domain::error::Reason::BadCursor)
    };
    let other = world.create("alice", "t").await;
    assert!(refused(&other, &cursor).await);
    world.append(&session, None, Delta::default()).await.unwrap();
    let ahead = cursor_of(&world, &session).await;
    assert!(!refused(&session, &cursor).await);
    world.engine.delete_session(&RequestContext::internal(), session.clone().into()).await.unwrap();
    world.create("alice", "s").await;
    assert!(refused(&session, &ahead).await);
    let elsewhere = world_of_another_store();
    let key = elsewhere.create("alice", "s").await;
    let foreign = cursor_of(&elsewhere, &key).await;
    let watch = world.watch(&session, from(&foreign)).await;
    assert!(matches!(watch, Err(Error::CursorOfOtherStore)));
}

fn world_of_another_store() -> World {
    let World { engine: _, clock } = world();
    let store: Arc<dyn Store> =
        Arc::new(MemoryStore::new(StoreId([2; 16]), Arc::clone(&clock) as Arc<dyn Clock>));
    let options = EngineOptions::default();
    let engine = Engine::new(store, options);
    World { engine: Arc::new(engine), clock }
}

#[tokio::test]
async fn draining_ends_watches_and_their_number_is_bounded() {
    let world = world_with(EngineOptions { watches: 1, ..EngineOptions::default() });
    let session = world.create("alice", "s").await;
    let mut watch = world.watch(&session, WatchFrom::Now).await.unwrap();
    let second = world.watch(&session, WatchFrom::Now).await;
    assert!(matches!(second, Err(Error::Overloaded { .. })));
    assert_eq!(next(&mut watch).await.0, WatchItem::CaughtUp);
    world.engine.drain();
    assert_eq!(watch.next().await.unwrap().unwrap_err(), Error::Draining);
    assert!(watch.next().await.is_none());
    drop(watch);
    let late = world.watch(&session, WatchFrom::Now).await;
    assert!(matches!(late, Err(Error::Draining)));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_was_not_waited_for_comes_the_next_time() {
    let world = world();
    let session = world.create("alice", "s").await;
    let mut watch = world.watch(&session, WatchFrom::Now).await.unwrap();
    assert_eq!(next(&mut watch).await.0, WatchItem::CaughtUp);
    // Polled once, so that it waits, and dropped after the commit woke it, at every point where it may stand.
    for polls in 0..3 {
        let mut waiting = Box::pin(watch.next());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        world.append(&session, None, Delta::default()).await.unwrap();
        let seen = (0..polls).any(|_| waiting.as_mut().poll(&mut context).is_ready());
        drop(waiting);
        if !seen {
            sequence(&next(&mut watch).await.0);
        }
    }
}

#[tokio::test]
async fn a_watch_that_missed_the_end_of_a_users_life_ends() {
    let world = world();
    let user = Scope::User(AppName::new("app").unwrap(), UserId::new("alice").unwrap());
    let context = RequestContext::internal();
    let key = StateKey::new("user:k").unwrap();
    let update = async |delta: Delta| {
        let update = StateUpdate {
            delta: ScopeDelta::new(user.clone(), delta).unwrap(),
            precondition: Precondition::default(),
            author: Author::system(),
            request: None,
        };
        world.engine.update_state(&context, update).await.unwrap().life
    };
    let set = || Delta { set: vec![(key.clone(), Json::string("v"))], ..Delta::default() };
    let refused = |result: Result<_, Error>| matches!(result, Err(Error::Invalid(violations)) if violations[0].reason == Reason::BadCursor);
    let first = update(set()).await;
    let mut watch = world.engine.watch(&context, user.clone(), WatchFrom::Snapshot).await.unwrap();
    let (snapshot, cursor) = next(&mut watch).await;
    assert!(matches!(snapshot, WatchItem::Snapshot { life, .. } if life == first));
    assert_eq!(next(&mut watch).await.0, WatchItem::CaughtUp);
    let resume = async || world.engine.watch(&context, user.clone(), from(&cursor)).await.map(drop);
    resume().await.unwrap();
    update(Delta { remove: vec![key.clone()], ..Delta::default() }).await;
    resume().await.unwrap();
    world.engine.sweep().await.unwrap();
    // Neither the open watch nor its cursor knows that the key is gone.
    assert!(refused(resume().await));
    assert!(refused(watch.next().await.unwrap().map(drop)));
    let second = update(set()).await;
    assert_ne!(second, first);
    assert!(refused(resume().await));
    let query = StateQuery { scope: user.clone(), keys: None };
    let (_, life) =
        world.engine.get_state(&context, query, StatePage::default(), None).await.unwrap();
    assert_eq!(life, second);
    let mut watch = world.engine.watch(&context, user.clone(), WatchFrom::Beginning).await.unwrap();
    assert!(matches!(next(&mut watch).await.0, WatchItem::StateChange { .. }));
}
