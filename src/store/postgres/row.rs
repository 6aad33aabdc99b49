//! Columns and rows as the domain's types.

use std::{error::Error as StdError, sync::Arc};

use serde::de::DeserializeOwned;
use tokio_postgres::types::{FromSql, IsNull, ToSql, accepts, private::BytesMut, to_sql_checked};

use super::prelude::*;
use crate::store::rows::FINGERPRINT;

/// The columns that [`session`] reads.
pub(super) const SESSION_COLUMNS: &str = "app_name, user_id, session_id, incarnation, \
    last_sequence, state_bytes, snapshot_version, changed_bytes, \
    last_event_secs, last_event_nanos, update_secs, update_nanos, create_secs, create_nanos, \
    expire_secs, expire_nanos, created_app_version, created_user_version, \
    display_name, labels, fork_session, fork_sequence";

/// Types that are kept as their text.
macro_rules! texts {
    ($owned:ty: $($type:ident),*) => {$(
        impl<'a> FromSql<'a> for $type {
            fn from_sql(of: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
                Ok(Self::from_stored(<$owned>::from(<&str>::from_sql(of, raw)?)))
            }

            accepts!(TEXT);
        }

        impl ToSql for $type {
            fn to_sql(
                &self,
                of: &Type,
                out: &mut BytesMut,
            ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
                self.as_str().to_sql(of, out)
            }

            accepts!(TEXT);
            to_sql_checked!();
        }
    )*};
}

impl ToSql for Json {
    fn to_sql(
        &self,
        of: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        self.as_str().to_sql(of, out)
    }

    accepts!(TEXT);
    to_sql_checked!();
}

/// A key's value, perhaps a damaged one.
pub(super) struct Value(pub(super) Json);

impl<'a> FromSql<'a> for Value {
    fn from_sql(of: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self(Json::stored_or_damaged(<&str>::from_sql(of, raw)?)))
    }

    accepts!(TEXT);
}

/// A key's value, perhaps a damaged one.
pub(super) fn value(row: &Row, at: usize) -> Result<Json> {
    Ok(row.try_get::<_, Value>(at)?.0)
}

/// A column of an object, if it has a value.
fn object(row: &Row, at: usize) -> Result<Option<Json>, Error> {
    let Some(text) = row.try_get::<_, Option<&str>>(at)? else { return Ok(None) };
    let json = Json::stored_object(text);
    json.map(Some)
        .ok_or_else(|| Error::damaged(Damage::Row, "the text is not what was written: JSON"))
}

texts!(Arc<str>: AppName, Author, Branch, DisplayName, EventId, InvocationId, RequestId, SessionId, UserId);

/// A column of a sequence, a version or a size.
pub(super) fn number(row: &Row, at: usize) -> Result<u64> {
    Ok(row.try_get::<_, i64>(at)?.cast_unsigned())
}

/// Two columns of a time.
pub(super) fn time(row: &Row, at: usize) -> Result<Time> {
    Ok(Time::from_stored(row.try_get(at)?, row.try_get::<_, i32>(at + 1)?.cast_unsigned()))
}

/// Two columns of a time, if they have values.
pub(super) fn optional_time(row: &Row, at: usize) -> Result<Option<Time>> {
    row.try_get::<_, Option<i64>>(at)?.map(|_| time(row, at)).transpose()
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
fn parsed<T: DeserializeOwned + Default>(row: &Row, at: usize) -> Result<T, Error> {
    let Some(text) = row.try_get::<_, Option<&str>>(at)? else { return Ok(T::default()) };
    serde_json::from_str(text).map_err(|error| Error::damaged(Damage::Row, error))
}

/// The changes of a row of a log, whose first columns are its version and these.
pub(super) fn logged(row: &Row, of: ScopeKind) -> Result<Changes, Error> {
    let version = number(row, 0)?;
    changes(row, 1).map_err(|error| error.in_row(Damage::in_log(of), version))
}

/// Two columns of changes: the keys that were removed, and those that were set.
fn changes(row: &Row, at: usize) -> Result<Changes, Error> {
    let removed: Vec<String> = parsed(row, at)?;
    let remove = removed.into_iter().map(StateKey::from_stored).collect();
    Ok(Changes { remove, set: object(row, at + 1)? })
}

pub(super) fn fingerprint(row: &Row, at: usize) -> Result<Fingerprint, Error> {
    let bytes = <[u8; 16]>::try_from(row.try_get::<_, &[u8]>(at)?);
    let bytes = bytes.map_err(|error| Error::damaged(Damage::Row, error))?;
    Ok(Fingerprint(u128::from_le_bytes(bytes)))
}

/// A column of 16 bytes, if it has a value.
fn trace_id(row: &Row, at: usize) -> Result<Option<TraceId>, Error> {
    let Some(bytes) = row.try_get::<_, Option<&[u8]>>(at)? else { return Ok(None) };
    let bytes = bytes.try_into().map_err(|error| Error::damaged(Damage::Row, error))?;
    Ok(TraceId::from_bytes(bytes))
}

/// The event of `EVENT_COLUMNS`, which begin at a column.
pub(super) fn event(row: &Row, at: usize, rewound: bool) -> Result<Event, Error> {
    let sequence = number(row, at)?;
    whole_event(row, at, sequence, rewound).map_err(|error| error.in_row(Damage::Event, sequence))
}

fn whole_event(row: &Row, at: usize, sequence: Sequence, rewound: bool) -> Result<Event, Error> {
    Ok(Event {
        sequence,
        event_id: row.try_get(at + 1)?,
        invocation_id: row.try_get(at + 2)?,
        author: row.try_get(at + 3)?,
        branch: row.try_get(at + 4)?,
        event_time: time(row, at + 5)?,
        commit_time: time(row, at + 7)?,
        versions: ScopeVersions { application: number(row, at + 9)?, user: number(row, at + 10)? },
        rewind_to: row.try_get::<_, Option<i64>>(at + 11)?.map(i64::cast_unsigned),
        rewound,
        changes: changes(row, at + 12)?,
        body: object(row, at + 14)?,
        trace_id: trace_id(row, at + 15)?,
    })
}

/// The fingerprint of `EVENT_COLUMNS`, which begin at a column.
pub(super) fn event_fingerprint(row: &Row, at: usize) -> Result<Fingerprint, Error> {
    fingerprint(row, at + FINGERPRINT)
}

/// A session's row.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) info: SessionInfo,
    /// Of its own state: the sum of names and values.
    pub(super) state_bytes: usize,
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

/// Reads [`SESSION_COLUMNS`], which begin at a column.
pub(super) fn session(row: &Row, at: usize) -> Result<Found, Error> {
    let key = SessionKey {
        app_name: row.try_get(at)?,
        user_id: row.try_get(at + 1)?,
        session_id: row.try_get(at + 2)?,
    };
    let source: Option<SessionId> = row.try_get(at + 20)?;
    let forked_from = source.map(|session_id| {
        let key = SessionKey { session_id, ..key.clone() };
        Ok::<_, Error>(ForkOrigin { key, sequence: number(row, at + 21)? })
    });
    Ok(Found {
        state_bytes: usize::try_from(number(row, at + 5)?).unwrap_or(usize::MAX),
        snapshots: Snapshots { newest: number(row, at + 6)?, changed_bytes: number(row, at + 7)? },
        info: SessionInfo {
            incarnation: Incarnation(number(row, at + 3)?),
            last_sequence: number(row, at + 4)?,
            last_event_time: time(row, at + 8)?,
            update_time: time(row, at + 10)?,
            create_time: time(row, at + 12)?,
            expire_time: optional_time(row, at + 14)?,
            created_versions: ScopeVersions {
                application: number(row, at + 16)?,
                user: number(row, at + 17)?,
            },
            display_name: row.try_get(at + 18)?,
            labels: Labels::from_stored(parsed(row, at + 19)?),
            forked_from: forked_from.transpose()?,
            key,
        },
    })
}
