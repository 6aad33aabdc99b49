//! Permissions of a caller, and the sessions that it may see.

use std::{collections::BTreeSet, sync::Arc};

use super::id::{AppName, UserId};

named! {
    /// A right on the sessions and state of a user of an application.
    Right {
        Read = "read",
        /// Includes `read`: a write answers with what it found.
        Write = "write",
        /// Changing keys of the application itself, through whichever session.
        WriteAppState = "write_app_state",
        /// Listing applications and users.
        Admin = "admin",
    }
}

/// A set of rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights(u8);

impl Rights {
    pub fn has(self, right: Right) -> bool {
        self.0 & Self::bit(right) != 0
    }

    fn bit(right: Right) -> u8 {
        1 << right as u8
    }
}

impl FromIterator<Right> for Rights {
    fn from_iter<T: IntoIterator<Item = Right>>(rights: T) -> Self {
        let mut bits = rights.into_iter().fold(0, |bits, right| bits | Self::bit(right));
        if bits & Self::bit(Right::Write) != 0 {
            bits |= Self::bit(Right::Read);
        }
        Self(bits)
    }
}

/// A name, or all names that begin with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    Exact(String),
    Prefix(String),
}

impl Pattern {
    /// A `*` as the last character stands for every ending.
    pub fn new(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some(prefix) => Self::Prefix(prefix.to_owned()),
            None => Self::Exact(text.to_owned()),
        }
    }

    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Exact(exact) => name == exact,
            Self::Prefix(prefix) => name.starts_with(prefix),
        }
    }
}

/// Users of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Users {
    All,
    Only(Arc<BTreeSet<UserId>>),
}

impl Users {
    pub fn contain(&self, user: &UserId) -> bool {
        match self {
            Self::All => true,
            Self::Only(users) => users.contains(user),
        }
    }
}

/// Rights on some users of some applications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    pub applications: Arc<[Pattern]>,
    pub users: Users,
    pub rights: Rights,
}

impl Permission {
    pub fn covers(&self, app: &AppName, user: Option<&UserId>) -> bool {
        self.applications.iter().any(|pattern| pattern.matches(app.as_str()))
            && user.is_none_or(|user| self.users.contain(user))
    }
}

/// A right that a caller lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The caller.
    pub principal: String,
    pub right: Right,
    /// `None`: all applications.
    pub app_name: Option<AppName>,
    /// `None`: the application itself.
    pub user_id: Option<UserId>,
}

/// Everything that one caller may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permissions {
    /// As without a policy.
    Everything,
    Listed(Arc<Listed>),
}

/// The permissions of one caller. Everything else is denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The caller, for messages.
    pub principal: String,
    pub permissions: Vec<Permission>,
}

impl Permissions {
    /// Whether a right is there on a user's sessions and state, or without a user on an application's own state. That needs the right
    /// on any of its users, since a session of each shows the keys of its application.
    pub fn allow(&self, right: Right, app: &AppName, user: Option<&UserId>) -> bool {
        match self {
            Self::Everything => true,
            Self::Listed(listed) => {
                let mut permissions = listed.permissions.iter();
                permissions.any(|it| it.rights.has(right) && it.covers(app, user))
            }
        }
    }

    /// As [`Permissions::allow`].
    pub fn require(
        &self,
        right: Right,
        app: &AppName,
        user: Option<&UserId>,
    ) -> Result<(), Denial> {
        match self {
            Self::Listed(listed) if !self.allow(right, app, user) => Err(Denial {
                principal: listed.principal.clone(),
                right,
                app_name: Some(app.clone()),
                user_id: user.cloned(),
            }),
            _ => Ok(()),
        }
    }

    /// The users of an application on whom a right is there, at least one.
    pub fn users(&self, right: Right, app: &AppName) -> Result<Users, Denial> {
        let Self::Listed(listed) = self else { return Ok(Users::All) };
        self.require(right, app, None)?;
        let mut all = BTreeSet::new();
        let permissions = listed.permissions.iter();
        for permission in permissions.filter(|it| it.rights.has(right) && it.covers(app, None)) {
            match &permission.users {
                Users::All => return Ok(Users::All),
                Users::Only(users) => all.extend(users.iter().cloned()),
            }
        }
        Ok(Users::Only(Arc::new(all)))
    }

    /// The applications on which a right is there, at least one pattern; `None`: all.
    pub fn applications(&self, right: Right) -> Result<Option<Vec<Pattern>>, Denial> {
        let Self::Listed(listed) = self else { return Ok(None) };
        let permissions = listed.permissions.iter().filter(|it| it.rights.has(right));
        let patterns: Vec<_> = permissions.flat_map(|it| it.applications.iter().cloned()).collect();
        if patterns.is_empty() {
            let principal = listed.principal.clone();
            let (app_name, user_id) = (None, None);
            return Err(Denial { principal, right, app_name, user_id });
        }
        Ok(Some(patterns))
    }
}

/// The sessions that a caller may see, and what it wants to do with one that it names by its id alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visibility {
    permissions: Permissions,
    /// Also changes keys of the application.
    app_state: bool,
    right: Right,
}

impl Visibility {
    /// Of a caller that may do everything.
    pub const EVERYTHING: Self =
        Self { permissions: Permissions::Everything, app_state: false, right: Right::Read };

    pub fn new(permissions: Permissions, right: Right, app_state: bool) -> Self {
        Self { permissions, app_state, right }
    }

    /// Whether no session is visible.
    pub fn sees_nothing(&self) -> bool {
        match &self.permissions {
            Permissions::Everything => false,
            Permissions::Listed(listed) => {
                !listed.permissions.iter().any(|it| it.rights.has(Right::Read))
            }
        }
    }

    /// Whether sessions of a user are seen.
    pub fn sees(&self, app: &AppName, user: &UserId) -> bool {
        self.permissions.allow(Right::Read, app, Some(user))
    }

    /// Requires the rights for what the caller wants to do with a session of a user.
    pub fn require(&self, app: &AppName, user: &UserId) -> Result<(), Denial> {
        self.permissions.require(self.right, app, Some(user))?;
        match self.app_state {
            true => self.permissions.require(Right::WriteAppState, app, None),
            false => Ok(()),
        }
    }
}
