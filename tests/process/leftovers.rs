//! What stays on the disk after sessions are deleted.

use std::{fs, path::Path, process::Command, time::Duration};

use rusqlite::{Connection, OpenFlags};
use sessiond::proto::v1::{
    AppendEventRequest, CreateSessionRequest, DeleteSessionRequest, Event, KeyChange,
    ListKeyChangesRequest, Scope, SessionKey, StateDelta, UpdateStateRequest,
    event_service_client::EventServiceClient, session_service_client::SessionServiceClient,
    state_delta::SetForm, state_service_client::StateServiceClient,
};
use tempfile::TempDir;
use tokio::time::{interval, timeout};
use tonic::transport::Channel;

use crate::harness::{PATIENCE, Server, create, event, program};

/// Bytes of the database and its log.
fn bytes(folder: &Path) -> u64 {
    let size = |name| fs::metadata(folder.join(name)).map_or(0, |found| found.len());
    size("test.db") + size("test.db-wal")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bench_leaves_nothing_large_behind() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path());
    let bench = ["bench", "append", "--in-flight", "4", "--count", "500", "--warmup", "0"];
    let large = ["--body-bytes", "20000", "--server", server.address()];
    let output = Command::new(program()).args(bench).args(large).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let shrunk = timeout(PATIENCE, async {
        let mut looks = interval(Duration::from_millis(100));
        // What stays is the log of changes that a benchmark makes to application and user.
        while bytes(folder.path()) > 512 << 10 {
            looks.tick().await;
        }
    });
    assert!(shrunk.await.is_ok(), "{} of 10 MB are left", bytes(folder.path()));
    assert!(server.stop().status.success());
}

const ALICE: &str = "alice@example.com";

fn of_alice(session: &str) -> SessionKey {
    SessionKey { app_name: "app".into(), user_id: ALICE.into(), session_id: session.into() }
}

/// Sets a key of Alice, or removes it.
async fn change_user(channel: &Channel, id: &str, set: &str, remove: &[&str]) {
    let delta = StateDelta {
        set_form: Some(SetForm::SetJson(set.into())),
        remove: remove.iter().map(|key| (*key).to_owned()).collect(),
        ..StateDelta::default()
    };
    let request = UpdateStateRequest {
        scope: Some(Scope { app_name: "app".into(), user_id: ALICE.into(), session_id: "".into() }),
        delta: Some(delta),
        author: ALICE.into(),
        request_id: format!("{id} of {ALICE}"),
        ..UpdateStateRequest::default()
    };
    StateServiceClient::new(channel.clone()).update_state(request).await.unwrap();
}

/// The changes of `app:total`, one for each event.
async fn totals(channel: &Channel) -> Vec<KeyChange> {
    let request = ListKeyChangesRequest {
        scope: Some(Scope { app_name: "app".into(), ..Scope::default() }),
        key: "app:total".into(),
        ..ListKeyChangesRequest::default()
    };
    let mut client = StateServiceClient::new(channel.clone());
    client.list_key_changes(request).await.unwrap().into_inner().changes
}

/// Rows that a sweep has still to look at, and those of the user.
fn rows_left(folder: &Path) -> i64 {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let file = Connection::open_with_flags(folder.join("test.db"), flags).unwrap();
    let sql = "SELECT (SELECT count(*) FROM tombstone) + (SELECT count(*) FROM emptied)
        + (SELECT count(*) FROM scope WHERE user = ?1)";
    file.query_row(sql, [ALICE], |row| row.get(0)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_tells_of_a_user_whose_sessions_and_keys_are_deleted() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path());
    let channel = server.channel().await;
    let mut sessions = SessionServiceClient::new(channel.clone());
    create(&channel, "of another user", "{}").await;
    let ids = ["alices-first-session", "alices-second-session"];
    for session in ids {
        let SessionKey { app_name, user_id, session_id } = of_alice(session);
        let request = CreateSessionRequest {
            app_name,
            user_id,
            session_id,
            ..CreateSessionRequest::default()
        };
        sessions.create_session(request).await.unwrap();
        for number in 0..20 {
            let set = format!("{{\"name\":\"{ALICE}\",\"user:name\":\"{ALICE}\"}}");
            let event = event(&number.to_string(), &set, "{}");
            let event = Event { author: ALICE.into(), ..event };
            let key = Some(of_alice(session));
            let request = AppendEventRequest { key, event: Some(event), ..Default::default() };
            EventServiceClient::new(channel.clone()).append_event(request).await.unwrap();
        }
    }
    change_user(&channel, "set", "{\"user:likes\":\"tea\"}", &[]).await;
    let named = totals(&channel).await;
    assert!(named.iter().all(|it| it.author == ALICE && it.session.is_some()), "{named:?}");

    for session in ids {
        let request = DeleteSessionRequest { key: Some(of_alice(session)), ..Default::default() };
        sessions.delete_session(request).await.unwrap();
    }
    change_user(&channel, "remove", "{}", &["user:name", "user:likes"]).await;
    let swept = timeout(PATIENCE, async {
        let mut looks = interval(Duration::from_millis(100));
        while rows_left(folder.path()) > 0 {
            looks.tick().await;
        }
    });
    assert!(swept.await.is_ok(), "{} rows are left", rows_left(folder.path()));
    let unnamed = totals(&channel).await;
    assert_eq!(unnamed.len(), 40);
    let is_bare = |it: &KeyChange| it.author.is_empty() && it.session.is_none() && it.sequence == 0;
    assert!(unnamed.iter().all(is_bare), "{unnamed:?}");
    let values = |changes: &[KeyChange]| {
        changes.iter().map(|it| (it.version, it.value_form.clone())).collect::<Vec<_>>()
    };
    assert_eq!(values(&unnamed), values(&named));
    drop((channel, sessions));
    assert!(server.stop().status.success());

    let path = folder.path().join("test.db");
    let output =
        Command::new(program()).args(["compact", path.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    for entry in fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        for text in [ALICE, ids[0], ids[1]] {
            let found = bytes.windows(text.len()).any(|part| part == text.as_bytes());
            assert!(!found, "{text} is in {}", path.display());
        }
    }
}
