//! Single fields: names, keys and addresses, times, numbers, enums, labels.

use std::{collections::HashMap, fmt::Display};

use prost_types::{Duration, Timestamp};

use super::read::{At, BareIds, Decoded, Faulted, Read, read};
use crate::{
    domain::{
        id::NameFault,
        limits::{PAGE_ITEMS, PAGE_ITEMS_DEFAULT},
        scope::TEMP,
        token::Cursor,
    },
    proto::v1::event_ref::Ref,
    rpc::prelude::*,
};

pub trait Text: Sized {
    fn parse(at: At<'_>, text: &str) -> Decoded<Self>;
}

macro_rules! texts {
    ($($type:ident),* => |$at:ident, $text:ident| $parsed:expr) => {$(
        impl Text for $type {
            fn parse($at: At<'_>, $text: &str) -> Decoded<Self> {
                $parsed
            }
        }
    )*};
}
texts!(
    AppName, UserId, SessionId, EventId, InvocationId, RequestId, Author, Branch, DisplayName
        => |at, text| Self::new(text).map_err(|fault| name_fault(at, fault))
);
// The engine checks that a token belongs to the request.
texts!(EventToken, SessionToken, ChangeToken, StateToken, NameToken => |at, text| Self::decode(text).ok_or_else(|| {
    let message = "The page token is invalid. Send the token of the previous page, or no token for the first page.";
    at.fault(Reason::BadPageToken, message, &[])
}));
texts!(Cursor => |at, text| Self::decode(text).ok_or_else(|| {
    let message = "The cursor is invalid. Send the last cursor received, or start the watch without a cursor.";
    at.fault(Reason::BadCursor, message, &[])
}));

impl<T: Text> Read<T> for String {
    fn read(self, at: At<'_>) -> Decoded<T> {
        T::parse(at, &self)
    }
}

/// A text that may be left empty.
impl<T: Text> Read<Option<T>> for String {
    fn read(self, at: At<'_>) -> Decoded<Option<T>> {
        if self.is_empty() { Ok(None) } else { T::parse(at, &self).map(Some) }
    }
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

/// A key that may be named here.
impl Text for StateKey {
    fn parse(at: At<'_>, text: &str) -> Decoded<Self> {
        let bad_key = |message| at.fault(Reason::BadKey, message, &[]);
        let key = Self::new(text).map_err(|fault| match fault {
            NameFault::Empty => bad_key("The key is empty. Set a name or a prefix."),
            NameFault::Nul { .. } => bad_key("The key contains a NUL character. Remove it."),
            NameFault::TooLong { .. } => name_fault(at, fault),
        })?;
        match (at.keys, key.scope()) {
            (Some(kind), Some(scope)) if scope > kind => Err(outside(at, &key, kind, scope)),
            (Some(_), None) => {
                let message = format!(
                    "Key '{}' has the prefix {TEMP}, which is allowed only in an event's delta and in reads of its invocation.",
                    quoted(key.as_str())
                );
                Err(at.fault(Reason::KeyOutsideScope, message, &[("key", &key)]))
            }
            _ => Ok(key),
        }
    }
}

fn outside(at: At<'_>, key: &StateKey, kind: ScopeKind, scope: ScopeKind) -> Faulted {
    let message = format!(
        "Key '{}' belongs to {scope} state, which a request for the {kind} cannot name. Use a scope of the {scope}.",
        quoted(key.as_str())
    );
    let metadata: [(_, &dyn Display); 3] = [("key", key), ("scope", &kind), ("needed", &scope)];
    at.fault(Reason::KeyOutsideScope, message, &metadata)
}

/// A session by its whole address.
impl Read<SessionKey> for Option<v1::SessionKey> {
    fn read(self, at: At<'_>) -> Decoded<SessionKey> {
        let key = self.ok_or_else(|| at.missing())?;
        read!(at: v1::SessionKey { app_name, user_id, session_id } = key);
        Ok(SessionKey { app_name, user_id, session_id })
    }
}

/// A session by its whole address, or by its id alone. Half an address is neither.
impl Read<SessionRef> for Option<v1::SessionKey> {
    fn read(self, at: At<'_>) -> Decoded<SessionRef> {
        match self {
            Some(v1::SessionKey { app_name, user_id, session_id })
                if at.bare == BareIds::Allowed && app_name.is_empty() && user_id.is_empty() =>
            {
                session_id.read(at.field("session_id")).map(SessionRef::bare)
            }
            key => key.read(at).map(SessionRef::Full),
        }
    }
}

impl Read<Scope> for Option<v1::Scope> {
    fn read(self, at: At<'_>) -> Decoded<Scope> {
        let scope = self.ok_or_else(|| at.missing())?;
        if !scope.session_id.is_empty() {
            read!(at: v1::Scope { app_name, user_id, session_id } = scope);
            return Ok(Scope::Session(SessionKey { app_name, user_id, session_id }));
        }
        read!(at: v1::Scope { app_name, user_id; session_id } = scope);
        Ok(match user_id {
            Some(user_id) => Scope::User(app_name, user_id),
            None => Scope::Application(app_name),
        })
    }
}

impl Read<Time> for Timestamp {
    fn read(self, at: At<'_>) -> Decoded<Time> {
        let Timestamp { seconds, nanos } = self;
        let time = u32::try_from(nanos).ok().and_then(|nanos| Time::new(seconds, nanos));
        time.ok_or_else(|| {
            let message = format!(
                "The time of {seconds} s and {nanos} ns is out of range. Send a time in the years 1 to 9999 with 0 to 999999999 nanos."
            );
            at.fault(Reason::BadValue, message, &[("seconds", &seconds), ("nanos", &nanos)])
        })
    }
}

/// A time to live.
impl Read<Expiration> for Duration {
    fn read(self, at: At<'_>) -> Decoded<Expiration> {
        let Duration { seconds: secs, nanos } = self;
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
}

/// A sequence, a version or a count: not negative.
impl Read<u64> for i64 {
    fn read(self, at: At<'_>) -> Decoded<u64> {
        u64::try_from(self).map_err(|_| {
            let message = format!("The number is {self}, but must be 0 or more.");
            at.fault(Reason::BadValue, message, &[("value", &self)])
        })
    }
}

impl Read<u64> for i32 {
    fn read(self, at: At<'_>) -> Decoded<u64> {
        i64::from(self).read(at)
    }
}

/// The size of a page.
impl Read<usize> for i32 {
    fn read(self, at: At<'_>) -> Decoded<usize> {
        let size: u64 = self.read(at)?;
        Ok(match usize::try_from(size).unwrap_or(PAGE_ITEMS) {
            0 => PAGE_ITEMS_DEFAULT,
            size => size.min(PAGE_ITEMS),
        })
    }
}

/// The name of an event.
impl Read<EventRef> for v1::EventRef {
    fn read(self, at: At<'_>) -> Decoded<EventRef> {
        match self.r#ref {
            None => Err(at.missing()),
            Some(Ref::EventId(id)) => id.read(at.field("event_id")).map(EventRef::Id),
            Some(Ref::Sequence(it)) if it < 1 => {
                let message = format!("The sequence is {it}, but those of events begin at 1.");
                let at = at.field("sequence");
                Err(at.fault(Reason::BadValue, message, &[("value", &it)]))
            }
            Some(Ref::Sequence(it)) => Ok(EventRef::Sequence(it.cast_unsigned())),
        }
    }
}

pub fn enumeration<T: TryFrom<i32>>(at: At<'_>, number: i32) -> Decoded<T> {
    T::try_from(number).map_err(|_| {
        let message = format!("{number} is not a value of this enum.");
        at.fault(Reason::BadValue, message, &[("value", &number)])
    })
}

/// The form of an answer, which shows no versions unless another field asks for them.
impl Read<Mode> for i32 {
    fn read(self, at: At<'_>) -> Decoded<Mode> {
        let form = match enumeration(at, self)? {
            Form::Unspecified => Form::Struct,
            form => form,
        };
        Ok(Mode { form, with_versions: false, store: at.store, depth: 0 })
    }
}

/// Labels of a session, or those that a list filters by.
impl Read<Labels> for HashMap<String, String> {
    fn read(self, at: At<'_>) -> Decoded<Labels> {
        Labels::new(self.into_iter().collect()).map_err(|faults| at.add(faults))
    }
}
