//! Verifies JWTs with the keys of a file, and keeps the identities of those that were verified.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use super::{
    super::reload::{NamedFile, Reloaded},
    jwt::{self, Expected},
    jwt_keys::{self, Key},
};
use crate::{
    access::Identity,
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
    verified: Mutex<HashMap<TokenHash, Arc<Identity>>>,
}

pub fn load(path: &Path, issuer: &str, audience: &str) -> Result<Reloaded<JwtVerifier>, String> {
    let (issuer, audience) = (issuer.to_owned(), audience.to_owned());
    let file = NamedFile::new("--jwt-keys", path);
    Reloaded::load_one("jwt_keys", file, move |file, content| {
        let keys = jwt_keys::parse(content).map_err(|cause| {
            format!("{} Pass a JWKS or PEM file with public keys.", file.refused(cause))
        })?;
        let expected = Expected { issuer: issuer.clone(), audience: audience.clone() };
        Ok(JwtVerifier::new(keys, expected))
    })
}

impl JwtVerifier {
    fn new(keys: Vec<Key>, expected: Expected) -> Self {
        Self { keys, expected, verified: Mutex::default() }
    }

    /// The holder of a token with this hash.
    pub fn verify(&self, token: &str, hash: TokenHash, now: Time) -> Result<Arc<Identity>, Error> {
        if let Some(known) = self.kept().get(&hash) {
            return Ok(Arc::clone(known));
        }
        let identity = self.check(token, now).map_err(Error::CredentialInvalid)?;
        if identity.has_expired(now) {
            return Err(Error::CredentialExpired);
        }
        let identity = Arc::new(identity);
        self.keep(hash, Arc::clone(&identity), now);
        Ok(identity)
    }

    fn check(&self, token: &str, now: Time) -> Result<Identity, CredentialFault> {
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
        jwt::identity(&token, &self.expected, now)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, HashMap<TokenHash, Arc<Identity>>> {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, hash: TokenHash, identity: Arc<Identity>, now: Time) {
        let mut kept = self.kept();
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
