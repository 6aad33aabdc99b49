//! Modes of the files that a store makes, and links beside its file.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::PathBuf,
};

use super::*;

/// The modes of all files of a folder, by their names.
fn modes(folder: &Path) -> Vec<(String, u32)> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let mode = |entry: fs::DirEntry| {
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        (entry.file_name().into_string().unwrap(), mode)
    };
    let mut modes: Vec<_> = entries.map(mode).collect();
    modes.sort();
    modes
}

#[tokio::test]
async fn every_file_of_a_new_store_has_its_mode() {
    for (file_mode, mode) in [("0600", 0o600), ("0640", 0o640), ("0660", 0o660)] {
        let file_mode = file_mode.parse().unwrap();
        let fixture = Fixture::with(|options| SqliteOptions { file_mode, ..options }).await;
        fixture.create("u", "s").await;
        let names = ["test.db", "test.db-lock", "test.db-reserve", "test.db-shm", "test.db-wal"];
        let expected = names.map(|name| (name.to_owned(), mode));
        assert_eq!(modes(fixture.folder.path()), expected);
        fixture.store.close().await;
    }
}

#[tokio::test]
async fn files_that_are_there_keep_their_modes_and_new_ones_get_that_of_the_database() {
    let mut fixture = Fixture::new().await;
    fixture.store.close().await;
    let path = |suffix: &str| fixture.folder.path().join(format!("test.db{suffix}"));
    let set = |suffix, mode| {
        fs::set_permissions(path(suffix), Permissions::from_mode(mode)).unwrap();
    };
    set("", 0o644);
    set("-reserve", 0o400);
    fs::remove_file(path("-lock")).unwrap();
    fixture.store = open(fixture.options.clone()).await.unwrap();
    fixture.create("u", "s").await;
    let expected = [("", 0o644), ("-lock", 0o644), ("-reserve", 0o400), ("-shm", 0o644)];
    let expected = expected.into_iter().chain([("-wal", 0o644)]);
    let expected: Vec<_> =
        expected.map(|(suffix, mode)| (format!("test.db{suffix}"), mode)).collect();
    assert_eq!(modes(fixture.folder.path()), expected);
    fixture.store.close().await;
}

/// Work on a database file.
type Opening = fn(&Path) -> Result<(), OpenError>;

/// Closes a store.
fn end(store: SqliteStore) {
    store.readers.close();
    store.writes.close();
    store.threads.lock().unwrap().drain(..).for_each(join);
}

struct Silent;

impl verify::Observer for Silent {
    fn found(&mut self, finding: &verify::Finding) {
        panic!("{finding:?}");
    }

    fn progress(&mut self, _: verify::Progress) {}
}

/// All work that opens a file.
const OPENINGS: [Opening; 5] = [
    |path| start(SqliteOptions::new(path, NEW_ID)).map(end),
    |path| verify::verify(path, &mut Silent).map(drop),
    |path| compact(path).map(drop),
    |path| migrate_file(path).map(drop),
    |path| dry_run(path).map(drop),
];

/// A closed database, and a file of somebody else.
async fn closed() -> (TempDir, PathBuf, PathBuf) {
    let Fixture { folder, store, options, .. } = Fixture::new().await;
    store.close().await;
    let victim = folder.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    (folder, options.path, victim)
}

#[tokio::test]
async fn a_link_beside_a_database_is_refused_and_its_target_stays() {
    let (folder, database, victim) = closed().await;
    let (whole, missing) = (database.canonicalize().unwrap(), folder.path().join("missing"));
    for suffix in ["-wal", "-shm", "-journal", "-lock", "-reserve"] {
        let [link, shown] =
            [&database, &whole].map(|path| PathBuf::from(format!("{}{suffix}", path.display())));
        for target in [&victim, &missing] {
            let _ = fs::remove_file(&link);
            symlink(target, &link).unwrap();
            for opening in OPENINGS {
                assert_eq!(opening(&database), Err(OpenError::Link(shown.clone())));
                assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
                assert!(!missing.exists());
            }
        }
        fs::remove_file(&link).unwrap();
    }
    for opening in OPENINGS {
        assert_eq!(opening(&database), Ok(()));
    }
}

#[tokio::test]
async fn what_is_made_anew_replaces_a_link_and_its_target_stays() {
    let (folder, database, victim) = closed().await;
    let link = folder.path().join("test.db-reserve.new");
    symlink(&victim, &link).unwrap();
    let lock = Arc::new(lock::lock(&database, FileMode::default()).unwrap());
    let mut disk = Disk::new(lock, true);
    // The disk has space, so the first write finds it, with a reserve made anew.
    let metrics = Metrics::default();
    disk.admit(&mut Vec::new(), Time::new(10, 0).unwrap(), &metrics.writes);
    assert!(!disk.is_full() && !link.exists());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

#[tokio::test]
async fn a_database_whose_name_is_a_link_to_nothing_is_refused() {
    let folder = TempDir::new().unwrap();
    let (link, missing) = (folder.path().join("link.db"), folder.path().join("missing"));
    symlink(&missing, &link).unwrap();
    let refused = start(SqliteOptions::new(&link, NEW_ID)).map(drop).unwrap_err();
    assert!(matches!(refused, OpenError::Link(_)), "{refused}");
    assert!(!missing.exists());
}
