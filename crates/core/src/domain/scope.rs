//! Scopes, and the state keys whose prefix selects one.

use std::cmp::Ordering;

pub use super::id::StateKey;
use super::{
    id::{AppName, SessionId, UserId},
    permission::{Denial, Visibility},
};

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey {
    pub app_name: AppName,
    pub user_id: UserId,
    pub session_id: SessionId,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionRef {
    Full(SessionKey),
    /// By its id alone, which one live session must have, of those that its caller may see.
    Bare(SessionId, Visibility),
}

impl From<SessionKey> for SessionRef {
    fn from(key: SessionKey) -> Self {
        Self::Full(key)
    }
}

impl SessionKey {
    /// Whether a caller sees the session.
    pub fn is_seen(&self, visibility: &Visibility) -> bool {
        visibility.sees(&self.app_name, &self.user_id)
    }
}

impl SessionRef {
    /// By its id alone, for a caller that may see everything.
    pub fn bare(id: SessionId) -> Self {
        Self::Bare(id, Visibility::EVERYTHING)
    }

    /// Requires the rights on the session that a bare id means. Those on one with an address were required before it was read.
    pub fn require(&self, meant: &SessionKey) -> Result<(), Denial> {
        match self {
            Self::Full(_) => Ok(()),
            Self::Bare(_, visibility) => visibility.require(&meant.app_name, &meant.user_id),
        }
    }
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

named! {
    /// Ordered from wide to narrow, which is the order of the merge.
    ScopeKind {
        Application = "application",
        User = "user",
        Session = "session",
    }
}

impl ScopeKind {
    /// Whether a key is visible from this scope: it is this scope's own or one of a scope around it.
    pub fn takes(self, key: &StateKey) -> bool {
        key.scope().is_some_and(|scope| scope <= self)
    }

    /// The prefix of this scope's keys, with the colon.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Application => "app:",
            Self::User => "user:",
            Self::Session => "",
        }
    }
}

/// The prefix of keys that are kept during one invocation and never stored.
pub const TEMP: &str = "temp:";

impl StateKey {
    /// Adds a scope's prefix to a key that was stored without it.
    pub fn in_scope(kind: ScopeKind, name: &str) -> Self {
        Self::from_stored([kind.prefix(), name].concat())
    }

    /// `None` for `temp:`.
    pub fn scope(&self) -> Option<ScopeKind> {
        let is_in = |kind: &ScopeKind| self.as_str().starts_with(kind.prefix());
        ScopeKind::ALL.into_iter().find(is_in).filter(|_| !self.as_str().starts_with(TEMP))
    }

    /// Without the prefix, as its scope stores it.
    pub fn name(&self) -> &str {
        &self.as_str()[self.scope().map_or(TEMP, ScopeKind::prefix).len()..]
    }
}

/// From wide to narrow, then `temp:` keys, and within a scope by name.
impl Ord for StateKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let place = |key: &Self| key.scope().map_or(ScopeKind::ALL.len(), |kind| kind as usize);
        place(self).cmp(&place(other)).then_with(|| self.as_str().cmp(other.as_str()))
    }
}

impl PartialOrd for StateKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{id::NameFault, reason::Reason};

    fn parts(text: &str) -> (Option<ScopeKind>, String) {
        let key = StateKey::new(text).unwrap();
        (key.scope(), key.name().to_owned())
    }

    #[test]
    fn a_prefix_picks_the_scope_and_is_not_stored() {
        assert_eq!(parts("app:theme"), (Some(ScopeKind::Application), "theme".into()));
        assert_eq!(parts("user:language"), (Some(ScopeKind::User), "language".into()));
        assert_eq!(parts("temp:x"), (None, "x".into()));
        assert_eq!(parts("context"), (Some(ScopeKind::Session), "context".into()));
    }

    #[test]
    fn other_prefixes_and_spellings_are_ordinary_keys() {
        for text in ["session:x", "_adk:y", "App:x", "USER:x", " app:x", "app", "appx:y"] {
            assert_eq!(parts(text), (Some(ScopeKind::Session), text.to_owned()));
        }
    }

    #[test]
    fn a_bare_prefix_is_the_empty_key_of_its_scope() {
        assert_eq!(parts("app:"), (Some(ScopeKind::Application), String::new()));
        assert_eq!(parts("user:"), (Some(ScopeKind::User), String::new()));
        assert_eq!(parts("temp:"), (None, String::new()));
        assert_eq!(StateKey::new(""), Err(NameFault::Empty));
    }

    #[test]
    fn a_key_has_at_most_512_bytes_with_its_prefix() {
        assert!(StateKey::new(format!("user:{}", "k".repeat(507))).is_ok());
        let fault = NameFault::TooLong { limit: 512, actual: 513, reason: Reason::BadKey };
        assert_eq!(StateKey::new(format!("user:{}", "k".repeat(508))), Err(fault));
        assert_eq!(StateKey::new("a\0"), Err(NameFault::Nul { reason: Reason::BadKey }));
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
