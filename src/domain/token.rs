//! Page tokens and watch cursors: opaque to callers, checked when they come back.
//!
//! A token has a checksum, which finds typing errors and truncation. It has no signature, because it gives access to nothing that
//! its request does not name.

mod wire;

pub use wire::BadToken;
use wire::{Reader, Writer};
use xxhash_rust::xxh3::xxh3_64;

use super::{
    Sequence, Version,
    event::ScopeVersions,
    id::{SessionId, UserId},
    page::Rest,
    scope::Scope,
    session::Incarnation,
    time::Time,
};

/// Identity of a store, made when the store is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreId(pub [u8; 16]);

/// The position of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// 0 for a user or an application.
    pub incarnation: Incarnation,
    /// The last event delivered.
    pub sequence: Sequence,
    /// The last changes delivered of the wider scopes (a scope's own included).
    pub versions: ScopeVersions,
}

/// Resumes a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    pub store: StoreId,
    /// From [`scope_hash`].
    pub scope: u64,
    pub position: Position,
}

/// Continues a list of events.
#[derive(Clone, Debug, PartialEq)]
pub struct EventToken {
    pub incarnation: Incarnation,
    /// Hash of the request's filters and order, so that a token is refused with others.
    pub request: u64,
    /// Made by a read of a session, whose filters it carries: `after_time` and `include_rewound`.
    pub from_session: bool,
    pub as_of: Option<Sequence>,
    pub rest: Rest,
    pub after_time: Option<Time>,
    pub include_rewound: bool,
}

/// Continues a list of sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionToken {
    /// Hash of the request's filters and order.
    pub request: u64,
    /// The last session returned, by what the list is ordered by.
    pub last: (Time, UserId, SessionId),
}

/// Continues a list of a key's changes.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeToken {
    /// Hash of the scope and the key.
    pub request: u64,
    /// 0 for a user or an application.
    pub incarnation: Incarnation,
    /// Only changes older than this version are left.
    pub before: Version,
}

/// Tells scopes apart in a cursor.
pub fn scope_hash(scope: &Scope) -> u64 {
    let user = scope.user_id().map_or("", UserId::as_str);
    let session = match scope {
        Scope::Session(key) => key.session_id.as_str(),
        Scope::Application(_) | Scope::User(..) => "",
    };
    text_hash(&[scope.app_name().as_str(), user, session])
}

/// Hash of texts, each with its length, so that different lists of texts have different input.
pub fn text_hash(parts: &[&str]) -> u64 {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend((part.len() as u64).to_le_bytes());
        bytes.extend(part.as_bytes());
    }
    xxh3_64(&bytes)
}

impl Cursor {
    pub fn encode(&self) -> String {
        let mut token = Writer::new(b'c');
        token.bytes(&self.store.0);
        token.number(self.scope);
        token.number(self.position.incarnation.0);
        token.number(self.position.sequence);
        token.number(self.position.versions.application);
        token.number(self.position.versions.user);
        token.finish()
    }

    pub fn decode(text: &str) -> Result<Self, BadToken> {
        Reader::read(b'c', text, |token| {
            let store = StoreId(token.bytes()?);
            let scope = token.number()?;
            let incarnation = Incarnation(token.count()?);
            let sequence = token.count()?;
            let versions = ScopeVersions { application: token.count()?, user: token.count()? };
            Ok(Self { store, scope, position: Position { incarnation, sequence, versions } })
        })
    }
}

impl EventToken {
    pub fn encode(&self) -> String {
        let mut token = Writer::new(b'e');
        token.number(self.incarnation.0);
        token.number(self.request);
        token.flag(self.from_session);
        token.optional(self.as_of);
        token.number(self.rest.after);
        token.optional(self.rest.up_to);
        token.optional_time(self.after_time);
        token.flag(self.include_rewound);
        token.finish()
    }

    pub fn decode(text: &str) -> Result<Self, BadToken> {
        Reader::read(b'e', text, |token| {
            Ok(Self {
                incarnation: Incarnation(token.count()?),
                request: token.number()?,
                from_session: token.flag()?,
                as_of: token.optional()?,
                rest: Rest { after: token.count()?, up_to: token.optional()? },
                after_time: token.optional_time()?,
                include_rewound: token.flag()?,
            })
        })
    }
}

impl SessionToken {
    pub fn encode(&self) -> String {
        let (time, user, session) = &self.last;
        let mut token = Writer::new(b's');
        token.number(self.request);
        token.time(*time);
        token.text(user.as_str());
        token.text(session.as_str());
        token.finish()
    }

    pub fn decode(text: &str) -> Result<Self, BadToken> {
        Reader::read(b's', text, |token| {
            let request = token.number()?;
            let time = token.time()?;
            let user = UserId::new(token.text()?).map_err(|_| BadToken)?;
            let session = SessionId::new(token.text()?).map_err(|_| BadToken)?;
            Ok(Self { request, last: (time, user, session) })
        })
    }
}

impl ChangeToken {
    pub fn encode(&self) -> String {
        let mut token = Writer::new(b'k');
        token.number(self.request);
        token.number(self.incarnation.0);
        token.number(self.before);
        token.finish()
    }

    pub fn decode(text: &str) -> Result<Self, BadToken> {
        Reader::read(b'k', text, |token| {
            let request = token.number()?;
            let incarnation = Incarnation(token.count()?);
            Ok(Self { request, incarnation, before: token.count()? })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor() -> Cursor {
        Cursor {
            store: StoreId([7; 16]),
            scope: 9,
            position: Position {
                incarnation: Incarnation(3),
                sequence: 5,
                versions: ScopeVersions { application: 1, user: 2 },
            },
        }
    }

    #[test]
    fn tokens_come_back_as_they_went() {
        assert_eq!(Cursor::decode(&cursor().encode()), Ok(cursor()));
        let events = EventToken {
            incarnation: Incarnation(1),
            request: 2,
            from_session: true,
            as_of: Some(3),
            rest: Rest { after: 4, up_to: None },
            after_time: Time::new(-5, 6),
            include_rewound: true,
        };
        assert_eq!(EventToken::decode(&events.encode()), Ok(events));
        let sessions = SessionToken {
            request: 1,
            last: (
                Time::new(2, 3).unwrap(),
                UserId::new("ü").unwrap(),
                SessionId::new("s").unwrap(),
            ),
        };
        assert_eq!(SessionToken::decode(&sessions.encode()), Ok(sessions));
        let changes = ChangeToken { request: 1, incarnation: Incarnation(2), before: 3 };
        assert_eq!(ChangeToken::decode(&changes.encode()), Ok(changes));
    }

    /// Callers keep cursors across releases.
    #[test]
    fn the_format_is_pinned() {
        let pin =
            "YwcHBwcHBwcHBwcHBwcHBwcJAAAAAAAAAAMAAAAAAAAABQAAAAAAAAABAAAAAAAAAAIAAAAAAAAAn_YJ8A";
        assert_eq!(cursor().encode(), pin);
        let mut events = EventToken {
            incarnation: Incarnation(1),
            request: u64::MAX,
            from_session: true,
            as_of: Some(3),
            rest: Rest { after: 4, up_to: None },
            after_time: Time::new(-5, 6),
            include_rewound: true,
        };
        let pin =
            "ZQEAAAAAAAAA__________8BAQMAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAAB-_________8GAAAAAcj7zd8";
        assert_eq!(events.encode(), pin);
        events.as_of = None;
        events.rest.up_to = Some(9);
        events.after_time = None;
        events.include_rewound = false;
        let pin =
            "ZQEAAAAAAAAA__________8BAAAAAAAAAAAABAAAAAAAAAABCQAAAAAAAAAAf0H0_zoAAAD_yZo7AI3og_o";
        assert_eq!(events.encode(), pin);
        let user = UserId::new("ü").unwrap();
        let last = (Time::new(2, 3).unwrap(), user, SessionId::new("s").unwrap());
        let pin = "cwEAAAAAAAAAAgAAAAAAAAADAAAAAgAAAAAAAADDvAEAAAAAAAAAc-5g-DQ";
        assert_eq!(SessionToken { request: 1, last }.encode(), pin);
        let changes = ChangeToken { request: 1, incarnation: Incarnation(2), before: 3 };
        assert_eq!(changes.encode(), "awEAAAAAAAAAAgAAAAAAAAADAAAAAAAAAPCeBW8");
    }

    #[test]
    fn every_single_damaged_character_is_found() {
        let text = cursor().encode();
        for at in 0..text.len() {
            let mut damaged = text.clone().into_bytes();
            damaged[at] = if damaged[at] == b'A' { b'B' } else { b'A' };
            let damaged = String::from_utf8(damaged).unwrap();
            assert_eq!(Cursor::decode(&damaged), Err(BadToken), "at {at}");
            assert_eq!(Cursor::decode(&text[..at]), Err(BadToken));
        }
    }

    #[test]
    fn one_kind_of_token_is_not_another() {
        assert_eq!(EventToken::decode(&cursor().encode()), Err(BadToken));
        assert_eq!(Cursor::decode("not a token"), Err(BadToken));
        assert_eq!(Cursor::decode(""), Err(BadToken));
    }
}
