//! Single fields: names, times, numbers, enums.

use std::collections::HashMap;

use prost_types::{Duration, Timestamp};

use super::request::{At, Decoded, Faulted};
use crate::{
    domain::{
        Sequence,
        error::Reason,
        id::NameFault,
        limits::{KEY_BYTES, LABEL_BYTES, LABELS, PAGE_ITEMS, PAGE_ITEMS_DEFAULT},
        scope::{KeyFault, StateKey},
        session::{Expiration, LabelFault, Labels},
        time::Time,
        token::BadToken,
    },
    proto::v1::JsonForm,
    rpc::convert::Form,
};

type New<T> = fn(String) -> Result<T, NameFault>;

/// A required name.
pub fn name<T>(at: At<'_>, text: String, new: New<T>) -> Decoded<T> {
    new(text).map_err(|fault| name_fault(at, fault))
}

/// A name that may be left empty.
pub fn optional<T>(at: At<'_>, text: String, new: New<T>) -> Decoded<Option<T>> {
    if text.is_empty() { Ok(None) } else { name(at, text, new).map(Some) }
}

fn name_fault(at: At<'_>, fault: NameFault) -> Faulted {
    match fault {
        NameFault::Empty => at.missing(),
        NameFault::TooLong { limit, actual, reason } => too_long(at, reason, actual, limit),
        NameFault::Nul { reason } => {
            at.fault(reason, "The name contains a NUL character. Remove it.", &[])
        }
    }
}

pub fn too_long(at: At<'_>, reason: Reason, bytes: usize, limit: usize) -> Faulted {
    at.over_limit(reason, ("bytes", bytes, limit), "Shorten the text.")
}

pub fn state_key(at: At<'_>, text: impl Into<Box<str>>) -> Decoded<StateKey> {
    StateKey::new(text).map_err(|fault| match fault {
        KeyFault::Empty => {
            at.fault(Reason::BadKey, "The key is empty. Name it, or give it a prefix.", &[])
        }
        KeyFault::TooLong(bytes) => too_long(at, Reason::BadKey, bytes, KEY_BYTES),
        KeyFault::Nul => {
            at.fault(Reason::BadKey, "The key contains a NUL character. Remove it.", &[])
        }
    })
}

pub fn time(at: At<'_>, timestamp: Timestamp) -> Decoded<Time> {
    let Timestamp { seconds, nanos } = timestamp;
    let time = u32::try_from(nanos).ok().and_then(|nanos| Time::new(seconds, nanos));
    time.ok_or_else(|| {
        let message = format!(
            "The time of {seconds} s and {nanos} ns is out of range. Send a time in the years 1 to 9999 with 0 to 999999999 nanos."
        );
        at.fault(Reason::BadValue, message, &[("seconds", &seconds), ("nanos", &nanos)])
    })
}

pub fn ttl(at: At<'_>, duration: Duration) -> Decoded<Expiration> {
    let Duration { seconds: secs, nanos } = duration;
    let within = (secs, nanos) > (0, 0) && nanos <= 999_999_999;
    match u32::try_from(nanos) {
        Ok(nanos) if within => Ok(Expiration::After { secs, nanos }),
        _ => {
            let message = format!(
                "The ttl is {secs} s and {nanos} ns, but must be positive, with 0 to 999999999 nanos."
            );
            Err(at.fault(Reason::BadValue, message, &[("seconds", &secs), ("nanos", &nanos)]))
        }
    }
}

/// A sequence, a version or a count: not negative.
pub fn count(at: At<'_>, number: i64) -> Decoded<Sequence> {
    u64::try_from(number).map_err(|_| {
        let message = format!("The number is {number}, but must be 0 or more.");
        at.fault(Reason::BadValue, message, &[("value", &number)])
    })
}

/// As [`count`], if the field may be unset.
pub fn optional_count(at: At<'_>, number: Option<i64>) -> Decoded<Option<Sequence>> {
    number.map(|number| count(at, number)).transpose()
}

pub fn page_size(at: At<'_>, size: i32) -> Decoded<usize> {
    let size = count(at, size.into())?;
    Ok(match usize::try_from(size).unwrap_or(PAGE_ITEMS) {
        0 => PAGE_ITEMS_DEFAULT,
        size => size.min(PAGE_ITEMS),
    })
}

/// A token of an earlier page; empty: none. The engine checks that it belongs to this request.
pub fn page_token<T>(
    at: At<'_>,
    text: &str,
    decode: fn(&str) -> Result<T, BadToken>,
) -> Decoded<Option<T>> {
    if text.is_empty() {
        return Ok(None);
    }
    decode(text).map(Some).map_err(|BadToken| {
        let message = "The page token is invalid. Send the token of the previous page, or none.";
        at.fault(Reason::BadPageToken, message, &[])
    })
}

pub fn form(at: At<'_>, number: i32) -> Decoded<Form> {
    Ok(match enumeration(at, number)? {
        JsonForm::Unspecified | JsonForm::Struct => Form::Struct,
        JsonForm::Text => Form::Text,
    })
}

/// A request with the form that its answer is asked in, which is read even if the request is at fault.
pub fn with_form<T>(at: At<'_>, request: Decoded<T>, json_form: i32) -> Decoded<(T, Form)> {
    let form = form(at.field("json_form"), json_form);
    Ok((request?, form?))
}

pub fn enumeration<T: TryFrom<i32>>(at: At<'_>, number: i32) -> Decoded<T> {
    T::try_from(number).map_err(|_| {
        let message = format!("{number} is not a value of this enum.");
        at.fault(Reason::BadValue, message, &[("value", &number)])
    })
}

/// Labels of a session, or those that a list filters by.
pub fn labels(at: At<'_>, labels: HashMap<String, String>) -> Decoded<Labels> {
    Labels::new(labels.into_iter().collect()).map_err(|(last, others)| {
        for fault in others {
            label_fault(at, fault);
        }
        label_fault(at, last)
    })
}

fn label_fault(at: At<'_>, fault: LabelFault) -> Faulted {
    match fault {
        LabelFault::TooMany(labels) => {
            let limit = ("labels", labels, LABELS);
            at.over_limit(Reason::BadValue, limit, "Send fewer labels.")
        }
        LabelFault::LongKey(key) => {
            too_long(at.key(&key), Reason::FieldTooLong, key.len(), LABEL_BYTES)
        }
        LabelFault::LongValue(key, bytes) => {
            too_long(at.key(&key), Reason::FieldTooLong, bytes, LABEL_BYTES)
        }
        LabelFault::Key(key) => {
            let message = "The key of a label is empty or contains a NUL character. Rename it.";
            at.key(&key).fault(Reason::BadValue, message, &[])
        }
        LabelFault::Value(key) => {
            let message = "The value of a label contains a NUL character. Remove it.";
            at.key(&key).fault(Reason::BadValue, message, &[])
        }
    }
}
