//! Files that are damaged, foreign, too new or not writable, and a disk that is full.

use std::{
    fs,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::Path,
    process::Command,
};

use tempfile::TempDir;
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::harness::{Ended, Server, append, create, event, program, read, serve};

/// The user `nobody`, in whose name permissions count also where tests run as root.
const NOBODY: u32 = 65534;

/// Where a SQLite file keeps the number that its program gives its format, big-endian.
const USER_VERSION_AT: usize = 60;
/// Where a SQLite file says which program it belongs to.
const APPLICATION_ID_AT: usize = 68;

/// A store with one event, closed.
async fn filled() -> TempDir {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path());
    let channel = server.channel().await;
    create(&channel, "s", "{}").await;
    append(&channel, "s", event("one", "{}", "{}")).await.unwrap();
    drop(channel);
    assert!(server.stop().status.success());
    folder
}

fn refused(command: &mut Command) -> String {
    match Server::run(command) {
        Ok(server) => {
            server.kill();
            panic!("it serves");
        }
        Err(Ended { status, log }) => {
            assert_eq!(status.code(), Some(1), "{log}");
            log
        }
    }
}

fn change(folder: &Path, at: usize, bytes: &[u8]) {
    let path = folder.join("test.db");
    let mut content = fs::read(&path).unwrap();
    content[at..at + bytes.len()].copy_from_slice(bytes);
    fs::write(&path, content).unwrap();
}

async fn is_whole(folder: &Path) {
    let server = Server::start(folder);
    assert_eq!(read(&server.channel().await, "s").await.events.len(), 1);
    assert!(server.stop().status.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_a_newer_version_is_refused_and_left_alone() {
    let folder = filled().await;
    let before = fs::read(folder.path().join("test.db")).unwrap();
    change(folder.path(), USER_VERSION_AT, &777_u32.to_be_bytes());
    let log = refused(&mut serve(folder.path()));
    assert!(log.contains("newer"), "{log}");
    change(folder.path(), USER_VERSION_AT, &before[USER_VERSION_AT..USER_VERSION_AT + 4]);
    assert!(before == fs::read(folder.path().join("test.db")).unwrap(), "nothing else changed");
    is_whole(folder.path()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_of_another_program_is_refused() {
    let folder = filled().await;
    change(folder.path(), APPLICATION_ID_AT, b"\0\0\0\x07");
    let log = refused(&mut serve(folder.path()));
    assert!(log.contains("not made by sessiond"), "{log}");
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let folder = TempDir::new().unwrap();
    let letter = "Dear diary, ".repeat(1000);
    fs::write(folder.path().join("test.db"), &letter).unwrap();
    let log = refused(&mut serve(folder.path()));
    assert!(log.contains("not a database") || log.contains("damaged"), "{log}");
    assert_eq!(fs::read_to_string(folder.path().join("test.db")).unwrap(), letter);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_file_is_refused_or_answers_with_a_status_and_never_with_wrong_data() {
    let folder = filled().await;
    let path = folder.path().join("test.db");
    let content = fs::read(&path).unwrap();
    // Everything behind the header's page.
    let mut damaged = content.clone();
    damaged[4096..].fill(0xA5);
    fs::write(&path, damaged).unwrap();
    match Server::run(&mut serve(folder.path())) {
        Err(Ended { status, log }) => {
            assert_eq!(status.code(), Some(1));
            assert!(log.contains("damaged"), "{log}");
        }
        Ok(server) => {
            let channel = server.channel().await;
            let status = append(&channel, "s", event("two", "{}", "{}")).await.unwrap_err();
            assert!(status.get_error_details().error_info().is_some(), "{status}");
            assert!(matches!(status.code(), Code::Internal | Code::Unavailable), "{status}");
            drop(channel);
            server.kill();
        }
    }
}

/// A folder that everybody may enter, with the program in it, since `nobody` may not enter everybody's.
fn open_to_all(folder: &Path) -> std::path::PathBuf {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    let copy = folder.join("sessiond");
    fs::copy(program(), &copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    copy
}

fn as_nobody(program: &Path, store: &Path) -> Command {
    let mut command = Command::new(program);
    let store = format!("sqlite:{}", store.display());
    command.args(["serve", "--http-listen", "off", "--listen", "127.0.0.1:0", "--store", &store]);
    // Only root may and must change; for anybody else the permissions count as they are.
    if fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0) {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_or_a_folder_that_may_not_be_written_is_refused() {
    let folder = filled().await;
    let program = open_to_all(folder.path());
    let path = folder.path().join("test.db");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let log = refused(&mut as_nobody(&program, &path));
    assert!(log.contains("not writable") || log.contains("read-only"), "{log}");
    // A folder in which nothing may be made.
    let inner = folder.path().join("closed");
    fs::create_dir(&inner).unwrap();
    fs::set_permissions(&inner, fs::Permissions::from_mode(0o555)).unwrap();
    let log = refused(&mut as_nobody(&program, &inner.join("new.db")));
    assert!(log.contains("closed"), "{log}");
    // A folder that is not there.
    let log = refused(&mut as_nobody(&program, &folder.path().join("missing/new.db")));
    assert!(log.contains("missing"), "{log}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    is_whole(folder.path()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_file_that_may_not_be_written_is_named() {
    let folder = filled().await;
    let program = open_to_all(folder.path());
    let [path, lock] = ["test.db", "test.db-lock"].map(|name| folder.path().join(name));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o444)).unwrap();
    let log = refused(&mut as_nobody(&program, &path));
    assert!(log.contains("test.db-lock' is not writable"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_writes_with_a_status_and_loses_nothing() {
    let folder = TempDir::new().unwrap();
    // A limit of 600 blocks of 512 or 1024 bytes on every file stands for a disk that is full; without the signal that comes
    // with it, writing beyond it is an error like any other.
    let script = format!(
        "trap '' XFSZ; ulimit -f 600; exec {} serve --listen 127.0.0.1:0 --store sqlite:{}",
        program(),
        folder.path().join("test.db").display()
    );
    let server = Server::run(Command::new("sh").args(["-c", &script]))
        .unwrap_or_else(|ended| panic!("{}", ended.log));
    let channel = server.channel().await;
    create(&channel, "s", "{}").await;
    let body = format!("{{\"padding\":\"{}\"}}", "x".repeat(20_000));
    let mut acknowledged = 0;
    let status = loop {
        let id = format!("event-{}", acknowledged + 1);
        match append(&channel, "s", event(&id, "{}", &body)).await {
            Ok(_) => acknowledged += 1,
            Err(status) => break status,
        }
        assert!(acknowledged < 1000, "the limit was never met");
    };
    let details = status.get_error_details();
    let reason = details.error_info().map(|info| info.reason.as_str());
    assert!(
        matches!(reason, Some("STORE_UNAVAILABLE" | "OUTCOME_UNKNOWN")),
        "a status of the server: {status}"
    );
    assert!(acknowledged > 0);
    // What was acknowledged can be read while the disk is full.
    assert!(read(&channel, "s").await.events.len() >= acknowledged);
    drop(channel);
    server.kill();

    let server = Server::start(folder.path());
    let channel = server.channel().await;
    let recovered = read(&channel, "s").await.events;
    assert!(recovered.len() == acknowledged || recovered.len() == acknowledged + 1);
    let id = format!("event-{}", acknowledged + 1);
    let answer = append(&channel, "s", event(&id, "{}", &body)).await.unwrap();
    assert_eq!(answer.event.unwrap().sequence as usize, acknowledged + 1);
    if reason == Some("STORE_UNAVAILABLE") {
        assert!(!answer.replayed, "refused as certainly not applied");
    }
    drop(channel);
    assert!(server.stop().status.success());
}
