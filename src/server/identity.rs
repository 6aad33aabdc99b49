//! Authentication: establishes the principal of a call from a bearer token, the client's certificate, or the process at the other end of a
//! Unix socket.
//!
//! A bearer token decides if the server takes tokens, because a connection may be shared by several callers. Without one the identity of
//! the connection counts, which is established once.

mod certificate;
mod jwt;
mod jwt_keys;
mod jwt_verifier;
mod static_tokens;

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use tokio::net::unix::UCred;
use tonic::codegen::http::{HeaderMap, header::AUTHORIZATION};

use super::reload::{Reload, Reloaded};
use crate::{
    access::{Identity, Policies, Principal},
    config::IdentityArgs,
    domain::{
        bearer::TokenHash,
        error::{CredentialFault, Error},
    },
    store::{Clock, SystemClock},
};
use jwt_verifier::JwtVerifier;
use static_tokens::Holders;

/// Bytes of a bearer token: several times what issuers make, and few enough to be hashed for every call.
const TOKEN_BYTES: usize = 16 * 1024;

/// The kinds of credentials that the flags name.
pub struct Authenticator {
    static_tokens: Option<Arc<Reloaded<Holders>>>,
    jwt: Option<Arc<Reloaded<JwtVerifier>>>,
    unix_peers: bool,
    clock: Arc<dyn Clock>,
}

pub struct Caller {
    authenticator: Arc<Authenticator>,
    /// The identity of the connection itself, or why its certificate has none.
    own: Option<Result<Arc<Identity>, CredentialFault>>,
}

impl Authenticator {
    /// Reads the files that the flags name. `policies`: those whose claims tokens are asked for.
    pub fn load(args: &IdentityArgs, policies: &Policies) -> Result<Self, String> {
        let IdentityArgs { token_hashes, jwt_keys, jwt_issuer, jwt_audience, unix_peers, .. } =
            args;
        let static_tokens = match token_hashes {
            Some(path) => Some(Arc::new(static_tokens::load(path)?)),
            None => None,
        };
        let jwt = match (jwt_keys, jwt_issuer, jwt_audience) {
            (Some(path), Some(issuer), Some(audience)) => {
                Some(Arc::new(jwt_verifier::load(path, issuer, audience, policies.clone())?))
            }
            _ => None,
        };
        Ok(Self { static_tokens, jwt, unix_peers: *unix_peers, clock: Arc::new(SystemClock) })
    }

    pub fn files(&self) -> Vec<Arc<dyn Reload>> {
        let static_tokens = self.static_tokens.iter().map(|it| Arc::clone(it) as Arc<dyn Reload>);
        let jwt = self.jwt.iter().map(|it| Arc::clone(it) as Arc<dyn Reload>);
        static_tokens.chain(jwt).collect()
    }

    /// Whether callers have an identity, also without a certificate.
    pub fn identifies(&self) -> bool {
        self.takes_tokens() || self.unix_peers
    }

    /// Whether callers have to show a token, if their connection has no identity.
    pub fn takes_tokens(&self) -> bool {
        self.static_tokens.is_some() || self.jwt.is_some()
    }

    /// The callers of a TCP connection, perhaps with the certificate that its client has shown. `None`: everybody is
    /// [`Principal::Local`].
    pub fn of_tcp(self: &Arc<Self>, shown: Option<&CertificateDer<'_>>) -> Option<Arc<Caller>> {
        self.caller(shown.map(|certificate| certificate::identity(certificate).map(Arc::new)))
    }

    pub fn of_unix(self: &Arc<Self>, process: std::io::Result<UCred>) -> Option<Arc<Caller>> {
        let process = process.ok().filter(|_| self.unix_peers);
        self.caller(process.map(|process| {
            let aliases = vec![format!("gid:{}", process.gid())];
            Ok(Arc::new(Identity { aliases, ..Identity::new(format!("uid:{}", process.uid())) }))
        }))
    }

    fn caller(
        self: &Arc<Self>,
        own: Option<Result<Arc<Identity>, CredentialFault>>,
    ) -> Option<Arc<Caller>> {
        let is_asked = own.is_some() || self.identifies();
        is_asked.then(|| Arc::new(Caller { authenticator: Arc::clone(self), own }))
    }

    fn holder(&self, token: &str) -> Result<Arc<Identity>, Error> {
        let hash = TokenHash::of(token);
        let known = self.static_tokens.as_ref().and_then(|all| all.current().get(&hash).cloned());
        if let Some(known) = known {
            return Ok(known);
        }
        match &self.jwt {
            // A token without the form of a JWT was meant as a static one.
            Some(jwt) if self.static_tokens.is_none() || jwt::has_its_form(token) => {
                jwt.current().verify(token, hash, self.clock.now())
            }
            _ => Err(Error::CredentialInvalid(CredentialFault::UnknownToken)),
        }
    }
}

impl Caller {
    /// Whether its connection has an identity of its own.
    pub fn is_known(&self) -> bool {
        matches!(self.own, Some(Ok(_)))
    }

    pub fn principal(&self, headers: &HeaderMap) -> Result<Principal, Error> {
        let Self { authenticator, own } = self;
        let token = bearer(headers).filter(|_| authenticator.takes_tokens());
        let identity = match (token, own) {
            (Some(token), _) => authenticator.holder(token.map_err(Error::CredentialInvalid)?)?,
            (None, Some(own)) => own.clone().map_err(Error::CredentialInvalid)?,
            (None, None) => return Err(Error::CredentialMissing),
        };
        identity.check(authenticator.clock.now())?;
        Ok(Principal::Identified(identity))
    }
}

/// The bearer token of a call; `None`: there is no `authorization` at all.
fn bearer(headers: &HeaderMap) -> Option<Result<&str, CredentialFault>> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (first, is_alone) = (values.next()?, values.next().is_none());
    let token = || {
        let (scheme, token) = first.to_str().ok()?.split_once(' ')?;
        let token = token.trim_start_matches(' ');
        let is_one = is_alone && !token.is_empty() && !token.contains(' ');
        (is_one && scheme.eq_ignore_ascii_case("bearer")).then_some(token)
    };
    Some(match token() {
        None => Err(CredentialFault::NotBearer),
        Some(token) if token.len() > TOKEN_BYTES => Err(CredentialFault::TooLong),
        Some(token) => Ok(token),
    })
}

#[cfg(test)]
mod tests;
