//! Applications and users that have become empty: listed for a sweep, and removed.

use super::super::prelude::*;
use sessiond_core::commit::{ChangeSet, ScopeKey};

const LIST: &str = "emptied (place, app_name, user_id)";
const LISTED: &str = "ON CONFLICT (place, app_name, user_id) DO NOTHING";

const KEY: &str = "place, app_name, user_id";

const ENDED: &str = "ended_scope (place, app_name, user_id, through)";

const RAISE_FLOOR: &str =
    "UPDATE meta SET version_floor = greatest(version_floor, $1) WHERE id = 1";

pub(super) fn statements(changes: &ChangeSet) -> Vec<Columns<'_>> {
    let ChangeSet { emptied, looked_at, ended, .. } = changes;
    let gone = ended.iter().map(|(key, _)| key);
    let written = ended.iter().filter(|(_, version)| *version > 0);
    let mut statements = vec![
        names(Columns::delete("emptied", KEY), looked_at.iter().chain(gone.clone())),
        // Then, because the end of a user lists its application again.
        names(Columns::insert(LIST, LISTED), emptied.iter()),
        names(Columns::delete("scope", KEY), gone),
        names(Columns::insert(ENDED, ""), written.clone().map(|(key, _)| key))
            .numbers(written.clone().map(|(_, version)| *version)),
    ];
    let last = written.map(|(_, version)| *version).max();
    statements.extend(last.map(|last| Columns::new(RAISE_FLOOR).number(last + 1)));
    statements
}

/// Three columns: place, application and user.
fn names<'a, 'k>(statement: Columns<'a>, keys: impl Iterator<Item = &'k ScopeKey>) -> Columns<'a> {
    statement.scopes_of(&keys.filter_map(Node::shared).collect::<Vec<_>>())
}
