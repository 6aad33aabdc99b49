//! Loading what few groups need: the past, pieces of forks, and what a sweep removes.

use std::collections::BTreeMap;

use super::{
    super::{
        columns::Columns,
        connect::connection::Connection,
        log::rows,
        node::Node,
        prelude::*,
        read::pool::Reader,
        row::{address, nanos, number},
        schema::WIDE,
    },
    needed::Reads,
    stored::Stored,
};
use crate::{
    commit::{Emptied, Loaded, Needs, PastState, SWEPT_SESSIONS},
    read::{PIECE_BYTES, PIECE_ROWS, event_heads, first_of, past},
    store::group::Failure,
};

/// Seconds after which the row of a connection that no longer writes is removed.
const WRITER_SECS: i64 = 7 * 24 * 3600;

/// Addresses of sessions that may have expired by `about`, for a sweep. They are locked next, and read again.
pub(super) async fn look_up_expired(
    connection: &Connection,
    needs: &[Needs<'_>],
    about: Time,
) -> Result<Vec<SessionKey>> {
    let mut expired = Vec::new();
    if needs.iter().any(|needs| needs.sweep) {
        let sql = "SELECT app_name, user_id, session_id FROM session_expiry
            WHERE (expire_secs, expire_nanos) <= ($1, $2)
            ORDER BY expire_secs, expire_nanos LIMIT $3";
        let limits = [
            (&about.secs() as _, Type::INT8),
            (&nanos(about) as _, Type::INT4),
            (&(SWEPT_SESSIONS as i64) as _, Type::INT8),
        ];
        let found = connection.all(sql, &limits).await?;
        expired = found.iter().map(address).collect::<Result<_>>()?;
        let unused = about.secs().saturating_sub(WRITER_SECS);
        let sql = "DELETE FROM writer WHERE used_secs < $1";
        connection.run(sql, &[(&unused, Type::INT8)]).await?;
    }
    Ok(expired)
}

/// Applications and users that may be empty, for a sweep. They are locked next.
pub(super) async fn look_up_emptied(
    connection: &Connection,
    needs: &[Needs<'_>],
) -> Result<Vec<Node>> {
    if !needs.iter().any(|needs| needs.sweep) {
        return Ok(Vec::new());
    }
    let sql = "SELECT app_name, user_id FROM emptied LIMIT $1";
    let rows = connection.all(sql, &[(&(SWEPT_SESSIONS as i64), Type::INT8)]).await?;
    let node = |row: &Row| {
        Ok(Node { app_name: row.try_get(0)?, user_id: row.try_get(1)?, incarnation: WIDE })
    };
    rows.iter().map(node).collect()
}

/// Whether those that were looked up, and are locked, are in use or named by other rows.
pub(super) async fn read_emptied(
    connection: &Connection,
    looked_up: &[Node],
    loaded: &mut Loaded,
) -> Result<(), Failure> {
    for node in looked_up {
        let key = node.key();
        let used = match node.kind() {
            ScopeKind::Application => {
                "SELECT EXISTS (SELECT 1 FROM session WHERE app_name = $1)
                     OR EXISTS (SELECT 1 FROM scope WHERE app_name = $1 AND user_id > $2)"
            }
            _ => "SELECT EXISTS (SELECT 1 FROM session WHERE app_name = $1 AND user_id = $2)",
        };
        let named =
            "SELECT EXISTS (SELECT 1 FROM scope_log WHERE app_name = $1 AND source_user = $2)
            OR EXISTS (SELECT 1 FROM request
                WHERE app_name = $1 AND user_id = $2 AND incarnation = 0)";
        let ask = async |sql: &'static str| {
            let names = Columns::new(sql)
                .value(Type::TEXT, &node.app_name)
                .value(Type::TEXT, &node.user_id);
            let rows = names.all(connection).await?;
            Ok::<bool, Failure>(rows.first().map_or(Ok(true), |row| row.try_get(0))?)
        };
        let (is_used, is_named) = (ask(used).await?, ask(named).await?);
        loaded.emptied.push(Emptied { key, is_used, is_named });
    }
    Ok(())
}

pub(super) async fn read_version_floor(connection: &Connection) -> Result<Version> {
    let row = connection.one("SELECT version_floor FROM meta WHERE id = 1", &[]).await?;
    row.map_or(Ok(0), |row| number(&row, 0))
}

/// Own states of the past, pieces of forks, and leases.
pub(super) async fn read(
    connection: &Connection,
    reads: &Reads<'_>,
    loaded: &mut Loaded,
    stored: &mut Stored,
) -> Result<(), Failure> {
    for (node, at) in &reads.past {
        let key = (node.incarnation, *at);
        let reader = Reader::new(connection);
        let wanted: &[Sequence] = if *at == 0 { &[] } else { &[*at] };
        let head = event_heads(&reader, node, wanted).await.map_err(again)?;
        let times = head.first().map(|head| (head.event_time, head.commit_time));
        let mut own = PastState { state: BTreeMap::new(), times };
        let mut removed = Vec::new();
        for (name, (value, version)) in past(&reader, node, 0, *at).await.map_err(again)? {
            match value {
                Some(value) => drop(own.state.insert(name, (value, version))),
                None => removed.push((name, version)),
            }
        }
        loaded.past.insert(key, own);
        stored.removed.insert(key, removed);
    }
    for (node, after, up_to) in &reads.pieces {
        let wanted = first_of(&[(*after, *up_to)], false, PIECE_ROWS);
        let piece = rows(connection, node, "sequence", &wanted, Some(PIECE_BYTES)).await?;
        let end = piece.last().map_or(Ok(*up_to), |row| number(row, 0))?;
        loaded.pieces.insert((node.incarnation, *after), end);
    }
    for fork in &reads.forks {
        let lease = "SELECT lease_secs FROM tombstone
            WHERE app_name = $1 AND user_id = $2 AND incarnation = $3 FOR UPDATE";
        for row in Columns::new(lease).node(fork).all(connection).await? {
            if row.try_get::<_, i64>(0)? > loaded.now.secs() {
                loaded.forks.insert(fork.incarnation);
            }
        }
    }
    Ok(())
}

/// A read within a transaction, which ends with its connection.
fn again(error: Error) -> Failure {
    match error {
        Error::StoreUnavailable(cause) => Failure::Again(cause),
        error => error.into(),
    }
}

/// The sessions that have expired, of those that were looked up, and a tombstone that no other replica is working on.
pub(super) async fn read_sweep(
    connection: &Connection,
    looked_up: &[SessionKey],
    loaded: &mut Loaded,
    stored: &mut Stored,
) -> Result<(), Failure> {
    let found = looked_up.iter().filter_map(|key| stored.at(key));
    let expired = found.filter(|found| found.info.expired(loaded.now));
    loaded.expired = expired.map(|found| found.info.clone()).collect();
    let sql = "SELECT app_name, user_id, incarnation FROM tombstone WHERE lease_secs <= $1
        ORDER BY lease_secs LIMIT 1 FOR UPDATE SKIP LOCKED";
    let found = connection.one(sql, &[(&loaded.now.secs(), Type::INT8)]).await?;
    if let Some(row) = found {
        let incarnation = Incarnation(number(&row, 2)?);
        let node = Node { app_name: row.try_get(0)?, user_id: row.try_get(1)?, incarnation };
        stored.tombstone = Some(node);
        loaded.tombstone = Some(incarnation);
        return Ok(());
    }
    let sql = "SELECT app_name, user_id, through FROM ended_scope LIMIT 1 FOR UPDATE SKIP LOCKED";
    if let Some(row) = connection.one(sql, &[]).await? {
        let node = Node { app_name: row.try_get(0)?, user_id: row.try_get(1)?, incarnation: WIDE };
        stored.ended = Some((node, number(&row, 2)?));
        loaded.tombstone = Some(WIDE);
    }
    Ok(())
}
