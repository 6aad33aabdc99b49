//! The rows of sessions, with the table beside them that lists them.

use super::{
    super::{
        columns::{Columns, places},
        prelude::*,
        row::SESSION_COLUMNS,
    },
    changed::Changed,
    stored::Stored,
};
use sessiond_core::commit::SessionRow;
use sessiond_store::rows::labels_text;

const DELETE_SESSIONS: &str = "
DELETE FROM session s
USING unnest($1, $2, $3, $4) AS k (app_name, user_id, session_id, incarnation)
WHERE s.app_name = k.app_name AND s.user_id = k.user_id AND s.session_id = k.session_id
    AND s.incarnation = k.incarnation";

const DELETE_LIST: &str = "
DELETE FROM session_list l
USING unnest($1, $2, $3, $4) AS k (app_name, user_id, session_id, secs)
WHERE l.app_name = k.app_name AND l.last_event_secs = k.secs
    AND l.user_id = k.user_id AND l.session_id = k.session_id";

const LIST: &str = "session_list (app_name, user_id, session_id, last_event_secs)";

const UPDATE_LIST: &str = "
UPDATE session_list l SET last_event_secs = k.new_secs
FROM unnest($1, $2, $3, $4, $5) AS k (app_name, user_id, session_id, secs, new_secs)
WHERE l.app_name = k.app_name AND l.last_event_secs = k.secs
    AND l.user_id = k.user_id AND l.session_id = k.session_id";

const UPDATE_METADATA: &str = "
UPDATE session s SET expire_secs = k.expire_secs, expire_nanos = k.expire_nanos,
    display_name = k.display_name, labels = k.labels
FROM unnest($1, $2, $3, $4, $5, $6, $7)
    AS k (app_name, user_id, session_id, expire_secs, expire_nanos, display_name, labels)
WHERE s.app_name = k.app_name AND s.user_id = k.user_id AND s.session_id = k.session_id";

/// What an event changes. No index has any of these columns.
fn update_sessions() -> String {
    let columns = "app_name, user_id, session_id, last_sequence, state_bytes, snapshot_version,
        changed_bytes, last_event_secs, last_event_nanos, update_secs, update_nanos";
    format!(
        "UPDATE session s SET last_sequence = k.last_sequence, state_bytes = k.state_bytes,
             snapshot_version = k.snapshot_version, changed_bytes = k.changed_bytes,
             last_event_secs = k.last_event_secs, last_event_nanos = k.last_event_nanos,
             update_secs = k.update_secs, update_nanos = k.update_nanos
         FROM ({}) AS k
         WHERE s.app_name = k.app_name AND s.user_id = k.user_id AND s.session_id = k.session_id",
        places(columns)
    )
}

/// Deletes sessions. Those that the group made have no rows yet.
pub(super) fn delete<'a>(removed: &[SessionInfo], stored: &'a Stored) -> Vec<Columns<'a>> {
    let found = removed.iter().filter_map(|info| stored.sessions.get(&info.incarnation));
    let infos: Vec<&SessionInfo> = found.map(|found| &found.info).collect();
    let infos = infos.iter().copied();
    let keys = infos.clone().map(|info| &info.key);
    let sessions = Columns::new(DELETE_SESSIONS).addresses(keys.clone());
    let listed = Columns::new(DELETE_LIST).addresses(keys);
    vec![
        sessions.numbers(infos.clone().map(|info| info.incarnation.0)),
        listed.signed(infos.map(|info| info.last_event_time.secs())),
    ]
}

/// Inserts new sessions.
pub(super) fn insert<'a>(rows: &[&'a SessionRow], changed: &Changed<'_>) -> [Columns<'a>; 2] {
    let infos = rows.iter().map(|row| &row.info);
    let keys = infos.clone().map(|info| &info.key);
    let snapshots = infos.clone().map(|info| changed.snapshots_of(info.incarnation));
    let origins = infos.clone().map(|info| info.forked_from.as_ref());
    let sessions = Columns::insert(&format!("session ({SESSION_COLUMNS})"), "")
        .addresses(keys.clone())
        .numbers(infos.clone().map(|info| info.incarnation.0))
        .numbers(infos.clone().map(|info| info.last_sequence))
        .numbers(rows.iter().map(|row| row.state_bytes as u64))
        .numbers(snapshots.clone().map(|it| it.newest))
        .numbers(snapshots.map(|it| it.changed_bytes))
        .times(infos.clone().map(|info| info.last_event_time))
        .times(infos.clone().map(|info| info.update_time))
        .times(infos.clone().map(|info| info.create_time))
        .optional_times(infos.clone().map(|info| info.expire_time))
        .numbers(infos.clone().map(|info| info.created_versions.application))
        .numbers(infos.clone().map(|info| info.created_versions.user))
        .texts(infos.clone().map(|info| &info.display_name))
        .texts(infos.clone().map(|info| labels_text(&info.labels)))
        .texts(origins.clone().map(|origin| origin.map(|it| &it.key.session_id)))
        .signed(origins.map(|origin| origin.map(|it| it.sequence.cast_signed())));
    let listed = infos.map(|info| info.last_event_time.secs());
    [sessions, Columns::insert(LIST, "").addresses(keys).signed(listed)]
}

/// Changes what events change of sessions that are there.
pub(super) fn update<'a>(
    rows: &[&'a SessionRow],
    changed: &Changed<'_>,
    stored: &'a Stored,
) -> [Columns<'a>; 2] {
    let infos = rows.iter().map(|row| &row.info);
    let snapshots = infos.clone().map(|info| changed.snapshots_of(info.incarnation));
    let update = Columns::new(update_sessions())
        .addresses(infos.clone().map(|info| &info.key))
        .numbers(infos.clone().map(|info| info.last_sequence))
        .numbers(rows.iter().map(|row| row.state_bytes as u64))
        .numbers(snapshots.clone().map(|it| it.newest))
        .numbers(snapshots.map(|it| it.changed_bytes))
        .times(infos.clone().map(|info| info.last_event_time))
        .times(infos.map(|info| info.update_time));
    let listed = |info: &SessionInfo| info.last_event_time.secs();
    let moved = rows.iter().map(|row| &row.info);
    let moved =
        moved.filter_map(|info| Some((&stored.sessions.get(&info.incarnation)?.info, info)));
    let moved = moved.filter(|(before, info)| listed(before) != listed(info));
    let list = Columns::new(UPDATE_LIST)
        .addresses(moved.clone().map(|(_, info)| &info.key))
        .signed(moved.clone().map(|(before, _)| listed(before)))
        .signed(moved.map(|(_, info)| listed(info)));
    [update, list]
}

/// Changes the rest of sessions that are there.
pub(super) fn update_metadata<'a>(rows: &[&'a SessionRow]) -> Columns<'a> {
    let metadata = rows.iter().filter(|row| row.metadata).map(|row| &row.info);
    Columns::new(UPDATE_METADATA)
        .addresses(metadata.clone().map(|info| &info.key))
        .optional_times(metadata.clone().map(|info| info.expire_time))
        .texts(metadata.clone().map(|info| &info.display_name))
        .texts(metadata.map(|info| labels_text(&info.labels)))
}
