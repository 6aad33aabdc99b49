//! The identity of a caller, as the edge has established it.

use std::{collections::BTreeMap, future::pending, sync::Arc};

use tokio_util::sync::CancellationToken;

use sessiond_core::domain::{
    error::{CredentialFault, Error},
    time::Time,
};

#[derive(Clone, Debug)]
pub enum Principal {
    /// Any caller of a listener without identity sources, or of an embedded engine. It may do everything.
    Local,
    Identified(Arc<Identity>),
}

/// The holder of a credential, as the credential describes it.
#[derive(Clone, Debug)]
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
    /// Cancelled when the credential is taken back: its entry has left the file of tokens, or gives less than before.
    pub withdrawn: CancellationToken,
}

impl Principal {
    pub fn identity(&self) -> Option<&Identity> {
        match self {
            Self::Local => None,
            Self::Identified(identity) => Some(identity),
        }
    }

    pub fn is_withdrawn(&self) -> bool {
        self.identity().is_some_and(|identity| identity.withdrawn.is_cancelled())
    }

    pub async fn withdrawn(&self) {
        match self.identity() {
            Some(identity) => identity.withdrawn.cancelled().await,
            None => pending().await,
        }
    }

    /// The name in logs, messages and policies.
    pub fn name(&self) -> &str {
        self.identity().map_or("local", |identity| &identity.name)
    }
}

impl Identity {
    /// A holder without aliases and claims, whose credential has no end.
    pub fn new(name: impl Into<String>) -> Self {
        let (name, aliases, claims) = (name.into(), Vec::new(), BTreeMap::new());
        Self { name, aliases, claims, expire_time: None, withdrawn: CancellationToken::new() }
    }

    /// Whether the credential still counts. Errors: [`Error::CredentialInvalid`] if it was taken back, [`Error::CredentialExpired`].
    pub fn check(&self, now: Time) -> Result<(), Error> {
        if self.withdrawn.is_cancelled() {
            return Err(Error::CredentialInvalid(CredentialFault::UnknownToken));
        }
        match self.has_expired(now) {
            true => Err(Error::CredentialExpired),
            false => Ok(()),
        }
    }

    pub fn has_expired(&self, now: Time) -> bool {
        self.expire_time.is_some_and(|end| end <= now)
    }
}
