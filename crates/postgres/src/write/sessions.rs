//! The rows of sessions, with the tables beside them that list and find them.

use super::{
    super::{prelude::*, row::SESSION_COLUMNS, schema::list_period},
    changed::Changed,
    stored::Stored,
};
use sessiond_core::commit::SessionRow;
use sessiond_store::rows::labels_text;

const ADDRESS: &str = "place, app_name, user_id, session_id";

const LIST: &str = "session_list (place, app_name, user_id, session_id, period)";

const NAME: &str = "place, session_id, app_name, user_id";

const UPDATE_LIST: &str = "
UPDATE session_list l SET period = k.new_period
FROM unnest($1, $2, $3, $4, $5) AS k (app_name, user_id, session_id, period, new_period)
WHERE l.app_name = k.app_name AND l.period = k.period
    AND l.user_id = k.user_id AND l.session_id = k.session_id";

/// The columns of [`NAME`].
fn names<'a>(
    statement: Columns<'a>,
    keys: impl Iterator<Item = &'a SessionKey> + Clone,
) -> Columns<'a> {
    statement
        .places(keys.clone().map(|key| [key.session_id.as_str()]))
        .texts(keys.clone().map(|key| &key.session_id))
        .texts(keys.clone().map(|key| &key.app_name))
        .texts(keys.map(|key| &key.user_id))
}

/// Deletes sessions. Those that the group made have no rows yet.
pub(super) fn delete<'a>(removed: &[SessionInfo], stored: &'a Stored) -> Vec<Columns<'a>> {
    let found = removed.iter().filter_map(|info| stored.sessions.get(&info.incarnation));
    let infos: Vec<&SessionInfo> = found.map(|found| &found.record.info).collect();
    let infos = infos.iter().copied();
    let keys = infos.clone().map(|info| &info.key);
    let sessions =
        Columns::delete("session", &format!("{ADDRESS}, incarnation")).addresses(keys.clone());
    let listed =
        Columns::delete("session_list", &format!("{ADDRESS}, period")).addresses(keys.clone());
    vec![
        names(Columns::delete("session_name", NAME), keys),
        sessions.numbers(infos.clone().map(|info| info.incarnation.0)),
        listed.signed(infos.map(|info| list_period(info.last_event_time))),
    ]
}

/// Inserts new sessions.
pub(super) fn insert<'a>(rows: &[&'a SessionRow], changed: &Changed<'_>) -> [Columns<'a>; 3] {
    let infos = rows.iter().map(|row| &row.info);
    let keys = infos.clone().map(|info| &info.key);
    let snapshots = infos.clone().map(|info| changed.snapshots_of(info.incarnation));
    let origins = infos.clone().map(|info| info.forked_from.as_ref());
    let sessions = Columns::insert(&format!("session (place, {SESSION_COLUMNS})"), "")
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
    let listed = infos.map(|info| list_period(info.last_event_time));
    let list = Columns::insert(LIST, "").addresses(keys.clone()).signed(listed);
    let named = Columns::insert(&format!("session_name ({NAME}, session_place)"), "");
    let places = keys.clone().map(|key| [key.app_name.as_str(), key.user_id.as_str()]);
    [sessions, list, names(named, keys).places(places)]
}

/// Changes what events change of sessions that are there.
pub(super) fn update<'a>(
    rows: &[&'a SessionRow],
    changed: &Changed<'_>,
    stored: &'a Stored,
) -> [Columns<'a>; 2] {
    let infos = rows.iter().map(|row| &row.info);
    let snapshots = infos.clone().map(|info| changed.snapshots_of(info.incarnation));
    // No index has any of these columns.
    let columns = "last_sequence, state_bytes, snapshot_version, changed_bytes,
        last_event_secs, last_event_nanos, update_secs, update_nanos";
    let update = Columns::update("session", ADDRESS, columns)
        .addresses(infos.clone().map(|info| &info.key))
        .numbers(infos.clone().map(|info| info.last_sequence))
        .numbers(rows.iter().map(|row| row.state_bytes as u64))
        .numbers(snapshots.clone().map(|it| it.newest))
        .numbers(snapshots.map(|it| it.changed_bytes))
        .times(infos.clone().map(|info| info.last_event_time))
        .times(infos.map(|info| info.update_time));
    let listed = |info: &SessionInfo| list_period(info.last_event_time);
    let moved = rows.iter().map(|row| &row.info);
    let moved =
        moved.filter_map(|info| Some((&stored.sessions.get(&info.incarnation)?.record.info, info)));
    let moved = moved.filter(|(before, info)| listed(before) != listed(info));
    let list = Columns::new(UPDATE_LIST)
        .texts(moved.clone().map(|(_, info)| &info.key.app_name))
        .texts(moved.clone().map(|(_, info)| &info.key.user_id))
        .texts(moved.clone().map(|(_, info)| &info.key.session_id))
        .signed(moved.clone().map(|(before, _)| listed(before)))
        .signed(moved.map(|(_, info)| listed(info)));
    [update, list]
}

/// Changes the rest of sessions that are there.
pub(super) fn update_metadata<'a>(rows: &[&'a SessionRow]) -> Columns<'a> {
    let metadata = rows.iter().filter(|row| row.metadata).map(|row| &row.info);
    Columns::update("session", ADDRESS, "expire_secs, expire_nanos, display_name, labels")
        .addresses(metadata.clone().map(|info| &info.key))
        .optional_times(metadata.clone().map(|info| info.expire_time))
        .texts(metadata.clone().map(|info| &info.display_name))
        .texts(metadata.map(|info| labels_text(&info.labels)))
}
