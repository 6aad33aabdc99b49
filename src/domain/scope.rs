//! Scopes, and the state keys whose prefix selects one.

use std::fmt;

use super::{
    id::{AppName, SessionId, UserId},
    limits::KEY_BYTES,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey {
    pub app_name: AppName,
    pub user_id: UserId,
    pub session_id: SessionId,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SessionRef {
    Full(SessionKey),
    /// By its id alone, which one live session must have.
    Bare(SessionId),
}

/// An owner of state: a node of the tree application → user → session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    Application(AppName),
    User(AppName, UserId),
    Session(SessionKey),
}

impl Scope {
    pub fn app_name(&self) -> &AppName {
        match self {
            Self::Application(app) | Self::User(app, _) => app,
            Self::Session(key) => &key.app_name,
        }
    }

    pub fn user_id(&self) -> Option<&UserId> {
        match self {
            Self::Application(_) => None,
            Self::User(_, user) => Some(user),
            Self::Session(key) => Some(&key.user_id),
        }
    }

    pub fn kind(&self) -> ScopeKind {
        match self {
            Self::Application(_) => ScopeKind::Application,
            Self::User(..) => ScopeKind::User,
            Self::Session(_) => ScopeKind::Session,
        }
    }
}

/// Ordered from wide to narrow, which is the order of the merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScopeKind {
    Application,
    User,
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

/// The prefix of a key, which selects its scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Prefix {
    App,
    User,
    /// The session's own.
    None,
    /// `temp:`, kept during one invocation and never stored.
    Temp,
}

impl Prefix {
    /// With the colon.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::App => "app:",
            Self::User => "user:",
            Self::None => "",
            Self::Temp => "temp:",
        }
    }

    /// `None` for `temp:`.
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
    /// From wide to narrow.
    pub const ALL: [Self; 3] = [Self::Application, Self::User, Self::Session];

    /// Whether a key is visible from this scope: it is this scope's own or a wider one's.
    pub fn takes(self, key: &StateKey) -> bool {
        key.scope().is_some_and(|scope| scope <= self)
    }

    /// The prefix of this scope's keys.
    pub const fn prefix(self) -> Prefix {
        match self {
            Self::Application => Prefix::App,
            Self::User => Prefix::User,
            Self::Session => Prefix::None,
        }
    }
}

/// Why a text is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFault {
    Empty,
    /// Holds its bytes with the prefix.
    TooLong(usize),
    Nul,
}

/// A key of state with its prefix.
///
/// * 1 to 512 bytes with the prefix, no NUL.
/// * `app:`, `user:` and `temp:` select a scope, in exactly this spelling; every other prefix is part of an ordinary key.
/// * A bare `app:` or `user:` is the empty key of that scope.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StateKey {
    prefix: Prefix,
    full: Box<str>,
}

impl StateKey {
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

    /// Trusts a full key that [`Self::new`] accepted before it was stored.
    pub fn from_stored(full: impl Into<Box<str>>) -> Self {
        let full = full.into();
        let prefix = [Prefix::App, Prefix::User, Prefix::Temp]
            .into_iter()
            .find(|prefix| full.starts_with(prefix.as_str()))
            .unwrap_or(Prefix::None);
        Self { prefix, full }
    }

    /// Adds a scope's prefix to a key that was stored without it.
    pub fn in_scope(kind: ScopeKind, name: &str) -> Self {
        let prefix = kind.prefix();
        let mut full = String::with_capacity(prefix.as_str().len() + name.len());
        full.push_str(prefix.as_str());
        full.push_str(name);
        Self { prefix, full: full.into_boxed_str() }
    }

    pub fn prefix(&self) -> Prefix {
        self.prefix
    }

    /// `None` for `temp:`.
    pub fn scope(&self) -> Option<ScopeKind> {
        self.prefix.scope()
    }

    /// Without the prefix, as its scope stores it.
    pub fn name(&self) -> &str {
        &self.full[self.prefix.as_str().len()..]
    }

    /// With the prefix, as it was sent.
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
