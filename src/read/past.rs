//! The past: the state of a scope as of a version.
//!
//! A snapshot holds a scope's keys with their versions, and the removed ones with the version of their removal. The state as of a version
//! is the newest snapshot up to it and the few changes that follow, so its cost does not depend on how long the log is.

use std::collections::BTreeMap;

use super::{Node, Rows, log::changes};
use crate::domain::prelude::*;

/// Keys as of a version, by name without prefix; `None`: removed by that version.
pub type Past = BTreeMap<Box<str>, (Option<Json>, Version)>;

/// Applies the changes that made a version to the keys of one scope.
pub fn fold(past: &mut Past, kind: ScopeKind, version: Version, changes: &Changes) {
    for (key, value) in changes.results().filter(|(key, _)| key.scope() == Some(kind)) {
        past.insert(key.name().into(), (value, version));
    }
}

/// A scope's keys as of a version, which its log has reached. What lies up to `base` is an earlier life's.
pub async fn past<R: Rows>(
    rows: &R,
    node: &Node,
    base: Version,
    at: Version,
) -> Result<Past, Error> {
    let (mut past, mut from) = snapshot(rows, node, base, at).await?;
    while from < at {
        for row in changes(rows, node, (from, at), None, false).await? {
            fold(&mut past, node.kind(), row.version, &row.changes);
            from = row.version;
        }
    }
    Ok(past)
}

/// The newest snapshot of this life up to a version, with its version. Without one: no keys, as at its beginning.
/// Errors: [`Error::Damaged`] of a session's own value. Of what others share only the damaged values are left out of an answer.
pub async fn snapshot<R: Rows>(
    rows: &R,
    node: &Node,
    base: Version,
    at: Version,
) -> Result<(Past, Version), Error> {
    let kind = node.kind();
    let (past, version) = rows.snapshot(node, at).await?;
    if kind != ScopeKind::Session && version <= base {
        return Ok((Past::new(), base));
    }
    let damaged = |value: &Option<Json>| value.as_ref().is_some_and(Json::is_damaged);
    match past.iter().find(|(_, (value, _))| kind == ScopeKind::Session && damaged(value)) {
        Some((name, _)) => Err(Error::damaged_key(&StateKey::in_scope(kind, name))),
        None => Ok((past, version)),
    }
}
