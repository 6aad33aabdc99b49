//! The tables, and the settings of a new file. docs/storage.md explains them to people who query the file.
//!
//! * Applications, users and sessions have numbers from one counter in `meta`, which are never used again: `scope.id`, `session.id`.
//!   A *node* is any of them. Its row also has what the last commit left: its version, the size of its state, its times.
//! * Events, and changes of applications and users, lie in commit order at the end of their tables, so that a commit fills whole pages
//!   however many sessions it touches. An index finds an event by its id. `log_index` finds the rows of a node: one row of it holds the
//!   numbers of up to `LOG_STEP` rows. The numbers of the rows that follow are in `unindexed` of the node.
//! * `listed_*` is the place of a session in the indexes of lists, which follow the events later (see `listed`). So does `is_named`, by
//!   which the changes of an application are found that name a user.
//! * `snapshot` holds a node's state at some versions, so that the past is read from there and the few changes that follow.

use std::sync::LazyLock;

use rusqlite::{Connection, Result};

use sessiond_core::domain::prelude::StoreId;
use sessiond_store::layout::layout_hash;

/// "ses1": tells a file of sessiond from other databases.
pub(super) const APPLICATION_ID: i32 = 0x7365_7331;

/// "sesd": of the files that builds before the first release made.
pub(super) const UNRELEASED_ID: i32 = 0x7365_7364;

/// Version of the tables below.
pub(super) const SCHEMA_VERSION: i32 = 1;

/// The hash of the tables and views below.
pub(super) static LAYOUT: LazyLock<String> =
    LazyLock::new(|| layout_hash(&[TABLES, &VIEWS].concat()));

/// `tombstone.lease_until` of rows that may be removed at once.
pub(super) const PURGED: i64 = i64::MIN;

/// Settings that an empty file keeps for ever, before anything is written to it: the switch to WAL writes its first page. The sweep
/// gives deleted pages back.
pub(super) fn set_up_file(connection: &Connection) -> Result<()> {
    connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL")
}

/// Creates the tables in an empty file.
pub(super) fn create(connection: &Connection, store_id: StoreId) -> Result<()> {
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE;
         PRAGMA application_id = {APPLICATION_ID};
         PRAGMA user_version = {SCHEMA_VERSION};
         {TABLES}
         {}",
        *VIEWS
    ))?;
    let meta = "INSERT INTO meta VALUES (1, ?1, ?2, 1, 0, 0, 0)";
    connection.execute(meta, (store_id.0, &*LAYOUT))?;
    connection.execute_batch("COMMIT")
}

const TABLES: &str = "
CREATE TABLE meta (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    store_id BLOB NOT NULL,
    -- Hash of the tables and views.
    layout TEXT NOT NULL,
    next_id INTEGER NOT NULL,
    -- The list indexes follow the events up to this one, and `scope_log_user` the changes up to that one.
    listed_through INTEGER NOT NULL,
    named_through INTEGER NOT NULL,
    -- Greater than every version of the applications and users that were removed.
    version_floor INTEGER NOT NULL
) STRICT;

-- Applications (their user is '') and users. Their versions go on from `base`. `state_bytes`: of their keys and values.
CREATE TABLE scope (
    id INTEGER PRIMARY KEY,
    app TEXT NOT NULL, user TEXT NOT NULL,
    base INTEGER NOT NULL,
    version INTEGER NOT NULL, state_bytes INTEGER NOT NULL, unindexed TEXT NOT NULL,
    UNIQUE (app, user)
) STRICT;

-- Applications and users that may have become empty. A sweep looks at them.
CREATE TABLE emptied (scope INTEGER PRIMARY KEY) STRICT;

CREATE TABLE session (
    id INTEGER PRIMARY KEY,
    app_scope INTEGER NOT NULL, user_scope INTEGER NOT NULL,
    user_id TEXT NOT NULL, session_id TEXT NOT NULL,
    last_sequence INTEGER NOT NULL, state_bytes INTEGER NOT NULL, unindexed TEXT NOT NULL,
    last_event_secs INTEGER NOT NULL, last_event_nanos INTEGER NOT NULL,
    update_secs INTEGER NOT NULL, update_nanos INTEGER NOT NULL,
    create_secs INTEGER NOT NULL, create_nanos INTEGER NOT NULL,
    expire_secs INTEGER, expire_nanos INTEGER,
    created_app_version INTEGER NOT NULL, created_user_version INTEGER NOT NULL,
    display_name TEXT NOT NULL,
    labels TEXT,
    fork_session TEXT, fork_sequence INTEGER,
    listed_secs INTEGER NOT NULL, listed_nanos INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX session_address ON session (user_scope, session_id);
CREATE INDEX session_bare ON session (session_id);
CREATE INDEX session_of_app ON session (app_scope, listed_secs, listed_nanos, user_id, session_id);
CREATE INDEX session_of_user ON session (user_scope, listed_secs, listed_nanos, session_id);
CREATE INDEX session_expiry ON session (expire_secs, expire_nanos) WHERE expire_secs IS NOT NULL;

-- Events of all sessions, in commit order. The long columns come last.
CREATE TABLE event (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL, sequence INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    invocation_id TEXT,
    author TEXT NOT NULL,
    branch TEXT NOT NULL,
    event_secs INTEGER NOT NULL, event_nanos INTEGER NOT NULL,
    commit_secs INTEGER NOT NULL, commit_nanos INTEGER NOT NULL,
    app_version INTEGER NOT NULL, user_version INTEGER NOT NULL,
    rewind_to INTEGER,
    fingerprint BLOB NOT NULL,
    trace_id BLOB,
    removed TEXT, set_json TEXT,
    body TEXT
) STRICT;
CREATE UNIQUE INDEX event_by_id ON event (event_id, session);
CREATE INDEX marker ON event (session, sequence, rewind_to) WHERE rewind_to IS NOT NULL;

-- The numbers of successive rows of a node in `event` or `scope_log`, an array, and the version of the last of them. Those that follow
-- are in `unindexed` of the node.
CREATE TABLE log_index (
    node INTEGER NOT NULL, version INTEGER NOT NULL, rows TEXT NOT NULL,
    PRIMARY KEY (node, version)
) STRICT, WITHOUT ROWID;

-- The keys that have a value, and at which version they got it.
CREATE TABLE state (
    node INTEGER NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, version INTEGER NOT NULL,
    PRIMARY KEY (node, name)
) STRICT, WITHOUT ROWID;

-- The keys that had a value, and which version removed it.
CREATE TABLE removed (
    node INTEGER NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL,
    PRIMARY KEY (node, name)
) STRICT, WITHOUT ROWID;

-- Changes of applications and users. They outlive the sessions that made them.
CREATE TABLE scope_log (
    id INTEGER PRIMARY KEY,
    scope INTEGER NOT NULL, version INTEGER NOT NULL,
    commit_secs INTEGER NOT NULL, commit_nanos INTEGER NOT NULL,
    author TEXT NOT NULL,
    source INTEGER, source_user TEXT, source_session TEXT, source_sequence INTEGER,
    -- 1: `scope_log_user` has it.
    is_named INTEGER NOT NULL,
    removed TEXT, set_json TEXT
) STRICT;
CREATE INDEX scope_log_user ON scope_log (scope, source_user) WHERE is_named = 1;

-- A node's state at a version: {name: [value as text, its version]}; a key that was removed has null and the version that did it.
CREATE TABLE snapshot (
    node INTEGER NOT NULL, version INTEGER NOT NULL, state TEXT NOT NULL,
    PRIMARY KEY (node, version)
) STRICT;

CREATE TABLE request (
    node INTEGER NOT NULL, request_id TEXT NOT NULL, fingerprint BLOB NOT NULL,
    PRIMARY KEY (node, request_id)
) STRICT, WITHOUT ROWID;

-- Sessions that are gone, and forks that are not finished, whose rows are removed once `lease_until` (seconds) has passed.
CREATE TABLE tombstone (id INTEGER PRIMARY KEY, lease_until INTEGER NOT NULL) STRICT;
";

/// The beginning of both halves of `event_view`.
const EVENTS: &str = "SELECT
    a.app AS app_name, s.user_id, s.session_id, e.sequence, e.event_id, e.invocation_id, e.author, e.branch,
    strftime('%Y-%m-%dT%H:%M:%SZ', e.event_secs, 'unixepoch') AS event_time,
    strftime('%Y-%m-%dT%H:%M:%SZ', e.commit_secs, 'unixepoch') AS commit_time,
    e.rewind_to, e.set_json AS state_set, e.removed AS state_removed, e.body,
    nullif(lower(hex(e.trace_id)), '') AS trace_id, e.session AS session
FROM session s JOIN scope a ON a.id = s.app_scope";

/// Views for people: names instead of numbers, ISO times.
static VIEWS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "
CREATE VIEW event_view AS {EVENTS}
    JOIN log_index i ON i.node = s.id JOIN json_each(i.rows) t JOIN event e ON e.id = t.value AND e.session = s.id
UNION ALL {EVENTS}
    JOIN json_each(s.unindexed) t JOIN event e ON e.id = t.value AND e.session = s.id;

CREATE VIEW session_view AS SELECT
    a.app AS app_name, s.user_id, s.session_id, s.last_sequence, s.display_name, s.labels,
    strftime('%Y-%m-%dT%H:%M:%SZ', s.create_secs, 'unixepoch') AS create_time,
    strftime('%Y-%m-%dT%H:%M:%SZ', s.update_secs, 'unixepoch') AS update_time,
    strftime('%Y-%m-%dT%H:%M:%SZ', s.last_event_secs, 'unixepoch') AS last_event_time,
    strftime('%Y-%m-%dT%H:%M:%SZ', s.expire_secs, 'unixepoch') AS expire_time,
    s.fork_session AS forked_from, s.fork_sequence AS forked_at, s.state_bytes, s.id
FROM session s JOIN scope a ON a.id = s.app_scope;

CREATE VIEW state_view AS
SELECT c.app AS app_name, nullif(c.user, '') AS user_id, NULL AS session_id,
    CASE c.user WHEN '' THEN 'app:' ELSE 'user:' END || t.name AS key, t.value, t.version
FROM state t JOIN scope c ON c.id = t.node
UNION ALL
SELECT a.app, s.user_id, s.session_id, t.name, t.value, t.version
FROM state t JOIN session s ON s.id = t.node JOIN scope a ON a.id = s.app_scope;
"
    )
});
