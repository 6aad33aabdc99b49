//! Files that a store opens, and its errors for others.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
    path::PathBuf,
};

use super::*;

async fn refused(path: &Path) -> OpenError {
    match open(SqliteOptions::new(path, NEW_ID)).await {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(error) => error,
    }
}

#[tokio::test]
async fn a_file_has_one_store_at_a_time() {
    let fixture = Fixture::new().await;
    let pid = Some(std::process::id());
    // However the file is named.
    let other = fixture.folder.path().join(".").join("test.db");
    let link = fixture.folder.path().join("link.db");
    std::os::unix::fs::symlink(&fixture.options.path, &link).unwrap();
    for path in [&fixture.options.path, &other, &link] {
        let error = refused(path).await;
        assert!(matches!(&error, OpenError::InUse { pid: found, .. } if *found == pid), "{error}");
        assert!(error.to_string().contains(&format!("by process {}", std::process::id())));
    }
    fixture.store.close().await;
    open(fixture.options.clone()).await.unwrap().close().await;
}

#[tokio::test]
async fn a_dropped_store_keeps_its_file_until_the_last_write_is_done() {
    let Fixture { folder, store, options, .. } = Fixture::new().await;
    let other = Connection::open(folder.path().join("test.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (reply, answer) = oneshot::channel();
    let request = Request::Create(creation("u", "s"));
    let submission = Submission { context: call(), request, reply };
    assert_eq!(store.writes.push(submission.context.caller, submission, 0), Ok(()));
    drop(store);
    assert!(matches!(refused(&options.path).await, OpenError::InUse { .. }));
    other.execute_batch("COMMIT").unwrap();
    assert!(matches!(answer.await.unwrap(), Ok(Answer::Created(_))));
}

#[tokio::test]
async fn a_closed_store_leaves_one_file_without_a_wal() {
    let fixture = Fixture::new().await;
    fixture.create("u", "s").await;
    fixture.store.close().await;
    assert!(!fixture.folder.path().join("test.db-wal").exists());
    assert_eq!(fixture.store.read_session(query("s")).await.unwrap_err(), Error::Draining);
    assert_eq!(
        fixture.store().append(&call(), one("s", "e", &[])).await.unwrap_err(),
        Error::Draining
    );
    // Closing again does nothing.
    fixture.store.close().await;
}

#[tokio::test]
async fn the_lock_file_belongs_to_the_owner_of_the_database() {
    let fixture = Fixture::new().await;
    fixture.store.close().await;
    let (path, lock) = (&fixture.options.path, fixture.folder.path().join("test.db-lock"));
    fs::remove_file(&lock).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o620)).unwrap();
    // Only root may give a file away.
    drop(chown(path, Some(4711), Some(4711)));
    open(fixture.options.clone()).await.unwrap().close().await;
    let [of_lock, of_database] = [&lock, path].map(|path| {
        let found = fs::metadata(path).unwrap();
        (found.uid(), found.gid(), found.mode() & 0o777)
    });
    assert_eq!(of_lock, of_database);
}

#[tokio::test]
async fn other_files_are_left_alone() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.db");
    fs::write(
        &path,
        "this is a text, and a rather long one, so that it cannot be taken for an empty file\n"
            .repeat(9),
    )
    .unwrap();
    let error = refused(&path).await;
    assert_eq!(error, OpenError::Damaged(path.canonicalize().unwrap()));
    assert!(fs::read_to_string(&path).unwrap().starts_with("this is a text"));

    let foreign = folder.path().join("foreign.db");
    Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    assert!(matches!(refused(&foreign).await, OpenError::Foreign(_)));
    let tables: Vec<String> = Connection::open(&foreign)
        .unwrap()
        .prepare("SELECT name FROM sqlite_schema")
        .unwrap()
        .query_map((), |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(tables, ["t"]);
}

#[tokio::test]
async fn a_file_of_a_newer_version_is_refused() {
    let fixture = Fixture::new().await;
    fixture.store.close().await;
    let newer = schema::SCHEMA_VERSION + 1;
    fixture.tables().pragma_update(None, "user_version", newer).unwrap();
    let error = refused(&fixture.options.path).await;
    assert!(matches!(error, OpenError::Newer { version, .. } if version == newer), "{error}");
}

#[tokio::test]
async fn a_file_of_another_layout_is_refused_and_stays() {
    for change in [
        "UPDATE meta SET layout = 'another'".to_owned(),
        format!("PRAGMA user_version = {}", schema::SCHEMA_VERSION - 1),
        format!("PRAGMA application_id = {}", schema::UNRELEASED_ID),
    ] {
        let fixture = Fixture::new().await;
        fixture.store.close().await;
        let path = fixture.options.path.canonicalize().unwrap();
        fixture.tables().execute_batch(&change).unwrap();
        let before = fs::read(&path).unwrap();
        assert_eq!(refused(&path).await, OpenError::OtherLayout(path.clone()), "{change}");
        assert!(fs::read(&path).unwrap() == before, "{change}");
    }
}

#[tokio::test]
async fn a_start_that_fails_gives_up_the_lock() {
    let fixture = Fixture::new().await;
    fixture.store.close().await;
    fixture.tables().execute_batch("UPDATE meta SET next_id = -1").unwrap();
    for _ in 0..3 {
        let error = refused(&fixture.options.path).await;
        assert!(matches!(error, OpenError::Failed { .. }), "{error}");
        drop(lock::lock(&fixture.options.path, FileMode::default()).unwrap());
    }
}

#[tokio::test]
async fn a_path_that_is_not_a_file_is_named() {
    let folder = TempDir::new().unwrap();
    let missing = folder.path().join("missing");
    assert_eq!(refused(&missing.join("x.db")).await, OpenError::NoFolder(missing));
    let inside = folder.path().to_path_buf();
    assert_eq!(refused(&inside).await, OpenError::NotAFile(inside));
    assert_eq!(refused(Path::new("/")).await, OpenError::NotAFile("/".into()));
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(refused(&file.join("x.db")).await, OpenError::Failed { .. }));
}

#[tokio::test]
async fn a_store_keeps_its_identity() {
    let mut fixture = Fixture::new().await;
    assert_eq!(fixture.store.id(), NEW_ID);
    // The one that it would get if it were new is not its own.
    fixture.options.new_id = StoreId([8; 16]);
    fixture.reopen().await;
    assert_eq!(fixture.store.id(), NEW_ID);
}

#[test]
fn every_refusal_is_a_whole_sentence_about_its_file() {
    let path = || PathBuf::from("some.db");
    for error in [
        OpenError::InUse { path: path(), pid: Some(7) },
        OpenError::InUse { path: path(), pid: None },
        OpenError::Damaged(path()),
        OpenError::Foreign(path()),
        OpenError::Newer { path: path(), version: 3 },
        OpenError::OtherLayout(path()),
        OpenError::CopyExists(path()),
        OpenError::CopyFailed { path: path(), cause: "why".into() },
        OpenError::Migration { path: path(), from: 3, cause: "why".into() },
        OpenError::ReadOnly(path()),
        OpenError::Link(path()),
        OpenError::DiskFull(path()),
        OpenError::Findings { path: path(), findings: 7 },
        OpenError::NotMigrated(path()),
        OpenError::NoFolder(path()),
        OpenError::NotAFile(path()),
        OpenError::Failed { path: path(), cause: "why".into() },
    ] {
        let text = error.to_string();
        assert!(text.contains("'some.db'") && text.ends_with('.'), "{text}");
        // What is wrong, then what to do.
        assert_eq!(text.matches(". ").count(), 1, "{text}");
    }
}
