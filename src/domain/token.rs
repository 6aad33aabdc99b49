//! Page tokens and watch cursors: opaque to callers, checked when they come back.
//!
//! Each is a kind, fields and a checksum, as URL-safe base64. The checksum finds typing errors and truncation; it is no signature,
//! for a token gives access to nothing that its request does not name.

mod wire;

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

/// Identity of a store: made once, when it was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreId(pub [u8; 16]);

/// A text is no token of the kind asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadToken;

/// Where a watch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Which life of the session; 0 for a user or an application.
    pub incarnation: Incarnation,
    /// The last event delivered.
    pub sequence: Sequence,
    /// The last changes delivered of the wider scopes (a scope's own included).
    pub versions: ScopeVersions,
}

/// A watch's resume point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Who made it.
    pub store: StoreId,
    /// Which scope it belongs to, from [`scope_hash`].
    pub scope: u64,
    /// Where it stands.
    pub position: Position,
}

/// Goes on with a list of events.
#[derive(Clone, Debug, PartialEq)]
pub struct EventToken {
    /// Which life of the session.
    pub incarnation: Incarnation,
    /// Hash of the request's filters and order, so that a token is not used with others.
    pub request: u64,
    /// Made by a read of a session, whose filters it carries: [`EventToken::after_time`] and the next count.
    pub from_session: bool,
    /// Read as of this event.
    pub as_of: Option<Sequence>,
    /// What is left.
    pub rest: Rest,
    /// Filter of the session's read.
    pub after_time: Option<Time>,
    /// Filter of the session's read.
    pub include_rewound: bool,
}

/// Goes on with a list of sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionToken {
    /// Hash of the request's filters and order.
    pub request: u64,
    /// The last session answered, by what the list is ordered by.
    pub last: (Time, UserId, SessionId),
}

/// Goes on with a key's changes.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeToken {
    /// Hash of the scope and the key.
    pub request: u64,
    /// Which life of the session; 0 for wider scopes.
    pub incarnation: Incarnation,
    /// Changes older than this version.
    pub before: Version,
}

/// Tells scopes apart in a cursor.
pub fn scope_hash(scope: &Scope) -> u64 {
    let parts: [&str; 3] = match scope {
        Scope::Application(app) => [app.as_str(), "", ""],
        Scope::User(app, user) => [app.as_str(), user.as_str(), ""],
        Scope::Session(key) => {
            [key.app_name.as_str(), key.user_id.as_str(), key.session_id.as_str()]
        }
    };
    text_hash(&parts)
}

/// Hash of texts, each with its length, so that no two lists of texts look alike.
pub fn text_hash(parts: &[&str]) -> u64 {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend((part.len() as u64).to_le_bytes());
        bytes.extend(part.as_bytes());
    }
    xxh3_64(&bytes)
}

impl Cursor {
    /// As text.
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

    /// Back from text.
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
    /// As text.
    pub fn encode(&self) -> String {
        let mut token = Writer::new(b'e');
        token.number(self.incarnation.0);
        token.number(self.request);
        token.flag(self.from_session);
        token.optional(self.as_of);
        token.number(self.rest.after);
        token.optional(self.rest.up_to);
        token.flag(self.after_time.is_some());
        token.time(self.after_time.unwrap_or(Time::LAST));
        token.flag(self.include_rewound);
        token.finish()
    }

    /// Back from text.
    pub fn decode(text: &str) -> Result<Self, BadToken> {
        Reader::read(b'e', text, |token| {
            let incarnation = Incarnation(token.count()?);
            let request = token.number()?;
            let from_session = token.flag()?;
            let as_of = token.optional()?;
            let rest = Rest { after: token.count()?, up_to: token.optional()? };
            let timed = token.flag()?;
            let time = token.time()?;
            let after_time = timed.then_some(time);
            let include_rewound = token.flag()?;
            Ok(Self {
                incarnation,
                request,
                from_session,
                as_of,
                rest,
                after_time,
                include_rewound,
            })
        })
    }
}

impl SessionToken {
    /// As text.
    pub fn encode(&self) -> String {
        let mut token = Writer::new(b's');
        token.number(self.request);
        token.time(self.last.0);
        token.text(self.last.1.as_str());
        token.text(self.last.2.as_str());
        token.finish()
    }

    /// Back from text.
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
    /// As text.
    pub fn encode(&self) -> String {
        let mut token = Writer::new(b'k');
        token.number(self.request);
        token.number(self.incarnation.0);
        token.number(self.before);
        token.finish()
    }

    /// Back from text.
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
