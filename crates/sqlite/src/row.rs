//! Rows and their columns as the domain's types.

use std::{collections::BTreeMap, sync::Arc};

use rusqlite::types::{FromSql, FromSqlResult, ValueRef};
use serde::de::DeserializeOwned;

use super::prelude::*;
use sessiond_core::read::SessionRecord;

/// The columns that [`session`] reads.
pub(super) const SESSION_COLUMNS: &str = "id, user_id, session_id, \
    last_sequence, state_bytes, last_event_secs, last_event_nanos, update_secs, update_nanos, \
    create_secs, create_nanos, expire_secs, expire_nanos, created_app_version, created_user_version, \
    display_name, labels, fork_session, fork_sequence";
pub(super) const SESSION_WIDTH: usize = 19;

/// A row of a query. A column that does not hold what this program writes is damage.
pub(super) struct Row<'r>(pub(super) &'r rusqlite::Row<'r>);

impl Row<'_> {
    pub(super) fn get<T: Column>(&self, at: usize) -> Result<T> {
        let value = self.0.get_ref(at).map_err(driver)?;
        T::read(value).map_err(|error| Error::damaged(Damage::Row, format!("column {at}: {error}")))
    }

    /// Every column of a short row.
    pub(super) fn all<T>(&self) -> Result<T>
    where
        T: for<'r> TryFrom<&'r rusqlite::Row<'r>, Error = rusqlite::Error>,
    {
        T::try_from(self.0).map_err(driver)
    }

    /// A text, and `None` for NULL, without a copy of it.
    pub(super) fn text(&self, at: usize) -> Result<Option<&str>> {
        let text = self.0.get_ref(at).map_err(driver)?.as_str_or_null();
        text.map_err(|error| Error::damaged(Damage::Row, format!("column {at}: {error}")))
    }
}

/// A type that a column may have.
pub(super) trait Column: Sized {
    fn read(value: ValueRef<'_>) -> FromSqlResult<Self>;
}

impl<T: Column> Column for Option<T> {
    fn read(value: ValueRef<'_>) -> FromSqlResult<Self> {
        if value == ValueRef::Null { Ok(None) } else { T::read(value).map(Some) }
    }
}

/// Types that the driver reads, and names and ids, which are kept as their text.
macro_rules! columns {
    ($($driver:ty),*; $($text:ident),*) => {
        $(impl Column for $driver {
            fn read(value: ValueRef<'_>) -> FromSqlResult<Self> {
                FromSql::column_result(value)
            }
        })*
        $(impl Column for $text {
            fn read(value: ValueRef<'_>) -> FromSqlResult<Self> {
                Ok(Self::from_stored(Arc::<str>::from(value.as_str()?)))
            }
        })*
    };
}

columns!(bool, u8, u32, i32, u64, i64, usize, String, Box<str>, [u8; 16];
    AppName, Author, Branch, DisplayName, EventId, RequestId, InvocationId, SessionId, UserId);

impl Column for Fingerprint {
    fn read(value: ValueRef<'_>) -> FromSqlResult<Self> {
        FromSql::column_result(value).map(|bytes| Self(u128::from_le_bytes(bytes)))
    }
}

/// A column of an object, if it has a value. A text that is no JSON is a fault of its row.
pub(super) fn object(row: &Row<'_>, at: usize) -> Result<Option<Json>> {
    let Some(text) = row.text(at)? else { return Ok(None) };
    let message = || format!("column {at}: the text is not what was written: JSON");
    let damaged = || Error::damaged(Damage::Row, message());
    Json::stored_object(text).map(Some).ok_or_else(damaged)
}

/// A key's value, perhaps a damaged one, if the key has a value.
pub(super) fn optional_value(row: &Row<'_>, at: usize) -> Result<Option<Json>> {
    Ok(row.text(at)?.map(Json::stored_or_damaged))
}

pub(super) fn value(row: &Row<'_>, at: usize) -> Result<Json> {
    optional_value(row, at)?.ok_or_else(|| Error::damaged(Damage::Row, "a key without a value"))
}

/// Two columns of a time.
pub(super) fn time(row: &Row<'_>, at: usize) -> Result<Time> {
    Ok(Time::from_stored(row.get(at)?, row.get(at + 1)?))
}

/// Two columns of a time, if they have values.
pub(super) fn optional_time(row: &Row<'_>, at: usize) -> Result<Option<Time>> {
    row.get::<Option<i64>>(at)?.map(|_| time(row, at)).transpose()
}

/// A column of JSON that this program wrote; without a value it is empty.
pub(super) fn parsed<T: DeserializeOwned + Default>(row: &Row<'_>, at: usize) -> Result<T> {
    let Some(text) = row.text(at)? else { return Ok(T::default()) };
    serde_json::from_str(text)
        .map_err(|error| Error::damaged(Damage::Row, format!("column {at}: {error}")))
}

/// Two columns of changes: the keys that were removed, and those that were set.
pub(super) fn changes(row: &Row<'_>, at: usize) -> Result<Changes> {
    let removed: Vec<String> = parsed(row, at)?;
    let remove = removed.into_iter().map(StateKey::from_stored).collect();
    Ok(Changes { remove, set: object(row, at + 1)? })
}

/// The indexes of the body and of the changes in `EVENT_COLUMNS`.
pub(super) const BODY: usize = 14;
pub(super) const CHANGED: usize = 12;

/// The event of `EVENT_COLUMNS`.
pub(super) fn event(row: &Row<'_>) -> Result<Event> {
    Ok(Event {
        sequence: row.get(0)?,
        event_id: row.get(1)?,
        invocation_id: row.get(2)?,
        author: row.get(3)?,
        branch: row.get(4)?,
        event_time: time(row, 5)?,
        commit_time: time(row, 7)?,
        versions: ScopeVersions { application: row.get(9)?, user: row.get(10)? },
        rewind_to: row.get(11)?,
        rewound: false,
        changes: changes(row, CHANGED)?,
        body: object(row, BODY)?,
        trace_id: row.get::<Option<[u8; 16]>>(15)?.and_then(TraceId::from_bytes),
    })
}

/// The session of [`SESSION_COLUMNS`].
pub(super) fn session(row: &Row<'_>, app_name: AppName) -> Result<SessionRecord> {
    let key = SessionKey { app_name, user_id: row.get(1)?, session_id: row.get(2)? };
    let source: Option<SessionId> = row.get(17)?;
    let forked_from = source.map(|session_id| {
        let key = SessionKey { session_id, ..key.clone() };
        Ok::<_, Error>(ForkOrigin { key, sequence: row.get(18)? })
    });
    Ok(SessionRecord {
        state_bytes: row.get(4)?,
        info: SessionInfo {
            incarnation: Incarnation(row.get(0)?),
            last_sequence: row.get(3)?,
            last_event_time: time(row, 5)?,
            update_time: time(row, 7)?,
            create_time: time(row, 9)?,
            expire_time: optional_time(row, 11)?,
            created_versions: ScopeVersions { application: row.get(13)?, user: row.get(14)? },
            display_name: row.get(15)?,
            labels: Labels::from_stored(parsed::<BTreeMap<_, _>>(row, 16)?),
            forked_from: forked_from.transpose()?,
            key,
        },
    })
}
