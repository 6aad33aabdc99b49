//! Migrations, with a step that no release has yet.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
};

use super::{
    migrate::{MIGRATIONS, Migration, migrate, open_with, try_out},
    schema::{LAYOUT, SCHEMA_VERSION},
    *,
};

const STEPS: &[Migration] = &[
    Migration {
        from: SCHEMA_VERSION,
        layout: "",
        title: "add a table",
        apply: |connection| {
            connection.execute_batch("CREATE TABLE added (x); INSERT INTO added VALUES (1)")
        },
    },
    Migration {
        from: SCHEMA_VERSION + 1,
        layout: "",
        title: "add a column",
        apply: |connection| connection.execute_batch("ALTER TABLE added ADD COLUMN y DEFAULT 2"),
    },
];

const FAILING: &[Migration] = &[
    Migration { ..STEPS[0] },
    Migration {
        apply: |connection| connection.execute_batch("ALTER TABLE missing ADD COLUMN y"),
        ..STEPS[1]
    },
];

const INTERRUPTED: &[Migration] =
    &[Migration { ..STEPS[0] }, Migration { apply: |_| panic!("interrupted"), ..STEPS[1] }];

/// The file cannot grow any more.
const WITHOUT_SPACE: &[Migration] = &[
    Migration { ..STEPS[0] },
    Migration {
        apply: |connection| {
            let grow = "PRAGMA max_page_count = 1; INSERT INTO added VALUES (zeroblob(100000))";
            connection.execute_batch(grow)
        },
        ..STEPS[1]
    },
];

/// Moves texts to another table.
const MOVING: &[Migration] = &[Migration {
    apply: |connection| {
        let sql = "CREATE TABLE moved AS SELECT x FROM original; UPDATE original SET x = NULL";
        connection.execute_batch(sql)
    },
    ..STEPS[0]
}];

/// A file with a session, and what is beside it.
async fn filled() -> (Fixture, PathBuf) {
    let fixture = Fixture::new().await;
    fixture.create("u", "s").await;
    fixture.append("s", "1", &[("k", "1")]).await;
    fixture.store.close().await;
    let path = fixture.options.path.clone();
    (fixture, path)
}

fn version(path: &Path) -> i32 {
    let connection = Connection::open(path).unwrap();
    connection.query_row("PRAGMA user_version", (), |row| row.get(0)).unwrap()
}

fn files(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|it| it.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| !["test.db-lock", "test.db-reserve"].contains(&name.as_str()));
    names.sort();
    names
}

#[test]
fn the_steps_lead_from_the_first_release_to_this_version() {
    let from: Vec<i32> = MIGRATIONS.iter().map(|step| step.from).collect();
    assert_eq!(from, (1..SCHEMA_VERSION).collect::<Vec<_>>());
}

#[tokio::test]
async fn all_steps_are_applied_after_a_copy() {
    let (fixture, path) = filled().await;
    let mut connection = fixture.tables();
    migrate(&path, &mut connection, STEPS).unwrap();
    assert_eq!(version(&path), SCHEMA_VERSION + 2);
    let added: (i64, i64) = connection
        .query_row("SELECT x, y FROM added", (), |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    assert_eq!(added, (1, 2));
    drop(connection);
    assert_eq!(files(fixture.folder.path()), ["test.db", "test.db.v1.bak"]);
    // The copy is a store as it was.
    let copy = fixture.folder.path().join("test.db.v1.bak");
    assert_eq!(version(&copy), SCHEMA_VERSION);
    let store = open(SqliteOptions::new(&copy, StoreId([8; 16]))).await.unwrap();
    assert_eq!(store.id(), NEW_ID);
    assert_eq!(store.read_session(query("s")).await.unwrap().info.last_sequence, 1);
    store.close().await;
    // The migrated file is newer than this program.
    let refused = open(fixture.options.clone()).await.err().unwrap();
    assert_eq!(
        refused,
        OpenError::Newer { path: path.canonicalize().unwrap(), version: SCHEMA_VERSION + 2 }
    );
}

/// An older layout that no release has: labels lay elsewhere.
const OLDER: Migration = Migration {
    from: SCHEMA_VERSION - 1,
    layout: "0123456789abcdef",
    title: "move labels",
    apply: |connection| {
        connection.execute_batch(
            "UPDATE session SET labels = (SELECT labels FROM label WHERE session = session.id);
             DROP TABLE label",
        )
    },
};

#[tokio::test]
async fn a_file_of_an_older_layout_is_migrated_as_it_is_opened() {
    let (fixture, path) = filled().await;
    let make_older = format!(
        "CREATE TABLE label AS SELECT id AS session, '{{\"kind\":\"cart\"}}' AS labels FROM session;
         UPDATE meta SET layout = '{}'; PRAGMA user_version = {}",
        OLDER.layout, OLDER.from
    );
    fixture.tables().execute_batch(&make_older).unwrap();
    // Without the step, or with that of another layout of the same version, it is refused and stays.
    let other = Migration { layout: "fedcba9876543210", ..OLDER };
    let before = fs::read(&path).unwrap();
    for steps in [&[][..], &[other]] {
        let refused = open_with(&path, NEW_ID, steps).err().unwrap();
        assert_eq!(refused, OpenError::OtherLayout(path.clone()));
        assert!(fs::read(&path).unwrap() == before);
    }
    drop(open_with(&path, StoreId([8; 16]), &[OLDER]).unwrap());
    assert_eq!(version(&path), SCHEMA_VERSION);
    let store = open(fixture.options.clone()).await.unwrap();
    let info = store.read_session(query("s")).await.unwrap().info;
    assert_eq!(info.labels.as_map().get("kind").map(String::as_str), Some("cart"));
    store.close().await;
    assert_eq!(version(&fixture.folder.path().join("test.db.v0.bak")), OLDER.from);
}

/// Moving rows leaves no copies of them in the file, which the deletion of a session would not reach.
#[tokio::test]
async fn a_step_that_moves_rows_leaves_no_copies_of_them() {
    let (fixture, path) = filled().await;
    let fill = "PRAGMA secure_delete = FAST;
        CREATE TABLE original AS WITH RECURSIVE n(n) AS
            (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 2000)
        SELECT 'secret ' || n || hex(zeroblob(n % 300)) AS x FROM n";
    fixture.tables().execute_batch(fill).unwrap();
    let mut connection = fixture.tables();
    let secrets = |connection: &Connection| {
        for pragma in ["PRAGMA incremental_vacuum", "PRAGMA wal_checkpoint(TRUNCATE)"] {
            let mut statement = connection.prepare(pragma).unwrap();
            let mut rows = statement.query(()).unwrap();
            while rows.next().unwrap().is_some() {}
        }
        memchr::memmem::find_iter(&fs::read(&path).unwrap(), "secret ").count()
    };
    assert_eq!(secrets(&connection), 2000);
    migrate(&path, &mut connection, MOVING).unwrap();
    assert_eq!(secrets(&connection), 2000, "in their new place only");
    connection.execute_batch("DELETE FROM moved").unwrap();
    assert_eq!(secrets(&connection), 0);
}

#[tokio::test]
async fn a_file_of_this_version_is_not_copied() {
    let (fixture, path) = filled().await;
    migrate(&path, &mut fixture.tables(), &[]).unwrap();
    assert_eq!(try_out(&path, &STEPS[1..]), Ok(vec![]));
    assert_eq!(dry_run(&path), Ok(vec![]));
    assert_eq!(version(&path), SCHEMA_VERSION);
    assert_eq!(files(fixture.folder.path()), ["test.db"]);
}

#[tokio::test]
async fn a_failed_step_leaves_the_file_as_it_was() {
    let (fixture, path) = filled().await;
    let error = migrate(&path, &mut fixture.tables(), FAILING).unwrap_err();
    let OpenError::Migration { from, .. } = &error else { panic!("{error}") };
    assert_eq!(*from, SCHEMA_VERSION + 1);
    assert_eq!(version(&path), SCHEMA_VERSION);
    assert_eq!(fixture.count("SELECT count(*) FROM sqlite_schema WHERE name = 'added'"), 0);
    // Nobody needs a copy of it.
    assert_eq!(files(fixture.folder.path()), ["test.db"]);
    let store = open(fixture.options.clone()).await.unwrap();
    assert_eq!(store.read_session(query("s")).await.unwrap().info.last_sequence, 1);
    store.close().await;
}

#[tokio::test]
async fn steps_without_space_tell_of_the_disk() {
    let (fixture, path) = filled().await;
    let refused = migrate(&path, &mut fixture.tables(), WITHOUT_SPACE).unwrap_err();
    assert_eq!(refused, OpenError::DiskFull(path.clone()));
    assert_eq!(version(&path), SCHEMA_VERSION);
    assert_eq!(files(fixture.folder.path()), ["test.db"]);
}

#[tokio::test]
async fn an_interrupted_migration_starts_again() {
    let (fixture, path) = filled().await;
    let mut connection = fixture.tables();
    let interrupted = AssertUnwindSafe(|| {
        drop(migrate(&path, &mut connection, INTERRUPTED));
    });
    assert!(catch_unwind(interrupted).is_err());
    drop(connection);
    assert_eq!(version(&path), SCHEMA_VERSION);
    migrate(&path, &mut fixture.tables(), STEPS).unwrap();
    assert_eq!(files(fixture.folder.path()), ["test.db", "test.db.v1.bak"]);
    assert_eq!(version(&fixture.folder.path().join("test.db.v1.bak")), SCHEMA_VERSION);
}

#[tokio::test]
async fn a_copy_may_be_read_by_nobody_else_than_the_file() {
    let (fixture, path) = filled().await;
    for mode in [0o600, 0o666] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        migrate(&path, &mut fixture.tables(), &STEPS[..1]).unwrap();
        let copy = fixture.folder.path().join("test.db.v1.bak");
        let found = fs::metadata(&copy).unwrap().permissions().mode();
        assert_eq!(found & 0o777, mode, "{found:o}");
        fs::rename(copy, &path).unwrap();
    }
}

#[tokio::test]
async fn an_earlier_copy_is_not_overwritten() {
    let (fixture, path) = filled().await;
    let copy = fixture.folder.path().join("test.db.v1.bak");
    fs::write(&copy, "an earlier copy").unwrap();
    let refused = migrate(&path, &mut fixture.tables(), STEPS).unwrap_err();
    assert_eq!(refused, OpenError::CopyExists(copy.clone()));
    assert_eq!(fs::read_to_string(&copy).unwrap(), "an earlier copy");
    assert_eq!(version(&path), SCHEMA_VERSION);
    // What an interrupted copy left is no copy.
    fs::remove_file(&copy).unwrap();
    fs::write(fixture.folder.path().join("test.db.v1.bak.partial"), "a part").unwrap();
    migrate(&path, &mut fixture.tables(), STEPS).unwrap();
    assert_eq!(files(fixture.folder.path()), ["test.db", "test.db.v1.bak"]);
}

#[tokio::test]
async fn a_copy_that_cannot_be_made_stops_the_migration() {
    let (fixture, path) = filled().await;
    // A folder in the place of the copy's first name.
    fs::create_dir(fixture.folder.path().join("test.db.v1.bak.partial")).unwrap();
    let refused = migrate(&path, &mut fixture.tables(), STEPS).unwrap_err();
    assert!(matches!(refused, OpenError::CopyFailed { .. }), "{refused}");
    assert_eq!(version(&path), SCHEMA_VERSION);
}

#[tokio::test]
async fn a_dry_run_tells_the_steps_and_leaves_no_trace() {
    let (fixture, path) = filled().await;
    let before = fs::read(&path).unwrap();
    let known = |steps: &[Migration]| {
        steps.iter().map(|step| Migration { layout: &LAYOUT, ..*step }).collect::<Vec<_>>()
    };
    assert_eq!(try_out(&path, &known(STEPS)), Ok(vec!["add a table", "add a column"]));
    let failed = try_out(&path, &known(FAILING)).unwrap_err();
    assert!(matches!(failed, OpenError::Migration { .. }), "{failed}");
    assert!(fs::read(&path).unwrap() == before, "the file is unchanged");
    assert_eq!(files(fixture.folder.path()), ["test.db"]);
    assert_eq!(dry_run(&fixture.folder.path().join("missing.db")), Ok(vec![]));
    let foreign = fixture.folder.path().join("foreign.db");
    Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    assert!(matches!(dry_run(&foreign), Err(OpenError::Foreign(_))));
    // It needs the file for itself.
    let store = open(fixture.options.clone()).await.unwrap();
    assert!(matches!(try_out(&path, STEPS), Err(OpenError::InUse { .. })));
    store.close().await;
}
