//! The size of the tables and the number of expired sessions, for metrics.

use super::{super::prelude::*, rows::Reader};
use sessiond_core::read::Rows as _;
use sessiond_store::figures::{COUNTED_SESSIONS, Figures};

/// Of the tables of the schema, with their indexes.
const TABLE_BYTES: &str = "
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
WHERE relnamespace = quote_ident(current_schema())::regnamespace AND relkind = 'r'";

const EXPIRED: &str = "
SELECT count(*) FROM (
    SELECT 1 FROM session WHERE (expire_secs, expire_nanos) <= ($1, $2) LIMIT $3
) AS expired";

pub(super) async fn read(reader: &Reader<'_>) -> Result<Figures, Error> {
    let bytes = Columns::new(TABLE_BYTES).all(reader.connection).await?;
    let expired = Columns::new(EXPIRED).time(reader.now().await);
    let expired = expired.value(Type::INT8, COUNTED_SESSIONS).all(reader.connection).await?;
    let number = |rows: Vec<Row>| rows.first().map_or(Ok(0), |row| row.try_get::<i64>(0));
    Ok(Figures { bytes: number(bytes)?, expired_sessions: number(expired)? })
}
