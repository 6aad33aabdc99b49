//! Columns that both databases have, and values as their text.

use sessiond_core::domain::prelude::*;

/// The columns of an event.
pub const EVENT_COLUMNS: &str = "sequence, event_id, invocation_id, author, branch, \
    event_secs, event_nanos, commit_secs, commit_nanos, app_version, user_version, \
    rewind_to, removed, set_json, body, trace_id, fingerprint";

/// The short columns of an event.
pub const EVENT_HEAD_COLUMNS: &str = "sequence, invocation_id, author, event_secs, event_nanos, \
    commit_secs, commit_nanos, app_version, user_version";

/// The columns of a change of a scope. The first six are alike; the source of a change of a session is its event.
pub const fn change_columns(kind: ScopeKind) -> &'static str {
    match kind {
        ScopeKind::Session => "sequence, removed, set_json, author, commit_secs, commit_nanos",
        ScopeKind::Application | ScopeKind::User => {
            "version, removed, set_json, author, commit_secs, commit_nanos, \
             source, source_user, source_session, source_sequence"
        }
    }
}

/// Bytes of an event's long columns.
pub const EVENT_BYTES: &str =
    "coalesce(octet_length(body), 0) + coalesce(octet_length(set_json), 0)";

/// Removed keys as they are stored.
pub fn removed_text(keys: &[StateKey]) -> Option<String> {
    let names = || keys.iter().map(StateKey::as_str).collect::<Vec<_>>();
    (!keys.is_empty()).then(|| serde_json::Value::from(names()).to_string())
}

/// Labels as they are stored.
pub fn labels_text(labels: &Labels) -> Option<String> {
    (!labels.as_map().is_empty()).then(|| serde_json::json!(labels.as_map()).to_string())
}
