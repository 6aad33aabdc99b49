//! Scopes and the keys whose prefix picks one.

use std::fmt;

use super::{
    id::{AppName, SessionId, UserId},
    limits::KEY_BYTES,
};

/// Address of one session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey {
    /// The application.
    pub app_name: AppName,
    /// The user within it.
    pub user_id: UserId,
    /// The session within the user.
    pub session_id: SessionId,
}

/// How a caller names a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SessionRef {
    /// By its whole address.
    Full(SessionKey),
    /// By its id alone: good where one live session has it.
    Bare(SessionId),
}

/// A node of the tree application → user → session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// An application.
    Application(AppName),
    /// One of its users.
    User(AppName, UserId),
    /// One of that user's sessions.
    Session(SessionKey),
}

impl Scope {
    /// The application that this scope is, or belongs to.
    pub fn app_name(&self) -> &AppName {
        match self {
            Self::Application(app) | Self::User(app, _) => app,
            Self::Session(key) => &key.app_name,
        }
    }

    /// The user that this scope is, or belongs to.
    pub fn user_id(&self) -> Option<&UserId> {
        match self {
            Self::Application(_) => None,
            Self::User(_, user) => Some(user),
            Self::Session(key) => Some(&key.user_id),
        }
    }

    /// Which kind of node this is.
    pub fn kind(&self) -> ScopeKind {
        match self {
            Self::Application(_) => ScopeKind::Application,
            Self::User(..) => ScopeKind::User,
            Self::Session(_) => ScopeKind::Session,
        }
    }
}

/// The three kinds of scope that are stored. Ordered from wide to narrow, which is the order of the merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScopeKind {
    /// Shared by every user and session of an application.
    Application,
    /// Shared by every session of one user within an application.
    User,
    /// One session's own.
    Session,
}

impl fmt::Display for ScopeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Application => "application",
            Self::User => "user",
            Self::Session => "session",
        })
    }
}

/// What a key's prefix says of where its value lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Prefix {
    /// `app:`
    App,
    /// `user:`
    User,
    /// No prefix that means something: the session's own.
    None,
    /// `temp:`, which lives during one invocation and is never stored.
    Temp,
}

impl Prefix {
    /// The prefix as it is written, with its colon.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::App => "app:",
            Self::User => "user:",
            Self::None => "",
            Self::Temp => "temp:",
        }
    }

    /// The scope that stores such keys; `None` for `temp:`.
    pub const fn scope(self) -> Option<ScopeKind> {
        match self {
            Self::App => Some(ScopeKind::Application),
            Self::User => Some(ScopeKind::User),
            Self::None => Some(ScopeKind::Session),
            Self::Temp => None,
        }
    }
}

impl ScopeKind {
    /// The prefix of this scope's keys.
    pub const fn prefix(self) -> Prefix {
        match self {
            Self::Application => Prefix::App,
            Self::User => Prefix::User,
            Self::Session => Prefix::None,
        }
    }
}

/// Why a text is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFault {
    /// An empty key without a prefix.
    Empty,
    /// Longer than 512 bytes with its prefix; holds the length found.
    TooLong(usize),
    /// It holds a NUL.
    Nul,
}

/// A key of state with its prefix.
///
/// * 1 to 512 bytes with the prefix, no NUL.
/// * `app:`, `user:` and `temp:` pick a scope, in exactly this spelling; every other prefix is part of an ordinary key.
/// * A bare `app:` or `user:` is the empty key of that scope.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StateKey {
    prefix: Prefix,
    full: Box<str>,
}

impl StateKey {
    /// Reads a key with its prefix.
    pub fn new(text: impl Into<Box<str>>) -> Result<Self, KeyFault> {
        let full = text.into();
        if full.is_empty() {
            return Err(KeyFault::Empty);
        }
        if full.len() > KEY_BYTES {
            return Err(KeyFault::TooLong(full.len()));
        }
        if full.as_bytes().contains(&0) {
            return Err(KeyFault::Nul);
        }
        Ok(Self::from_stored(full))
    }

    /// Takes back a full key that [`Self::new`] accepted before it was stored.
    pub fn from_stored(full: impl Into<Box<str>>) -> Self {
        let full = full.into();
        let prefix = [Prefix::App, Prefix::User, Prefix::Temp]
            .into_iter()
            .find(|prefix| full.starts_with(prefix.as_str()))
            .unwrap_or(Prefix::None);
        Self { prefix, full }
    }

    /// Puts a scope's prefix back in front of a key that was stored without it.
    pub fn in_scope(kind: ScopeKind, name: &str) -> Self {
        let prefix = kind.prefix();
        let mut full = String::with_capacity(prefix.as_str().len() + name.len());
        full.push_str(prefix.as_str());
        full.push_str(name);
        Self { prefix, full: full.into_boxed_str() }
    }

    /// What the prefix says.
    pub fn prefix(&self) -> Prefix {
        self.prefix
    }

    /// The scope that stores this key; `None` for `temp:`.
    pub fn scope(&self) -> Option<ScopeKind> {
        self.prefix.scope()
    }

    /// The key as its scope stores it, without the prefix.
    pub fn name(&self) -> &str {
        &self.full[self.prefix.as_str().len()..]
    }

    /// The key with its prefix, as it was sent.
    pub fn as_str(&self) -> &str {
        &self.full
    }
}

impl fmt::Debug for StateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.full, f)
    }
}

impl fmt::Display for StateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (Prefix, String) {
        let key = StateKey::new(text).unwrap();
        (key.prefix(), key.name().to_owned())
    }

    #[test]
    fn a_prefix_picks_the_scope_and_is_not_stored() {
        assert_eq!(parts("app:theme"), (Prefix::App, "theme".into()));
        assert_eq!(parts("user:language"), (Prefix::User, "language".into()));
        assert_eq!(parts("temp:x"), (Prefix::Temp, "x".into()));
        assert_eq!(parts("context"), (Prefix::None, "context".into()));
    }

    #[test]
    fn other_prefixes_and_spellings_are_ordinary_keys() {
        for text in ["session:x", "_adk:y", "App:x", "USER:x", " app:x", "app", "appx:y"] {
            assert_eq!(parts(text), (Prefix::None, text.to_owned()));
        }
    }

    #[test]
    fn a_bare_prefix_is_the_empty_key_of_its_scope() {
        assert_eq!(parts("app:"), (Prefix::App, String::new()));
        assert_eq!(parts("user:"), (Prefix::User, String::new()));
        assert_eq!(parts("temp:"), (Prefix::Temp, String::new()));
        assert_eq!(StateKey::new(""), Err(KeyFault::Empty));
    }

    #[test]
    fn a_key_has_at_most_512_bytes_with_its_prefix() {
        assert!(StateKey::new(format!("user:{}", "k".repeat(507))).is_ok());
        assert_eq!(StateKey::new(format!("user:{}", "k".repeat(508))), Err(KeyFault::TooLong(513)));
        assert_eq!(StateKey::new("a\0"), Err(KeyFault::Nul));
    }

    #[test]
    fn a_stored_name_comes_back_with_its_prefix() {
        for kind in [ScopeKind::Application, ScopeKind::User, ScopeKind::Session] {
            let key = StateKey::in_scope(kind, "k");
            assert_eq!(StateKey::new(key.as_str()), Ok(key.clone()));
            assert_eq!((key.scope(), key.name()), (Some(kind), "k"));
        }
    }
}
