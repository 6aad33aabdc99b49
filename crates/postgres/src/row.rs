//! Columns and rows as the domain's types.

use std::{borrow::Cow, time::SystemTime};

use serde::de::DeserializeOwned;
use tokio_postgres::types::FromSql;

use super::prelude::*;
use sessiond_core::read::SessionRecord;

/// The columns that [`session`] reads.
pub(super) const SESSION_COLUMNS: &str = "app_name, user_id, session_id, incarnation, \
    last_sequence, state_bytes, snapshot_version, changed_bytes, \
    last_event_secs, last_event_nanos, update_secs, update_nanos, create_secs, create_nanos, \
    expire_secs, expire_nanos, created_app_version, created_user_version, \
    display_name, labels, fork_session, fork_sequence";

/// A row that the database answered.
pub(super) struct Row(tokio_postgres::Row);

impl Row {
    pub(super) fn try_get<'r, T: Column<'r>>(&'r self, at: usize) -> Result<T> {
        Ok(T::of(self.0.try_get(at)?))
    }
}

pub(super) fn rows(rows: Vec<tokio_postgres::Row>) -> Vec<Row> {
    rows.into_iter().map(Row).collect()
}

/// A value that is read from a column.
pub(super) trait Column<'r> {
    /// What the driver makes of the column.
    type Sql: FromSql<'r>;

    fn of(sql: Self::Sql) -> Self;
}

/// Types as the driver has them.
macro_rules! plain {
    ($($type:ty),*) => {$(
        impl<'r> Column<'r> for $type {
            type Sql = Self;

            fn of(sql: Self) -> Self {
                sql
            }
        }
    )*};
}

plain!(bool, i32, i64, &'r str, &'r [u8], String, SystemTime);

/// Types that are kept as their text.
macro_rules! texts {
    ($($type:ident),*) => {$(
        impl<'r> Column<'r> for $type {
            type Sql = &'r str;

            fn of(text: &'r str) -> Self {
                Self::from_stored(text)
            }
        }

        impl<'a> Text<'a> for &'a $type {
            fn text(self) -> Option<Cow<'a, str>> {
                Some(self.as_str().into())
            }
        }
    )*};
}

texts!(AppName, Author, Branch, DisplayName, EventId, InvocationId, RequestId, SessionId, UserId);

impl<'r, T: Column<'r>> Column<'r> for Option<T> {
    type Sql = Option<T::Sql>;

    fn of(sql: Self::Sql) -> Self {
        sql.map(T::of)
    }
}

impl<'r, T: Column<'r>> Column<'r> for Vec<T> {
    type Sql = Vec<T::Sql>;

    fn of(sql: Self::Sql) -> Self {
        sql.into_iter().map(T::of).collect()
    }
}

/// A key's value, perhaps a damaged one.
pub(super) struct Value(pub(super) Json);

impl<'r> Column<'r> for Value {
    type Sql = &'r str;

    fn of(text: &'r str) -> Self {
        Self(Json::stored_or_damaged(text))
    }
}

/// A value that is written as its text.
pub(super) trait Text<'a> {
    fn text(self) -> Option<Cow<'a, str>>;
}

impl<'a> Text<'a> for &'a Json {
    fn text(self) -> Option<Cow<'a, str>> {
        Some(self.as_str().into())
    }
}

impl<'a> Text<'a> for &'a str {
    fn text(self) -> Option<Cow<'a, str>> {
        Some(self.into())
    }
}

impl<'a> Text<'a> for String {
    fn text(self) -> Option<Cow<'a, str>> {
        Some(self.into())
    }
}

impl<'a, T: Text<'a>> Text<'a> for Option<T> {
    fn text(self) -> Option<Cow<'a, str>> {
        self.and_then(T::text)
    }
}

/// A key's value, perhaps a damaged one.
pub(super) fn value(row: &Row, at: usize) -> Result<Json> {
    Ok(row.try_get::<Value>(at)?.0)
}

/// A column of an object, if it has a value.
fn object(row: &Row, at: usize) -> Result<Option<Json>> {
    let Some(text) = row.try_get::<Option<&str>>(at)? else { return Ok(None) };
    let no_json = || Error::damaged(Damage::Row, "the text is not what was written: JSON");
    Ok(Some(Json::stored_object(text).ok_or_else(no_json)?))
}

/// The index of what a row is about among `count` things that were asked for. The first column counts them from 1.
pub(super) fn asked(row: &Row, count: usize) -> Result<usize, Error> {
    let at = usize::try_from(number(row, 0)?).ok().and_then(|place| place.checked_sub(1));
    let not_asked = || Error::internal("the database answered what was not asked");
    at.filter(|at| *at < count).ok_or_else(not_asked)
}

/// A column of a size.
pub(super) fn bytes(row: &Row, at: usize) -> Result<usize> {
    Ok(usize::try_from(number(row, at)?).unwrap_or(usize::MAX))
}

/// A column of a sequence, a version or a size.
pub(super) fn number(row: &Row, at: usize) -> Result<u64> {
    Ok(row.try_get::<i64>(at)?.cast_unsigned())
}

/// Two columns of a time.
pub(super) fn time(row: &Row, at: usize) -> Result<Time> {
    Ok(Time::from_stored(row.try_get(at)?, row.try_get::<i32>(at + 1)?.cast_unsigned()))
}

/// Two columns of a time, if they have values.
pub(super) fn optional_time(row: &Row, at: usize) -> Result<Option<Time>> {
    row.try_get::<Option<i64>>(at)?.map(|_| time(row, at)).transpose()
}

/// An address, in the first columns.
pub(super) fn address(row: &Row) -> Result<SessionKey> {
    Ok(SessionKey {
        app_name: row.try_get(0)?,
        user_id: row.try_get(1)?,
        session_id: row.try_get(2)?,
    })
}

/// The nanoseconds of a time as they are stored.
pub(super) fn nanos(time: Time) -> i32 {
    time.nanos().cast_signed()
}

/// A column of JSON that this program wrote; without a value it is empty.
fn parsed<T: DeserializeOwned + Default>(row: &Row, at: usize) -> Result<T> {
    let Some(text) = row.try_get::<Option<&str>>(at)? else { return Ok(T::default()) };
    Ok(serde_json::from_str(text).map_err(|error| Error::damaged(Damage::Row, error))?)
}

/// The changes of a row of a log, whose first columns are its version and these.
pub(super) fn logged(row: &Row, of: ScopeKind) -> Result<Changes, Error> {
    let version = number(row, 0)?;
    changes(row, 1).map_err(|fault| Error::from(fault).in_row(Damage::in_log(of), version))
}

/// Two columns of changes: the keys that were removed, and those that were set.
fn changes(row: &Row, at: usize) -> Result<Changes> {
    let removed: Vec<String> = parsed(row, at)?;
    let remove = removed.into_iter().map(StateKey::from_stored).collect();
    Ok(Changes { remove, set: object(row, at + 1)? })
}

pub(super) fn fingerprint(row: &Row, at: usize) -> Result<Fingerprint, Error> {
    let bytes = <[u8; 16]>::try_from(row.try_get::<&[u8]>(at)?);
    let bytes = bytes.map_err(|error| Error::damaged(Damage::Row, error))?;
    Ok(Fingerprint(u128::from_le_bytes(bytes)))
}

/// A column of 16 bytes, if it has a value.
fn trace_id(row: &Row, at: usize) -> Result<Option<TraceId>> {
    let Some(bytes) = row.try_get::<Option<&[u8]>>(at)? else { return Ok(None) };
    let bytes = bytes.try_into().map_err(|error| Error::damaged(Damage::Row, error))?;
    Ok(TraceId::from_bytes(bytes))
}

/// The event of `EVENT_COLUMNS`, which begin at a column, as if it were not rewound.
pub(super) fn event(row: &Row, at: usize) -> Result<Event, Error> {
    let sequence = number(row, at)?;
    let event = whole_event(row, at, sequence);
    event.map_err(|fault| Error::from(fault).in_row(Damage::Event, sequence))
}

fn whole_event(row: &Row, at: usize, sequence: Sequence) -> Result<Event> {
    Ok(Event {
        sequence,
        event_id: row.try_get(at + 1)?,
        invocation_id: row.try_get(at + 2)?,
        author: row.try_get(at + 3)?,
        branch: row.try_get(at + 4)?,
        event_time: time(row, at + 5)?,
        commit_time: time(row, at + 7)?,
        versions: ScopeVersions { application: number(row, at + 9)?, user: number(row, at + 10)? },
        rewind_to: row.try_get::<Option<i64>>(at + 11)?.map(i64::cast_unsigned),
        rewound: false,
        changes: changes(row, at + 12)?,
        body: object(row, at + 14)?,
        trace_id: trace_id(row, at + 15)?,
    })
}

/// A session's row.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) record: SessionRecord,
    pub(super) snapshots: Snapshots,
}

/// What a node's row says of its snapshots.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Snapshots {
    /// The version of the newest one.
    pub(super) newest: Version,
    /// Bytes of the changes since.
    pub(super) changed_bytes: u64,
}

/// Reads [`SESSION_COLUMNS`].
pub(super) fn session(row: &Row) -> Result<Found, Error> {
    let key = address(row)?;
    let source: Option<SessionId> = row.try_get(20)?;
    let forked_from = source.map(|session_id| {
        let key = SessionKey { session_id, ..key.clone() };
        Ok::<_, Error>(ForkOrigin { key, sequence: number(row, 21)? })
    });
    let info = SessionInfo {
        key,
        incarnation: Incarnation(number(row, 3)?),
        last_sequence: number(row, 4)?,
        last_event_time: time(row, 8)?,
        update_time: time(row, 10)?,
        create_time: time(row, 12)?,
        expire_time: optional_time(row, 14)?,
        created_versions: ScopeVersions { application: number(row, 16)?, user: number(row, 17)? },
        display_name: row.try_get(18)?,
        labels: Labels::from_stored(parsed(row, 19)?),
        forked_from: forked_from.transpose()?,
    };
    let snapshots = Snapshots { newest: number(row, 6)?, changed_bytes: number(row, 7)? };
    Ok(Found { record: SessionRecord { info, state_bytes: bytes(row, 5)? }, snapshots })
}
