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

            #[cfg(test)]
            pub(super) fn texts() -> Vec<String> {
                vec![$($sql.replace('\n', " "),)*]
            }
        }
    };
}

statements! {
    /// Reads, on every connection.
    Reads {
        begin: "BEGIN DEFERRED",
        end: "COMMIT",
        scope: "SELECT s.id, coalesce(l.version, 0), coalesce(l.state_bytes, 0) FROM scope s
            LEFT JOIN scope_log l ON l.scope = s.id
            WHERE s.app = ?1 AND s.user = ?2 ORDER BY l.version DESC LIMIT 1",
        scope_names: "SELECT app, user FROM scope WHERE id = ?1",
        scope_version: "SELECT version FROM scope_log WHERE scope = ?1 ORDER BY version DESC LIMIT 1",
        session_by_address: format!("SELECT {SESSION_COLUMNS} FROM session WHERE user_scope = ?1 AND session_id = ?2"),
        sessions_by_bare_id: format!("SELECT {SESSION_COLUMNS} FROM session WHERE session_id = ?1"),
        session_exists: "SELECT 1 FROM session WHERE id = ?1",
        sessions_of_app_up: format!("SELECT {SESSION_COLUMNS} FROM session WHERE app_scope = ?1
            AND (last_event_secs, last_event_nanos, user_id, session_id) > (?2, ?3, ?4, ?5)
            ORDER BY last_event_secs, last_event_nanos, user_id, session_id LIMIT ?6"),
        sessions_of_app_down: format!("SELECT {SESSION_COLUMNS} FROM session WHERE app_scope = ?1
            AND (last_event_secs, last_event_nanos) <= (?2, ?3)
            AND ((last_event_secs, last_event_nanos) < (?2, ?3) OR (user_id, session_id) > (?4, ?5))
            ORDER BY last_event_secs DESC, last_event_nanos DESC, user_id, session_id LIMIT ?6"),
        sessions_of_user_up: format!("SELECT {SESSION_COLUMNS} FROM session WHERE user_scope = ?1
            AND (last_event_secs, last_event_nanos, session_id) > (?2, ?3, ?4)
            ORDER BY last_event_secs, last_event_nanos, session_id LIMIT ?5"),
        sessions_of_user_down: format!("SELECT {SESSION_COLUMNS} FROM session WHERE user_scope = ?1
            AND (last_event_secs, last_event_nanos) <= (?2, ?3)
            AND ((last_event_secs, last_event_nanos) < (?2, ?3) OR session_id > ?4)
            ORDER BY last_event_secs DESC, last_event_nanos DESC, session_id LIMIT ?5"),
        event: format!("SELECT {EVENT_COLUMNS} FROM event WHERE session = ?1 AND sequence = ?2"),
        events_up: format!("SELECT {EVENT_COLUMNS} FROM event
            WHERE session = ?1 AND sequence > ?2 AND sequence <= ?3 ORDER BY sequence"),
        events_down: format!("SELECT {EVENT_COLUMNS} FROM event
            WHERE session = ?1 AND sequence > ?2 AND sequence <= ?3 ORDER BY sequence DESC"),
        event_times: "SELECT event_secs, event_nanos, commit_secs, commit_nanos, app_version, user_version FROM event
            WHERE session = ?1 AND sequence = ?2",
        event_hashes: "SELECT id_hash, sequence FROM event
            WHERE session = ?1 AND sequence > ?2 ORDER BY sequence",
        event_keys: "SELECT sequence FROM event_key WHERE session = ?1 AND id_hash = ?2",
        event_sizes: "SELECT sequence, coalesce(octet_length(body), 0) + coalesce(octet_length(set_json), 0) FROM event
            WHERE session = ?1 AND sequence > ?2 AND sequence <= ?3 ORDER BY sequence LIMIT ?4",
        event_changes: "SELECT sequence, removed, set_json FROM event
            WHERE session = ?1 AND sequence > ?2 AND sequence <= ?3 ORDER BY sequence",
        event_changes_down: "SELECT sequence, removed, set_json FROM event
            WHERE session = ?1 AND sequence > ?2 AND sequence <= ?3 ORDER BY sequence DESC",
        event_change: "SELECT set_json, author, commit_secs, commit_nanos FROM event
            WHERE session = ?1 AND sequence = ?2",
        markers: "SELECT sequence, rewind_to FROM marker WHERE session = ?1 AND sequence <= ?2 ORDER BY sequence",
        state: "SELECT name, value, version FROM state WHERE node = ?1 ORDER BY name",
        state_key: "SELECT value, version FROM state WHERE node = ?1 AND name = ?2",
        state_version: "SELECT version FROM state WHERE node = ?1 AND name = ?2",
        removed: "SELECT name, version FROM removed WHERE node = ?1",
        removed_version: "SELECT version FROM removed WHERE node = ?1 AND name = ?2",
        snapshot: "SELECT version, state FROM snapshot WHERE node = ?1 AND version <= ?2 ORDER BY version DESC LIMIT 1",
        snapshot_sizes: "SELECT version, octet_length(state) FROM snapshot
            WHERE node = ?1 AND version > ?2 AND version <= ?3 ORDER BY version LIMIT ?4",
        snapshot_version: "SELECT version, octet_length(state) FROM snapshot WHERE node = ?1 ORDER BY version DESC LIMIT 1",
        scope_changes: "SELECT version, removed, set_json FROM scope_log
            WHERE scope = ?1 AND version > ?2 AND version <= ?3 ORDER BY version",
        scope_changes_down: "SELECT version, removed, set_json FROM scope_log
            WHERE scope = ?1 AND version > ?2 AND version <= ?3 ORDER BY version DESC",
        scope_log: "SELECT version, removed, set_json, commit_secs, commit_nanos, source FROM scope_log
            WHERE scope = ?1 AND version > ?2 ORDER BY version",
        scope_change: "SELECT set_json, author, commit_secs, commit_nanos, source_user, source_session, source_sequence
            FROM scope_log WHERE scope = ?1 AND version = ?2",
        lease: "SELECT 1 FROM tombstone WHERE id = ?1 AND lease_until > ?2",
        request: "SELECT fingerprint FROM request WHERE node = ?1 AND request_id = ?2",
    }
}

statements! {
    /// Writes, on the writer's connection.
    Writes {
        begin: "BEGIN IMMEDIATE",
        commit: "COMMIT",
        next_id: "UPDATE meta SET next_id = ?1",
        insert_scope: "INSERT INTO scope VALUES (?1, ?2, ?3)",
        insert_session: format!("INSERT INTO session ({SESSION_COLUMNS}) VALUES
            (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)"),
        touch_session: "UPDATE session SET last_sequence = ?2, state_bytes = ?3, last_event_secs = ?4,
            last_event_nanos = ?5, update_secs = ?6, update_nanos = ?7 WHERE id = ?1",
        update_metadata: "UPDATE session SET expire_secs = ?2, expire_nanos = ?3, display_name = ?4, labels = ?5
            WHERE id = ?1",
        delete_session: "DELETE FROM session WHERE id = ?1",
        insert_event: format!("INSERT INTO event (session, id_hash, {EVENT_COLUMNS})
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)"),
        insert_marker: "INSERT INTO marker VALUES (?1, ?2, ?3)",
        insert_keys: "INSERT INTO event_key SELECT session, id_hash, sequence FROM event
            WHERE session = ?1 AND sequence > ?2 AND sequence <= ?3 ORDER BY id_hash",
        insert_log: "INSERT INTO scope_log VALUES (NULL, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        update_state: "UPDATE state SET value = ?3, version = ?4 WHERE node = ?1 AND name = ?2",
        insert_state: "INSERT INTO state VALUES (?1, ?2, ?3, ?4)",
        delete_state: "DELETE FROM state WHERE node = ?1 AND name = ?2",
        put_removed: "INSERT OR REPLACE INTO removed VALUES (?1, ?2, ?3)",
        delete_removed: "DELETE FROM removed WHERE node = ?1 AND name = ?2",
        insert_snapshot: "INSERT INTO snapshot VALUES (?1, ?2, ?3)",
        delete_events: "DELETE FROM event WHERE session = ?1 AND sequence <= ?2",
        delete_snapshots: "DELETE FROM snapshot WHERE node = ?1 AND version <= ?2",
        insert_request: "INSERT INTO request VALUES (?1, ?2, ?3)",
        put_tombstone: "INSERT OR REPLACE INTO tombstone VALUES (?1, ?2)",
        delete_tombstone: "DELETE FROM tombstone WHERE id = ?1",
        copy_events: format!("INSERT INTO event (session, id_hash, {EVENT_COLUMNS})
            SELECT ?1, id_hash, {EVENT_COLUMNS} FROM event
            WHERE session = ?2 AND sequence > ?3 AND sequence <= ?4 ORDER BY sequence"),
        copy_markers: "INSERT INTO marker SELECT ?1, sequence, rewind_to FROM marker
            WHERE session = ?2 AND sequence > ?3 AND sequence <= ?4",
        copy_snapshots: "INSERT INTO snapshot SELECT ?1, version, state FROM snapshot
            WHERE node = ?2 AND version > ?3 AND version <= ?4",
    }
}
