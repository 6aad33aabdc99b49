//! Rights of callers by a policy.

use std::collections::BTreeMap;

use tokio::sync::watch as channel;

use super::*;
use crate::{
    access::{Identity, Policies, Policy, Principal, parse},
    domain::{
        permission::{Right, Users},
        scope::Scope,
    },
    store::{
        ApplicationsQuery, KeyChangeQuery, SessionOrder, SessionsQuery, StateUpdate, SystemClock,
        UsersQuery,
    },
};

const POLICY: &str = r#"
    [[rule]]
    principals = ["root"]
    applications = ["*"]
    users = "*"
    rights = ["write", "write_app_state", "admin"]

    [[rule]]
    principals = ["team"]
    applications = ["shop*"]
    users = ["alice", "carol", "erin"]
    rights = ["write", "admin"]

    [[rule]]
    principals = ["reader"]
    applications = ["shop"]
    users = "self"
    rights = ["read"]
"#;

/// An engine over an empty memory store, and its policy.
struct Guarded {
    world: World,
    policy: channel::Sender<Arc<Policy>>,
}

fn guarded() -> Guarded {
    let policy = channel::Sender::new(Arc::new(parse(POLICY).unwrap()));
    let World { clock, engine: _ } = world();
    let store: Arc<dyn Store> =
        Arc::new(MemoryStore::new(StoreId([1; 16]), Arc::clone(&clock) as Arc<dyn Clock>));
    let policies = Policies::of(policy.subscribe());
    let engine = Arc::new(Engine::with_policies(store, EngineOptions::default(), policies));
    Guarded { world: World { engine, clock }, policy }
}

fn caller(name: &str) -> RequestContext {
    let claims = BTreeMap::from([("sub".to_owned(), "alice".to_owned())]);
    let identity = Identity { claims, ..Identity::new(name) };
    RequestContext {
        principal: Principal::Identified(Arc::new(identity)),
        ..RequestContext::internal()
    }
}

fn address(app: &str, user: &str, session: &str) -> SessionKey {
    SessionKey {
        app_name: AppName::new(app).unwrap(),
        user_id: UserId::new(user).unwrap(),
        session_id: SessionId::new(session).unwrap(),
    }
}

impl Guarded {
    async fn create(&self, name: &str, key: SessionKey) -> Result<Created, Error> {
        let request = CreateSession {
            key,
            state: Vec::new(),
            display_name: DisplayName::default(),
            labels: Labels::default(),
            expiration: None,
            on_existing: OnExisting::Refuse,
        };
        self.world.engine.store.create_session(&caller(name), request).await
    }

    async fn append(
        &self,
        name: &str,
        session: SessionRef,
        event: NewEvent,
    ) -> Result<Appended, Error> {
        let request = Append {
            session,
            events: vec![event],
            precondition: Precondition::default(),
            request: None,
            return_state: true,
        };
        self.world.engine.append_events(&caller(name), request).await
    }

    async fn read(&self, name: &str, session: SessionRef) -> Result<SessionInfo, Error> {
        let query = SessionQuery::info(session);
        Ok(self.world.engine.get_session(&caller(name), query, None).await?.info)
    }

    /// The sessions of a list, page by page.
    async fn list(&self, name: &str, order: SessionOrder, max_items: usize) -> Vec<String> {
        let (mut found, mut token) = (Vec::new(), None);
        loop {
            let query = SessionsQuery {
                app_name: AppName::new("shop").unwrap(),
                user_id: None,
                seen: Users::All,
                labels: Labels::default(),
                order,
                after: None,
                max_items,
                max_bytes: 1 << 20,
                with_state: false,
            };
            let page = self.world.engine.list_sessions(&caller(name), query, token).await.unwrap();
            let keys = page.items.iter().map(|(info, _)| &info.key);
            found.extend(keys.map(|key| format!("{}/{}", key.user_id, key.session_id)));
            let Some(next) = page.next_page_token(page.items.len()) else { return found };
            assert_eq!(page.items.len(), max_items, "a page is full");
            token = Some(SessionToken::decode(&next).unwrap());
        }
    }
}

fn denied<T>(answer: Result<T, Error>) -> Right {
    match answer.map(drop) {
        Err(Error::PermissionDenied(denial)) => denial.right,
        other => panic!("not denied: {other:?}"),
    }
}

#[tokio::test]
async fn lists_hold_what_their_caller_may_see_in_full_pages() {
    let guarded = guarded();
    for at in 0..30 {
        let user = ["alice", "bob", "carol", "dave", "erin"][at % 5];
        // Several have the same time, so that ties count.
        if at % 7 == 0 {
            guarded.world.clock.forward(1);
        }
        guarded.create("root", address("shop", user, &format!("s{at:02}"))).await.unwrap();
    }
    for order in [SessionOrder::LeastRecent, SessionOrder::MostRecent] {
        let all = guarded.list("root", order, 100).await;
        assert_eq!(all.len(), 30);
        let of = |users: &[&str]| -> Vec<String> {
            let seen = all.iter().filter(|it| users.contains(&it.split('/').next().unwrap()));
            seen.cloned().collect()
        };
        for max_items in [1, 2, 7, 18, 100] {
            let seen = guarded.list("team", order, max_items).await;
            assert_eq!(seen, of(&["alice", "carol", "erin"]), "{order:?} {max_items}");
            assert_eq!(guarded.list("reader", order, max_items).await, of(&["alice"]));
        }
    }
}

#[tokio::test]
async fn lists_of_names_hold_what_an_administrator_may_see() {
    let guarded = guarded();
    for (app, user) in [("shop", "alice"), ("shop", "bob"), ("shop-2", "erin"), ("mail", "alice")] {
        guarded.create("root", address(app, user, "s")).await.unwrap();
    }
    let apps = async |name| {
        let query = ApplicationsQuery { seen: None, after: None, max_items: 10 };
        guarded.world.engine.list_applications(&caller(name), query, None).await.map(|it| it.items)
    };
    let users = async |name, app| {
        let app_name = AppName::new(app).unwrap();
        let query = UsersQuery { app_name, seen: None, after: None, max_items: 10 };
        guarded.world.engine.list_users(&caller(name), query, None).await.map(|it| it.items)
    };
    assert_eq!(apps("root").await.unwrap().len(), 3);
    let shops = ["shop", "shop-2"].map(|app| AppName::new(app).unwrap());
    assert_eq!(apps("team").await.unwrap(), shops);
    assert_eq!(denied(apps("reader").await), Right::Admin);
    assert_eq!(users("team", "shop").await.unwrap(), [UserId::new("alice").unwrap()]);
    assert_eq!(denied(users("team", "mail").await), Right::Admin);
    assert_eq!(denied(users("reader", "shop").await), Right::Admin);
}

#[tokio::test]
async fn a_bare_id_is_looked_up_among_what_its_caller_may_see() {
    let guarded = guarded();
    let bare = || SessionRef::bare(SessionId::new("s").unwrap());
    let not_found = |it: &Error| matches!(it, Error::SessionNotFound(_));
    guarded.create("root", address("shop", "bob", "s")).await.unwrap();
    assert!(not_found(&guarded.read("team", bare()).await.unwrap_err()));
    let appended = guarded.append("team", bare(), event(None, Delta::default())).await;
    assert!(not_found(&appended.unwrap_err()));
    // Of two, one is seen.
    guarded.create("root", address("shop", "alice", "s")).await.unwrap();
    assert_eq!(guarded.read("team", bare()).await.unwrap().key.user_id.as_str(), "alice");
    guarded.append("team", bare(), event(None, Delta::default())).await.unwrap();
    let ambiguous = guarded.read("root", bare()).await;
    assert!(matches!(ambiguous, Err(Error::AmbiguousSessionId(_))));
    // It is seen, and may not be written.
    assert_eq!(guarded.read("reader", bare()).await.unwrap().key.user_id.as_str(), "alice");
    let appended = guarded.append("reader", bare(), event(None, Delta::default())).await;
    assert_eq!(denied(appended), Right::Write);
}

#[tokio::test]
async fn keys_of_the_application_need_a_right_of_their_own() {
    let guarded = guarded();
    let key = address("shop", "alice", "s");
    guarded.create("team", key.clone()).await.unwrap();
    for session in [SessionRef::Full(key.clone()), SessionRef::bare(key.session_id.clone())] {
        let change = event(None, set(&[("app:k", "1"), ("own", "1")]));
        let answer = guarded.append("team", session.clone(), change).await;
        assert_eq!(denied(answer), Right::WriteAppState);
        // A fragment changes no state.
        let fragment = NewEvent { partial: true, ..event(None, set(&[("app:k", "1")])) };
        guarded.append("team", session.clone(), fragment.clone()).await.unwrap();
        assert_eq!(denied(guarded.append("reader", session, fragment).await), Right::Write);
    }
    let own = event(Some("turn"), set(&[("temp:k", "1")]));
    assert_eq!(
        denied(guarded.append("reader", SessionRef::Full(key.clone()), own).await),
        Right::Write
    );
    let reader = caller("reader");
    let end = guarded.world.engine.end_invocation(&reader, key, invocation("turn"));
    assert_eq!(denied(end.await), Right::Write);
}

#[tokio::test]
async fn the_source_of_a_change_is_shown_to_those_who_may_see_it() {
    let guarded = guarded();
    for user in ["alice", "bob"] {
        let key = address("shop", user, "s");
        guarded.create("root", key.clone()).await.unwrap();
        let change = event(None, set(&[("app:k", "1")]));
        guarded.append("root", SessionRef::Full(key), change).await.unwrap();
    }
    let changes = async |name| {
        let query = KeyChangeQuery {
            scope: Scope::Application(AppName::new("shop").unwrap()),
            key: key("app:k"),
            before: None,
            max_items: 10,
            max_bytes: 1 << 20,
        };
        let list = guarded.world.engine.list_key_changes(&caller(name), query, None).await.unwrap();
        let shown = list.items.iter().map(|change| {
            let user = change.source.as_ref().map(|(key, _)| key.user_id.to_string());
            (user.unwrap_or_default(), change.author.to_string())
        });
        shown.collect::<Vec<_>>()
    };
    let shown = |user: &str, author: &str| (user.to_owned(), author.to_owned());
    assert_eq!(changes("root").await, [shown("bob", "agent"), shown("alice", "agent")]);
    assert_eq!(changes("team").await, [shown("", ""), shown("alice", "agent")]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_its_right_does() {
    let guarded = guarded();
    let key = address("shop", "alice", "s");
    guarded.create("root", key.clone()).await.unwrap();
    let engine = &guarded.world.engine;
    let mut watches = Vec::new();
    for name in ["root", "team"] {
        let scope = Scope::Session(key.clone());
        let mut watch = engine.watch(&caller(name), scope, WatchFrom::Now).await.unwrap();
        assert_eq!(watch.next().await.unwrap().unwrap().0, WatchItem::CaughtUp);
        watches.push(watch);
    }
    let [root, team] = &mut watches[..] else { panic!() };
    let less = POLICY.replace("\"carol\", \"erin\"", "\"erin\"").replace("\"alice\", ", "");
    guarded.policy.send_replace(Arc::new(parse(&less).unwrap()));
    // Before its heartbeat.
    let ended = team.next().await.unwrap().map(drop);
    assert!(matches!(ended, Err(Error::PermissionDenied(_))), "{ended:?}");
    assert!(team.next().await.is_none());
    let (item, _) = root.next().await.unwrap().unwrap();
    assert!(matches!(item, WatchItem::Heartbeat(_)));
    let scope = Scope::Application(AppName::new("mail").unwrap());
    let denied_watch = engine.watch(&caller("team"), scope, WatchFrom::Now).await;
    assert_eq!(denied(denied_watch), Right::Read);
}

#[tokio::test]
async fn state_of_an_application_is_changed_by_those_who_may() {
    let guarded = guarded();
    let update = async |name| {
        let scope = Scope::Application(AppName::new("shop").unwrap());
        let delta = crate::domain::delta::ScopeDelta::new(scope, set(&[("app:k", "1")])).unwrap();
        let update = StateUpdate {
            delta,
            precondition: Precondition::default(),
            author: Author::new("x").unwrap(),
            request: None,
        };
        guarded.world.engine.update_state(&caller(name), update).await
    };
    assert_eq!(denied(update("team").await), Right::WriteAppState);
    update("root").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_the_credential_of_its_caller() {
    let guarded = guarded();
    let key = address("shop", "alice", "s");
    guarded.create("root", key.clone()).await.unwrap();
    let until = |expire_time| {
        let identity = Identity { expire_time: Some(expire_time), ..Identity::new("root") };
        let principal = Principal::Identified(Arc::new(identity));
        RequestContext { principal, ..RequestContext::internal() }
    };
    let scope = Scope::Session(key);
    let now = SystemClock.now();
    let past = until(now);
    let refused = guarded.world.engine.watch(&past, scope.clone(), WatchFrom::Now).await;
    assert_eq!(refused.map(drop), Err(Error::CredentialExpired));
    let soon = now.plus(3600, 0).unwrap();
    let mut watch = guarded.world.engine.watch(&until(soon), scope, WatchFrom::Now).await.unwrap();
    assert_eq!(watch.next().await.unwrap().unwrap().0, WatchItem::CaughtUp);
    assert!(matches!(watch.next().await.unwrap().unwrap().0, WatchItem::Heartbeat(_)));
    // The time of the process cannot be set forward, but the credential can be set back.
    watch.context = past;
    assert_eq!(watch.next().await.unwrap().map(drop), Err(Error::CredentialExpired));
}
