//! Writing snapshots, so that reads of the past go through few changes.

use super::{
    super::prelude::*,
    changed::{Changed, NodeChange},
};
use sessiond_core::commit::SessionRow;
use sessiond_store::past::{BYTES_PER_VERSION, LARGE_BYTES, SNAPSHOT_VERSIONS_MAX};

/// The state of a new session, before any of its events.
const INSERT_INITIAL: &str = "
INSERT INTO snapshot
SELECT k_place, k_app, k_user, k_incarnation, 0,
    array_agg(k_name), array_agg(k_value), array_agg(0::bigint)
FROM unnest($1, $2, $3, $4, $5, $6) AS k (k_place, k_app, k_user, k_incarnation, k_name, k_value)
GROUP BY k_place, k_app, k_user, k_incarnation";

/// The state as it is now. Where the last snapshot has far more names than the state, those of removed keys, the next has to wait: at
/// most [`BYTES_PER_VERSION`] of them.
fn insert_snapshots() -> String {
    format!(
        "INSERT INTO snapshot
         SELECT k_place, k_app, k_user, k_incarnation, k_version,
             coalesce(array_agg(s.name) FILTER (WHERE s.name IS NOT NULL), '{{}}'),
             coalesce(array_agg(s.value) FILTER (WHERE s.name IS NOT NULL), '{{}}'),
             coalesce(array_agg(s.version) FILTER (WHERE s.name IS NOT NULL), '{{}}')
         FROM unnest($1, $2, $3, $4, $5, $6)
             AS k (k_place, k_app, k_user, k_incarnation, k_version, k_bytes)
         LEFT JOIN LATERAL (
             SELECT t.version AS last_version, pg_column_size(t.key_names) AS last_bytes FROM snapshot t
             WHERE t.place = k_place AND t.app_name = k_app AND t.user_id = k_user
                 AND t.incarnation = k_incarnation
             ORDER BY t.version DESC LIMIT 1
         ) AS last ON TRUE
         LEFT JOIN state s
             ON s.place = k_place AND s.app_name = k_app AND s.user_id = k_user
                 AND s.incarnation = k_incarnation
         WHERE last_version IS NULL OR last_bytes <= greatest({LARGE_BYTES}, k_bytes)
             OR k_version - last_version
                 >= greatest({SNAPSHOT_VERSIONS_MAX}, last_bytes / {BYTES_PER_VERSION})
         GROUP BY k_place, k_app, k_user, k_incarnation, k_version"
    )
}

/// The changes since the newest snapshot of a fork are unknown. So the next one is due as early as it may be.
const FIND_NEWEST: &str = "
UPDATE session s SET changed_bytes = s.state_bytes, snapshot_version = coalesce(
    (SELECT max(t.version) FROM snapshot t WHERE t.place = s.place AND t.app_name = s.app_name
        AND t.user_id = s.user_id AND t.incarnation = s.incarnation), 0)
FROM unnest($1, $2, $3, $4) AS k (place, app_name, user_id, session_id)
WHERE s.place = k.place AND s.app_name = k.app_name AND s.user_id = k.user_id AND s.session_id = k.session_id";

/// The initial states of new sessions.
pub(super) fn initial<'a>(
    rows: &[&'a SessionRow],
    changed: &'a Changed<'_>,
) -> Result<Columns<'a>, Error> {
    let mut keys: Vec<(&Node, &str, &Json)> = Vec::new();
    for row in rows {
        let node = changed.session(row.info.incarnation)?;
        keys.extend(row.initial.iter().map(|(name, value)| (node, &**name, value)));
    }
    Ok(Columns::new(INSERT_INITIAL)
        .nodes(keys.iter().map(|(node, ..)| *node))
        .texts(keys.iter().map(|(_, name, _)| *name))
        .texts(keys.iter().map(|(.., value)| *value)))
}

/// Empty snapshots where the logs of applications and users begin that go on from another life.
const INSERT_BASES: &str = "
INSERT INTO snapshot SELECT k_place, k_app, k_user, k_incarnation, k_version, '{}', '{}', '{}'
FROM unnest($1, $2, $3, $4, $5) AS k (k_place, k_app, k_user, k_incarnation, k_version)";

pub(super) fn bases<'a>(changed: &'a [NodeChange<'a>]) -> Columns<'a> {
    let begun = changed.iter().filter(|it| it.change.before == 0 && it.change.base > 0);
    Columns::new(INSERT_BASES)
        .nodes(begun.clone().map(|it| &it.node))
        .numbers(begun.map(|it| it.change.base))
}

/// The snapshots that are due, once the state is written.
pub(super) fn due<'a>(changed: &'a [NodeChange<'a>]) -> Columns<'a> {
    let due = changed.iter().filter(|it| it.due);
    Columns::new(insert_snapshots())
        .nodes(due.clone().map(|it| &it.node))
        .numbers(due.clone().map(|it| it.change.version))
        .numbers(due.map(|it| it.change.state_bytes as u64))
}

/// Corrects what the rows of finished forks say.
pub(super) fn find_newest<'a>(forks: impl Iterator<Item = &'a SessionKey> + Clone) -> Columns<'a> {
    Columns::new(FIND_NEWEST).addresses(forks)
}
