//! The database file removed, replaced or locked under another name: noticed, and nothing is acknowledged that a restart would not find.

use std::{fs, path::Path};

use tempfile::TempDir;
use tonic::{Code, transport::Channel};
use tonic_health::pb::health_check_response::ServingStatus;

use crate::harness::{Ended, Server, append, create, event, read, reason, serve, wait_for_health};

/// Makes the file of a server unreachable, or puts another one in its place.
type Loss = fn(&Path);

/// The same content in another file.
fn replace(path: &Path) {
    let copy = path.with_extension("copy");
    fs::copy(path, &copy).unwrap();
    fs::rename(&copy, path).unwrap();
}

async fn assert_refuses(channel: &Channel, id: &str) {
    let status = append(channel, "s", event(id, "{}", "{}")).await.unwrap_err();
    assert_eq!((status.code(), &*reason(&status)), (Code::Unavailable, "FILE_LOST"), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_removed_or_replaced_under_a_running_server_acknowledges_nothing_more() {
    let losses: [(&str, Loss); 4] = [
        ("the database is removed", |path| fs::remove_file(path).unwrap()),
        ("the database is moved", |path| fs::rename(path, path.with_extension("old")).unwrap()),
        ("the database is replaced", replace),
        ("its log is removed", |path| fs::remove_file(path.with_extension("db-wal")).unwrap()),
    ];
    for (case, lose) in losses {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("test.db");
        let server = Server::start(folder.path());
        let channel = server.channel().await;
        create(&channel, "s", "{}").await;
        append(&channel, "s", event("one", "{}", "{}")).await.unwrap();
        fs::copy(&path, folder.path().join("aside.db")).unwrap();
        lose(&path);
        assert_refuses(&channel, "two").await;
        // Not even if a file is put back.
        let _ = fs::remove_file(&path);
        fs::copy(folder.path().join("aside.db"), &path).unwrap();
        assert_refuses(&channel, "two").await;
        for service in ["", "sessiond.writes", "sessiond.v1.EventService"] {
            wait_for_health(&channel, service, ServingStatus::NotServing).await;
        }
        // Everything is still readable, for an export.
        let events = read(&channel, "s").await.events;
        assert_eq!(events.len(), 1, "{case}");
        drop(channel);
        let Ended { status, log } = server.stop();
        assert!(status.success(), "{case}: {log}");
        let told = log.matches("was removed or replaced").count();
        assert_eq!(told, 1, "{case}: {log}");
        assert!(log.contains("test.db"), "{case}: {log}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_server_notices_that_its_file_is_gone_and_leaves_the_next_one_alone() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("test.db");
    let server = Server::start(folder.path());
    let channel = server.channel().await;
    create(&channel, "s", "{}").await;
    let moved = folder.path().join("moved");
    fs::create_dir(&moved).unwrap();
    for name in ["test.db", "test.db-wal", "test.db-shm"] {
        fs::rename(folder.path().join(name), moved.join(name)).unwrap();
    }
    // The sweep is the only one that comes by.
    wait_for_health(&channel, "", ServingStatus::NotServing).await;
    drop(channel);
    let foreign = ["", "-wal", "-shm"].map(|suffix| folder.path().join(format!("test.db{suffix}")));
    for file in &foreign {
        fs::write(file, "of somebody else").unwrap();
    }
    assert!(server.stop().status.success());
    for file in &foreign {
        assert_eq!(fs::read_to_string(file).unwrap(), "of somebody else", "{}", file.display());
        fs::remove_file(file).unwrap();
    }
    for name in ["test.db", "test.db-wal"] {
        if moved.join(name).exists() {
            fs::rename(moved.join(name), folder.path().join(name)).unwrap();
        }
    }
    assert!(path.exists());
    let server = Server::start(folder.path());
    assert_eq!(read(&server.channel().await, "s").await.events.len(), 0);
    assert!(server.stop().status.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_is_on_the_file_itself() {
    if !cfg!(target_os = "linux") {
        // Elsewhere such a lock would exclude SQLite's own.
        return;
    }
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path());
    let channel = server.channel().await;
    create(&channel, "s", "{}").await;
    let refused = |store: &Path| {
        let store = format!("sqlite:{}", store.display());
        match Server::run(serve(folder.path()).args(["--store", &store])) {
            Ok(server) => {
                server.kill();
                panic!("a second server on {store}");
            }
            Err(Ended { log, .. }) => assert!(log.contains("in use by"), "{log}"),
        }
    };
    // Without the file beside it, and by another name.
    fs::remove_file(folder.path().join("test.db-lock")).unwrap();
    refused(&folder.path().join("test.db"));
    let link = folder.path().join("link.db");
    fs::hard_link(folder.path().join("test.db"), &link).unwrap();
    refused(&link);
    append(&channel, "s", event("one", "{}", "{}")).await.unwrap();
    drop(channel);
    assert!(server.stop().status.success());
}
