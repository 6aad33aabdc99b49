//! A change set as statements: one for each table and kind of change, whatever the size of the group.

use std::collections::BTreeMap;

use super::{
    super::{prelude::*, schema::PURGED},
    changed::{Changed, NodeChange},
    emptied, new_snapshots, sessions,
    stored::Stored,
};
use sessiond_core::commit::{
    ChangeSet, EventRow, FORK_LEASE_SECS, RequestRow, ScopeLogRow, SessionRow,
};
use sessiond_store::rows::{EVENT_COLUMNS, removed_text};

/// The key of what a node has.
const NODE: &str = "place, app_name, user_id, incarnation";

const SCOPE_LOG: &str =
    "scope_log (place, app_name, user_id, version, commit_secs, commit_nanos, author,
    source, source_user, source_session, source_sequence, removed, set_json)";

const STATE: &str = "state (place, app_name, user_id, incarnation, name, value, version)";
const REPLACE_STATE: &str = "ON CONFLICT (place, app_name, user_id, incarnation, name)
DO UPDATE SET value = excluded.value, version = excluded.version";

const MARKERS: &str = "marker (place, app_name, user_id, incarnation, sequence, rewind_to)";

const REQUESTS: &str = "request (place, app_name, user_id, incarnation, request_id, fingerprint)";

const TOMBSTONES: &str = "tombstone (place, app_name, user_id, incarnation, lease_secs)";
const REPLACE_LEASE: &str = "ON CONFLICT (place, app_name, user_id, incarnation)
DO UPDATE SET lease_secs = excluded.lease_secs";

/// The statements of a change set, in the order in which they are executed. Pieces of forks and of removed sessions have their own.
pub(super) fn statements<'a>(
    changes: &'a ChangeSet,
    changed: &'a Changed<'a>,
    stored: &'a Stored,
    now: Time,
) -> Result<Vec<Columns<'a>>, Error> {
    let mut rows: Vec<&SessionRow> = changes.sessions.values().collect();
    // The same order everywhere, so that those who insert the same sessions do not wait for each other.
    rows.sort_by(|a, b| a.info.key.cmp(&b.info.key));
    let (new, old): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.is_new);
    // First, so that an address is free for the next session there.
    let mut statements = sessions::delete(&changes.removed, stored);
    statements.push(tombstones(changes, changed, now)?);
    statements.extend(sessions::insert(&new, changed));
    statements.push(new_snapshots::initial(&new, changed)?);
    statements.push(markers(&changes.events, changed)?);
    let mut of_events = vec![events(&changes.events, changed)?];
    of_events.extend(sessions::update(&old, changed, stored));
    of_events.extend(scopes(changed));
    of_events.push(state(changes, changed, stored)?);
    // What most groups consist of is one statement.
    statements.push(Columns::together(of_events));
    statements.push(sessions::update_metadata(&old));
    statements.push(new_snapshots::bases(&changed.nodes));
    statements.push(new_snapshots::due(&changed.nodes));
    statements.push(requests(&changes.requests, changed)?);
    let nodes = changes.finished_forks.iter().map(|fork| changed.session(*fork));
    let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
    statements.push(Columns::delete("tombstone", NODE).nodes(nodes.into_iter()));
    let forks = new.iter().filter(|row| changes.finished_forks.contains(&row.info.incarnation));
    statements.push(new_snapshots::find_newest(forks.map(|row| &row.info.key)));
    statements.extend(emptied::statements(changes));
    Ok(statements)
}

/// Of removed sessions, and of forks that have begun or go on.
fn tombstones<'a>(
    changes: &ChangeSet,
    changed: &'a Changed<'_>,
    now: Time,
) -> Result<Columns<'a>, Error> {
    let lease = now.secs().saturating_add(FORK_LEASE_SECS);
    let mut leases: BTreeMap<&Node, i64> = BTreeMap::new();
    for info in &changes.removed {
        leases.insert(changed.session(info.incarnation)?, PURGED);
    }
    for (fork, _) in &changes.begun_forks {
        leases.insert(changed.session(*fork)?, lease);
    }
    Ok(Columns::insert(TOMBSTONES, REPLACE_LEASE)
        .nodes(leases.keys().copied())
        .signed(leases.values().copied()))
}

fn events<'a>(rows: &'a [EventRow], changed: &'a Changed<'_>) -> Result<Columns<'a>, Error> {
    let nodes = rows.iter().map(|row| changed.session(row.incarnation));
    let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
    let events = rows.iter().map(|row| &*row.event);
    let into = format!("event (place, app_name, user_id, incarnation, {EVENT_COLUMNS})");
    Ok(Columns::insert(&into, "")
        .nodes(nodes.iter().copied())
        .numbers(events.clone().map(|event| event.sequence))
        .texts(events.clone().map(|event| &event.event_id))
        .texts(events.clone().map(|event| event.invocation_id.as_ref()))
        .texts(events.clone().map(|event| &event.author))
        .texts(events.clone().map(|event| &event.branch))
        .times(events.clone().map(|event| event.event_time))
        .times(events.clone().map(|event| event.commit_time))
        .numbers(events.clone().map(|event| event.versions.application))
        .numbers(events.clone().map(|event| event.versions.user))
        .signed(events.clone().map(|event| event.rewind_to.map(u64::cast_signed)))
        .texts(events.clone().map(|event| removed_text(&event.changes.remove)))
        .texts(events.clone().map(|event| event.changes.set.as_ref()))
        .texts(events.clone().map(|event| event.body.as_ref()))
        .trace_ids(events.map(|event| event.trace_id))
        .fingerprints(rows.iter().map(|row| row.fingerprint)))
}

/// Of rewinds.
fn markers<'a>(rows: &[EventRow], changed: &'a Changed<'_>) -> Result<Columns<'a>, Error> {
    let mut markers: Vec<(&Node, Sequence, Sequence)> = Vec::new();
    for EventRow { incarnation, event, .. } in rows {
        if let Some(to) = event.rewind_to {
            markers.push((changed.session(*incarnation)?, event.sequence, to));
        }
    }
    Ok(Columns::insert(MARKERS, "")
        .nodes(markers.iter().map(|(node, ..)| *node))
        .numbers(markers.iter().map(|(_, sequence, _)| *sequence))
        .numbers(markers.iter().map(|(.., to)| *to)))
}

/// The rows of applications and users, and of their logs.
fn scopes<'a>(changed: &'a Changed<'a>) -> [Columns<'a>; 2] {
    let shared: Vec<&NodeChange<'_>> = changed.shared().collect();
    let columns = "version, base, state_bytes, snapshot_version, changed_bytes";
    let update = Columns::update("scope", "place, app_name, user_id", columns)
        .scopes(shared.iter().map(|it| &it.node))
        .numbers(shared.iter().map(|it| it.change.version))
        .numbers(shared.iter().map(|it| it.change.base))
        .numbers(shared.iter().map(|it| it.change.state_bytes as u64))
        .numbers(shared.iter().map(|it| it.snapshots.newest))
        .numbers(shared.iter().map(|it| it.snapshots.changed_bytes));
    let log = shared.iter().flat_map(|it| it.change.log.iter().map(|row| (&it.node, row)));
    let log: Vec<(&Node, &ScopeLogRow)> = log.collect();
    let rows = log.iter().map(|(_, row)| *row);
    let sources = rows.clone().map(|row| row.source.as_ref());
    // A user's log is that user's.
    let users = log.iter().map(|(node, row)| {
        let source = row.source.as_ref().filter(|_| node.kind() == ScopeKind::Application);
        source.map(|source| &source.key.user_id)
    });
    let insert = Columns::insert(SCOPE_LOG, "")
        .scopes(log.iter().map(|(node, _)| *node))
        .numbers(rows.clone().map(|row| row.version))
        .times(rows.clone().map(|row| row.commit_time))
        .texts(rows.clone().map(|row| &row.author))
        .signed(sources.clone().map(|source| source.map(|it| it.incarnation.0.cast_signed())))
        .texts(users)
        .texts(sources.clone().map(|source| source.map(|it| &it.key.session_id)))
        .signed(sources.map(|source| source.map(|it| it.sequence.cast_signed())))
        .texts(rows.clone().map(|row| removed_text(&row.changes.remove)))
        .texts(rows.map(|row| row.changes.set.as_ref()));
    [update, insert]
}

/// A key of a node: its value, and the version that made it.
type KeyRow<'a> = (&'a Node, &'a str, Option<&'a Json>, Version);

fn state<'a>(
    changes: &'a ChangeSet,
    changed: &'a Changed<'a>,
    stored: &'a Stored,
) -> Result<Columns<'a>, Error> {
    let mut keys: Vec<KeyRow<'a>> = Vec::new();
    for NodeChange { node, change, .. } in &changed.nodes {
        let state = change.state.iter();
        keys.extend(state.map(|(name, row)| (node, &**name, row.value.as_ref(), row.version)));
    }
    for fork in &changes.finished_forks {
        // What the source had removed, so that the fork's snapshots know it as well.
        let node = changed.session(*fork)?;
        let origin = changes.sessions.get(fork).and_then(|row| row.info.forked_from.as_ref());
        let source = origin.map(|origin| (origin.key.clone(), origin.sequence));
        let removed = source.and_then(|source| stored.removed.get(&source));
        // A key that an event of this very group set is in the state already.
        let own = changes.scopes.get(&sessiond_core::commit::ScopeKey::Session(*fork));
        let is_set = |name: &str| own.is_some_and(|own| own.state.contains_key(name));
        let removed = removed.into_iter().flatten().filter(|(name, _)| !is_set(name));
        keys.extend(removed.map(|(name, version)| (node, &**name, None, *version)));
    }
    Ok(Columns::insert(STATE, REPLACE_STATE)
        .nodes(keys.iter().map(|(node, ..)| *node))
        .texts(keys.iter().map(|(_, name, ..)| *name))
        .texts(keys.iter().map(|(_, _, value, _)| *value))
        .numbers(keys.iter().map(|(.., version)| *version)))
}

fn requests<'a>(rows: &'a [RequestRow], changed: &Changed<'_>) -> Result<Columns<'a>, Error> {
    let nodes = rows.iter().map(|row| changed.scope(&row.scope));
    let nodes = nodes.collect::<Result<Vec<Node>, _>>()?;
    Ok(Columns::insert(REQUESTS, "")
        .scopes_of(&nodes)
        .numbers(nodes.iter().map(|node| node.incarnation.0))
        .texts(rows.iter().map(|row| &row.id))
        .fingerprints(rows.iter().map(|row| row.fingerprint)))
}
