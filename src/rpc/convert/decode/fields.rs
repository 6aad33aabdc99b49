//! Single fields: names, times, numbers, enums.

use std::collections::HashMap;

use prost_types::{Duration, Timestamp};

use super::faults::{Decoded, Faulted, Faults, Path};
use crate::{
    domain::{
        Sequence,
        error::Reason,
        id::NameFault,
        limits::{KEY_BYTES, LABEL_BYTES, LABELS, PAGE_ITEMS, PAGE_ITEMS_DEFAULT},
        scope::{KeyFault, StateKey},
        session::{LabelFault, Labels},
        time::Time,
        token::BadToken,
    },
    engine::Expiration,
    proto::v1::JsonForm,
    rpc::convert::Form,
};

/// Makes a name from text.
type New<T> = fn(String) -> Result<T, NameFault>;

/// A name that has to be there.
pub fn name<T>(faults: &mut Faults, at: Path<'_>, text: String, new: New<T>) -> Decoded<T> {
    new(text).map_err(|fault| name_fault(faults, at, fault))
}

/// A name for which empty means that there is none.
pub fn optional<T>(
    faults: &mut Faults,
    at: Path<'_>,
    text: String,
    new: New<T>,
) -> Decoded<Option<T>> {
    if text.is_empty() { Ok(None) } else { name(faults, at, text, new).map(Some) }
}

fn name_fault(faults: &mut Faults, at: Path<'_>, fault: NameFault) -> Faulted {
    match fault {
        NameFault::Empty => faults.missing(at),
        NameFault::TooLong { limit, actual, reason } => too_long(faults, at, reason, actual, limit),
        NameFault::Nul { reason } => {
            faults.add(at, reason, "It holds a NUL character; leave that out.")
        }
    }
}

/// Text, or something that is written as text, of more bytes than it may have.
pub fn too_long(
    faults: &mut Faults,
    at: Path<'_>,
    reason: Reason,
    bytes: usize,
    limit: usize,
) -> Faulted {
    let message = format_args!("It has {bytes} bytes, {limit} are allowed; shorten it.");
    faults.add_with(at, reason, message, |fault| fault.with("bytes", bytes).with("limit", limit))
}

/// A key of state with its prefix.
pub fn state_key(
    faults: &mut Faults,
    at: Path<'_>,
    text: impl Into<Box<str>>,
) -> Decoded<StateKey> {
    StateKey::new(text).map_err(|fault| match fault {
        KeyFault::Empty => {
            faults.add(at, Reason::BadKey, "A key is empty; name it, or give it a prefix.")
        }
        KeyFault::TooLong(bytes) => too_long(faults, at, Reason::BadKey, bytes, KEY_BYTES),
        KeyFault::Nul => {
            faults.add(at, Reason::BadKey, "The key holds a NUL character; leave that out.")
        }
    })
}

/// A point of time.
pub fn time(faults: &mut Faults, at: Path<'_>, timestamp: Timestamp) -> Decoded<Time> {
    let Timestamp { seconds, nanos } = timestamp;
    let time = u32::try_from(nanos).ok().and_then(|nanos| Time::new(seconds, nanos));
    time.ok_or_else(|| {
        let message = format_args!(
            "The time of {seconds} seconds and {nanos} nanos is outside of the years 1 to 9999, or its nanos are no part of a second; send a valid one."
        );
        faults.add_with(at, Reason::BadValue, message, |fault| {
            fault.with("seconds", seconds).with("nanos", nanos)
        })
    })
}

/// How long a session lives from now on: more than nothing.
pub fn ttl(faults: &mut Faults, at: Path<'_>, duration: Duration) -> Decoded<Expiration> {
    let Duration { seconds: secs, nanos } = duration;
    let within = (secs, nanos) > (0, 0) && nanos <= 999_999_999;
    match u32::try_from(nanos) {
        Ok(nanos) if within => Ok(Expiration::After { secs, nanos }),
        _ => {
            let message = format_args!(
                "A time to live of {secs} seconds and {nanos} nanos is none; send one greater than zero, with 0 to 999999999 nanos."
            );
            Err(faults.add_with(at, Reason::BadValue, message, |fault| {
                fault.with("seconds", secs).with("nanos", nanos)
            }))
        }
    }
}

/// A sequence, a version or a count: not negative.
pub fn count(faults: &mut Faults, at: Path<'_>, number: i64) -> Decoded<Sequence> {
    u64::try_from(number).map_err(|_| {
        let message = format_args!("It is {number}; send 0 or more.");
        faults.add_with(at, Reason::BadValue, message, |fault| fault.with("value", number))
    })
}

/// As [`count`], where the field may be unset.
pub fn optional_count(
    faults: &mut Faults,
    at: Path<'_>,
    number: Option<i64>,
) -> Decoded<Option<Sequence>> {
    number.map(|number| count(faults, at, number)).transpose()
}

/// Items of a page.
pub fn page_size(faults: &mut Faults, at: Path<'_>, size: i32) -> Decoded<usize> {
    let size = count(faults, at, size.into())?;
    Ok(match usize::try_from(size).unwrap_or(PAGE_ITEMS) {
        0 => PAGE_ITEMS_DEFAULT,
        size => size.min(PAGE_ITEMS),
    })
}

/// A token of an earlier page; empty: none. Whether it belongs to this request is not known here.
pub fn page_token<T>(
    faults: &mut Faults,
    at: Path<'_>,
    text: &str,
    decode: fn(&str) -> Result<T, BadToken>,
) -> Decoded<Option<T>> {
    if text.is_empty() {
        return Ok(None);
    }
    decode(text).map(Some).map_err(|BadToken| {
        let message = "The page token is not one that this list made; use the token of the previous page, or begin without one.";
        faults.add(at, Reason::BadPageToken, message)
    })
}

/// The form that an answer is asked in.
pub fn form(faults: &mut Faults, at: Path<'_>, number: i32) -> Decoded<Form> {
    Ok(match enumeration(faults, at, number)? {
        JsonForm::Unspecified | JsonForm::Struct => Form::Struct,
        JsonForm::Text => Form::Text,
    })
}

/// A value of an enum that this contract knows.
pub fn enumeration<T: TryFrom<i32>>(faults: &mut Faults, at: Path<'_>, number: i32) -> Decoded<T> {
    T::try_from(number).map_err(|_| {
        let message =
            format_args!("{number} is no value of this enum; use one that the contract names.");
        faults.add_with(at, Reason::BadValue, message, |fault| fault.with("value", number))
    })
}

/// Labels of a session, or those that a list filters by.
pub fn labels(
    faults: &mut Faults,
    at: Path<'_>,
    labels: HashMap<String, String>,
) -> Decoded<Labels> {
    Labels::new(labels.into_iter().collect()).map_err(|(last, others)| {
        for fault in others {
            label_fault(faults, at, fault);
        }
        label_fault(faults, at, last)
    })
}

fn label_fault(faults: &mut Faults, at: Path<'_>, fault: LabelFault) -> Faulted {
    match fault {
        LabelFault::TooMany(labels) => {
            let message =
                format_args!("There are {labels} labels, {LABELS} are allowed; send fewer.");
            faults.add_with(at, Reason::BadValue, message, |fault| {
                fault.with("labels", labels).with("limit", LABELS)
            })
        }
        LabelFault::LongKey(key) => {
            too_long(faults, at.key(&key), Reason::FieldTooLong, key.len(), LABEL_BYTES)
        }
        LabelFault::LongValue(key, bytes) => {
            too_long(faults, at.key(&key), Reason::FieldTooLong, bytes, LABEL_BYTES)
        }
        LabelFault::Key(key) => {
            let message = "The key of a label is empty or holds a NUL; rename it.";
            faults.add(at.key(&key), Reason::BadValue, message)
        }
        LabelFault::Value(key) => {
            let message = "The value of a label holds a NUL; leave that out.";
            faults.add(at.key(&key), Reason::BadValue, message)
        }
    }
}
