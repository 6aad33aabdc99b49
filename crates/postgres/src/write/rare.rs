//! Loading what few groups need: the past, pieces of forks, and what a sweep removes.

use std::collections::BTreeMap;

use super::{
    super::{
        log::rows,
        prelude::*,
        read::pool::Reader,
        row::{address, number},
        schema::WIDE,
    },
    stored::{Removed, Stored, scope_key},
};
use sessiond_core::{
    commit::{Address, Emptied, Loaded, Needs, PastState, SWEPT_SESSIONS},
    read::{PIECE_BYTES, PIECE_ROWS, event_heads, first_of, past},
};

/// Seconds after which the row of a connection that no longer writes is removed.
const WRITER_SECS: i64 = 7 * 24 * 3600;

/// What a sweep may end. It is locked next.
#[derive(Default)]
pub(super) struct Swept {
    /// Sessions that may have expired.
    pub(super) expired: Vec<SessionKey>,
    /// Applications and users that may be empty.
    pub(super) emptied: Vec<Node>,
}

/// Looks for what may have expired by `about`, or be empty, and removes the rows of connections that write no longer.
pub(super) async fn look_up_swept(connection: &Connection, about: Time) -> Result<Swept> {
    let limit = SWEPT_SESSIONS as u64;
    let sql = "SELECT app_name, user_id, session_id FROM session
        WHERE (expire_secs, expire_nanos) <= ($1, $2)
        ORDER BY expire_secs, expire_nanos LIMIT $3";
    let expired = Columns::new(sql).time(about).number(limit).all(connection).await?;
    let unused = about.secs().saturating_sub(WRITER_SECS);
    let delete = Columns::new("DELETE FROM writer WHERE used_secs < $1");
    delete.value(Type::INT8, unused).all(connection).await?;
    let sql = "SELECT app_name, user_id, 0::bigint FROM emptied LIMIT $1";
    let emptied = Columns::new(sql).number(limit).all(connection).await?;
    Ok(Swept {
        expired: expired.iter().map(address).collect::<Result<_>>()?,
        emptied: emptied.iter().map(node).collect::<Result<_>>()?,
    })
}

/// A node, in the first columns.
fn node(row: &Row) -> Result<Node> {
    let incarnation = Incarnation(number(row, 2)?);
    Ok(Node { app_name: row.try_get(0)?, user_id: row.try_get(1)?, incarnation })
}

/// Whether those that were looked up, and are locked, are in use or named by other rows.
async fn read_emptied(
    connection: &Connection,
    looked_up: &[Node],
    loaded: &mut Loaded,
) -> Result<()> {
    for node in looked_up {
        let key = scope_key(node);
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
            let names = Columns::new(sql).text(&node.app_name).text(&node.user_id);
            let rows = names.all(connection).await?;
            rows.first().map_or(Ok(true), |row| row.try_get(0))
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
    needs: &[Needs<'_>],
    loaded: &mut Loaded,
    stored: &mut Stored,
) -> Result<()> {
    for needs in needs {
        let Some(Address::Session(key)) = needs.address else { continue };
        let Some(session) = loaded.addresses.get(key).copied().flatten() else { continue };
        let last_sequence = loaded.sessions.get(&session).map_or(0, |it| it.info.last_sequence);
        if let Some(at) = needs.past.filter(|at| *at <= last_sequence) {
            let (past, removed) = read_past(connection, &Node::session(key, session), at).await?;
            loaded.past.insert((session, at), past);
            stored.removed.insert((session, at), removed);
        }
        if let Some((from, after, up_to)) = needs.copy {
            let wanted = first_of(&[(after, up_to)], false, PIECE_ROWS);
            let from = Node::session(key, from);
            let piece = rows(connection, &from, "sequence", &wanted, Some(PIECE_BYTES)).await?;
            let end = piece.last().map_or(Ok(up_to), |row| number(row, 0))?;
            loaded.pieces.insert((from.incarnation, after), end);
        }
        if let Some(fork) = needs.fork {
            let lease = "SELECT lease_secs FROM tombstone
                WHERE app_name = $1 AND user_id = $2 AND incarnation = $3 FOR UPDATE";
            let node = Node::session(key, fork);
            for row in Columns::new(lease).node(&node).all(connection).await? {
                if row.try_get::<i64>(0)? > loaded.now.secs() {
                    loaded.forks.insert(fork);
                }
            }
        }
    }
    Ok(())
}

/// A session's own state as of an event, and the keys that were removed by then.
async fn read_past(
    connection: &Connection,
    node: &Node,
    at: Sequence,
) -> Result<(PastState, Removed)> {
    let reader = Reader::new(connection);
    let wanted: &[Sequence] = if at == 0 { &[] } else { &[at] };
    let head = event_heads(&reader, node, wanted).await?;
    let times = head.first().map(|head| (head.event_time, head.commit_time));
    let (mut own, mut removed) = (PastState { state: BTreeMap::new(), times }, Vec::new());
    for (name, (value, version)) in past(&reader, node, 0, at).await? {
        match value {
            Some(value) => drop(own.state.insert(name, (value, version))),
            None => removed.push((name, version)),
        }
    }
    Ok((own, removed))
}

/// What was looked up and is locked by now: the sessions that have expired, and whether the others are empty. Besides, a tombstone that
/// no other replica is working on.
pub(super) async fn read_swept(
    connection: &Connection,
    swept: &Swept,
    loaded: &mut Loaded,
    stored: &mut Stored,
) -> Result<()> {
    let found = swept.expired.iter().filter_map(|key| stored.at(key));
    let expired = found.filter(|found| found.info.expired(loaded.now));
    loaded.expired = expired.map(|found| found.info.clone()).collect();
    read_emptied(connection, &swept.emptied, loaded).await?;
    let sql = "SELECT app_name, user_id, incarnation FROM tombstone WHERE lease_secs <= $1
        ORDER BY lease_secs LIMIT 1 FOR UPDATE SKIP LOCKED";
    let gone = Columns::new(sql).value(Type::INT8, loaded.now.secs()).all(connection).await?;
    if let Some(row) = gone.first() {
        let gone = node(row)?;
        loaded.tombstone = Some(gone.incarnation);
        stored.tombstone = Some(gone);
        return Ok(());
    }
    let sql = "SELECT app_name, user_id, 0::bigint, through FROM ended_scope
        LIMIT 1 FOR UPDATE SKIP LOCKED";
    if let Some(row) = connection.one(sql, &[]).await? {
        stored.ended = Some((node(&row)?, number(&row, 3)?));
        loaded.tombstone = Some(WIDE);
    }
    Ok(())
}
