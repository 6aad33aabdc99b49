//! The tables, and the settings of every connection.
//!
//! Nodes are applications, users and lives of sessions; each has a number of its own that is never used again. Two rules keep the
//! cost of an append down to what it must be:
//!
//! * **Rows of logs lie in the order of their commits**, at the end of their table, however many sessions and users are written to
//!   side by side: a commit fills whole pages instead of opening one in the middle for each of them. A node's row in `head` is the
//!   one thing that changes with every commit; those of the nodes in use lie close together.
//! * **Indexes follow in steps.** `log_row`, `event_id` and `key_change` can be made from the logs. They hold everything up to the
//!   last version that is divisible by [`INDEX_STEP`]; the rows of what follows are found through `head`. A step's entries go in
//!   together, beside each other.

use rusqlite::Connection;

use crate::domain::{Version, token::StoreId};

/// Number of an application, a user or a life of a session.
pub(super) type NodeId = i64;

/// "sesd": tells a file of sessiond from other people's.
pub(super) const APPLICATION_ID: i32 = 0x7365_7364;

/// Version of the tables below. A file of another one is refused.
pub(super) const SCHEMA_VERSION: i32 = 2;

/// Versions that are indexed together. More make appends cheaper and reads of the past dearer, by reading that many rows.
pub(super) const INDEX_STEP: Version = 32;

/// Up to which version a log that ends at `version` is indexed.
pub(super) fn indexed(version: Version) -> Version {
    version - version % INDEX_STEP
}

/// Creates the tables in an empty file.
pub(super) fn create(connection: &Connection, store_id: StoreId) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE;
         PRAGMA application_id = {APPLICATION_ID};
         PRAGMA user_version = {SCHEMA_VERSION};
         {TABLES}"
    ))?;
    connection.execute("INSERT INTO meta VALUES (1, ?1, 1)", [store_id.0])?;
    connection.execute_batch("COMMIT")
}

/// Settings of the writer: durable at every commit, checkpoints by hand, and enough memory for the inner pages of a large file.
pub(super) fn set_up_writer(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "PRAGMA journal_mode = WAL;
         PRAGMA synchronous = FULL;
         PRAGMA wal_autocheckpoint = 0;
         PRAGMA temp_store = MEMORY;
         PRAGMA foreign_keys = OFF;
         PRAGMA cache_size = -16384;",
    )
}

/// Settings of a reader. A commit of the writer empties a reader's own cache, so the cache is small, and what is not in the log of
/// the last commits is read through the mapped file, which costs no call.
pub(super) fn set_up_reader(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "PRAGMA query_only = ON;
         PRAGMA temp_store = MEMORY;
         PRAGMA foreign_keys = OFF;
         PRAGMA cache_size = -8192;
         PRAGMA mmap_size = 1073741824;",
    )
}

const TABLES: &str = "
CREATE TABLE meta (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    store_id BLOB NOT NULL,
    next_node INTEGER NOT NULL
) STRICT;

-- Applications (their user is '') and users.
CREATE TABLE scope (
    app TEXT NOT NULL,
    user TEXT NOT NULL,
    id INTEGER NOT NULL UNIQUE,
    PRIMARY KEY (app, user)
) STRICT, WITHOUT ROWID;

-- What an event does not change, and in listed_* the time under which lists find the session, unless it is among `moved`.
CREATE TABLE session (
    id INTEGER PRIMARY KEY,
    app_scope INTEGER NOT NULL,
    user_scope INTEGER NOT NULL,
    user_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    listed_secs INTEGER NOT NULL,
    listed_nanos INTEGER NOT NULL,
    create_secs INTEGER NOT NULL,
    create_nanos INTEGER NOT NULL,
    update_secs INTEGER NOT NULL,
    update_nanos INTEGER NOT NULL,
    expire_secs INTEGER,
    expire_nanos INTEGER,
    created_app_version INTEGER NOT NULL,
    created_user_version INTEGER NOT NULL,
    initial_bytes INTEGER NOT NULL,
    display_name TEXT NOT NULL,
    labels TEXT,
    fork_session TEXT,
    fork_sequence INTEGER
) STRICT;
CREATE UNIQUE INDEX session_address ON session (user_scope, session_id);
CREATE INDEX session_bare ON session (session_id);
CREATE INDEX session_of_app ON session (app_scope, listed_secs, listed_nanos, user_id, session_id);
CREATE INDEX session_of_user ON session (user_scope, listed_secs, listed_nanos, session_id);
CREATE INDEX session_expiry ON session (expire_secs, expire_nanos) WHERE expire_secs IS NOT NULL;

-- Sessions whose last event is not where the lists' indexes have them: those in use, at most a few hundred.
CREATE TABLE moved (
    app_scope INTEGER NOT NULL,
    user_scope INTEGER NOT NULL,
    session INTEGER NOT NULL,
    PRIMARY KEY (app_scope, user_scope, session)
) STRICT, WITHOUT ROWID;

-- A session's own state as it was created, where it was not empty.
CREATE TABLE initial (
    session INTEGER PRIMARY KEY,
    state TEXT NOT NULL
) STRICT;

-- Where every node's log ends: its newest version, the size of the state after it, and where the rows of its last step lie.
CREATE TABLE head (
    node INTEGER PRIMARY KEY,
    version INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    last_rows BLOB NOT NULL
) STRICT;

-- Where a session's events, or the rows of a wider scope's log, lie.
CREATE TABLE log_row (
    node INTEGER NOT NULL,
    version INTEGER NOT NULL,
    id INTEGER NOT NULL,
    PRIMARY KEY (node, version)
) STRICT, WITHOUT ROWID;

-- The long columns come last.
CREATE TABLE event (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    invocation_id TEXT,
    author TEXT NOT NULL,
    branch TEXT NOT NULL,
    event_secs INTEGER NOT NULL,
    event_nanos INTEGER NOT NULL,
    commit_secs INTEGER NOT NULL,
    commit_nanos INTEGER NOT NULL,
    app_version INTEGER NOT NULL,
    user_version INTEGER NOT NULL,
    rewind_to INTEGER,
    fingerprint BLOB NOT NULL,
    removed TEXT,
    set_json TEXT,
    body TEXT
) STRICT;

CREATE TABLE event_id (
    session INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    PRIMARY KEY (session, event_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE marker (
    session INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    rewind_to INTEGER NOT NULL,
    PRIMARY KEY (session, sequence)
) STRICT, WITHOUT ROWID;

-- What every node's keys are now.
CREATE TABLE state (
    node INTEGER NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (node, name)
) STRICT, WITHOUT ROWID;

-- Changes of applications and users. They outlive the sessions that made them.
CREATE TABLE scope_log (
    id INTEGER PRIMARY KEY,
    scope INTEGER NOT NULL,
    version INTEGER NOT NULL,
    commit_secs INTEGER NOT NULL,
    commit_nanos INTEGER NOT NULL,
    author TEXT NOT NULL,
    source INTEGER,
    source_user TEXT,
    source_session TEXT,
    source_sequence INTEGER,
    removed TEXT,
    set_json TEXT
) STRICT;

-- Which versions changed a key. The values are in the logs.
CREATE TABLE key_change (
    node INTEGER NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (node, name, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE request (
    node INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    PRIMARY KEY (node, request_id)
) STRICT, WITHOUT ROWID;

-- Sessions that are gone, and forks that are not there yet, whose rows are still to be removed.
CREATE TABLE garbage (
    id INTEGER PRIMARY KEY
) STRICT;
";
