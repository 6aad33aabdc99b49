//! Migrations: by whoever comes first, side by side with replicas of the version before, tried out, and refused.

use super::*;
use crate::{
    migrate::try_out,
    open_error::OpenError,
    postgres_store::{PostgresStore, open_with},
    schema::Migration,
};
use sessiond_store::{SessionQuery, Store};

/// The steps of an invented next version.
const NEXT: &[Migration] = &[
    MIGRATIONS[0],
    Migration {
        version: 2,
        title: "add a column",
        sql: "ALTER TABLE session ADD COLUMN note TEXT; ALTER TABLE event ADD COLUMN note TEXT",
    },
];

/// As [`NEXT`], with a step that fails in its middle.
const BROKEN: &[Migration] = &[
    MIGRATIONS[0],
    Migration {
        version: 2,
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
    assert_eq!(version(&fixture).await, 2);
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
    assert_eq!(refused, Some(OpenError::Newer { version: 2, newest: 1 }));
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
    assert_eq!(version(&fixture).await, 2);
}

/// With the columns that builds before the first release made, and with the tables of a build between two releases.
#[tokio::test(flavor = "multi_thread")]
async fn another_layout_is_refused_and_stays() {
    let Some(fixture) = Fixture::new().await else { return };
    let connection = fixture.shared.connect().await.unwrap();
    let unreleased = "ALTER TABLE meta DROP COLUMN layout; UPDATE meta SET schema_version = 3";
    let foreign = "DROP TABLE meta; CREATE TABLE meta (id INTEGER); INSERT INTO meta VALUES (1)";
    for other in ["UPDATE meta SET layout = '0123456789abcdef'", unreleased, foreign] {
        connection.batch(other).await.unwrap();
        for migrations in [MIGRATIONS, NEXT] {
            let refused = open(&fixture, migrations).await.err();
            assert_eq!(refused, Some(OpenError::OtherLayout), "{other}");
            let tried = try_out(&fixture.shared.connect().await.unwrap(), migrations, None).await;
            assert_eq!(tried, Err(OpenError::OtherLayout), "{other}");
        }
    }
    assert_eq!(fixture.count("SELECT count(*) FROM meta").await, 1);
    let columns = "SELECT count(*) FROM information_schema.columns
        WHERE table_schema = current_schema() AND table_name = 'meta'";
    assert_eq!(fixture.count(columns).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_tells_the_steps_and_leaves_no_trace() {
    let Some(fixture) = Fixture::new().await else { return };
    let connection = fixture.shared.connect().await.unwrap();
    assert_eq!(try_out(&connection, MIGRATIONS, None).await, Ok(vec![]));
    assert_eq!(try_out(&connection, NEXT, None).await, Ok(vec!["add a column"]));
    assert!(matches!(
        try_out(&connection, BROKEN, None).await,
        Err(OpenError::Migration { version: 2, .. })
    ));
    assert_eq!(version(&fixture).await, 1);
    let columns = "SELECT count(*) FROM information_schema.columns
        WHERE table_schema = current_schema() AND column_name = 'note'";
    assert_eq!(fixture.count(columns).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_fails_leaves_the_database_as_it_was() {
    let Some(fixture) = Fixture::new().await else { return };
    let failed = open(&fixture, BROKEN).await.err();
    assert!(matches!(failed, Some(OpenError::Migration { version: 2, .. })), "{failed:?}");
    assert_eq!(version(&fixture).await, 1);
    let old = open(&fixture, MIGRATIONS).await.unwrap();
    old.create_session(&call(), creation("s")).await.unwrap();
    old.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_may_create_nothing_opens_tables_of_this_version() {
    let Some(fixture) = Fixture::new().await else { return };
    let (schema, role) = (&fixture.schema, format!("{}_writer", fixture.schema));
    let grants = format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role};
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}"
    );
    execute_at(&fixture.server, &grants).await;
    let mut options = fixture.shared.options.clone();
    options.url = options.url.replace("postgres@", &format!("{role}@"));
    assert_ne!(options.url, fixture.shared.options.url);
    let opened = open_with(options.clone(), MIGRATIONS).await.unwrap();
    let opened: Arc<dyn Store> = Arc::new(opened);
    opened.create_session(&call(), creation("s")).await.unwrap();
    opened.close().await;
    let shared = Shared::new(options).unwrap();
    let steps = try_out(&shared.connect().await.unwrap(), MIGRATIONS, None).await.unwrap();
    assert_eq!(steps, Vec::<&str>::new());
    execute_at(&fixture.server, &format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_made_once_and_kept() {
    let Some(fixture) = Fixture::of_partitions("4").await else { return };
    let made = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'event'::regclass";
    assert_eq!(fixture.count(made).await, 4);
    let fill = "SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace
        AND relname ~ '^session_[0-9]$' AND reloptions @> ARRAY['fillfactor=70']";
    assert_eq!(fixture.count(fill).await, 4);
    for (number, expected) in
        [(None, None), (Some("4"), None), (Some("1"), Some(1)), (Some("8"), Some(8))]
    {
        let mut options = fixture.shared.options.clone();
        options.settings.partitions = number.map(|number| number.parse().unwrap());
        let partitions = options.settings.partitions;
        let refused = expected.map(|wanted| OpenError::OtherPartitions { present: 4, wanted });
        let tried = try_out(&fixture.shared.connect().await.unwrap(), MIGRATIONS, partitions).await;
        assert_eq!(tried.err(), refused);
        assert_eq!(open_with(options, MIGRATIONS).await.err(), refused);
    }
    // The next step finds them.
    open(&fixture, NEXT).await.unwrap().close().await;
    assert_eq!(version(&fixture).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tables_of_another_schema_of_the_path_are_another_store() {
    let Some(fixture) = Fixture::new().await else { return };
    let (schema, own) = (&fixture.schema, format!("{}_own", fixture.schema));
    execute_at(&fixture.server, &format!("CREATE SCHEMA {own}")).await;
    let mut options = fixture.shared.options.clone();
    let path = format!("search_path%3D{own}%2C{schema}");
    options.url = options.url.replace(&format!("search_path%3D{schema}"), &path);
    assert_ne!(options.url, fixture.shared.options.url);
    let opened: Arc<dyn Store> = Arc::new(open_with(options, MIGRATIONS).await.unwrap());
    opened.create_session(&call(), creation("s")).await.unwrap();
    opened.close().await;
    assert_eq!(fixture.count("SELECT count(*) FROM session").await, 0);
    assert_eq!(fixture.count(&format!("SELECT count(*) FROM {own}.session")).await, 1);
    execute_at(&fixture.server, &format!("DROP SCHEMA {own} CASCADE")).await;
}
