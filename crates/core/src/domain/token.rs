//! Page tokens and watch cursors: opaque to callers, checked when they come back.
//!
//! A token is a letter for its kind, its fields in fixed order and a checksum, as URL-safe base64. The checksum finds typing errors
//! and truncation. It is no signature, because a token gives access to nothing that its request does not name.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use xxhash_rust::xxh3::xxh3_64;

use super::{
    Sequence, Version,
    event::ScopeVersions,
    id::{SessionId, UserId},
    page::{Rest, Uncounted},
    scope::Scope,
    session::{Incarnation, SessionInfo},
    time::Time,
};

/// Identity of a store, made when the store is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreId(pub [u8; 16]);

/// Names one life of a session, a user or an application for callers, who send it back in preconditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uid {
    pub store: StoreId,
    pub life: Life,
}

/// One life of a session, a user or an application within a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// From [`Digest::of_scope`].
    scope: Digest,
    number: u64,
}

impl Life {
    /// No scope has it.
    pub const NONE: Self = Self { scope: Digest(0), number: u64::MAX };

    /// The lives of a scope have different numbers.
    pub fn of_scope(scope: &Scope, number: u64) -> Self {
        Self { scope: Digest::of_scope(scope), number }
    }

    pub fn of_session(info: &SessionInfo) -> Self {
        Self::of_scope(&Scope::Session(info.key.clone()), info.incarnation.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// 0 for a user or an application.
    pub incarnation: Incarnation,
    pub sequence: Sequence,
    /// The last changes delivered of the shared scopes (a scope's own included).
    pub versions: ScopeVersions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    pub store: StoreId,
    /// From [`Digest::of_scope`].
    pub scope: Digest,
    pub position: Position,
}

/// Continues a list of events.
#[derive(Clone, Debug, PartialEq)]
pub struct EventToken {
    pub incarnation: Incarnation,
    /// Hash of the request's filters and order, so that a token is refused with others.
    pub request: Digest,
    /// Made by a read of a session, whose filters it carries: `after_time` and `include_rewound`.
    pub from_session: bool,
    pub as_of: Option<Sequence>,
    pub rest: Rest,
    pub after_time: Option<Time>,
    pub include_rewound: bool,
    pub uncounted: Option<Uncounted>,
}

/// Continues any other list behind a place in it.
#[derive(Clone, Debug, PartialEq)]
pub struct PageToken<A> {
    /// Hash of what is listed, with its filters and order.
    pub request: Digest,
    pub after: A,
}

/// Behind a session, by what the list is ordered by.
pub type SessionToken = PageToken<(Time, UserId, SessionId)>;

/// Of a key's changes: only those older than this version are left. The incarnation is 0 for a user or an application, also below.
pub type ChangeToken = PageToken<(Incarnation, Version)>;

/// Of events that a request names: the number of those that were answered.
pub type RefToken = PageToken<(Incarnation, u64)>;

/// Of a state: behind a key.
pub type StateToken = PageToken<(Incarnation, String)>;

/// Of a list of names.
pub type NameToken = PageToken<NamePlace>;

/// A place in a list of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePlace {
    pub name: String,
    /// The user and the session up to which the rows of this name were looked at, in vain; an empty session: all of the user. `None`:
    /// behind the name.
    pub within: Option<(String, String)>,
}

/// Tells scopes, or requests, apart in a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest(pub u64);

impl Digest {
    pub fn of_scope(scope: &Scope) -> Self {
        let user = scope.user_id().map_or("", UserId::as_str);
        let session = match scope {
            Scope::Session(key) => key.session_id.as_str(),
            Scope::Application(_) | Scope::User(..) => "",
        };
        Self::of_texts(&[scope.app_name().as_str(), user, session])
    }

    /// Hashes each text with its length, so that different lists of texts have different input.
    pub fn of_texts(texts: &[&str]) -> Self {
        let mut bytes = Vec::new();
        for text in texts {
            write_text(text, &mut bytes);
        }
        Self(xxh3_64(&bytes))
    }
}

pub trait Field: Sized {
    fn write(&self, to: &mut Vec<u8>);
    /// Reads it from the start of `from`, which then begins behind it.
    fn read(from: &mut &[u8]) -> Option<Self>;
}

impl<const N: usize> Field for [u8; N] {
    fn write(&self, to: &mut Vec<u8>) {
        to.extend(self);
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        let (bytes, rest) = from.split_first_chunk::<N>()?;
        *from = rest;
        Some(*bytes)
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    fn write(&self, to: &mut Vec<u8>) {
        self.0.write(to);
        self.1.write(to);
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        Some((A::read(from)?, B::read(from)?))
    }
}

/// Declares fields that are written as others, with the way there and back.
macro_rules! written_as {
    ($($type:ty, as $form:ty: $write:expr, $read:expr;)*) => {$(
        impl Field for $type {
            fn write(&self, to: &mut Vec<u8>) {
                let write: fn(&Self) -> $form = $write;
                write(self).write(to);
            }

            fn read(from: &mut &[u8]) -> Option<Self> {
                let read: fn($form) -> Option<Self> = $read;
                read(Field::read(from)?)
            }
        }
    )*};
}

// A `u64` is a sequence, a version or an identity: at most what a database's integer holds. An optional field that is absent still
// takes its bytes.
written_as! {
    Digest, as [u8; 8]: |it| it.0.to_le_bytes(), |it| Some(Self(u64::from_le_bytes(it)));
    u64, as [u8; 8]: |it| it.to_le_bytes(), |it| i64::from_le_bytes(it).try_into().ok();
    bool, as [u8; 1]: |it| [u8::from(*it)], |[it]| (it <= 1).then_some(it == 1);
    Time, as ([u8; 8], [u8; 4]): |it| (it.secs().to_le_bytes(), it.nanos().to_le_bytes()),
        |(secs, nanos)| Self::new(i64::from_le_bytes(secs), u32::from_le_bytes(nanos));
    Option<u64>, as (bool, u64): |it| (it.is_some(), it.unwrap_or(0)),
        |(present, it)| Some(present.then_some(it));
    Option<Time>, as (bool, Time): |it| (it.is_some(), it.unwrap_or(Time::LAST)),
        |(present, it)| Some(present.then_some(it));
    (Time, UserId, SessionId), as (Time, (String, String)):
        |(time, user, session)| (*time, (user.to_string(), session.to_string())),
        |(time, (user, session))| Some((time, UserId::new(user).ok()?, SessionId::new(session).ok()?));
}

/// What a token ends with if it is there, so that one without it stays as it was.
macro_rules! last {
    ($($type:ty),*) => {$(
        impl Field for Option<$type> {
            fn write(&self, to: &mut Vec<u8>) {
                self.iter().for_each(|it| it.write(to));
            }

            fn read(from: &mut &[u8]) -> Option<Self> {
                if from.is_empty() { Some(None) } else { Field::read(from).map(Some) }
            }
        }
    )*};
}

last!(Uncounted, (String, String));

impl Field for String {
    fn write(&self, to: &mut Vec<u8>) {
        write_text(self, to);
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        let length = usize::try_from(u64::read(from)?).ok()?;
        let (text, rest) = from.split_at_checked(length)?;
        *from = rest;
        String::from_utf8(text.to_vec()).ok()
    }
}

fn write_text(text: &str, to: &mut Vec<u8>) {
    to.extend((text.len() as u64).to_le_bytes());
    to.extend(text.as_bytes());
}

/// Declares the order of a struct's fields in a token and, if it is a token itself, its kind.
macro_rules! fields {
    ($type:ident { $($field:tt),* }) => {
        impl Field for $type {
            fn write(&self, to: &mut Vec<u8>) {
                $(self.$field.write(to);)*
            }

            fn read(from: &mut &[u8]) -> Option<Self> {
                Some(Self { $($field: Field::read(from)?),* })
            }
        }
    };
    ($kind:literal: $type:ident { $($field:tt),* }) => {
        fields!($type { $($field),* });

        impl $type {
            pub fn encode(&self) -> String {
                encode($kind, self)
            }

            /// `None` if the text is not a token of this kind.
            pub fn decode(text: &str) -> Option<Self> {
                decode($kind, text)
            }
        }
    };
}

fields!(StoreId { 0 });
fields!(Incarnation { 0 });
fields!(ScopeVersions { application, user });
fields!(Position { incarnation, sequence, versions });
fields!(Rest { after, up_to });
fields!(Uncounted { recent, counted_to });
fields!(NamePlace { name, within });
fields!(Life { scope, number });
fields!(b'u': Uid { store, life });
fields!(b'c': Cursor { store, scope, position });
fields!(b'e': EventToken {
    incarnation, request, from_session, as_of, rest, after_time, include_rewound, uncounted
});

impl<A: Field + Clone> PageToken<A> {
    pub fn encode(&self) -> String {
        encode(b'p', &(self.request, self.after.clone()))
    }

    pub fn decode(text: &str) -> Option<Self> {
        decode(b'p', text).map(|(request, after)| Self { request, after })
    }
}

fn encode(kind: u8, fields: &impl Field) -> String {
    let mut bytes = vec![kind];
    fields.write(&mut bytes);
    let sum = xxh3_64(&bytes).to_le_bytes();
    bytes.extend(&sum[..4]);
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn decode<T: Field>(kind: u8, text: &str) -> Option<T> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
    let (content, sum) = bytes.split_last_chunk::<4>()?;
    let mut fields = content.strip_prefix(&[kind])?;
    let token = T::read(&mut fields)?;
    let whole = fields.is_empty() && xxh3_64(content).to_le_bytes()[..4] == sum[..];
    whole.then_some(token)
}

#[cfg(test)]
mod tests;
