//! Reading the state of a node as of a version.

use super::{
    columns::Columns,
    connect::connection::Connection,
    log::{PIECE_BYTES, PIECE_ROWS, first_of, rows},
    node::Node,
    prelude::*,
    row::{Value, logged, number},
    schema::WIDE,
};
use crate::store::past::{Past, fold, require_own};

/// A node's keys as of a version, which its log has reached.
pub(super) async fn past(connection: &Connection, node: &Node, at: Version) -> Result<Past> {
    let (mut past, mut from) = snapshot_before(connection, node, at).await?;
    let version = if node.incarnation == WIDE { "version" } else { "sequence" };
    let columns = format!("{version}, removed, set_json");
    while from < at {
        let wanted = first_of(&[(from, at)], false, PIECE_ROWS);
        for row in rows(connection, node, &columns, &wanted, Some(PIECE_BYTES)).await? {
            from = number(&row, 0)?;
            fold(&mut past, node.kind(), from, logged(&row, node.kind())?);
        }
    }
    Ok(past)
}

/// The newest snapshot up to a version, with its version. A node without a snapshot had no key at version 0.
pub(super) async fn snapshot_before(
    connection: &Connection,
    node: &Node,
    at: Version,
) -> Result<(Past, Version)> {
    let sql = "SELECT version, key_names, key_values, key_versions FROM snapshot
        WHERE app_name = $1 AND user_id = $2 AND incarnation = $3 AND version <= $4
        ORDER BY version DESC LIMIT 1";
    let found = Columns::new(sql).node(node).number(at).all(connection).await?.into_iter().next();
    let Some(row) = found else { return Ok(Default::default()) };
    let names: Vec<&str> = row.try_get(1)?;
    let values: Vec<Option<Value>> = row.try_get(2)?;
    let versions: Vec<i64> = row.try_get(3)?;
    if names.len() != values.len() || names.len() != versions.len() {
        let says = "the arrays of a snapshot differ in length";
        return Err(Error::damaged(Damage::Row, says).into());
    }
    let keys = names.into_iter().zip(values.into_iter().zip(versions));
    let past = keys.map(|(name, (value, version))| {
        (name.into(), (value.map(|Value(json)| json), version.cast_unsigned()))
    });
    let past = past.collect();
    require_own(node.kind(), &past)?;
    Ok((past, number(&row, 0)?))
}
