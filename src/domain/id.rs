//! Names that cannot be wrong: each type checks its rules once, on the way in.

use std::{borrow::Borrow, fmt, sync::Arc};

use super::{
    error::Reason,
    limits::{BRANCH_BYTES, ID_BYTES, NAME_BYTES, SHORT_ID_BYTES},
};

/// Why a text is no name of the kind asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameFault {
    /// It is empty and must not be.
    Empty,
    /// It is longer than its kind may be, in bytes.
    TooLong {
        /// Bytes allowed.
        limit: usize,
        /// Bytes found.
        actual: usize,
        /// What the wire calls this: [`Reason::BadId`] for an id, [`Reason::FieldTooLong`] for other text.
        reason: Reason,
    },
    /// It holds a NUL, which databases cut text at.
    Nul {
        /// What the wire calls this: [`Reason::BadId`] for an id, [`Reason::BadValue`] for other text.
        reason: Reason,
    },
}

fn check(
    text: &str,
    limit: usize,
    may_be_empty: bool,
    too_long: Reason,
    nul: Reason,
) -> Result<(), NameFault> {
    if text.is_empty() && !may_be_empty {
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

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $limit:expr, empty: $empty:expr, $too_long:expr, $nul:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $type(Arc<str>);

        impl $type {
            /// Checks the rules of this type.
            pub fn new(text: impl Into<Arc<str>>) -> Result<Self, NameFault> {
                let text = text.into();
                check(&text, $limit, $empty, $too_long, $nul)?;
                Ok(Self(text))
            }

            /// Takes back what [`Self::new`] accepted before it was stored.
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
    /// An application: 1 to 512 bytes, no NUL, otherwise opaque.
    AppName, ID_BYTES, empty: false, Reason::BadId, Reason::BadId
);
name!(
    /// A user within an application: 1 to 512 bytes, no NUL, otherwise opaque.
    UserId, ID_BYTES, empty: false, Reason::BadId, Reason::BadId
);
name!(
    /// A session within a user: 1 to 512 bytes, no NUL, otherwise opaque.
    SessionId, ID_BYTES, empty: false, Reason::BadId, Reason::BadId
);
name!(
    /// An event within a session: 1 to 128 bytes, no NUL. The key of idempotent appends.
    EventId, SHORT_ID_BYTES, empty: false, Reason::BadId, Reason::BadId
);
name!(
    /// An invocation (turn) within a session: 1 to 128 bytes, no NUL.
    InvocationId, SHORT_ID_BYTES, empty: false, Reason::BadId, Reason::BadId
);
name!(
    /// A change of state within a scope: 1 to 128 bytes, no NUL. The key of idempotent updates.
    RequestId, SHORT_ID_BYTES, empty: false, Reason::BadId, Reason::BadId
);
name!(
    /// Who wrote an event: at most 256 bytes, no NUL, may be empty.
    Author, NAME_BYTES, empty: true, Reason::FieldTooLong, Reason::BadValue
);
name!(
    /// An agent's branch, dotted: at most 1024 bytes, no NUL, may be empty.
    Branch, BRANCH_BYTES, empty: true, Reason::FieldTooLong, Reason::BadValue
);
name!(
    /// A session's name for people: at most 256 bytes, no NUL, may be empty.
    DisplayName, NAME_BYTES, empty: true, Reason::FieldTooLong, Reason::BadValue
);

impl Default for DisplayName {
    /// No name.
    fn default() -> Self {
        Self(Arc::from(""))
    }
}

impl Author {
    /// Who writes where nobody is named.
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
