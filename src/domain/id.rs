//! Ids and other names: each type checks its rules once, on the way in.

use std::{borrow::Borrow, fmt, sync::Arc};

use super::{
    limits::{BRANCH_BYTES, ID_BYTES, NAME_BYTES, SHORT_ID_BYTES},
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

fn check_id(text: &str, limit: usize) -> Result<(), NameFault> {
    if text.is_empty() {
        return Err(NameFault::Empty);
    }
    check(text, limit, Reason::BadId, Reason::BadId)
}

fn check_text(text: &str, limit: usize) -> Result<(), NameFault> {
    check(text, limit, Reason::FieldTooLong, Reason::BadValue)
}

fn check(text: &str, limit: usize, too_long: Reason, nul: Reason) -> Result<(), NameFault> {
    if text.len() > limit {
        return Err(NameFault::TooLong { limit, actual: text.len(), reason: too_long });
    }
    if text.as_bytes().contains(&0) {
        return Err(NameFault::Nul { reason: nul });
    }
    Ok(())
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $check:ident, $limit:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $type(Arc<str>);

        impl $type {
            pub fn new(text: impl Into<Arc<str>>) -> Result<Self, NameFault> {
                let text = text.into();
                $check(&text, $limit)?;
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

        impl Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

name!(
    /// 1 to 512 bytes, no NUL, otherwise opaque.
    AppName, check_id, ID_BYTES
);
name!(
    /// Unique within an application: 1 to 512 bytes, no NUL, otherwise opaque.
    UserId, check_id, ID_BYTES
);
name!(
    /// Unique within a user: 1 to 512 bytes, no NUL, otherwise opaque.
    SessionId, check_id, ID_BYTES
);
name!(
    /// Unique within a session: 1 to 128 bytes, no NUL. The key of idempotent appends.
    EventId, check_id, SHORT_ID_BYTES
);
name!(
    /// An invocation (turn) within a session: 1 to 128 bytes, no NUL.
    InvocationId, check_id, SHORT_ID_BYTES
);
name!(
    /// Unique within a scope: 1 to 128 bytes, no NUL. The key of idempotent updates.
    RequestId, check_id, SHORT_ID_BYTES
);
name!(
    /// The writer of an event: at most 256 bytes, no NUL, may be empty.
    Author, check_text, NAME_BYTES
);
name!(
    /// An agent's branch, dotted: at most 1024 bytes, no NUL, may be empty.
    Branch, check_text, BRANCH_BYTES
);
name!(
    /// A session's name for users: at most 256 bytes, no NUL, may be empty.
    DisplayName, check_text, NAME_BYTES
);

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
