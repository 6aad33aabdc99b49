//! Ids and other names: each type checks its rules once, on the way in.

use std::{fmt, sync::Arc};

use super::{
    limits::{BRANCH_BYTES, ID_BYTES, KEY_BYTES, NAME_BYTES, SHORT_ID_BYTES},
    reason::Reason,
};

/// Why a text is not a name of its type. `reason` is the one for the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameFault {
    Empty,
    /// In bytes.
    TooLong {
        limit: usize,
        actual: usize,
        reason: Reason,
    },
    /// It contains a NUL, at which databases truncate text.
    Nul {
        reason: Reason,
    },
}

/// Rules of a kind of text: the least bytes, and the reasons for one that is too long or contains a NUL.
type Rules = (usize, Reason, Reason);
const ID: Rules = (1, Reason::BadId, Reason::BadId);
const TEXT: Rules = (0, Reason::FieldTooLong, Reason::BadValue);
const KEY: Rules = (1, Reason::BadKey, Reason::BadKey);

fn check(text: &str, (least, too_long, nul): Rules, limit: usize) -> Result<(), NameFault> {
    if text.len() < least {
        return Err(NameFault::Empty);
    }
    if text.len() > limit {
        return Err(NameFault::TooLong { limit, actual: text.len(), reason: too_long });
    }
    if text.as_bytes().contains(&0) {
        return Err(NameFault::Nul { reason: nul });
    }
    Ok(())
}

/// Declares types of text, each with its traits, rules and limit in bytes.
macro_rules! names {
    ($derives:tt; $($(#[$doc:meta])* $type:ident: $rules:ident($limit:expr),)*) => {$(
        $(#[$doc])*
        #[derive $derives]
        pub struct $type(Arc<str>);

        impl $type {
            pub fn new(text: impl Into<Arc<str>>) -> Result<Self, NameFault> {
                let text = text.into();
                check(&text, $rules, $limit)?;
                Ok(Self(text))
            }

            /// Trusts what [`Self::new`] accepted before it was stored.
            pub fn from_stored(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The text, byte for byte as it came.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
    )*};
}

names! {
    (Clone, PartialEq, Eq, Hash, PartialOrd, Ord);
    /// 1 to 512 bytes, no NUL, otherwise opaque.
    AppName: ID(ID_BYTES),
    /// Unique within an application: 1 to 512 bytes, no NUL, otherwise opaque.
    UserId: ID(ID_BYTES),
    /// Unique within a user: 1 to 512 bytes, no NUL, otherwise opaque.
    SessionId: ID(ID_BYTES),
    /// Unique within a session: 1 to 128 bytes, no NUL. The key of idempotent appends.
    EventId: ID(SHORT_ID_BYTES),
    /// An invocation within a session: 1 to 128 bytes, no NUL.
    InvocationId: ID(SHORT_ID_BYTES),
    /// Unique within a scope: 1 to 128 bytes, no NUL. The key of idempotent updates.
    RequestId: ID(SHORT_ID_BYTES),
    /// The writer of an event: at most 256 bytes, no NUL, may be empty.
    Author: TEXT(NAME_BYTES),
    /// An agent's branch, dotted: at most 1024 bytes, no NUL, may be empty.
    Branch: TEXT(BRANCH_BYTES),
    /// A session's name for users: at most 256 bytes, no NUL, may be empty.
    DisplayName: TEXT(NAME_BYTES),
}

names! {
    (Clone, PartialEq, Eq, Hash);
    /// A key of state with its prefix.
    ///
    /// * 1 to 512 bytes with the prefix, no NUL.
    /// * `app:`, `user:` and `temp:` select a scope, in exactly this spelling; every other prefix is part of an ordinary key.
    /// * A bare `app:` or `user:` is the empty key of that scope.
    StateKey: KEY(KEY_BYTES),
}

impl Default for DisplayName {
    fn default() -> Self {
        Self(Arc::from(""))
    }
}

impl Author {
    /// The author of events that the server writes itself.
    pub fn system() -> Self {
        Self(Arc::from("system"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_legal_up_to_its_limit_and_not_beyond() {
        assert!(UserId::new("é".repeat(256)).is_ok());
        assert_eq!(
            UserId::new("x".repeat(513)),
            Err(NameFault::TooLong { limit: 512, actual: 513, reason: Reason::BadId })
        );
        assert!(EventId::new("x".repeat(128)).is_ok());
        assert!(EventId::new("x".repeat(129)).is_err());
    }

    #[test]
    fn an_id_is_never_empty_but_an_author_may_be() {
        assert_eq!(SessionId::new(""), Err(NameFault::Empty));
        assert!(Author::new("").is_ok());
    }

    #[test]
    fn nul_is_refused_everywhere() {
        assert_eq!(AppName::new("a\0b"), Err(NameFault::Nul { reason: Reason::BadId }));
        assert_eq!(Author::new("a\0b"), Err(NameFault::Nul { reason: Reason::BadValue }));
    }

    #[test]
    fn nothing_is_trimmed_or_normalised() {
        let odd = " A\u{301} /../ ";
        assert_eq!(SessionId::new(odd).unwrap().as_str(), odd);
    }
}
