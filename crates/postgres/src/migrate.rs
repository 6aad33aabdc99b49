//! Numbered migrations: the first replica applies them while the others wait.
//!
//! A database has the version of its tables and the hash of the statements that made them. Another hash is refused: a build between two
//! releases wrote it. A release that changes the tables adds a step to `MIGRATIONS`. Replicas of the release before run beside it for a while, so a step
//! leaves what they read and write.

use tokio_postgres::error::SqlState;
use tracing::info;

use super::{
    open_error::OpenError,
    options::Partitions,
    prelude::*,
    row::number,
    schema::{META, Migration, layout, statements},
};

/// Times that the table of the version is made, while others make it at the same moment.
const ATTEMPTS: usize = 10;

/// A step that waits for a table holds up the calls of all replicas that want this table after it.
const LOCK_WAIT: &str = "SET LOCAL lock_timeout = '2s'";

/// What a database says of its tables.
struct Present {
    /// 0 before the first migration.
    version: i32,
    layout: String,
    id: StoreId,
    partitions: Partitions,
}

/// Brings the tables to the newest version. An empty database gets this identity, and as many partitions. Returns the identity.
pub(super) async fn migrate(
    connection: &Connection,
    migrations: &[Migration],
    new_id: StoreId,
    partitions: Option<Partitions>,
) -> Result<StoreId, OpenError> {
    make_meta(connection).await?;
    connection.begin().await?;
    let insert = "INSERT INTO meta (id, schema_version, layout, store_id, next_id, partitions)
        VALUES (1, 0, '', $1, 1, $2) ON CONFLICT (id) DO NOTHING";
    let made = i32::from(partitions.unwrap_or(Partitions::ONE).get());
    let insert = Columns::new(insert).value(Type::BYTEA, &new_id.0[..]).value(Type::INT4, made);
    insert.all(connection).await?;
    // The second replica waits here.
    let present = present(connection, " FOR UPDATE").await?;
    let id = present.as_ref().map_or(new_id, |present| present.id);
    let applied = apply(connection, migrations, present, partitions).await;
    match applied {
        Ok(steps) => {
            connection.commit().await?;
            for Migration { version, title, .. } in steps {
                info!(version, title, "applied a migration");
            }
            Ok(id)
        }
        Err(error) => {
            connection.roll_back().await?;
            Err(error)
        }
    }
}

/// The steps that opening a database would apply, as titles. They are tried and rolled back.
pub(super) async fn try_out(
    connection: &Connection,
    migrations: &'static [Migration],
    partitions: Option<Partitions>,
) -> Result<Vec<&'static str>, OpenError> {
    connection.begin().await?;
    if !has_meta(connection).await? {
        connection.batch(META).await?;
    }
    let present = present(connection, "").await?;
    let applied = apply(connection, migrations, present, partitions).await;
    connection.roll_back().await?;
    Ok(applied?.iter().map(|step| step.title).collect())
}

/// Gives a database another identity. Errors: also if it has no tables of this version.
pub(super) async fn change_id(connection: &Connection, id: StoreId) -> Result<(), OpenError> {
    connection.begin().await?;
    let present =
        if has_meta(connection).await? { present(connection, " FOR UPDATE").await? } else { None };
    if present.is_none_or(|it| it.layout != layout(super::schema::MIGRATIONS)) {
        connection.roll_back().await?;
        return Err(OpenError::OtherLayout);
    }
    let set = Columns::new("UPDATE meta SET store_id = $1 WHERE id = 1");
    set.value(Type::BYTEA, &id.0[..]).all(connection).await?;
    Ok(connection.commit().await?)
}

async fn make_meta(connection: &Connection) -> Result<(), OpenError> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        // The right to create is asked for also where the table is there.
        if has_meta(connection).await? {
            return Ok(());
        }
        match connection.batch(META).await {
            // Two who make a table at the same moment collide in the catalogue, whatever the statement says.
            Err(error) if attempt < ATTEMPTS && is_made_elsewhere(&error) => {}
            made => return Ok(made?),
        }
    }
}

/// Of the schema in which tables are made. Another of the search path may be another store's.
async fn has_meta(connection: &Connection) -> Result<bool> {
    let sql = "SELECT to_regclass(quote_ident(current_schema()) || '.meta') IS NOT NULL";
    let row = connection.one(sql).await?;
    row.map_or(Ok(false), |row| row.try_get(0))
}

fn is_made_elsewhere(error: &Fault) -> bool {
    let made = [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_OBJECT];
    error.code().is_some_and(|code| made.contains(code))
}

async fn present(connection: &Connection, lock: &str) -> Result<Option<Present>, OpenError> {
    let columns = "schema_version, layout, store_id, partitions";
    let sql = format!("SELECT {columns} FROM meta WHERE id = 1{lock}");
    let Some(row) = connection.one(&sql).await? else { return Ok(None) };
    let id = row.try_get::<&[u8]>(2)?.try_into().map_err(|_| OpenError::OtherLayout)?;
    let partitions = row.try_get::<i32>(3)?.try_into().map_err(|()| OpenError::OtherLayout)?;
    let (version, layout, id) = (row.try_get(0)?, row.try_get(1)?, StoreId(id));
    Ok(Some(Present { version, layout, id, partitions }))
}

/// Applies the steps behind those that a database has.
async fn apply<'m>(
    connection: &Connection,
    migrations: &'m [Migration],
    present: Option<Present>,
    partitions: Option<Partitions>,
) -> Result<&'m [Migration], OpenError> {
    let newest = migrations.last().map_or(0, |step| step.version);
    let version = present.as_ref().map_or(0, |present| present.version);
    if version > newest {
        return Err(OpenError::Newer { version, newest });
    }
    let applied = migrations.iter().take_while(|step| step.version <= version).count();
    let (applied, steps) = migrations.split_at(applied);
    let made = present.as_ref().map(|present| present.partitions).or(partitions);
    if present.is_some_and(|it| version > 0 && it.layout != layout(applied)) {
        return Err(OpenError::OtherLayout);
    }
    let made = made.unwrap_or(Partitions::ONE);
    if let Some(wanted) = partitions.filter(|wanted| *wanted != made) {
        let (present, wanted) = (made.get(), wanted.get());
        return Err(OpenError::OtherPartitions { present, wanted });
    }
    if !steps.is_empty() {
        connection.batch(LOCK_WAIT).await?;
    }
    for Migration { version, sql, .. } in steps {
        let failed =
            |fault: Fault| OpenError::Migration { version: *version, cause: Cause::new(fault).0 };
        let sql = statements(sql, made);
        connection.batch(&sql).await.map_err(failed)?;
    }
    if !steps.is_empty() {
        let set = "UPDATE meta SET schema_version = $1, layout = $2 WHERE id = 1";
        let set = Columns::new(set).value(Type::INT4, newest).text(layout(migrations));
        set.all(connection).await?;
    }
    Ok(steps)
}

/// A block of numbers that were never used: the first of `count`.
pub(super) async fn take_numbers(connection: &Connection, count: u64) -> Result<u64> {
    let sql = "UPDATE meta SET next_id = next_id + $1 WHERE id = 1 RETURNING next_id - $1";
    let rows = Columns::new(sql).number(count).all(connection).await?;
    rows.first().map_or(Ok(0), |row| number(row, 0))
}
