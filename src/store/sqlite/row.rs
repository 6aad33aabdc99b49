//! Rows as the domain's types.

use std::sync::Arc;

use rusqlite::{Row, types::ValueRef};

use super::schema::NodeId;
use crate::domain::{
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
    rewind_to, removed, set_json, body, fingerprint";

/// The index of the fingerprint in [`EVENT_COLUMNS`].
pub(super) const FINGERPRINT: usize = 15;

/// The columns that [`session`] reads.
pub(super) const SESSION_COLUMNS: &str = "id, app_scope, user_scope, user_id, session_id, \
    last_sequence, state_bytes, last_event_secs, last_event_nanos, update_secs, update_nanos, \
    create_secs, create_nanos, expire_secs, expire_nanos, created_app_version, created_user_version, \
    display_name, labels, fork_session, fork_sequence";

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
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) info: SessionInfo,
    pub(super) app: NodeId,
    pub(super) user: NodeId,
    /// Of its own state: the sum of names and values.
    pub(super) state_bytes: usize,
}

impl Found {
    pub(super) fn id(&self) -> NodeId {
        self.info.incarnation.0.cast_signed()
    }
}

/// Reads [`SESSION_COLUMNS`].
pub(super) fn session(row: &Row<'_>, app_name: AppName) -> rusqlite::Result<Found> {
    let key = SessionKey {
        app_name,
        user_id: UserId::from_stored(text(row, 3)?),
        session_id: SessionId::from_stored(text(row, 4)?),
    };
    let expire_time = match row.get_ref(13)? {
        ValueRef::Null => None,
        _ => Some(time(row, 13)?),
    };
    let labels = match optional_text(row, 18)? {
        None => Labels::default(),
        Some(text) => Labels::from_stored(
            serde_json::from_str(text).map_err(|error| not_as_written(18, error))?,
        ),
    };
    let forked_from = match optional_text(row, 19)? {
        None => None,
        Some(id) => {
            let session_id = SessionId::from_stored(id);
            let key = SessionKey { session_id, ..key.clone() };
            Some(ForkOrigin { key, sequence: count(row, 20)? })
        }
    };
    Ok(Found {
        app: row.get(1)?,
        user: row.get(2)?,
        state_bytes: bytes(row, 6)?,
        info: SessionInfo {
            incarnation: Incarnation(count(row, 0)?),
            last_sequence: count(row, 5)?,
            create_time: time(row, 11)?,
            update_time: time(row, 9)?,
            last_event_time: time(row, 7)?,
            expire_time,
            display_name: DisplayName::from_stored(text(row, 17)?),
            labels,
            forked_from,
            created_versions: ScopeVersions { application: count(row, 15)?, user: count(row, 16)? },
            key,
        },
    })
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
            changes: Changes { remove: removed(row, 12)?, set: optional_json(row, 13)? },
            body: optional_json(row, 14)?,
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

pub(super) fn not_as_written(
    at: usize,
    error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(at, rusqlite::types::Type::Text, Box::new(error))
}
