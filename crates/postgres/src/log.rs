//! Rows of a log: the events of a session, or the changes of an application or a user.
//!
//! Versions are dense, so that a read names every row that it wants.

use super::{prelude::*, schema::SHARED};
use sessiond_store::rows::EVENT_BYTES;

/// Bytes of the long columns of a change of an application or a user.
const CHANGE_BYTES: &str =
    "coalesce(octet_length(set_json), 0) + coalesce(octet_length(removed), 0)";

/// Where a node's log lies.
struct Log {
    table: &'static str,
    version: &'static str,
    bytes: &'static str,
    /// `incarnation` is part of the key of events only.
    condition: &'static str,
}

impl Log {
    fn of(node: &Node) -> Self {
        match node.incarnation == SHARED {
            true => Self {
                table: "scope_log",
                version: "version",
                bytes: CHANGE_BYTES,
                condition: "place = $1 AND app_name = $2 AND user_id = $3 AND $4::bigint = 0",
            },
            false => Self {
                table: "event",
                version: "sequence",
                bytes: EVENT_BYTES,
                condition: "place = $1 AND app_name = $2 AND user_id = $3 AND incarnation = $4",
            },
        }
    }
}

/// The rows of versions, which ascend or descend, in that order, until their long columns have `max_bytes`; `None`: no column is long.
/// The first column is the version.
pub(super) async fn rows(
    connection: &Connection,
    node: &Node,
    columns: &str,
    versions: &[Version],
    max_bytes: Option<usize>,
) -> Result<Vec<Row>> {
    let (Some(&first), Some(&last)) = (versions.first(), versions.last()) else {
        return Ok(Vec::new());
    };
    let Log { table, version, bytes, condition } = Log::of(node);
    let (low, high) = (first.min(last), first.max(last));
    let order = if last < first { "DESC" } else { "ASC" };
    // Of a range the rows come in their order, without being sorted.
    let among = match ((high - low) as usize >= versions.len(), max_bytes) {
        (false, _) => String::new(),
        (true, None) => format!("AND {version} = ANY($7)"),
        (true, Some(_)) => format!("AND {version} = ANY($8)"),
    };
    let from = format!("FROM {table} WHERE {condition} AND {version} BETWEEN $5 AND $6 {among}");
    let sql = match max_bytes {
        None => format!("SELECT {columns} {from} ORDER BY {version} {order}"),
        Some(_) => format!(
            "SELECT {columns} FROM (
                 SELECT *, sum({bytes}) OVER (ORDER BY {version} {order}) - ({bytes}) AS bytes_before
                 {from}) log
             WHERE bytes_before < $7 ORDER BY {version} {order}"
        ),
    };
    let mut select = Columns::new(sql).node(node).number(low).number(high);
    if let Some(max_bytes) = max_bytes {
        select = select.number(max_bytes as u64);
    }
    if !among.is_empty() {
        select = select.numbers(versions.iter().copied());
    }
    select.all(connection).await
}
