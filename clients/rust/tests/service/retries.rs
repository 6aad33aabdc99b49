//! Lost answers, lost servers and retryable refusals: every write is applied once.

use std::time::Duration;

use adk_core::ErrorCategory;
use adk_session::{CreateRequest, SessionService};
use serde_json::json;
use sessiond_adk::{Delta, Retry, Scope, SessiondSessionService};
use sessiond_adk_testing::{Cut, Proxy, Server, Store, TIMEOUT, builder};

use crate::harness::{
    APP, EAGER, Fixture, NO_RETRY, USER, assert_error, behind, blocking, creation, getting,
    identity, ids, listing, named, object, refused, setting,
};

/// A service that connects through a proxy, and a direct one to look at the result.
struct Behind {
    direct: Fixture,
    proxy: Proxy,
    service: SessiondSessionService,
}

impl Behind {
    async fn start(store: Store, cut: Cut, retry: Retry) -> Self {
        let direct = Fixture::start(store).await;
        let (proxy, service) = behind(&direct.server, cut, retry).await;
        Self { direct, proxy, service }
    }

    /// Cuts the next answers. [`Self::assert_cut`] checks that it happened.
    fn cut(&self, answers: usize) {
        self.proxy.cut_next(answers);
    }

    #[track_caller]
    fn assert_cut(&self) {
        assert_eq!(self.proxy.left_to_cut(), 0, "the answer was not cut");
    }
}

/// Every way to lose an answer, on both stores.
const WAYS: [(Store, Cut); 6] = [
    (Store::Memory, Cut::Close),
    (Store::Memory, Cut::Reset),
    (Store::Memory, Cut::Torn),
    (Store::Sqlite, Cut::Close),
    (Store::Sqlite, Cut::Reset),
    (Store::Sqlite, Cut::Torn),
];

#[tokio::test]
async fn an_append_whose_answer_is_lost_is_stored_once() {
    for (store, cut) in WAYS {
        let b = Behind::start(store, cut, EAGER).await;
        b.direct.create("s1", json!({"own": 0})).await;
        for lost in 1..=3 {
            b.cut(lost);
            let before = b.proxy.answers();
            let mut event = setting(json!({"own": lost, "temp:note": lost}));
            event.id = format!("e{lost}");
            b.service.append_event("s1", event).await.unwrap();
            b.assert_cut();
            assert_eq!(b.proxy.answers() - before, lost + 1, "{store:?} {cut:?}");
        }
        let session = b.direct.get("s1").await;
        assert_eq!(ids(&*session), ["e1", "e2", "e3"], "{store:?} {cut:?}");
        assert_eq!(session.state().get("own"), Some(json!(3)));
    }
}

#[tokio::test]
async fn an_append_of_an_event_without_an_id_is_stored_once() {
    for (store, cut) in WAYS {
        let b = Behind::start(store, cut, EAGER).await;
        b.direct.create("s1", json!({})).await;
        b.cut(1);
        b.service.append_event("s1", named("")).await.unwrap();
        b.assert_cut();
        assert_eq!(b.direct.get("s1").await.events().len(), 1, "{store:?} {cut:?}");
    }
}

/// The second attempt recognizes its own session.
#[tokio::test]
async fn a_creation_whose_answer_is_lost_succeeds() {
    for (store, cut) in WAYS {
        let b = Behind::start(store, cut, EAGER).await;
        b.cut(1);
        let state = json!({"own": 1, "app:a": 2, "temp:b": 3});
        let session = b.service.create(creation("s1", state)).await.unwrap();
        b.assert_cut();
        assert_eq!(session.id(), "s1");
        assert_eq!(session.state().all(), object(json!({"own": 1, "app:a": 2})));
        assert!(session.events().is_empty());

        b.cut(1);
        let request = CreateRequest { session_id: None, ..creation("", json!({"own": 2})) };
        let session = b.service.create(request).await.unwrap();
        b.assert_cut();
        assert_eq!(session.state().get("own"), Some(json!(2)));
        assert_eq!(b.direct.service.list(listing("alice")).await.unwrap().len(), 2);
    }
}

/// The second attempt recognizes a session of another creation.
#[tokio::test]
async fn a_creation_of_an_existing_session_is_refused_after_a_retry_too() {
    for (store, cut) in WAYS {
        let b = Behind::start(store, cut, EAGER).await;
        b.direct.create("s1", json!({"own": "another's"})).await;
        b.cut(1);
        let outcome = b.service.create(creation("s1", json!({"own": "mine"}))).await;
        b.assert_cut();
        assert_error(outcome, ErrorCategory::InvalidInput, "session.already_exists");
        assert_eq!(b.direct.get("s1").await.state().get("own"), Some(json!("another's")));
    }
}

#[tokio::test]
async fn a_rewind_whose_answer_is_lost_goes_back_once() {
    for (store, cut) in WAYS {
        let b = Behind::start(store, cut, EAGER).await;
        b.direct.create("s1", json!({})).await;
        for n in 1..=6 {
            b.direct.append("s1", named(&format!("e{n}"))).await;
        }
        // The calls: read the session, list its newest events, rewind, read again.
        for lost in 0..4 {
            b.proxy.cut_after(lost);
            b.service.rewind_steps("s1", 1).await.unwrap();
            b.assert_cut();
        }
        assert_eq!(ids(&*b.direct.get("s1").await), ["e1", "e2"], "{store:?} {cut:?}");
        let markers = b.direct.stored("s1").await.events.into_iter();
        assert_eq!(markers.filter(|event| event.rewind_to_sequence.is_some()).count(), 4);
    }
}

#[tokio::test]
async fn deletions_whose_answer_is_lost_succeed() {
    for (store, cut) in WAYS {
        let b = Behind::start(store, cut, EAGER).await;
        b.direct.create("s1", json!({})).await;
        b.cut(1);
        let request = adk_session::DeleteRequest {
            app_name: "my_app".into(),
            user_id: "alice".into(),
            session_id: "s1".into(),
        };
        b.service.delete(request).await.unwrap();
        b.assert_cut();
        b.direct.create("s2", json!({})).await;
        b.cut(2);
        b.service.delete_all_sessions("my_app", "alice").await.unwrap();
        b.assert_cut();
        assert!(b.direct.service.list(listing("alice")).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn reads_whose_answer_is_lost_succeed() {
    for (store, cut) in WAYS {
        let b = Behind::start(store, cut, EAGER).await;
        b.direct.create("s1", json!({"own": 1})).await;
        b.cut(1);
        assert_eq!(b.service.get(getting("s1")).await.unwrap().id(), "s1");
        b.assert_cut();
        b.cut(1);
        assert_eq!(b.service.list(listing("alice")).await.unwrap().len(), 1);
        b.assert_cut();
        b.cut(1);
        b.service.health_check().await.unwrap();
        b.assert_cut();
    }
}

/// The error says that the call may have been applied, and that an append may be repeated.
#[tokio::test]
async fn without_retries_the_caller_may_repeat_an_append() {
    for (store, cut) in WAYS {
        let b = Behind::start(store, cut, NO_RETRY).await;
        b.direct.create("s1", json!({})).await;
        b.cut(1);
        let event = setting(json!({"own": 1}));
        let error = refused(b.service.append_event("s1", event.clone()).await);
        b.assert_cut();
        assert_eq!(error.category, ErrorCategory::Unavailable, "{store:?} {cut:?} {error:?}");
        assert_eq!(error.code, "session.unavailable");
        assert!(error.is_retryable() && error.message.contains("not known"), "{error:?}");
        assert!(error.message.contains("only an append of the same event"), "{error:?}");
        assert_eq!(b.direct.get("s1").await.events().len(), 1, "it was committed");
        b.service.append_event("s1", event).await.unwrap();
        assert_eq!(b.direct.get("s1").await.events().len(), 1);

        let identity = identity(APP, USER, "s1");
        let (event, delta) = (named("with"), || Delta::new().increment("n", 1));
        b.cut(1);
        refused(b.service.append_with(&identity, event.clone(), delta()).await);
        b.assert_cut();
        b.service.append_with(&identity, event, delta()).await.unwrap();
        assert_eq!(b.direct.get("s1").await.state().get("n"), Some(json!(1)));
    }
}

/// The table in the README: other calls that are repeated after they were applied.
#[tokio::test]
async fn a_repeated_call_other_than_append_is_a_new_call() {
    let b = Behind::start(Store::Memory, Cut::Close, NO_RETRY).await;
    let s = &b.service;
    let identity = identity(APP, USER, "s1");

    b.cut(1);
    refused(s.create(creation("s1", json!({"own": "first"}))).await);
    b.assert_cut();
    let again = s.create(creation("s1", json!({"own": "second"}))).await;
    assert_error(again, ErrorCategory::InvalidInput, "session.already_exists");
    assert_eq!(b.direct.get("s1").await.state().get("own"), Some(json!("first")));

    let nameless = || CreateRequest { session_id: None, ..creation("", json!({})) };
    b.cut(1);
    refused(s.create(nameless()).await);
    b.assert_cut();
    s.create(nameless()).await.unwrap();
    assert_eq!(b.direct.service.list(listing(USER)).await.unwrap().len(), 3);

    b.cut(1);
    refused(s.append_event("s1", named("")).await);
    b.assert_cut();
    s.append_event("s1", named("")).await.unwrap();
    assert_eq!(b.direct.get("s1").await.events().len(), 2);

    let (scope, delta) = (Scope::Session(identity.clone()), || Delta::new().increment("n", 1));
    b.cut(1);
    refused(s.update_state(&scope, delta()).await);
    b.assert_cut();
    s.update_state(&scope, delta()).await.unwrap();
    assert_eq!(b.direct.get("s1").await.state().get("n"), Some(json!(2)));

    // A rewind reads the session and lists its newest events first, a fork reads the source first.
    b.proxy.cut_after(2);
    refused(s.rewind_steps("s1", 1).await);
    b.assert_cut();
    s.rewind_steps("s1", 1).await.unwrap();
    assert_eq!(b.direct.get("s1").await.events().len(), 2, "of four");

    b.proxy.cut_after(1);
    refused(s.fork(&identity, None, None).await);
    b.assert_cut();
    s.fork(&identity, None, None).await.unwrap();
    assert_eq!(b.direct.service.list(listing(USER)).await.unwrap().len(), 5);
}

#[tokio::test]
async fn attempts_are_bounded() {
    let b = Behind::start(Store::Memory, Cut::Close, Retry { attempts: 3, ..EAGER }).await;
    b.direct.create("s1", json!({})).await;
    b.cut(100);
    let before = b.proxy.answers();
    let event = named("e1");
    let error = refused(b.service.append_event("s1", event.clone()).await);
    assert_eq!(error.category, ErrorCategory::Unavailable);
    assert!(error.message.contains("3 attempts"), "{}", error.message);
    assert_eq!(b.proxy.answers() - before, 3);
    b.cut(0);
    b.service.append_event("s1", event).await.unwrap();
    assert_eq!(ids(&*b.direct.get("s1").await), ["e1"]);
}

#[tokio::test]
async fn refusals_are_not_retried() {
    let b = Behind::start(Store::Memory, Cut::Close, EAGER).await;
    let before = b.proxy.answers();
    assert_eq!(refused(b.service.get(getting("nowhere")).await).code, "session.not_found");
    assert_eq!(b.proxy.answers() - before, 1);
}

/// Ten attempts would take about five seconds, however long the deadline is.
#[tokio::test]
async fn only_the_deadline_bounds_the_default_retries() {
    let retry = Retry { attempts: Retry::default().attempts, ..EAGER };
    let b = Behind::start(Store::Memory, Cut::Close, retry).await;
    b.direct.create("s1", json!({})).await;
    let before = b.proxy.answers();
    b.cut(25);
    b.service.append_event("s1", named("e1")).await.unwrap();
    assert!(b.proxy.answers() - before > 25);
    assert_eq!(ids(&*b.direct.get("s1").await), ["e1"]);
}

#[tokio::test]
async fn an_unreachable_server_is_named_with_what_to_do() {
    let mut f = Fixture::start(Store::Memory).await;
    f.server.kill();
    let retry = Retry { attempts: 2, ..EAGER };
    let service = builder(f.server.address()).retry(retry).connect_lazy().unwrap();
    let error = refused(service.append_event("s1", named("e1")).await);
    assert_eq!(error.category, ErrorCategory::Unavailable);
    let wanted = "sessiond is unreachable (after 2 attempts): ";
    assert!(error.message.starts_with(wanted), "{}", error.message);
    assert!(error.message.contains("start the server with `sessiond serve`"), "{}", error.message);
}

/// A server that is there and cannot serve has the whole deadline, see `only_the_deadline_bounds_the_default_retries`.
#[tokio::test]
async fn an_absent_server_on_this_machine_fails_soon() {
    let mut f = Fixture::start(Store::Memory).await;
    f.server.kill();
    let socket = tempfile::tempdir().unwrap();
    let socket = format!("unix:{}/s.sock", socket.path().display());
    for address in [f.server.address(), &socket] {
        for set in [None, Some(Duration::from_secs(6))] {
            let mut builder = SessiondSessionService::builder(address);
            if let Some(deadline) = set {
                builder = builder.deadline(deadline);
            }
            let service = builder.connect_lazy().unwrap();
            let begun = std::time::Instant::now();
            let error = refused(service.append_event("s1", named("e1")).await);
            let took = begun.elapsed().as_secs_f64();
            assert_eq!(error.category, ErrorCategory::Unavailable, "{error:?}");
            let wanted = if set.is_none() { 0.5..9.0 } else { 4.0..12.0 };
            assert!(wanted.contains(&took), "{address}, {set:?}: {took} s");
        }
    }
}

#[tokio::test]
async fn the_deadline_bounds_the_retries() {
    let mut f = Fixture::start(Store::Memory).await;
    f.server.kill();
    let endless = Retry { attempts: u32::MAX, ..EAGER };
    let service = SessiondSessionService::builder(f.server.address())
        .retry(endless)
        .deadline(Duration::from_millis(300))
        .connect_lazy()
        .unwrap();
    let appending = service.append_event("s1", named("e1"));
    let outcome = tokio::time::timeout(TIMEOUT, appending)
        .await
        .expect("the deadline does not bound the retries");
    let error = refused(outcome);
    // The deadline may pass in the middle of an attempt, or of a pause.
    let given_up = [ErrorCategory::Unavailable, ErrorCategory::Timeout];
    assert!(given_up.contains(&error.category) && error.is_retryable(), "{error:?}");
}

/// The server is restarted between two appends, with all that it has acknowledged.
#[tokio::test]
async fn the_service_reconnects_to_a_restarted_server() {
    let mut server = Server::start_on_socket(Store::Sqlite);
    let service = builder(server.address())
        .retry(Retry { attempts: 1000, ..Retry::default() })
        .connect()
        .await
        .unwrap();
    service.create(creation("s1", json!({}))).await.unwrap();
    for n in 1..=3 {
        service.append_event("s1", named(&format!("a{n}"))).await.unwrap();
        // A crash, and a graceful shutdown.
        let end = if n % 2 == 0 { Server::kill } else { Server::stop };
        server = blocking(server, end).await;
        // Sent while the server is down, and answered after its restart.
        let (service, event) = (service.clone(), named(&format!("b{n}")));
        let waiting = tokio::spawn(async move { service.append_event("s1", event).await });
        tokio::task::yield_now().await;
        server = blocking(server, Server::restart).await;
        waiting.await.unwrap().unwrap();
    }
    let session = service.get(getting("s1")).await.unwrap();
    assert_eq!(ids(&*session), ["a1", "b1", "a2", "b2", "a3", "b3"]);
}

#[tokio::test]
async fn connect_waits_for_a_starting_server() {
    let mut server = Server::start_on_socket(Store::Sqlite);
    server.kill();
    let connecting =
        builder(server.address()).retry(Retry { attempts: 1000, ..Retry::default() }).connect();
    let connecting = tokio::spawn(connecting);
    tokio::task::yield_now().await;
    let _server = blocking(server, Server::restart).await;
    connecting.await.unwrap().unwrap().health_check().await.unwrap();
}
