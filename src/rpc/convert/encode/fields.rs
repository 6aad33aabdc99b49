//! Single fields: keys, times, numbers.

use prost_types::Timestamp;

use crate::{
    domain::{scope, time::Time},
    proto::v1::SessionKey,
};

pub fn session_key(key: &scope::SessionKey) -> SessionKey {
    let scope::SessionKey { app_name, user_id, session_id } = key;
    SessionKey {
        app_name: app_name.to_string(),
        user_id: user_id.to_string(),
        session_id: session_id.to_string(),
    }
}

pub fn timestamp(time: Time) -> Timestamp {
    // Nanoseconds of a second always fit.
    Timestamp { seconds: time.secs(), nanos: i32::try_from(time.nanos()).unwrap_or_default() }
}

/// A sequence or a version, which stays below what a database's integer holds.
pub fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
