//! Migrations: by whoever comes first, side by side with replicas of the version before, tried out, and refused.

use super::*;
use crate::store::{
    SessionQuery, Store,
    postgres::{
        migrate::try_out,
        refused::OpenError,
        schema::Migration,
        store::{PostgresStore, open_with},
    },
};

/// The steps of an invented next version.
const NEXT: &[Migration] = &[
    MIGRATIONS[0],
    MIGRATIONS[1],
    Migration {
        version: 3,
        title: "add a column",
        sql: "ALTER TABLE session ADD COLUMN note TEXT; ALTER TABLE event ADD COLUMN note TEXT",
    },
];

/// As [`NEXT`], with a step that fails in its middle.
const BROKEN: &[Migration] = &[
    MIGRATIONS[0],
    MIGRATIONS[1],
    Migration {
        version: 3,
        title: "fail",
        sql: "ALTER TABLE session ADD COLUMN note TEXT; SELECT 1 / 0",
    },
];

async fn open(
    fixture: &Fixture,
    migrations: &'static [Migration],
) -> Result<Arc<dyn Store>, OpenError> {
    let opened: PostgresStore = open_with(fixture.shared.options.clone(), migrations).await?;
    Ok(Arc::new(opened))
}

async fn version(fixture: &Fixture) -> i64 {
    fixture.count("SELECT schema_version::bigint FROM meta").await
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_of_two_versions_run_side_by_side_during_an_upgrade() {
    let Some(fixture) = Fixture::new().await else { return };
    let old = open(&fixture, MIGRATIONS).await.unwrap();
    old.create_session(&call(), creation("s")).await.unwrap();
    // Its statements are prepared before the tables change.
    old.append(&call(), one("s", "1", &[])).await.unwrap();
    let new = open(&fixture, NEXT).await.unwrap();
    assert_eq!(version(&fixture).await, 3);
    for (at, replica) in [&old, &new, &old, &new].into_iter().enumerate() {
        let id = format!("{}", at + 2);
        let appended = replica.append(&call(), one("s", &id, &[])).await.unwrap();
        assert_eq!(appended.info.last_sequence, at as u64 + 2);
        for reader in [&old, &new] {
            let query = SessionQuery::info(SessionRef::Full(address("s")));
            assert_eq!(reader.read_session(query).await.unwrap().info, appended.info);
        }
    }
    // One that starts now would not know what it finds.
    let refused = open(&fixture, MIGRATIONS).await.err();
    assert_eq!(refused, Some(OpenError::Newer { version: 3, newest: 2 }));
    old.close().await;
    new.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_start_at_once_migrate_once() {
    let Some(fixture) = Fixture::new().await else { return };
    let connection = fixture.shared.connect().await.unwrap();
    let drop_all = "DROP SCHEMA {} CASCADE; CREATE SCHEMA {}".replace("{}", &fixture.schema);
    connection.batch(&drop_all).await.unwrap();
    let starts = (0..4_u8).map(|at| {
        let options =
            PostgresOptions { new_id: StoreId([at; 16]), ..fixture.shared.options.clone() };
        tokio::spawn(open_with(options, NEXT))
    });
    let mut ids = Vec::new();
    for start in starts.collect::<Vec<_>>() {
        let store = start.await.unwrap().unwrap();
        ids.push(store.id());
        store.close().await;
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "all have the identity that the first one gave");
    assert_eq!(version(&fixture).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_tells_the_steps_and_leaves_no_trace() {
    let Some(fixture) = Fixture::new().await else { return };
    let connection = fixture.shared.connect().await.unwrap();
    assert_eq!(try_out(&connection, MIGRATIONS).await, Ok(vec![]));
    assert_eq!(try_out(&connection, NEXT).await, Ok(vec!["add a column"]));
    assert!(matches!(
        try_out(&connection, BROKEN).await,
        Err(OpenError::Migration { version: 3, .. })
    ));
    assert_eq!(version(&fixture).await, 2);
    let columns = "SELECT count(*) FROM information_schema.columns
        WHERE table_schema = current_schema() AND column_name = 'note'";
    assert_eq!(fixture.count(columns).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_fails_leaves_the_database_as_it_was() {
    let Some(fixture) = Fixture::new().await else { return };
    let failed = open(&fixture, BROKEN).await.err();
    assert!(matches!(failed, Some(OpenError::Migration { version: 3, .. })), "{failed:?}");
    assert_eq!(version(&fixture).await, 2);
    let old = open(&fixture, MIGRATIONS).await.unwrap();
    old.create_session(&call(), creation("s")).await.unwrap();
    old.close().await;
}
