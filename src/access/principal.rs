//! The identity of a caller, as the edge has established it.

use std::{collections::BTreeMap, sync::Arc};

use crate::domain::time::Time;

/// The identity that a call acts for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// Every caller that reaches the listener, or embeds the engine, where nobody has to show who he is. It may do everything.
    Local,
    /// Somebody who has shown a credential.
    Identified(Arc<Identity>),
}

/// The holder of a credential, as the credential describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// With the kind of the credential, so that none can name another's holder: `spiffe://…`, `dns:…` or `cn:…` of a certificate, `jwt:…`,
    /// `token:…`, or `uid:…` of a Unix socket's peer.
    pub name: String,
    /// Further names that a policy may use for it: `gid:…` of a Unix socket's peer.
    pub aliases: Vec<String>,
    /// Claims of a token, by name. `sub` is the subject.
    pub claims: BTreeMap<String, String>,
    /// When the credential ends; `None`: it was valid when the connection was made, and has no end that is known.
    pub expire_time: Option<Time>,
}

impl Principal {
    /// The identity, if one was shown.
    pub fn identity(&self) -> Option<&Identity> {
        match self {
            Self::Local => None,
            Self::Identified(identity) => Some(identity),
        }
    }

    /// The name in logs, messages and policies.
    pub fn name(&self) -> &str {
        self.identity().map_or("local", |identity| &identity.name)
    }
}

impl Identity {
    pub fn has_expired(&self, now: Time) -> bool {
        self.expire_time.is_some_and(|end| end <= now)
    }
}
