//! Nothing is left of applications and users that are gone, in the file or in its WAL.

use super::*;

const APP: &str = "the-name-of-an-application";
const USER: &str = "alice@example.com";

fn address_of(session: &str) -> SessionKey {
    SessionKey {
        app_name: AppName::new(APP).unwrap(),
        user_id: UserId::new(USER).unwrap(),
        session_id: SessionId::new(session).unwrap(),
    }
}

/// The bytes of the database and of its WAL.
fn bytes(fixture: &Fixture) -> Vec<u8> {
    let read = |name| std::fs::read(fixture.folder.path().join(name)).unwrap_or_default();
    ["test.db", "test.db-wal"].map(read).concat()
}

fn is_in(fixture: &Fixture, text: &str) -> bool {
    memchr::memmem::find(&bytes(fixture), text.as_bytes()).is_some()
}

/// Sessions of a user with an event each that changes a key of every scope.
async fn filled(sessions: &[&str]) -> Fixture {
    let fixture = Fixture::new().await;
    fixture.create("u", "stays").await;
    for session in sessions {
        let create = CreateSession { key: address_of(session), ..creation(USER, session) };
        fixture.store().create_session(&call(), create).await.unwrap();
        for number in 0..100 {
            let id = format!("event {number}");
            let set = [("k", "1"), ("user:k", "2"), ("app:k", "3")];
            let author = Author::new(USER).unwrap();
            let events = vec![NewEvent { author, ..event(&id, &set) }];
            let session = address_of(session);
            let append = Append { session, ..batch("s", events) };
            fixture.store().append(&call(), append).await.unwrap();
        }
    }
    fixture
}

async fn remove(fixture: &Fixture, scope: Scope) {
    let delta = Delta {
        remove: vec![key(if scope.user_id().is_some() { "user:k" } else { "app:k" })],
        ..Delta::default()
    };
    fixture.store().update_state(&call(), change(scope, delta)).await.unwrap();
}

async fn delete(fixture: &Fixture, session: &str) {
    let deleted =
        fixture.store().delete_session(&call(), address_of(session).into()).await.unwrap();
    assert!(deleted.is_some());
}

#[tokio::test]
async fn the_name_of_a_user_leaves_with_the_last_session_and_the_last_key() {
    let mut fixture = filled(&["first-session", "second-session"]).await;
    let app = AppName::new(APP).unwrap();
    delete(&fixture, "first-session").await;
    remove(&fixture, Scope::User(app.clone(), UserId::new(USER).unwrap())).await;
    fixture.sweep().await;
    assert_eq!(fixture.count("SELECT count(*) FROM scope WHERE user > ''"), 2, "it has a session");
    delete(&fixture, "second-session").await;
    assert!(fixture.sweep().await > 2, "in pieces");
    // Beside these the changes of the application are all that is left.
    assert_eq!(fixture.count("SELECT count(*) FROM scope WHERE user > ''"), 1);
    let unnamed = "SELECT count(*) FROM scope_log WHERE author = '' AND source IS NULL
        AND source_user IS NULL AND source_session IS NULL AND source_sequence IS NULL";
    assert_eq!(fixture.count(unnamed), 200);
    assert_eq!(fixture.count("SELECT count(*) FROM scope_log"), 200);
    assert_eq!(fixture.count("SELECT count(*) FROM emptied"), 0);
    assert!(fixture.count("SELECT version_floor FROM meta") > 201);
    fixture.reopen().await;
    assert!(is_in(&fixture, APP));
    fixture.store.close().await;
    compact(&fixture.options.path).unwrap();
    for name in [USER, "first-session", "second-session"] {
        assert!(!is_in(&fixture, name), "{name}");
    }
}

#[tokio::test]
async fn a_name_that_the_index_does_not_have_yet_leaves_as_well() {
    let fixture = filled(&["session"]).await;
    delete(&fixture, "session").await;
    remove(&fixture, Scope::User(AppName::new(APP).unwrap(), UserId::new(USER).unwrap())).await;
    assert_eq!(fixture.count("SELECT named_through FROM meta"), 0);
    let named = "SELECT count(*) FROM scope_log WHERE source_user IS NOT NULL";
    assert_eq!(fixture.count(named), 100);
    fixture.sweep().await;
    assert_eq!(fixture.count(named), 0);
    assert!(fixture.count("SELECT named_through FROM meta") > 0);
}

#[tokio::test]
async fn the_name_of_an_application_leaves_with_its_last_user_and_its_last_key() {
    let fixture = filled(&["session"]).await;
    let app = AppName::new(APP).unwrap();
    remove(&fixture, Scope::User(app.clone(), UserId::new(USER).unwrap())).await;
    remove(&fixture, Scope::Application(app)).await;
    fixture.sweep().await;
    assert!(is_in(&fixture, APP) && is_in(&fixture, USER));
    delete(&fixture, "session").await;
    fixture.sweep().await;
    let others = "SELECT count(*) FROM scope WHERE app <> 'a'";
    assert_eq!(fixture.count(others), 0);
    assert_eq!(fixture.count("SELECT count(*) FROM scope_log"), 0);
    fixture.store.close().await;
    compact(&fixture.options.path).unwrap();
    for name in [APP, USER] {
        assert!(!is_in(&fixture, name), "{name}");
    }
}
