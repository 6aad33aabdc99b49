//! Loading what few groups need: the past, pieces of forks, and what a sweep removes.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    super::{
        log::rows,
        prelude::*,
        read::rows::Reader,
        row::{address, asked, number},
        schema::SHARED,
    },
    fill,
    stored::{Removed, Stored},
};
use sessiond_core::{
    commit::{Address, Emptied, PastState, ReadSet, SWEPT_SESSIONS, SessionState, WorkingSet},
    read::{PIECE_BYTES, PIECE_ROWS, event_heads, first_of, past, until_missing},
};
use sessiond_store::group::{Failure, GROUP_BYTES};

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

/// Whether applications and users are in use, or named by other rows. Subqueries of one row: the planner could hash the whole table for
/// an `EXISTS`.
const EMPTIED: &str = "
SELECT k_at, CASE k_user
        WHEN '' THEN coalesce((SELECT 1 FROM session_list WHERE app_name = k_app LIMIT 1),
            (SELECT 1 FROM scope WHERE app_name = k_app AND user_id > '' LIMIT 1))
        ELSE (SELECT 1 FROM session
            WHERE place = k_place AND app_name = k_app AND user_id = k_user LIMIT 1)
    END IS NOT NULL,
    coalesce((SELECT 1 FROM scope_log
            WHERE place = k_app_place AND app_name = k_app AND source_user = k_user LIMIT 1),
        (SELECT 1 FROM request WHERE place = k_place AND app_name = k_app AND user_id = k_user
            AND incarnation = 0 LIMIT 1)) IS NOT NULL
FROM unnest($1, $2, $3, $4) WITH ORDINALITY AS k (k_place, k_app, k_user, k_app_place, k_at)
ORDER BY k_at";

/// The markers of sessions.
const MARKERS: &str = "
SELECT m.incarnation, m.sequence, m.rewind_to
FROM unnest($1, $2, $3, $4) AS k (k_place, k_app, k_user, k_incarnation) JOIN marker m
    ON m.place = k_place AND m.app_name = k_app AND m.user_id = k_user AND m.incarnation = k_incarnation
ORDER BY m.incarnation, m.sequence";

pub(super) async fn read_version_floor(connection: &Connection) -> Result<Version> {
    let row = connection.one("SELECT version_floor FROM meta WHERE id = 1").await?;
    row.map_or(Ok(0), |row| number(&row, 0))
}

/// Markers are read for the sessions whose decisions look at them: those that have an event already, and sources of forks. A session
/// may have very many.
async fn read_markers(
    connection: &Connection,
    needs: &[ReadSet<'_>],
    loaded: &mut WorkingSet,
) -> Result<()> {
    let forked = needs.iter().filter(|needs| needs.fork.is_some()).filter_map(|needs| {
        let Some(Address::Session(key)) = needs.address else { return None };
        loaded.addresses.get(key).copied().flatten()
    });
    let replayed = loaded.events.iter().filter(|(_, found)| found.is_some());
    let sessions: BTreeSet<Incarnation> = replayed.map(|((it, _), _)| *it).chain(forked).collect();
    let sessions = sessions.iter().filter_map(|it| loaded.sessions.get(it));
    let node = |session: &SessionState| Node::session(&session.info.key, session.info.incarnation);
    let nodes: Vec<Node> = sessions.map(node).collect();
    let markers = Columns::new(MARKERS).nodes(nodes.iter()).all(connection).await?;
    Ok(fill::markers(&markers, loaded)?)
}

/// Markers, own states of the past, pieces of forks, and leases, of the first requests that fit into a group. Returns their number.
pub(super) async fn read(
    connection: &Connection,
    needs: &[ReadSet<'_>],
    loaded: &mut WorkingSet,
    stored: &mut Stored,
) -> Result<usize, Failure> {
    read_markers(connection, needs, loaded).await?;
    let mut past_bytes = 0;
    for (at, needs) in needs.iter().enumerate() {
        if past_bytes > GROUP_BYTES {
            return Ok(at);
        }
        let Some(Address::Session(key)) = needs.address else { continue };
        let Some(session) = loaded.addresses.get(key).copied().flatten() else { continue };
        let last_sequence = loaded.sessions.get(&session).map_or(0, |it| it.info.last_sequence);
        if let Some(at) = needs.past.filter(|at| *at <= last_sequence) {
            let node = Node::session(key, session);
            let reader = Reader::at(connection, loaded.now);
            let past = read_past(&reader, &node, at).await;
            let (past, removed) = past.map_err(|error| connection.failure(error))?;
            past_bytes += past.bytes();
            loaded.past.insert((session, at), past);
            stored.removed.insert((key.clone(), at), removed);
        }
        if let Some((from, after, up_to)) = needs.copy {
            let wanted = first_of(&[(after, up_to)], false, PIECE_ROWS);
            let from = Node::session(key, from);
            let piece = rows(connection, &from, "sequence", &wanted, Some(PIECE_BYTES)).await?;
            let piece = until_missing(piece, &wanted, |row| number(row, 0).unwrap_or_default())?;
            let end = piece.last().map_or(Ok(up_to), |row| number(row, 0))?;
            loaded.pieces.insert((from.incarnation, after), end);
        }
        if let Some(fork) = needs.fork {
            let lease = "SELECT lease_secs FROM tombstone
                WHERE place = $1 AND app_name = $2 AND user_id = $3 AND incarnation = $4 FOR UPDATE";
            let node = Node::session(key, fork);
            for row in Columns::new(lease).node(&node).all(connection).await? {
                if row.try_get::<i64>(0)? > loaded.now.secs() {
                    loaded.forks.insert(fork);
                }
            }
        }
    }
    Ok(needs.len())
}

/// A session's own state as of an event, and the keys that were removed by then.
async fn read_past(
    reader: &Reader<'_>,
    node: &Node,
    at: Sequence,
) -> Result<(PastState, Removed), Error> {
    let wanted: &[Sequence] = if at == 0 { &[] } else { &[at] };
    let head = event_heads(reader, node, wanted).await?;
    let times = head.first().map(|head| (head.event_time, head.commit_time));
    let (mut own, mut removed) = (PastState { state: BTreeMap::new(), times }, Vec::new());
    for (name, (value, version)) in past(reader, node, 0, at).await? {
        match value {
            Some(value) => drop(own.state.insert(name, (value, version))),
            None => removed.push((name, version)),
        }
    }
    Ok((own, removed))
}

/// What was looked up and is locked by now: the sessions that have expired, and whether the others are empty. Besides, tombstones that
/// no other replica is working on.
pub(super) async fn read_swept(
    connection: &Connection,
    swept: &Swept,
    loaded: &mut WorkingSet,
    stored: &mut Stored,
) -> Result<()> {
    let found = swept.expired.iter().filter_map(|key| loaded.addresses.get(key).copied().flatten());
    let infos = found.filter_map(|it| Some(&loaded.sessions.get(&it)?.info));
    loaded.expired = infos.filter(|info| info.expired(loaded.now)).cloned().collect();
    let applications = swept.emptied.iter().map(|node| [node.app_name.as_str(), ""]);
    let emptied = Columns::new(EMPTIED).scopes(swept.emptied.iter()).places(applications);
    for row in emptied.all(connection).await? {
        let key = swept.emptied[asked(&row, swept.emptied.len())?].key();
        let (is_used, is_named) = (row.try_get(1)?, row.try_get(2)?);
        loaded.emptied.push(Emptied { key, is_used, is_named });
    }
    let sql = "SELECT app_name, user_id, incarnation FROM tombstone WHERE lease_secs <= $1
        ORDER BY lease_secs LIMIT $2 FOR UPDATE SKIP LOCKED";
    let gone = Columns::new(sql).value(Type::INT8, loaded.now.secs()).number(SWEPT_SESSIONS as u64);
    let gone = gone.all(connection).await?;
    stored.tombstones = gone.iter().map(node).collect::<Result<_>>()?;
    loaded.tombstones = stored.tombstones.iter().map(|gone| gone.incarnation).collect();
    if !gone.is_empty() {
        return Ok(());
    }
    let sql = "SELECT app_name, user_id, 0::bigint, through FROM ended_scope
        LIMIT 1 FOR UPDATE SKIP LOCKED";
    if let Some(row) = connection.one(sql).await? {
        stored.ended = Some((node(&row)?, number(&row, 3)?));
        loaded.tombstones = vec![SHARED];
    }
    Ok(())
}
