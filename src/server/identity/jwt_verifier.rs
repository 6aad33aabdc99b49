//! Verifies JWTs with the keys of a file, and keeps the identities of those that were verified.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    super::reload::{NamedFile, Reloaded},
    jwt::{self, Expected},
    jwt_keys::{self, Key},
};
use crate::{
    access::{Identity, Policies},
    domain::{
        bearer::TokenHash,
        error::{CredentialFault, Error},
        time::Time,
    },
};

/// Verified tokens that are kept: more than callers of one server at a time. Each takes about 1 KiB, and at most 16 KiB.
const KEPT: usize = 4096;

/// Keys, what tokens have to say, and the verified tokens, which go with the keys when these are reloaded.
pub struct JwtVerifier {
    keys: Vec<Key>,
    expected: Expected,
    verified: Mutex<Verified>,
}

/// Verified tokens, and the policy whose claims they have.
struct Verified {
    identities: HashMap<TokenHash, Arc<Identity>>,
    policies: Policies,
}

pub fn load(
    path: &Path,
    issuer: &str,
    audience: &str,
    policies: Policies,
) -> Result<Reloaded<JwtVerifier>, String> {
    let (issuer, audience) = (issuer.to_owned(), audience.to_owned());
    let file = NamedFile::new("--jwt-keys", path);
    Reloaded::load("jwt_keys", vec![file], move |files, contents| {
        let (file, content) = (&files[0], &contents[0]);
        let keys = jwt_keys::parse(content).map_err(|cause| {
            format!("{} Pass a JWKS or PEM file with public keys.", file.refused(cause))
        })?;
        let expected = Expected { issuer: issuer.clone(), audience: audience.clone() };
        Ok(JwtVerifier::new(keys, expected, policies.clone()))
    })
}

impl JwtVerifier {
    fn new(keys: Vec<Key>, expected: Expected, policies: Policies) -> Self {
        let verified = Verified { identities: HashMap::new(), policies };
        Self { keys, expected, verified: Mutex::new(verified) }
    }

    /// The holder of a token with this hash.
    pub fn verify(&self, token: &str, hash: TokenHash, now: Time) -> Result<Arc<Identity>, Error> {
        let named = {
            let kept = self.kept();
            if let Some(known) = kept.identities.get(&hash) {
                return Ok(Arc::clone(known));
            }
            kept.policies.claims()
        };
        let identity = self.check(token, &named, now).map_err(Error::CredentialInvalid)?;
        if identity.has_expired(now) {
            return Err(Error::CredentialExpired);
        }
        let identity = Arc::new(identity);
        self.keep(hash, Arc::clone(&identity), now);
        Ok(identity)
    }

    fn check(
        &self,
        token: &str,
        named: &BTreeSet<String>,
        now: Time,
    ) -> Result<Identity, CredentialFault> {
        let token = jwt::parse(token)?;
        let may_sign = |key: &&Key| {
            let is_meant = match (&key.id, &token.key_id) {
                (Some(id), Some(wanted)) => id == wanted,
                _ => true,
            };
            key.algorithm() == token.algorithm && is_meant
        };
        let mut keys = self.keys.iter().filter(may_sign).peekable();
        keys.peek().ok_or(CredentialFault::UnknownKey)?;
        if !keys.any(|key| key.has_signed(token.message, &token.signature)) {
            return Err(CredentialFault::Signature);
        }
        jwt::identity(&token, &self.expected, named, now)
    }

    /// The tokens verified under the policy in force. Another policy may name other claims.
    fn kept(&self) -> MutexGuard<'_, Verified> {
        let mut kept = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.policies.take_change() {
            kept.identities.clear();
        }
        kept
    }

    fn keep(&self, hash: TokenHash, identity: Arc<Identity>, now: Time) {
        let kept = &mut self.kept().identities;
        if kept.len() >= KEPT {
            kept.retain(|_, identity| !identity.has_expired(now));
        }
        if kept.len() >= KEPT {
            // All are in use. Those that come again are verified again.
            kept.clear();
        }
        kept.insert(hash, identity);
    }
}

#[cfg(test)]
mod tests;
