//! Times on the wire.

use chrono::{DateTime, Utc};
use prost_types::Timestamp;

/// Seconds of the first and the last time that `Timestamp` can hold: years 1 to 9999.
const WIRE_SECONDS: (i64, i64) = (-62_135_596_800, 253_402_300_799);

/// Clamps to the years 1 to 9999, and a leap second to the end of the second before. The body of an event keeps the exact time.
pub(crate) fn to_timestamp(time: DateTime<Utc>) -> Timestamp {
    let (first, last) = WIRE_SECONDS;
    let nanos = i32::try_from(time.timestamp_subsec_nanos()).unwrap_or(i32::MAX);
    match time.timestamp() {
        seconds if seconds < first => Timestamp { seconds: first, nanos: 0 },
        seconds if seconds > last => Timestamp { seconds: last, nanos: 999_999_999 },
        seconds => Timestamp { seconds, nanos: nanos.min(999_999_999) },
    }
}

pub(crate) fn from_timestamp(time: Timestamp) -> DateTime<Utc> {
    let nanos = u32::try_from(time.nanos).unwrap_or_default();
    DateTime::from_timestamp(time.seconds, nanos).unwrap_or_default()
}
