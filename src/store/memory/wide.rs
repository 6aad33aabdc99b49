//! Applications and users: their keys, and the log of what changed them.

use std::collections::HashMap;

use super::keys::Keys;
use crate::domain::{
    Sequence, Version,
    delta::KeyResult,
    event::{Fingerprint, ScopeVersions},
    id::{AppName, Author, RequestId, UserId},
    scope::{Scope, ScopeKind, SessionKey},
    session::Incarnation,
    time::Time,
};

/// Every application and every user that was ever written to.
#[derive(Default)]
pub(super) struct Wides {
    applications: HashMap<AppName, Wide>,
    users: HashMap<(AppName, UserId), Wide>,
    /// What an application or a user is that was never written to.
    unwritten: Wide,
}

/// An application or a user.
#[derive(Default)]
pub(super) struct Wide {
    pub(super) keys: Keys,
    /// What made each version: that of version 1 first.
    log: Vec<Row>,
    pub(super) requests: HashMap<RequestId, Fingerprint>,
}

/// One change of an application or a user.
pub(super) struct Row {
    /// The keys that it changed, without prefix.
    pub(super) names: Vec<String>,
    pub(super) stamp: Stamp,
}

/// When, by whom and by which event a change was made.
#[derive(Clone)]
pub(super) struct Stamp {
    pub(super) commit_time: Time,
    /// Empty for a creation.
    pub(super) author: Author,
    /// `None`: by request, or by a creation.
    pub(super) source: Option<Source>,
}

/// The event that made a change.
#[derive(Clone)]
pub(super) struct Source {
    pub(super) session: SessionKey,
    pub(super) incarnation: Incarnation,
    pub(super) sequence: Sequence,
}

impl Wides {
    /// The application, or the user, that a scope is or belongs to; `None` for what the scope has not.
    pub(super) fn get(&self, scope: &Scope, kind: ScopeKind) -> Option<&Wide> {
        let found = match kind {
            ScopeKind::Application => self.applications.get(scope.app_name()),
            ScopeKind::User => {
                let user_id = scope.user_id()?.clone();
                self.users.get(&(scope.app_name().clone(), user_id))
            }
            ScopeKind::Session => return None,
        };
        Some(found.unwrap_or(&self.unwritten))
    }

    /// As [`Wides::get`], to be written to.
    pub(super) fn get_mut(&mut self, scope: &Scope, kind: ScopeKind) -> Option<&mut Wide> {
        let app_name = scope.app_name().clone();
        match kind {
            ScopeKind::Application => Some(self.applications.entry(app_name).or_default()),
            ScopeKind::User => {
                let user_id = scope.user_id()?.clone();
                Some(self.users.entry((app_name, user_id)).or_default())
            }
            ScopeKind::Session => None,
        }
    }

    /// Versions of the application and of the user; 0 for a user that the scope has not.
    pub(super) fn versions(&self, scope: &Scope) -> ScopeVersions {
        let version = |kind| self.get(scope, kind).map_or(0, Wide::version);
        ScopeVersions {
            application: version(ScopeKind::Application),
            user: version(ScopeKind::User),
        }
    }

    /// Writes what the keys of the application and of the user became, each under its next version, and hands back the rest: what
    /// the session's own keys became.
    pub(super) fn record(
        &mut self,
        scope: &Scope,
        results: Vec<KeyResult>,
        stamp: &Stamp,
    ) -> Vec<KeyResult> {
        let mut parts: [Vec<KeyResult>; 3] = Default::default();
        for result in results {
            if let Some(kind) = result.0.scope() {
                parts[kind as usize].push(result);
            }
        }
        let [application, user, own] = parts;
        for (kind, results) in [(ScopeKind::Application, application), (ScopeKind::User, user)] {
            if !results.is_empty()
                && let Some(wide) = self.get_mut(scope, kind)
            {
                wide.record(results, stamp.clone());
            }
        }
        own
    }
}

impl Wide {
    /// How many changes there were.
    pub(super) fn version(&self) -> Version {
        self.log.len() as Version
    }

    /// What made a version.
    pub(super) fn row(&self, version: Version) -> Option<&Row> {
        let at = usize::try_from(version.checked_sub(1)?).ok()?;
        self.log.get(at)
    }

    fn record(&mut self, results: Vec<KeyResult>, stamp: Stamp) {
        let version = self.version() + 1;
        let mut names = Vec::with_capacity(results.len());
        for (key, value) in results {
            self.keys.put(key.name(), value, version);
            names.push(key.name().to_owned());
        }
        self.log.push(Row { names, stamp });
    }
}
