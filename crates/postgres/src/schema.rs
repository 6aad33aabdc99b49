//! The tables, in SQL that distributed engines accept too.
//!
//! * Every table that grows is led by `(app_name, user_id)`, so that an engine can place rows by them. A narrow look-up table is not:
//!   `session_list` lists across users. Four indexes are not either: `session_name` finds sessions by their bare id, `session_expiry`
//!   those that expire, `event_of_id` an event, and `tombstone_lease` what a sweep removes.
//! * A *node* is what has state: an application (its user is `''`), a user, or a session. `incarnation` is the session's number, and 0
//!   for applications and users. Numbers come from `meta.next_id`, in blocks, and are never used again.
//! * JSON is text, times are seconds and nanoseconds, and text compares by bytes.
//! * A commit locks the rows of the sessions that it changes, then those of the users and applications that it changes or checks
//!   (`scope`), each in the order of their names. Every other row is written under these locks.

use super::prelude::*;
use sessiond_store::layout::layout_hash;

/// One step, from a version to the next.
#[derive(Clone, Copy)]
pub(super) struct Migration {
    pub(super) version: i32,
    /// What it does, in a few words for the log.
    pub(super) title: &'static str,
    pub(super) sql: &'static str,
}

/// Every step since the empty database, in order. A step leaves what earlier programs read and write, because they run beside this one
/// during an upgrade.
pub(super) const MIGRATIONS: &[Migration] =
    &[Migration { version: 1, title: "create the tables", sql: TABLES }];

/// The hash of the tables that steps make, which the database keeps beside their version.
pub(super) fn layout(steps: &[Migration]) -> String {
    let steps = steps.iter().map(|step| step.sql);
    layout_hash(&[META].into_iter().chain(steps).collect::<Vec<_>>().join(";"))
}

/// `tombstone.lease_secs` of rows that may be removed at once.
pub(super) const PURGED: i64 = i64::MIN;

/// The node of an application or a user.
pub(super) const SHARED: Incarnation = Incarnation(0);

/// Made before the first migration, by the first replica.
pub(super) const META: &str = "
CREATE TABLE IF NOT EXISTS meta (
    id INTEGER PRIMARY KEY,
    schema_version INTEGER NOT NULL,
    layout TEXT NOT NULL,
    store_id BYTEA NOT NULL,
    next_id BIGINT NOT NULL,
    -- Greater than every version of the applications and users that were removed.
    version_floor BIGINT NOT NULL DEFAULT 0
)";

const TABLES: &str = r#"
-- Applications (their user is '') and users. Their versions go on from `base`. `changed_bytes` is what changed since `snapshot_version`,
-- when a snapshot was last due.
CREATE TABLE scope (
    app_name TEXT COLLATE "C" NOT NULL, user_id TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL, base BIGINT NOT NULL, state_bytes BIGINT NOT NULL,
    snapshot_version BIGINT NOT NULL, changed_bytes BIGINT NOT NULL,
    PRIMARY KEY (app_name, user_id)
);

-- Applications and users that may have become empty. A sweep looks at them.
CREATE TABLE emptied (
    app_name TEXT COLLATE "C" NOT NULL, user_id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (app_name, user_id)
);

-- Applications and users that were removed, whose rows up to a version follow.
CREATE TABLE ended_scope (
    app_name TEXT COLLATE "C" NOT NULL, user_id TEXT COLLATE "C" NOT NULL,
    through BIGINT NOT NULL,
    PRIMARY KEY (app_name, user_id, through)
);

-- No index has a column that an event changes: its update stays within the page.
CREATE TABLE session (
    app_name TEXT COLLATE "C" NOT NULL, user_id TEXT COLLATE "C" NOT NULL,
    session_id TEXT COLLATE "C" NOT NULL,
    incarnation BIGINT NOT NULL,
    last_sequence BIGINT NOT NULL,
    state_bytes BIGINT NOT NULL,
    snapshot_version BIGINT NOT NULL, changed_bytes BIGINT NOT NULL,
    last_event_secs BIGINT NOT NULL, last_event_nanos INTEGER NOT NULL,
    update_secs BIGINT NOT NULL, update_nanos INTEGER NOT NULL,
    create_secs BIGINT NOT NULL, create_nanos INTEGER NOT NULL,
    expire_secs BIGINT, expire_nanos INTEGER,
    created_app_version BIGINT NOT NULL, created_user_version BIGINT NOT NULL,
    display_name TEXT NOT NULL,
    labels TEXT,
    fork_session TEXT, fork_sequence BIGINT,
    PRIMARY KEY (app_name, user_id, session_id)
) WITH (fillfactor = 70);
CREATE INDEX session_name ON session (session_id, app_name, user_id);
CREATE INDEX session_expiry ON session (expire_secs, expire_nanos);

-- In whole seconds: the session's row has the rest of the time, so that further events of one second change nothing here.
CREATE TABLE session_list (
    app_name TEXT COLLATE "C" NOT NULL,
    last_event_secs BIGINT NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL, session_id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (app_name, last_event_secs, user_id, session_id)
);
CREATE INDEX session_list_of_user
    ON session_list (app_name, user_id, last_event_secs, session_id);

CREATE TABLE event (
    app_name TEXT COLLATE "C" NOT NULL, user_id TEXT COLLATE "C" NOT NULL,
    incarnation BIGINT NOT NULL, sequence BIGINT NOT NULL,
    event_id TEXT COLLATE "C" NOT NULL,
    invocation_id TEXT,
    author TEXT NOT NULL,
    branch TEXT NOT NULL,
    event_secs BIGINT NOT NULL, event_nanos INTEGER NOT NULL,
    commit_secs BIGINT NOT NULL, commit_nanos INTEGER NOT NULL,
    app_version BIGINT NOT NULL, user_version BIGINT NOT NULL,
    rewind_to BIGINT,
    fingerprint BYTEA NOT NULL,
    removed TEXT, set_json TEXT,
    body TEXT,
    trace_id BYTEA,
    PRIMARY KEY (app_name, user_id, incarnation, sequence)
);
-- Not led by the application and the user as the key is: the planner could then take either for the other's work, and does while a new
-- table has no statistics.
CREATE INDEX event_of_id ON event (incarnation, event_id);

-- The markers of rewinds, which are events as well.
CREATE TABLE marker (
    app_name TEXT COLLATE "C" NOT NULL, user_id TEXT COLLATE "C" NOT NULL,
    incarnation BIGINT NOT NULL, sequence BIGINT NOT NULL,
    rewind_to BIGINT NOT NULL,
    PRIMARY KEY (app_name, user_id, incarnation, sequence)
);

-- What each key became, and by which version of its node; a key that was removed has no value.
CREATE TABLE state (
    app_name TEXT COLLATE "C" NOT NULL, user_id TEXT COLLATE "C" NOT NULL,
    incarnation BIGINT NOT NULL, name TEXT COLLATE "C" NOT NULL,
    value TEXT,
    version BIGINT NOT NULL,
    PRIMARY KEY (app_name, user_id, incarnation, name)
) WITH (fillfactor = 80);

-- Changes of applications and users. They outlive the sessions that made them.
CREATE TABLE scope_log (
    app_name TEXT COLLATE "C" NOT NULL, user_id TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    commit_secs BIGINT NOT NULL, commit_nanos INTEGER NOT NULL,
    author TEXT NOT NULL,
    source BIGINT, source_user TEXT, source_session TEXT, source_sequence BIGINT,
    removed TEXT, set_json TEXT,
    PRIMARY KEY (app_name, user_id, version)
);
CREATE INDEX scope_log_user ON scope_log (app_name, source_user, version);

-- A node's keys at a version, as three arrays of the same length. A key that was removed has no value, and the version that did it.
CREATE TABLE snapshot (
    app_name TEXT COLLATE "C" NOT NULL, user_id TEXT COLLATE "C" NOT NULL,
    incarnation BIGINT NOT NULL, version BIGINT NOT NULL,
    key_names TEXT[] NOT NULL, key_values TEXT[] NOT NULL, key_versions BIGINT[] NOT NULL,
    PRIMARY KEY (app_name, user_id, incarnation, version)
);

CREATE TABLE request (
    app_name TEXT COLLATE "C" NOT NULL, user_id TEXT COLLATE "C" NOT NULL,
    incarnation BIGINT NOT NULL, request_id TEXT COLLATE "C" NOT NULL,
    fingerprint BYTEA NOT NULL,
    PRIMARY KEY (app_name, user_id, incarnation, request_id)
);

-- Sessions that are gone, and forks that are not finished, whose rows are removed once `lease_secs` has passed.
CREATE TABLE tombstone (
    app_name TEXT COLLATE "C" NOT NULL, user_id TEXT COLLATE "C" NOT NULL,
    incarnation BIGINT NOT NULL,
    lease_secs BIGINT NOT NULL,
    PRIMARY KEY (app_name, user_id, incarnation)
);
CREATE INDEX tombstone_lease ON tombstone (lease_secs);

-- One row for each connection that writes, with the number of its last commit: whoever lost the connection during a commit looks here.
CREATE TABLE writer (
    id BYTEA PRIMARY KEY,
    commits BIGINT NOT NULL,
    used_secs BIGINT NOT NULL
) WITH (fillfactor = 10);
"#;
