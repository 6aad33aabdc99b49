//! Loading what the decisions of a group need: locks first, with the versions of what is locked. A second round trip reads what no earlier
//! group has left in the cache.
//!
//! A statement sees what is committed when it begins. So what follows a lock reads what stays true until the commit.

use std::collections::BTreeSet;

use super::{
    super::{
        bare,
        columns::{Columns, Step, pipeline, step},
        connect::{clock, connection::Connection},
        node::Node,
        prelude::*,
        row::SESSION_COLUMNS,
    },
    cache::Cache,
    fill,
    needed::{Locks, Reads},
    rare,
    stored::Stored,
};
use crate::{
    commit::{Loaded, Needs},
    store::{group::Failure, rows::EVENT_COLUMNS},
};

const LOCK_SCOPES: &str = "
SELECT s.app_name, s.user_id, s.version, s.state_bytes, s.snapshot_version, s.changed_bytes, s.base
FROM unnest($1, $2) AS k (k_app, k_user)
JOIN scope s ON s.app_name = k_app AND s.user_id = k_user
ORDER BY s.user_id = '', s.app_name, s.user_id FOR UPDATE OF s";

/// Of those that are not locked.
const READ_SCOPES: &str = "
SELECT s.app_name, s.user_id, s.version, s.state_bytes, s.snapshot_version, s.changed_bytes, s.base
FROM unnest($1, $2) AS k (k_app, k_user)
JOIN scope s ON s.app_name = k_app AND s.user_id = k_user";

/// What was never written to gets a row, so that it can be locked. It may stay empty: a sweep looks at it.
const INSERT_SCOPES: &str = "
WITH made AS (
    INSERT INTO scope SELECT k_app, k_user, 0, 0, 0, 0, 0 FROM unnest($1, $2) AS k (k_app, k_user)
    ON CONFLICT (app_name, user_id) DO NOTHING RETURNING app_name, user_id)
INSERT INTO emptied SELECT app_name, user_id FROM made
ON CONFLICT (app_name, user_id) DO NOTHING";

/// One statement, so that the version of an application that is not locked belongs to its keys.
const READ_STATE: &str = "
SELECT k_at, NULL::text, NULL::text, s.version
FROM unnest($1, $2, $3) AS k (k_app, k_user, k_at)
JOIN scope s ON s.app_name = k_app AND s.user_id = k_user
UNION ALL
SELECT k_at, s.name, s.value, s.version
FROM unnest($4, $5, $6, $7) AS k (k_app, k_user, k_incarnation, k_at)
JOIN state s ON s.app_name = k_app AND s.user_id = k_user AND s.incarnation = k_incarnation
WHERE s.value IS NOT NULL
UNION ALL
SELECT k_at, s.name, s.value, s.version
FROM unnest($8, $9, $10, $11, $12) AS k (k_app, k_user, k_incarnation, k_name, k_at)
JOIN state s ON s.app_name = k_app AND s.user_id = k_user AND s.incarnation = k_incarnation
    AND s.name = k_name";

const READ_MARKERS: &str = "
SELECT m.incarnation, m.sequence, m.rewind_to
FROM unnest($1, $2, $3) AS k (k_app, k_user, k_incarnation)
JOIN marker m ON m.app_name = k_app AND m.user_id = k_user AND m.incarnation = k_incarnation
ORDER BY m.incarnation, m.sequence";

const READ_REQUESTS: &str = "
SELECT k_at, r.fingerprint
FROM unnest($1, $2, $3, $4, $5) AS k (k_app, k_user, k_incarnation, k_request, k_at)
JOIN request r ON r.app_name = k_app AND r.user_id = k_user AND r.incarnation = k_incarnation
    AND r.request_id = k_request";

fn lock_sessions() -> String {
    format!(
        "SELECT {SESSION_COLUMNS}
         FROM unnest($1, $2, $3) AS k (k_app, k_user, k_session)
         JOIN session s ON s.app_name = k_app AND s.user_id = k_user AND s.session_id = k_session
         ORDER BY s.app_name, s.user_id, s.session_id FOR UPDATE OF s"
    )
}

/// Events, with the time, which is not before that of any commit whose changes are seen.
fn read_events() -> String {
    format!(
        "SELECT clock_timestamp(), found.* FROM (VALUES (1)) AS one (place) LEFT JOIN (
             SELECT k_at, {}
             FROM unnest($1, $2, $3) AS k (k_incarnation, k_event, k_at)
             JOIN event e ON e.incarnation = k_incarnation AND e.event_id = k_event
         ) AS found ON TRUE",
        EVENT_COLUMNS
    )
}

fn events<'a>(asked: &'a BTreeSet<(Incarnation, &'a EventId)>) -> Columns<'a> {
    Columns::new(read_events())
        .numbers(asked.iter().map(|(incarnation, _)| incarnation.0))
        .texts(asked.iter().map(|(_, id)| *id))
        .numbers(places(asked.len()))
}

/// The beginning of a transaction: whose it is, and the time if it is not the database's.
pub(super) struct Opening<'a> {
    /// The statement that records the number of the commit.
    pub(super) record: Columns<'a>,
    pub(super) set_time: Option<Time>,
    /// The time about, to look for what may have expired.
    pub(super) about: Time,
}

/// Begins a transaction, locks what a group changes and loads what it needs.
pub(super) async fn load(
    connection: &Connection,
    needs: &[Needs<'_>],
    opening: Opening<'_>,
    cache: &mut Cache,
    loaded: &mut Loaded,
) -> Result<Stored, Failure> {
    let Opening { record, set_time, about } = opening;
    let (named, many) = bare::look_up(connection, needs, about).await?;
    let expired = rare::look_up_expired(connection, needs, about).await?;
    let emptied = rare::look_up_emptied(connection, needs).await?;
    let mut locks = Locks::of(needs, &named, cache);
    locks.sessions.extend(expired.iter().cloned());
    locks.scopes.extend(emptied.iter().cloned());
    locks.visible.extend(emptied.iter().cloned());
    loaded.bare.extend(named);
    let mut stored = Stored::default();
    let locked = lock(connection, record, &locks).await?;
    loaded.now = match set_time {
        Some(time) => time,
        None => locked.time,
    };
    let unknown = fill::sessions(&locked.sessions, &locks, cache, loaded, &mut stored)?;
    bare::note_many(many, about, loaded);
    fill::scopes(&locked.scopes, &locks, cache, loaded, &mut stored)?;
    fill::events(&locked.events, &locks.events, loaded)?;
    let is_new = |node: &Node| loaded.scope(&node.key()).is_none_or(|it| it.version == 0);
    if locks.scopes.iter().any(is_new) {
        loaded.version_floor = rare::read_version_floor(connection).await?;
    }
    let reads = Reads::of(needs, unknown, loaded);
    read(connection, &reads, &locks, loaded).await?;
    rare::read(connection, &reads, loaded, &mut stored).await?;
    if needs.iter().any(|needs| needs.sweep) {
        rare::read_sweep(connection, &expired, loaded, &mut stored).await?;
        rare::read_emptied(connection, &emptied, loaded).await?;
    }
    Ok(stored)
}

/// The rows of the first round trip.
struct Locked {
    time: Time,
    sessions: Vec<Row>,
    scopes: Vec<Row>,
    events: Vec<Row>,
}

/// The first round trip.
async fn lock(
    connection: &Connection,
    record: Columns<'_>,
    locks: &Locks<'_>,
) -> Result<Locked, Failure> {
    let Locks { sessions, scopes, visible, events } = locks;
    let lock_sessions = Columns::new(lock_sessions()).addresses(sessions.iter());
    let lock_sessions = Columns::together([record, lock_sessions].into());
    let lock_scopes = Columns::new(LOCK_SCOPES).scopes(scopes.iter());
    let read_scopes = Columns::new(READ_SCOPES).scopes(visible.difference(scopes));
    let events = self::events(events);
    let is_observed = visible.len() > scopes.len();
    let statements: Vec<&Columns<'_>> = lock_sessions
        .iter()
        .chain((!scopes.is_empty()).then_some(&lock_scopes))
        .chain(is_observed.then_some(&read_scopes))
        .chain([&events])
        .collect();
    prepare(connection, &statements).await?;
    let mut steps: Vec<Step<'_>> = vec![step(connection.begin())];
    steps.extend(statements.iter().map(|statement| statement.all(connection)));
    let mut answers = pipeline(steps).await?.into_iter().skip(1);
    let mut answer = |is_sent: bool| is_sent.then(|| answers.next()).flatten().unwrap_or_default();
    let sessions = answer(true);
    let (mut locked, observed) = (answer(!scopes.is_empty()), answer(is_observed));
    let events = answer(true);
    let mut time = events.first().map(clock::database_time).transpose()?;
    if locked.len() < scopes.len() {
        // Few groups are the first to write to a scope, and this order is the same for all of them.
        let insert_scopes = Columns::new(INSERT_SCOPES).scopes(scopes.iter());
        let later = Columns::new(clock::DATABASE_TIME);
        let statements = [&insert_scopes, &lock_scopes, &later];
        prepare(connection, &statements).await?;
        let steps = statements.iter().map(|statement| statement.all(connection)).collect();
        let mut answers = pipeline(steps).await?.into_iter().skip(1);
        locked = answers.next().unwrap_or_default();
        let later = answers.next().unwrap_or_default();
        time = later.first().map(clock::database_time).transpose()?;
    }
    let time = time.ok_or_else(|| Error::internal("the database told no time"))?;
    locked.extend(observed);
    Ok(Locked { time, sessions, scopes: locked, events })
}

async fn prepare(connection: &Connection, statements: &[&Columns<'_>]) -> Result<()> {
    for statement in statements {
        statement.prepare(connection).await?;
    }
    Ok(())
}

/// The second round trip, if anything is left to read.
async fn read(
    connection: &Connection,
    reads: &Reads<'_>,
    locks: &Locks<'_>,
    loaded: &mut Loaded,
) -> Result<(), Failure> {
    let keys: Vec<(&Node, &str)> = reads
        .keys
        .iter()
        .filter(|(node, _)| !reads.whole.contains(*node))
        .flat_map(|(node, names)| names.iter().map(move |name| (node, *name)))
        .collect();
    let is_unlocked = |node: &&Node| locks.visible.contains(*node) && !locks.scopes.contains(*node);
    let unlocked: Vec<&Node> = reads.whole.iter().filter(is_unlocked).collect();
    let state = Columns::new(READ_STATE)
        .scopes(unlocked.iter().copied())
        .numbers(places(unlocked.len()))
        .nodes(reads.whole.iter())
        .numbers(places(reads.whole.len()))
        .nodes(keys.iter().map(|(node, _)| *node))
        .texts(keys.iter().map(|(_, name)| *name))
        .numbers(places(reads.whole.len() + keys.len()).skip(reads.whole.len()));
    let markers = Columns::new(READ_MARKERS).nodes(reads.markers.iter());
    let events = events(&reads.events);
    let requests = Columns::new(READ_REQUESTS)
        .nodes(reads.requests.iter().map(|(node, _)| node))
        .texts(reads.requests.iter().map(|(_, id)| *id))
        .numbers(places(reads.requests.len()));
    let wanted = [
        (!reads.whole.is_empty() || !keys.is_empty(), &state),
        (!reads.markers.is_empty(), &markers),
        (!reads.events.is_empty(), &events),
        (!reads.requests.is_empty(), &requests),
    ];
    let statements: Vec<&Columns<'_>> =
        wanted.iter().filter(|(wanted, _)| *wanted).map(|(_, statement)| *statement).collect();
    prepare(connection, &statements).await?;
    let steps = statements.iter().map(|statement| statement.all(connection)).collect();
    let mut answers = pipeline(steps).await?.into_iter();
    let mut answer = |at: usize| if wanted[at].0 { answers.next() } else { None };
    fill::state(&answer(0).unwrap_or_default(), reads, &keys, &unlocked, loaded)?;
    fill::markers(&answer(1).unwrap_or_default(), loaded)?;
    fill::events(&answer(2).unwrap_or_default(), &reads.events, loaded)?;
    fill::requests(&answer(3).unwrap_or_default(), reads, loaded)?;
    Ok(())
}

/// The places of the rows of a statement's columns.
fn places(rows: usize) -> impl Iterator<Item = u64> {
    0..rows as u64
}
