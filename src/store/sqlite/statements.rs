//! Every statement of the paths that matter, prepared once for each connection.

use rusqlite::{Connection, Statement};

use super::row::{EVENT_COLUMNS, SESSION_COLUMNS};

macro_rules! statements {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $sql:expr,)* }) => {
        $(#[$doc])*
        pub(super) struct $name<'c> { $(pub(super) $field: Statement<'c>,)* }

        impl<'c> $name<'c> {
            pub(super) fn prepare(connection: &'c Connection) -> rusqlite::Result<Self> {
                Ok(Self { $($field: connection.prepare(&$sql.replace('\n', " "))?,)* })
            }
        }
    };
}

statements! {
    /// What reads, on every connection.
    Reads {
        begin: "BEGIN DEFERRED",
        end: "COMMIT",
        scope_id: "SELECT id FROM scope WHERE app = ?1 AND user = ?2",
        scope_names: "SELECT app, user FROM scope WHERE id = ?1",
        scope_head: "SELECT version, bytes FROM head WHERE node = ?1",
        head: "SELECT version, last_rows, bytes FROM head WHERE node = ?1",
        log_row: "SELECT id FROM log_row WHERE node = ?1 AND version = ?2",
        session_by_address: format!("SELECT {SESSION_COLUMNS} FROM session WHERE user_scope = ?1 AND session_id = ?2"),
        session_by_id: format!("SELECT {SESSION_COLUMNS} FROM session WHERE id = ?1"),
        sessions_by_bare_id: format!("SELECT {SESSION_COLUMNS} FROM session WHERE session_id = ?1"),
        session_exists: "SELECT 1 FROM session WHERE id = ?1",
        is_moved: "SELECT 1 FROM moved WHERE app_scope = ?1 AND user_scope = ?2 AND session = ?3",
        event_times: "SELECT event_secs, event_nanos, commit_secs, commit_nanos FROM event WHERE id = ?1",
        event: format!("SELECT {EVENT_COLUMNS} FROM event WHERE id = ?1"),
        events_up: format!("SELECT {EVENT_COLUMNS} FROM log_row CROSS JOIN event USING (id)
            WHERE node = ?1 AND version > ?2 AND version <= ?3 ORDER BY version"),
        events_down: format!("SELECT {EVENT_COLUMNS} FROM log_row CROSS JOIN event USING (id)
            WHERE node = ?1 AND version > ?2 AND version <= ?3 ORDER BY version DESC"),
        event_versions: "SELECT app_version, user_version FROM event WHERE id = ?1",
        event_change: "SELECT set_json, author, commit_secs, commit_nanos FROM event WHERE id = ?1",
        event_index: format!("SELECT {INDEX_COLUMNS} FROM event WHERE id = ?1"),
        events_index: format!("SELECT {INDEX_COLUMNS} FROM log_row CROSS JOIN event USING (id)
            WHERE node = ?1 AND version > ?2 AND version <= ?3 ORDER BY version"),
        event_sequence: "SELECT sequence FROM event_id WHERE session = ?1 AND event_id = ?2",
        newest_event_id: "SELECT event_id FROM event_id WHERE session = ?1 ORDER BY event_id DESC LIMIT 1",
        markers: "SELECT sequence, rewind_to FROM marker WHERE session = ?1 AND sequence <= ?2 ORDER BY sequence",
        state: "SELECT name, value, version FROM state WHERE node = ?1 ORDER BY name",
        state_key: "SELECT value, version FROM state WHERE node = ?1 AND name = ?2",
        state_version: "SELECT version FROM state WHERE node = ?1 AND name = ?2",
        initial: "SELECT state FROM initial WHERE session = ?1",
        log_change: "SELECT set_json, author, commit_secs, commit_nanos, source_user, source_session, source_sequence
            FROM scope_log WHERE id = ?1",
        log: "SELECT version, removed, set_json, commit_secs, commit_nanos, source FROM scope_log WHERE id = ?1",
        change_before: "SELECT version FROM key_change
            WHERE node = ?1 AND name = ?2 AND version < ?3 ORDER BY version DESC LIMIT ?4",
        next_changed_name: "SELECT name FROM key_change WHERE node = ?1 AND name >= ?2 ORDER BY name LIMIT 1",
        moved_of: "SELECT session FROM moved WHERE app_scope = ?1 AND user_scope >= ?2 AND user_scope <= ?3",
        of_app_up: "SELECT id, listed_secs, listed_nanos, session_id, user_id FROM session WHERE app_scope = ?1
            AND (listed_secs, listed_nanos, user_id, session_id) > (?2, ?3, ?4, ?5)
            ORDER BY listed_secs, listed_nanos, user_id, session_id LIMIT ?6",
        of_app_ties: "SELECT id, listed_secs, listed_nanos, session_id, user_id FROM session
            WHERE app_scope = ?1 AND listed_secs = ?2 AND listed_nanos = ?3 AND (user_id, session_id) > (?4, ?5)
            ORDER BY user_id, session_id LIMIT ?6",
        of_app_below: "SELECT listed_secs, listed_nanos FROM session
            WHERE app_scope = ?1 AND (listed_secs, listed_nanos) < (?2, ?3)
            ORDER BY listed_secs DESC, listed_nanos DESC LIMIT 1",
        of_user_up: "SELECT id, listed_secs, listed_nanos, session_id FROM session WHERE user_scope = ?1
            AND (listed_secs, listed_nanos, session_id) > (?2, ?3, ?4)
            ORDER BY listed_secs, listed_nanos, session_id LIMIT ?5",
        of_user_ties: "SELECT id, listed_secs, listed_nanos, session_id FROM session
            WHERE user_scope = ?1 AND listed_secs = ?2 AND listed_nanos = ?3 AND session_id > ?4
            ORDER BY session_id LIMIT ?5",
        of_user_below: "SELECT listed_secs, listed_nanos FROM session
            WHERE user_scope = ?1 AND (listed_secs, listed_nanos) < (?2, ?3)
            ORDER BY listed_secs DESC, listed_nanos DESC LIMIT 1",
        request: "SELECT fingerprint FROM request WHERE node = ?1 AND request_id = ?2",
    }
}

statements! {
    /// What writes, on the writer's connection.
    Writes {
        begin: "BEGIN IMMEDIATE",
        commit: "COMMIT",
        insert_event: format!("INSERT INTO event (session, {EVENT_COLUMNS})
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)"),
        insert_log_row: "INSERT INTO log_row VALUES (?1, ?2, ?3)",
        keep_log_row: "INSERT OR IGNORE INTO log_row VALUES (?1, ?2, ?3)",
        put_head: "INSERT OR REPLACE INTO head VALUES (?1, ?2, ?3, ?4)",
        insert_event_id: "INSERT INTO event_id VALUES (?1, ?2, ?3)",
        insert_change: "INSERT INTO key_change VALUES (?1, ?2, ?3)",
        insert_marker: "INSERT INTO marker VALUES (?1, ?2, ?3)",
        insert_log: "INSERT INTO scope_log VALUES (NULL, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        put_state: "INSERT INTO state VALUES (?1, ?2, ?3, ?4)
            ON CONFLICT DO UPDATE SET value = excluded.value, version = excluded.version",
        delete_state: "DELETE FROM state WHERE node = ?1 AND name = ?2",
        insert_request: "INSERT INTO request VALUES (?1, ?2, ?3)",
        insert_moved: "INSERT INTO moved VALUES (?1, ?2, ?3)",
        delete_moved: "DELETE FROM moved WHERE app_scope = ?1 AND user_scope = ?2 AND session = ?3",
        list_session: "UPDATE session SET listed_secs = ?2, listed_nanos = ?3 WHERE id = ?1",
        next_node: "UPDATE meta SET next_node = ?1",
        insert_scope: "INSERT INTO scope VALUES (?1, ?2, ?3)",
        insert_session: "INSERT INTO session VALUES
            (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)",
        insert_initial: "INSERT INTO initial VALUES (?1, ?2)",
        update_session: "UPDATE session SET update_secs = ?2, update_nanos = ?3, expire_secs = ?4, expire_nanos = ?5,
            display_name = ?6, labels = ?7 WHERE id = ?1",
        delete_session: "DELETE FROM session WHERE id = ?1",
        copy_event: format!("INSERT INTO event (session, {EVENT_COLUMNS})
            SELECT ?1, {EVENT_COLUMNS} FROM event WHERE id = ?2"),
        copy_markers: "INSERT INTO marker SELECT ?1, sequence, rewind_to FROM marker
            WHERE session = ?2 AND sequence <= ?3",
        copy_initial: "INSERT INTO initial SELECT ?1, state FROM initial WHERE session = ?2",
        delete_event: "DELETE FROM event WHERE id = ?1",
        delete_log_rows: "DELETE FROM log_row WHERE node = ?1 AND version <= ?2",
        delete_head: "DELETE FROM head WHERE node = ?1",
        insert_garbage: "INSERT INTO garbage VALUES (?1)",
        delete_garbage: "DELETE FROM garbage WHERE id = ?1",
    }
}

/// What an event's index entries are made of, and its size.
const INDEX_COLUMNS: &str = "id, sequence, removed, set_json, event_id,
    coalesce(octet_length(body), 0) + coalesce(octet_length(set_json), 0)";
