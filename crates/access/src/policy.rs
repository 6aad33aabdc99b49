//! Policies: rules, and what they give a caller.

use std::{collections::BTreeSet, sync::Arc};

use tokio::sync::watch;

use super::{Identity, Principal};
use sessiond_core::domain::{
    id::UserId,
    permission::{Listed, Pattern, Permission, Permissions, Rights, Users},
};

/// Rules. A caller has the rights of all that name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    pub rules: Vec<Rule>,
}

/// Rights of some principals on some users of some applications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name, or its place in the file.
    pub name: String,
    pub principals: Vec<Pattern>,
    /// Shared with the permissions that it gives, which every call asks for.
    pub applications: Arc<[Pattern]>,
    pub users: UserRule,
    pub rights: Rights,
}

/// The users that a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserRule {
    Fixed(Users),
    /// The caller itself: the user whose id is this claim of its token.
    Claim(String),
}

pub const SUBJECT: &str = "sub";

impl Policy {
    pub fn permissions(&self, principal: &Principal) -> Permissions {
        let rules = self.rules.iter().filter_map(|rule| rule.permission(principal));
        let listed =
            Listed { principal: principal.name().to_owned(), permissions: rules.collect() };
        Permissions::Listed(Arc::new(listed))
    }

    pub fn claims(&self) -> BTreeSet<String> {
        let claim = |rule: &Rule| match &rule.users {
            UserRule::Fixed(_) => None,
            UserRule::Claim(claim) => Some(claim.clone()),
        };
        self.rules.iter().filter_map(claim).collect()
    }
}

impl Rule {
    pub fn permission(&self, principal: &Principal) -> Option<Permission> {
        let names = |name: &str| self.principals.iter().any(|pattern| pattern.matches(name));
        let aliases =
            || principal.identity().is_some_and(|it| it.aliases.iter().any(|it| names(it)));
        if !names(principal.name()) && !aliases() {
            return None;
        }
        let users = match &self.users {
            UserRule::Fixed(users) => users.clone(),
            UserRule::Claim(claim) => {
                let user = claimed(principal.identity()?, claim)?;
                Users::Only(Arc::new(BTreeSet::from([user])))
            }
        };
        let applications = Arc::clone(&self.applications);
        Some(Permission { applications, users, rights: self.rights })
    }
}

/// The user id in a claim. `None` if it is missing or invalid.
fn claimed(identity: &Identity, claim: &str) -> Option<UserId> {
    UserId::new(identity.claims.get(claim)?.as_str()).ok()
}

#[derive(Clone, Debug)]
pub struct Policies(Option<watch::Receiver<Arc<Policy>>>);

impl Policies {
    pub fn open() -> Self {
        Self(None)
    }

    pub fn of(policies: watch::Receiver<Arc<Policy>>) -> Self {
        Self(Some(policies))
    }

    pub fn permissions(&self, principal: &Principal) -> Permissions {
        match &self.0 {
            None => Permissions::Everything,
            Some(policy) => policy.borrow().permissions(principal),
        }
    }

    pub fn claims(&self) -> BTreeSet<String> {
        self.0.as_ref().map(|policy| policy.borrow().claims()).unwrap_or_default()
    }

    /// Whether another policy has come into force since this or [`Policies::changed`] last reported one.
    pub fn take_change(&mut self) -> bool {
        let Some(policy) = &mut self.0 else { return false };
        let has_changed = policy.has_changed().unwrap_or(false);
        if has_changed {
            policy.mark_unchanged();
        }
        has_changed
    }

    /// Waits until another policy is in force. Without a policy that is never.
    pub async fn changed(&mut self) {
        let changed = match &mut self.0 {
            None => None,
            Some(policy) => policy.changed().await.ok(),
        };
        // A policy whose source has ended stays.
        if changed.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_change_is_reported_once() {
        let policy = watch::Sender::new(Arc::new(Policy::default()));
        let mut policies = Policies::of(policy.subscribe());
        assert!(!policies.take_change());
        policy.send_replace(Arc::default());
        let mut late = policies.clone();
        assert!(policies.take_change());
        assert!(!policies.take_change());
        assert!(policies.changed().now_or_never().is_none());
        assert!(late.changed().now_or_never().is_some());
        assert!(!late.take_change());
        policy.send_replace(Arc::default());
        assert!(policies.take_change() && late.take_change());
        assert!(!Policies::open().take_change());
    }
}
