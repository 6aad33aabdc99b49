//! The tables, in SQL that distributed engines accept too.
//!
//! * The key of every table that grows is led by `place`, the [place](sessiond_store::place) of the application and the user, so that an
//!   engine can spread rows by it. `session_list` is not, which lists across users, nor are the indexes for lists of names and for sweeps.
//!   `session_name` finds sessions by their bare id, and is led by the place of that.
//! * A *node* is what has state: an application (its user is `''`), a user, or a session. `incarnation` is the session's number, and 0
//!   for applications and users. Numbers come from `meta.next_id`, in blocks, and are never used again.
//! * JSON is text, times are seconds and nanoseconds, and text compares by bytes.
//! * A commit locks the rows of the sessions that it changes, then those of the users and applications that it changes or checks
//!   (`scope`), each in the order of their names. Every other row is written under these locks.

use super::{options::Partitions, prelude::*};
use sessiond_store::{layout::layout_hash, place::PLACES};

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

/// The statements of a step, which make tables with partitions by place. Storage parameters are those of partitions. No comment has a
/// semicolon.
pub(super) fn statements(sql: &str, partitions: Partitions) -> String {
    let partitioned = |statement: &str| {
        let table = statement.split_once("CREATE TABLE ").map(|(_, table)| table);
        let is_placed = |table: &&str| table.contains("PRIMARY KEY (place,");
        match table.filter(is_placed).and_then(|table| table.split(' ').next()) {
            Some(name) if partitions != Partitions::ONE => {
                of_ranges(statement, name, partitions.get())
            }
            _ => format!("{statement};"),
        }
    };
    sql.split_terminator(';').map(partitioned).collect()
}

/// A table whose partitions have ranges of places.
fn of_ranges(table: &str, name: &str, partitions: u16) -> String {
    let (columns, with) = table.split_once(" WITH (").unwrap_or((table, ""));
    let with = if with.is_empty() { String::new() } else { format!(" WITH ({with}") };
    let mut sql = format!("{columns} PARTITION BY RANGE (place);");
    for at in 0..partitions {
        let [from, to] = [at, at + 1].map(|at| PLACES / partitions * at);
        sql += &format!(
            "CREATE TABLE {name}_{at} PARTITION OF {name} FOR VALUES FROM ({from}) TO ({to}){with};"
        );
    }
    sql
}

/// `tombstone.lease_secs` of rows that may be removed at once.
pub(super) const PURGED: i64 = i64::MIN;

/// The node of an application or a user.
pub(super) const SHARED: Incarnation = Incarnation(0);

/// Seconds of a period of the list. With each period more sessions are sorted for a page, with each second more rows move.
const LIST_PERIOD_SECS: i64 = 10;

/// The period of the list in which a session is that had its last event then.
pub(super) fn list_period(last_event: Time) -> i64 {
    last_event.secs().div_euclid(LIST_PERIOD_SECS)
}

/// Made before the first migration, by the first replica.
pub(super) const META: &str = "
CREATE TABLE IF NOT EXISTS meta (
    id INT4 PRIMARY KEY,
    schema_version INT4 NOT NULL,
    layout TEXT NOT NULL,
    store_id BYTEA NOT NULL,
    next_id BIGINT NOT NULL,
    -- Of each table that has a place. They are never changed.
    partitions INT4 NOT NULL,
    -- Greater than every version of the applications and users that were removed.
    version_floor BIGINT NOT NULL DEFAULT 0
)";

const TABLES: &str = r#"
-- Applications (their user is '') and users. Their versions go on from `base`. `changed_bytes` is what changed since `snapshot_version`,
-- when a snapshot was last due.
CREATE TABLE scope (
    place SMALLINT NOT NULL, app_name TEXT COLLATE "C" NOT NULL, user_id TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL, base BIGINT NOT NULL, state_bytes BIGINT NOT NULL,
    snapshot_version BIGINT NOT NULL, changed_bytes BIGINT NOT NULL,
    PRIMARY KEY (place, app_name, user_id)
);
-- With the place: it may be read instead of the key's index.
CREATE INDEX scope_name ON scope (app_name, user_id, place);

-- Applications and users that may have become empty. A sweep looks at them.
CREATE TABLE emptied (
    place SMALLINT NOT NULL, app_name TEXT COLLATE "C" NOT NULL, user_id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (place, app_name, user_id)
);

-- Applications and users that were removed, whose rows up to a version follow.
CREATE TABLE ended_scope (
    place SMALLINT NOT NULL, app_name TEXT COLLATE "C" NOT NULL, user_id TEXT COLLATE "C" NOT NULL,
    through BIGINT NOT NULL,
    PRIMARY KEY (place, app_name, user_id, through)
);

-- No index has a column that an event changes: its update stays within the page.
CREATE TABLE session (
    place SMALLINT NOT NULL, app_name TEXT COLLATE "C" NOT NULL, user_id TEXT COLLATE "C" NOT NULL,
    session_id TEXT COLLATE "C" NOT NULL,
    incarnation BIGINT NOT NULL,
    last_sequence BIGINT NOT NULL,
    state_bytes BIGINT NOT NULL,
    snapshot_version BIGINT NOT NULL, changed_bytes BIGINT NOT NULL,
    last_event_secs BIGINT NOT NULL, last_event_nanos INT4 NOT NULL,
    update_secs BIGINT NOT NULL, update_nanos INT4 NOT NULL,
    create_secs BIGINT NOT NULL, create_nanos INT4 NOT NULL,
    expire_secs BIGINT, expire_nanos INT4,
    created_app_version BIGINT NOT NULL, created_user_version BIGINT NOT NULL,
    display_name TEXT NOT NULL,
    labels TEXT,
    fork_session TEXT, fork_sequence BIGINT,
    PRIMARY KEY (place, app_name, user_id, session_id)
) WITH (fillfactor = 70);
CREATE INDEX session_expiry ON session (expire_secs, expire_nanos);

-- Sessions by their id, whose place `place` is. `session_place` is that of the session's row.
CREATE TABLE session_name (
    place SMALLINT NOT NULL, session_id TEXT COLLATE "C" NOT NULL,
    app_name TEXT COLLATE "C" NOT NULL, user_id TEXT COLLATE "C" NOT NULL,
    session_place SMALLINT NOT NULL,
    PRIMARY KEY (place, session_id, app_name, user_id)
);
-- For lists of names. With the place: it may be read instead of the key's index. Not of `session`: the planner would go through all
-- sessions of a user with it.
CREATE INDEX session_address ON session_name (app_name, user_id, session_id, place);

-- In periods of seconds (`list_period`): the session's row has the time, so that further events of one period change nothing here.
CREATE TABLE session_list (
    app_name TEXT COLLATE "C" NOT NULL,
    period BIGINT NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL, session_id TEXT COLLATE "C" NOT NULL,
    place SMALLINT NOT NULL,
    PRIMARY KEY (app_name, period, user_id, session_id)
);
CREATE INDEX session_list_of_user
    ON session_list (app_name, user_id, period, session_id);

CREATE TABLE event (
    place SMALLINT NOT NULL, app_name TEXT COLLATE "C" NOT NULL, user_id TEXT COLLATE "C" NOT NULL,
    incarnation BIGINT NOT NULL, sequence BIGINT NOT NULL,
    event_id TEXT COLLATE "C" NOT NULL,
    invocation_id TEXT,
    author TEXT NOT NULL,
    branch TEXT NOT NULL,
    event_secs BIGINT NOT NULL, event_nanos INT4 NOT NULL,
    commit_secs BIGINT NOT NULL, commit_nanos INT4 NOT NULL,
    app_version BIGINT NOT NULL, user_version BIGINT NOT NULL,
    rewind_to BIGINT,
    fingerprint BYTEA NOT NULL,
    removed TEXT, set_json TEXT,
    body TEXT,
    trace_id BYTEA,
    PRIMARY KEY (place, app_name, user_id, incarnation, sequence)
);
-- Without the application and the user: the planner could then take it for the key's work, or the key for its, and does while a new
-- table has no statistics.
CREATE INDEX event_of_id ON event (place, incarnation, event_id);

-- The markers of rewinds, which are events as well.
CREATE TABLE marker (
    place SMALLINT NOT NULL, app_name TEXT COLLATE "C" NOT NULL, user_id TEXT COLLATE "C" NOT NULL,
    incarnation BIGINT NOT NULL, sequence BIGINT NOT NULL,
    rewind_to BIGINT NOT NULL,
    PRIMARY KEY (place, app_name, user_id, incarnation, sequence)
);

-- What each key became, and by which version of its node. A key that was removed has no value.
CREATE TABLE state (
    place SMALLINT NOT NULL, app_name TEXT COLLATE "C" NOT NULL, user_id TEXT COLLATE "C" NOT NULL,
    incarnation BIGINT NOT NULL, name TEXT COLLATE "C" NOT NULL,
    value TEXT,
    version BIGINT NOT NULL,
    PRIMARY KEY (place, app_name, user_id, incarnation, name)
) WITH (fillfactor = 80);

-- Changes of applications and users. They outlive the sessions that made them.
CREATE TABLE scope_log (
    place SMALLINT NOT NULL, app_name TEXT COLLATE "C" NOT NULL, user_id TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    commit_secs BIGINT NOT NULL, commit_nanos INT4 NOT NULL,
    author TEXT NOT NULL,
    source BIGINT, source_user TEXT, source_session TEXT, source_sequence BIGINT,
    removed TEXT, set_json TEXT,
    PRIMARY KEY (place, app_name, user_id, version)
);
-- Of changes of applications: those of users name no user.
CREATE INDEX scope_log_user ON scope_log (place, app_name, source_user, version) WHERE source_user IS NOT NULL;

-- A node's keys at a version, as three arrays of the same length. A key that was removed has no value, and the version that did it.
CREATE TABLE snapshot (
    place SMALLINT NOT NULL, app_name TEXT COLLATE "C" NOT NULL, user_id TEXT COLLATE "C" NOT NULL,
    incarnation BIGINT NOT NULL, version BIGINT NOT NULL,
    key_names TEXT[] NOT NULL, key_values TEXT[] NOT NULL, key_versions BIGINT[] NOT NULL,
    PRIMARY KEY (place, app_name, user_id, incarnation, version)
);

CREATE TABLE request (
    place SMALLINT NOT NULL, app_name TEXT COLLATE "C" NOT NULL, user_id TEXT COLLATE "C" NOT NULL,
    incarnation BIGINT NOT NULL, request_id TEXT COLLATE "C" NOT NULL,
    fingerprint BYTEA NOT NULL,
    PRIMARY KEY (place, app_name, user_id, incarnation, request_id)
);

-- Sessions that are gone, and forks that are not finished, whose rows are removed once `lease_secs` has passed.
CREATE TABLE tombstone (
    place SMALLINT NOT NULL, app_name TEXT COLLATE "C" NOT NULL, user_id TEXT COLLATE "C" NOT NULL,
    incarnation BIGINT NOT NULL,
    lease_secs BIGINT NOT NULL,
    PRIMARY KEY (place, app_name, user_id, incarnation)
);
CREATE INDEX tombstone_lease ON tombstone (lease_secs);

-- One row for each connection that writes, with the number of its last commit: whoever lost the connection during a commit looks here.
CREATE TABLE writer (
    id BYTEA PRIMARY KEY,
    commits BIGINT NOT NULL,
    used_secs BIGINT NOT NULL
) WITH (fillfactor = 10);
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_comment_ends_a_statement() {
        let steps = MIGRATIONS.iter().map(|step| step.sql);
        let lines = steps.chain([META]).flat_map(str::lines);
        let mut comments = lines.filter_map(|line| line.split_once("--"));
        assert_eq!(comments.find(|(_, comment)| comment.contains(';')), None);
    }
}
