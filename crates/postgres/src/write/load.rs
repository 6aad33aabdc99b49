//! Loading what the decisions of a group need, in one round trip: locks first, then what stays as it is under them.
//!
//! A statement sees what is committed when it begins. So what follows a lock reads what stays true until the commit.
//!
//! Everything is locked and looked up, but long values are read in the order of the requests, up to [`GROUP_BYTES`]: a row behind them
//! says that it does not fit, and the group ends before the first request that needs it. What the first request needs always fits.

use std::sync::LazyLock;

use super::{
    super::{
        columns::{pipeline, step},
        connect::clock::{DATABASE_TIME, database_time},
        fence::Fence,
        prelude::*,
        row::SESSION_COLUMNS,
        shared::Shared,
    },
    fill,
    needed::{Needed, of_first},
    rare,
    stored::Stored,
};
use sessiond_core::commit::{REPLAY_BYTES, ReadSet, WorkingSet};
use sessiond_store::{
    group::{Failure, GROUP_BYTES},
    rows::{EVENT_BYTES, EVENT_COLUMNS},
};

const READ_SCOPES: &str = "
SELECT s.app_name, s.user_id, s.version, s.state_bytes, s.snapshot_version, s.changed_bytes, s.base
FROM unnest($1, $2, $3) AS k (k_place, k_app, k_user)
JOIN scope s ON s.place = k_place AND s.app_name = k_app AND s.user_id = k_user";

const LOCKED_SCOPES: &str = "ORDER BY s.user_id = '', s.app_name, s.user_id FOR UPDATE OF s";

/// What was never written to gets a row, so that it can be locked. It may stay empty: a sweep looks at it.
const INSERT_SCOPES: &str = "
WITH made AS (
    INSERT INTO scope SELECT k_place, k_app, k_user, 0, 0, 0, 0, 0
    FROM unnest($1, $2, $3) AS k (k_place, k_app, k_user)
    ON CONFLICT (place, app_name, user_id) DO NOTHING RETURNING place, app_name, user_id)
INSERT INTO emptied SELECT place, app_name, user_id FROM made
ON CONFLICT (place, app_name, user_id) DO NOTHING";

/// The session at an address, which is locked.
const AT: &str =
    "x.place = k_place AND x.app_name = k_app AND x.user_id = k_user AND x.session_id = k_session";

/// The rows of a node.
const OF_NODE: &str = "s.place = k_place AND s.app_name = k_app AND s.user_id = k_user
    AND s.incarnation = k_incarnation";

/// The nodes at addresses, each with its number and with more columns. They are found first: the planner could otherwise go through the
/// rows of all sessions of a user.
fn nodes(more: &str) -> String {
    let arrays: String = (5..5 + more.matches(',').count()).map(|at| format!(", ${at}")).collect();
    format!(
        "WITH k AS MATERIALIZED (
             SELECT k.*, x.state_bytes AS k_bytes, CASE k_session WHEN '' THEN 0 ELSE x.incarnation END AS k_incarnation
             FROM unnest($1, $2, $3, $4{arrays}) WITH ORDINALITY
                 AS k (k_place, k_app, k_user, k_session{more}, k_at) LEFT JOIN session x ON {AT})"
    )
}

static LOCK_SESSIONS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {SESSION_COLUMNS}
         FROM unnest($1, $2, $3, $4) AS k (k_place, k_app, k_user, k_session) JOIN session x ON {AT}
         ORDER BY x.app_name, x.user_id, x.session_id FOR UPDATE OF x"
    )
});

static LOCK_SCOPES: LazyLock<String> = LazyLock::new(|| format!("{READ_SCOPES} {LOCKED_SCOPES}"));

static KEYS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{} SELECT k_at, CASE WHEN fits THEN value END, version, fits FROM (
             SELECT k_at, s.value, s.version, k_at <= $6
                 OR sum(octet_length(s.value) + {ENTRY_BYTES}) OVER (ORDER BY k_at) <= {GROUP_BYTES} AS fits
             FROM k JOIN state s ON {OF_NODE} AND s.name = k_name) found",
        nodes(", k_name")
    )
});

/// One statement, so that the version of an application that is not locked belongs to its keys.
static WHOLE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{}, w AS MATERIALIZED (
             SELECT k.*, s.version, k_at <= $5
                 OR sum(coalesce(s.state_bytes, k_bytes)) OVER (ORDER BY k_at) <= {GROUP_BYTES} AS fits
             FROM k LEFT JOIN scope s ON k_session = '' AND s.place = k_place
                 AND s.app_name = k_app AND s.user_id = k_user)
         SELECT k_at, NULL::text, NULL::text, version, fits FROM w
         UNION ALL
         SELECT k_at, s.name, s.value, s.version, fits
         FROM w k JOIN state s ON fits AND {OF_NODE} WHERE s.value IS NOT NULL",
        nodes("")
    )
});

/// The event with an id.
const IS_EVENT: &str =
    "e.place = k_place AND e.incarnation = k_incarnation AND e.event_id = k_event";

static EVENTS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{}, h AS MATERIALIZED (
             SELECT k_at, k_place, k_incarnation, k_event, e.fingerprint AS h_fingerprint,
                 e.fingerprint = k_fingerprint AS h_same,
                 sum(CASE WHEN e.fingerprint = k_fingerprint THEN {EVENT_BYTES} ELSE 0 END)
                     OVER (ORDER BY k_at)
                     <= CASE WHEN k_at <= $7 THEN {REPLAY_BYTES} ELSE {GROUP_BYTES} END AS h_fits
             FROM k JOIN event e ON {IS_EVENT})
         SELECT k_at, h_fingerprint, NOT h_same OR h_fits, {EVENT_COLUMNS}
         FROM h LEFT JOIN event e
             ON h_same AND h_fits AND {IS_EVENT}",
        nodes(", k_event, k_fingerprint")
    )
});

static REQUESTS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{} SELECT k_at, s.fingerprint
         FROM k JOIN request s ON {OF_NODE} AND s.request_id = k_id",
        nodes(", k_id")
    )
});

/// The statements that lock, and read what is not locked, behind those that come first: the fence's look, and the record.
fn locks<'a>(needed: &'a Needed<'_>, [look, record]: [Columns<'a>; 2]) -> [Columns<'a>; 4] {
    let lock_sessions = Columns::new(LOCK_SESSIONS.as_str()).addresses(needed.sessions.iter());
    [
        look,
        Columns::together([record, lock_sessions]),
        Columns::new(LOCK_SCOPES.as_str()).scopes(needed.scopes.iter()),
        Columns::new(READ_SCOPES).scopes(needed.visible.difference(&needed.scopes)),
    ]
}

/// The statements that read what is locked by then, and the time, which is not before that of any commit whose changes are seen.
fn reads<'a>(needed: &'a Needed<'_>) -> [Columns<'a>; 5] {
    [
        Columns::new(KEYS.as_str())
            .addresses(needed.keys.keys().map(|(address, _)| address))
            .texts(needed.keys.keys().map(|(_, name)| *name))
            .number(of_first(&needed.keys)),
        Columns::new(WHOLE.as_str()).addresses(needed.whole.keys()).number(of_first(&needed.whole)),
        Columns::new(EVENTS.as_str())
            .addresses(needed.events.keys().map(|(key, ..)| key))
            .texts(needed.events.keys().map(|(_, id, _)| *id))
            .fingerprints(needed.events.keys().map(|(.., fingerprint)| *fingerprint))
            .number(of_first(&needed.events)),
        Columns::new(REQUESTS.as_str())
            .addresses(needed.requests.iter().map(|(address, _)| address))
            .texts(needed.requests.iter().map(|(_, id)| *id)),
        Columns::new(DATABASE_TIME),
    ]
}

/// Begins a transaction, locks what a group changes and loads what its first requests need. Returns their number. `first` are the fence's
/// look, if it needs one, and the statement that records the number of the transaction.
pub(super) async fn load(
    connection: &Connection,
    needs: &[ReadSet<'_>],
    first: [Columns<'_>; 2],
    shared: &Shared,
    loaded: &mut WorkingSet,
) -> Result<(Stored, usize), Failure> {
    let is_sweep = needs.iter().any(|needs| needs.sweep);
    let swept = match is_sweep {
        true => rare::look_up_swept(connection, loaded.now).await?,
        false => rare::Swept::default(),
    };
    let mut needed = Needed::of(needs);
    needed.sessions.extend(swept.expired.iter().cloned());
    needed.scopes.extend(swept.emptied.iter().cloned());
    needed.visible.extend(swept.emptied.iter().cloned());
    let [sessions, scopes, observed, keys, whole, events, requests, time] =
        read(connection, &needed, first, &shared.fence).await?;
    loaded.now = shared.clock.observe(database_time(time.first())?);
    let mut stored = Stored::default();
    fill::sessions(&sessions, &needed, loaded, &mut stored)?;
    fill::scopes([&scopes, &observed], &needed, loaded, &mut stored)?;
    let ends = [
        fill::keys(&keys, &needed, loaded)?,
        fill::whole(&whole, &needed, loaded)?,
        fill::events(&events, &needed, loaded)?,
    ];
    let count = ends.into_iter().flatten().fold(needs.len(), usize::min);
    fill::requests(&requests, &needed, loaded)?;
    let is_new = |node: &Node| loaded.scope(&node.key()).is_none_or(|it| it.version == 0);
    if needed.scopes.iter().any(is_new) {
        loaded.version_floor = rare::read_version_floor(connection).await?;
    }
    let count = rare::read(connection, &needs[..count], loaded, &mut stored).await?;
    if is_sweep {
        rare::read_swept(connection, &swept, loaded, &mut stored).await?;
    }
    Ok((stored, count))
}

/// Begins a transaction. Returns the answers of the statements.
async fn read(
    connection: &Connection,
    needed: &Needed<'_>,
    first: [Columns<'_>; 2],
    fence: &Fence,
) -> Result<[Vec<Row>; 8]> {
    let [look, sessions, scopes, observed] = locks(needed, first);
    let [keys, whole, events, requests, time] = reads(needed);
    let statements = [look, sessions, scopes, observed, keys, whole, events, requests, time];
    for statement in &statements {
        statement.prepare(connection).await?;
    }
    let mut begin = Some(step(connection.begin()));
    loop {
        let is_first = begin.is_some();
        let steps = begin.take().into_iter().chain(statements.iter().map(|it| it.all(connection)));
        let mut answers = pipeline(steps.collect()).await?.into_iter().skip(usize::from(is_first));
        fence.judge(connection, &answers.next().unwrap_or_default())?;
        let answers = [(); 8].map(|()| answers.next().unwrap_or_default());
        let [_, scopes, ..] = &answers;
        if scopes.len() == needed.scopes.len() {
            return Ok(answers);
        }
        // Few groups are the first to write to a scope, and this order is the same for all of them.
        Columns::new(INSERT_SCOPES).scopes(needed.scopes.iter()).all(connection).await?;
    }
}
