//! Loading what the decisions of a group need, in two round trips: locks first, and what is read under them second.
//!
//! A statement sees what is committed when it begins. So what the second trip reads of a locked scope stays true until the commit.

use super::{
    clock,
    columns::{Columns, Step, pipeline, step},
    connection::Connection,
    fill,
    needed::{Bare, Locks, Reads},
    node::Node,
    prelude::*,
    rare,
    row::{self, Found, SESSION_COLUMNS},
    stored::{Stored, scope_state},
};
use crate::{
    commit::{Loaded, Needs, SessionState},
    store::group::Failure,
};

const LOCK_SCOPES: &str = "
SELECT s.app_name, s.user_id
FROM unnest($1, $2) AS k (k_app, k_user)
JOIN scope s ON s.app_name = k_app AND s.user_id = k_user
ORDER BY s.user_id = '', s.app_name, s.user_id FOR UPDATE OF s";

/// What was never written to gets a row, so that it can be locked.
const INSERT_SCOPES: &str = "
INSERT INTO scope SELECT k_app, k_user, 0, 0, 0, 0 FROM unnest($1, $2) AS k (k_app, k_user)
ON CONFLICT (app_name, user_id) DO NOTHING";

/// One statement, so that the version of an application that is not locked belongs to its keys.
const READ_STATE: &str = "
SELECT k_at, NULL::text, NULL::text, s.version, s.state_bytes, s.snapshot_version, s.changed_bytes
FROM unnest($1, $2, $3) AS k (k_app, k_user, k_at)
JOIN scope s ON s.app_name = k_app AND s.user_id = k_user
UNION ALL
SELECT k_at, s.name, s.value, s.version, 0, 0, 0
FROM unnest($4, $5, $6, $7) AS k (k_app, k_user, k_incarnation, k_at)
JOIN state s ON s.app_name = k_app AND s.user_id = k_user AND s.incarnation = k_incarnation
WHERE s.value IS NOT NULL
UNION ALL
SELECT k_at, s.name, s.value, s.version, 0, 0, 0
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

fn read_events() -> String {
    format!(
        "SELECT k_at, {}
         FROM unnest($1, $2, $3) AS k (k_incarnation, k_event, k_at)
         JOIN event e ON e.incarnation = k_incarnation AND e.event_id = k_event",
        row::EVENT_COLUMNS
    )
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
    loaded: &mut Loaded,
) -> Result<Stored, Failure> {
    let Opening { record, set_time, about } = opening;
    let (bare, expired) = rare::look_up(connection, needs, about).await?;
    let mut locks = Locks::of(needs, &bare);
    locks.sessions.extend(expired.iter().cloned());
    let mut stored = Stored::default();
    loaded.now = lock(connection, &record, &locks, set_time, &mut stored).await?;
    keep_sessions(loaded, &stored, &locks, bare);
    let reads = Reads::of(needs, loaded);
    read(connection, &reads, &locks, loaded, &mut stored).await?;
    rare::read(connection, &reads, loaded, &mut stored).await?;
    if needs.iter().any(|needs| needs.sweep) {
        rare::read_sweep(connection, &expired, loaded, &mut stored).await?;
    }
    Ok(stored)
}

/// The first round trip. Returns the time, which is not before that of any commit whose changes will be seen.
async fn lock(
    connection: &Connection,
    record: &Columns<'_>,
    locks: &Locks,
    set_time: Option<Time>,
    stored: &mut Stored,
) -> Result<Time, Failure> {
    let Locks { sessions, scopes } = locks;
    let lock_sessions = Columns::new(lock_sessions()).addresses(sessions.iter());
    let insert_scopes = Columns::new(INSERT_SCOPES).scopes(scopes.iter());
    let lock_scopes = Columns::new(LOCK_SCOPES).scopes(scopes.iter());
    let time = Columns::new(clock::DATABASE_TIME);
    let wanted = [
        (true, record),
        (true, &lock_sessions),
        (!scopes.is_empty(), &lock_scopes),
        (set_time.is_none(), &time),
    ];
    let statements: Vec<_> = wanted.into_iter().filter_map(|(it, of)| it.then_some(of)).collect();
    prepare(connection, &statements).await?;
    let mut steps: Vec<Step<'_>> = vec![step(connection.begin())];
    steps.extend(statements.iter().map(|statement| statement.all(connection)));
    let mut answers = pipeline(steps).await?;
    if answers.get(3).is_some_and(|locked| !scopes.is_empty() && locked.len() < scopes.len()) {
        // Few groups are the first to write to a scope, and this order is the same for all of them.
        let statements = [&insert_scopes, &lock_scopes, &time];
        prepare(connection, &statements).await?;
        let steps = statements.iter().map(|statement| statement.all(connection)).collect();
        answers.extend(pipeline(steps).await?);
    }
    for row in answers.get(2).into_iter().flatten() {
        let found = row::session(row, 0)?;
        stored.sessions.insert(found.info.incarnation, found);
    }
    match (set_time, answers.last().and_then(|rows| rows.first())) {
        (Some(time), _) => Ok(time),
        (None, Some(row)) => Ok(clock::database_time(row)?),
        (None, None) => Err(Error::internal("the database told no time").into()),
    }
}

async fn prepare(connection: &Connection, statements: &[&Columns<'_>]) -> Result<()> {
    for statement in statements {
        statement.prepare(connection).await?;
    }
    Ok(())
}

/// Puts the locked sessions into `loaded`, without markers and keys.
fn keep_sessions(loaded: &mut Loaded, stored: &Stored, locks: &Locks, bare: Bare) {
    loaded.bare.extend(bare);
    loaded.addresses.extend(locks.sessions.iter().map(|key| (key.clone(), None)));
    for (incarnation, Found { info, state_bytes, .. }) in &stored.sessions {
        let own = scope_state(1, info.last_sequence, *state_bytes);
        loaded.addresses.insert(info.key.clone(), Some(*incarnation));
        let session = SessionState { info: info.clone(), own, markers: Vec::new() };
        loaded.sessions.insert(*incarnation, session);
    }
}

/// The second round trip.
async fn read(
    connection: &Connection,
    reads: &Reads<'_>,
    locks: &Locks,
    loaded: &mut Loaded,
    stored: &mut Stored,
) -> Result<(), Failure> {
    let keys: Vec<(&Node, &str)> = reads
        .keys
        .iter()
        .filter(|(node, _)| !reads.whole.contains(*node))
        .flat_map(|(node, names)| names.iter().map(move |name| (node, *name)))
        .collect();
    let sessions: Vec<Node> = stored
        .sessions
        .values()
        .map(|found| Node::session(&found.info.key, found.info.incarnation))
        .collect();
    let state = Columns::new(READ_STATE)
        .scopes(reads.scopes.iter())
        .numbers(places(reads.scopes.len()))
        .nodes(reads.whole.iter())
        .numbers(places(reads.whole.len()))
        .nodes(keys.iter().map(|(node, _)| *node))
        .texts(keys.iter().map(|(_, name)| *name))
        .numbers(places(reads.whole.len() + keys.len()).skip(reads.whole.len()));
    let markers = Columns::new(READ_MARKERS).nodes(sessions.iter());
    let events = Columns::new(read_events())
        .numbers(reads.events.iter().map(|(node, _)| node.incarnation.0))
        .texts(reads.events.iter().map(|(_, id)| *id))
        .numbers(places(reads.events.len()));
    let requests = Columns::new(READ_REQUESTS)
        .nodes(reads.requests.iter().map(|(node, _)| node))
        .texts(reads.requests.iter().map(|(_, id)| *id))
        .numbers(places(reads.requests.len()));
    let wanted = [
        (!reads.scopes.is_empty(), &state),
        (!sessions.is_empty(), &markers),
        (!reads.events.is_empty(), &events),
        (!reads.requests.is_empty(), &requests),
    ];
    let statements: Vec<&Columns<'_>> =
        wanted.iter().filter(|(wanted, _)| *wanted).map(|(_, statement)| *statement).collect();
    prepare(connection, &statements).await?;
    let steps = statements.iter().map(|statement| statement.all(connection)).collect();
    let mut answers = pipeline(steps).await?.into_iter();
    let mut answer = |at: usize| if wanted[at].0 { answers.next() } else { None };
    fill::state(&answer(0).unwrap_or_default(), reads, &keys, locks, loaded, stored)?;
    fill::markers(&answer(1).unwrap_or_default(), loaded)?;
    fill::events(&answer(2).unwrap_or_default(), reads, loaded)?;
    fill::requests(&answer(3).unwrap_or_default(), reads, loaded)?;
    Ok(())
}

/// The places of the rows of a statement's columns.
fn places(rows: usize) -> impl Iterator<Item = u64> {
    0..rows as u64
}
