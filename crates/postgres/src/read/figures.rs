//! The size of the tables and the number of expired sessions, for metrics.

use super::{super::prelude::*, rows::Reader};
use sessiond_core::read::Rows as _;
use sessiond_store::figures::{COUNTED_SESSIONS, Figures};

/// Every table of the store. Others may be in its schema.
const TABLES: [&str; 15] = [
    "meta",
    "scope",
    "emptied",
    "ended_scope",
    "session",
    "session_name",
    "session_list",
    "event",
    "marker",
    "state",
    "scope_log",
    "snapshot",
    "request",
    "tombstone",
    "writer",
];

/// A table without partitions has no tree.
const TABLE_BYTES: &str = "
SELECT coalesce(sum(pg_total_relation_size(coalesce(relid, to_regclass(name)))), 0)::bigint
FROM unnest($1) AS name LEFT JOIN LATERAL pg_partition_tree(to_regclass(name)) AS tree ON TRUE";

const EXPIRED: &str = "
SELECT count(*) FROM (
    SELECT 1 FROM session WHERE (expire_secs, expire_nanos) <= ($1, $2) LIMIT $3
) AS expired";

pub(super) async fn read(reader: &Reader<'_>) -> Result<Figures, Error> {
    let bytes = Columns::new(TABLE_BYTES).texts(TABLES).all(reader.connection).await?;
    let expired = Columns::new(EXPIRED).time(reader.now().await);
    let expired = expired.value(Type::INT8, COUNTED_SESSIONS).all(reader.connection).await?;
    let number = |rows: Vec<Row>| rows.first().map_or(Ok(0), |row| row.try_get::<i64>(0));
    Ok(Figures { bytes: number(bytes)?, expired_sessions: number(expired)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{META, MIGRATIONS};

    #[test]
    fn the_size_is_that_of_every_table() {
        let mut made = Vec::new();
        for sql in [META].into_iter().chain(MIGRATIONS.iter().map(|migration| migration.sql)) {
            let tables = sql.split("CREATE TABLE ").skip(1);
            let names = tables.map(|text| text.trim_start_matches("IF NOT EXISTS "));
            made.extend(names.filter_map(|text| text.split(' ').next()));
        }
        assert_eq!(made, TABLES);
    }
}
