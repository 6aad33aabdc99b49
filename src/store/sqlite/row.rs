//! Rows as the domain's types.

use std::sync::Arc;

use rusqlite::{Row, types::ValueRef};

use super::schema::NodeId;
use crate::domain::{
    Version,
    event::{Changes, Event, Fingerprint, ScopeVersions},
    id::{AppName, Author, Branch, DisplayName, EventId, InvocationId, SessionId, UserId},
    json::Json,
    page::EventFilter,
    scope::{SessionKey, StateKey},
    session::{ForkOrigin, Incarnation, Labels, SessionInfo},
    time::Time,
};

/// The columns that [`EventReader::event`] reads.
pub(super) const EVENT_COLUMNS: &str = "sequence, event_id, invocation_id, author, branch, \
    event_secs, event_nanos, commit_secs, commit_nanos, app_version, user_version, \
    rewind_to, fingerprint, removed, set_json, body";

/// The columns that [`session`] reads.
pub(super) const SESSION_COLUMNS: &str = "id, app_scope, user_scope, user_id, session_id, \
    create_secs, create_nanos, update_secs, update_nanos, expire_secs, expire_nanos, \
    created_app_version, created_user_version, initial_bytes, display_name, labels, \
    fork_session, fork_sequence";

/// A column of text.
pub(super) fn text<'r>(row: &'r Row<'_>, at: usize) -> rusqlite::Result<&'r str> {
    row.get_ref(at)?.as_str().map_err(Into::into)
}

/// A column of text that may be missing.
pub(super) fn optional_text<'r>(row: &'r Row<'_>, at: usize) -> rusqlite::Result<Option<&'r str>> {
    match row.get_ref(at)? {
        ValueRef::Null => Ok(None),
        value => value.as_str().map(Some).map_err(Into::into),
    }
}

/// A column of JSON.
pub(super) fn json(row: &Row<'_>, at: usize) -> rusqlite::Result<Json> {
    Ok(Json::from_stored(text(row, at)?.to_owned()))
}

/// A column of JSON that may be missing.
pub(super) fn optional_json(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Json>> {
    Ok(optional_text(row, at)?.map(|text| Json::from_stored(text.to_owned())))
}

/// A column of a number that is never negative.
pub(super) fn count(row: &Row<'_>, at: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(at)?.cast_unsigned())
}

/// A column of a number of bytes.
pub(super) fn bytes(row: &Row<'_>, at: usize) -> rusqlite::Result<usize> {
    Ok(usize::try_from(row.get::<_, i64>(at)?).unwrap_or(0))
}

/// Two columns of a time.
pub(super) fn time(row: &Row<'_>, at: usize) -> rusqlite::Result<Time> {
    Ok(Time::from_stored(row.get(at)?, row.get(at + 1)?))
}

/// A column of a fingerprint.
pub(super) fn fingerprint(row: &Row<'_>, at: usize) -> rusqlite::Result<Fingerprint> {
    Ok(Fingerprint(u128::from_le_bytes(row.get(at)?)))
}

/// A column of removed keys.
pub(super) fn removed(row: &Row<'_>, at: usize) -> rusqlite::Result<Vec<StateKey>> {
    let Some(text) = optional_text(row, at)? else {
        return Ok(Vec::new());
    };
    let names: Vec<String> =
        serde_json::from_str(text).map_err(|error| not_as_written(at, error))?;
    Ok(names.into_iter().map(StateKey::from_stored).collect())
}

/// Removed keys as they are stored.
pub(super) fn removed_text(keys: &[StateKey]) -> Option<String> {
    let names = || keys.iter().map(StateKey::as_str).collect::<Vec<_>>();
    (!keys.is_empty()).then(|| serde_json::Value::from(names()).to_string())
}

/// A session's row.
pub(super) struct SessionRow {
    pub(super) id: NodeId,
    pub(super) app: NodeId,
    pub(super) user: NodeId,
    pub(super) user_id: UserId,
    pub(super) session_id: SessionId,
    create_time: Time,
    update_time: Time,
    expire_time: Option<Time>,
    created_versions: ScopeVersions,
    pub(super) initial_bytes: usize,
    display_name: DisplayName,
    labels: Labels,
    fork: Option<(SessionId, Version)>,
}

/// Reads [`SESSION_COLUMNS`].
pub(super) fn session(row: &Row<'_>) -> rusqlite::Result<SessionRow> {
    let expire_time = match row.get_ref(9)? {
        ValueRef::Null => None,
        _ => Some(time(row, 9)?),
    };
    let labels = match optional_text(row, 15)? {
        None => Labels::default(),
        Some(text) => Labels::from_stored(
            serde_json::from_str(text).map_err(|error| not_as_written(15, error))?,
        ),
    };
    let fork = match optional_text(row, 16)? {
        None => None,
        Some(id) => Some((SessionId::from_stored(id), count(row, 17)?)),
    };
    Ok(SessionRow {
        id: row.get(0)?,
        app: row.get(1)?,
        user: row.get(2)?,
        user_id: UserId::from_stored(text(row, 3)?),
        session_id: SessionId::from_stored(text(row, 4)?),
        create_time: time(row, 5)?,
        update_time: time(row, 7)?,
        expire_time,
        created_versions: ScopeVersions { application: count(row, 11)?, user: count(row, 12)? },
        initial_bytes: bytes(row, 13)?,
        display_name: DisplayName::from_stored(text(row, 14)?),
        labels,
        fork,
    })
}

impl SessionRow {
    pub(super) fn expired(&self, now: Time) -> bool {
        self.expire_time.is_some_and(|at| at <= now)
    }

    /// The session as it was before its first event.
    pub(super) fn into_info(self, app_name: AppName) -> SessionInfo {
        let Self { user_id, session_id, create_time, update_time, expire_time, .. } = self;
        let key = SessionKey { app_name, user_id, session_id };
        let origin = |(session_id, sequence)| ForkOrigin {
            key: SessionKey { session_id, ..key.clone() },
            sequence,
        };
        SessionInfo {
            incarnation: Incarnation(self.id.cast_unsigned()),
            last_sequence: 0,
            create_time,
            update_time,
            last_event_time: create_time,
            expire_time,
            display_name: self.display_name,
            labels: self.labels,
            forked_from: self.fork.map(origin),
            created_versions: self.created_versions,
            key,
        }
    }
}

/// Labels as they are stored.
pub(super) fn labels_text(labels: &Labels) -> Option<String> {
    let text = || serde_json::to_string(labels.as_map()).ok();
    if labels.as_map().is_empty() { None } else { text() }
}

/// Reads events. Neighbours mostly share their author, branch and invocation, which are then kept once.
#[derive(Default)]
pub(super) struct EventReader {
    author: Option<Author>,
    branch: Option<Branch>,
    invocation_id: Option<InvocationId>,
}

macro_rules! shared {
    ($slot:expr, $type:ident, $text:expr) => {
        match &$slot {
            Some(known) if known.as_str() == $text => known.clone(),
            _ => $slot.insert($type::from_stored(Arc::<str>::from($text))).clone(),
        }
    };
}

impl EventReader {
    /// The event of [`EVENT_COLUMNS`].
    pub(super) fn event(&mut self, row: &Row<'_>, rewound: bool) -> rusqlite::Result<Event> {
        let invocation_id = match optional_text(row, 2)? {
            None => None,
            Some(text) => Some(shared!(self.invocation_id, InvocationId, text)),
        };
        Ok(Event {
            event_id: EventId::from_stored(text(row, 1)?),
            sequence: count(row, 0)?,
            invocation_id,
            author: shared!(self.author, Author, text(row, 3)?),
            branch: shared!(self.branch, Branch, text(row, 4)?),
            event_time: time(row, 5)?,
            commit_time: time(row, 7)?,
            changes: Changes { remove: removed(row, 13)?, set: optional_json(row, 14)? },
            body: optional_json(row, 15)?,
            rewind_to: row.get::<_, Option<i64>>(11)?.map(i64::cast_unsigned),
            rewound,
            versions: ScopeVersions { application: count(row, 9)?, user: count(row, 10)? },
        })
    }
}

/// Whether the event of [`EVENT_COLUMNS`] passes a filter, rewinds aside. Looks at short columns only.
pub(super) fn passes(row: &Row<'_>, filter: &EventFilter) -> rusqlite::Result<bool> {
    let EventFilter { after_time, include_rewound: _, author, invocation_id } = filter;
    if let Some(author) = author
        && text(row, 3)? != author.as_str()
    {
        return Ok(false);
    }
    if let Some(wanted) = invocation_id
        && optional_text(row, 2)? != Some(wanted.as_str())
    {
        return Ok(false);
    }
    match after_time {
        Some(after) => Ok(time(row, 5)? >= *after),
        None => Ok(true),
    }
}

fn not_as_written(
    at: usize,
    error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(at, rusqlite::types::Type::Text, Box::new(error))
}
