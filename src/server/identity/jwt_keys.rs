//! The public keys that sign JWTs, from a JWKS (RFC 7517) or from PEM. Each key is for the one algorithm that its type has here, so that a
//! token cannot choose another.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use rustls::pki_types::{SubjectPublicKeyInfoDer, pem::PemObject as _};
use serde::Deserialize;
use x509_parser::{
    oid_registry as oids, prelude::FromDer as _, public_key::PublicKey as Parsed,
    x509::SubjectPublicKeyInfo,
};

/// Keys of a file: several times what issuers publish. A token without a key id is tried with each of its algorithm.
const KEYS: usize = 32;

const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Rs256,
    Es256,
    EdDsa,
}

impl Algorithm {
    /// By its name in JOSE. `none` and algorithms with a shared secret are not known.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            // RFC 9864 names the curve.
            "EdDSA" | "Ed25519" => Some(Self::EdDsa),
            _ => None,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct Key {
    /// PEM files have none.
    pub id: Option<String>,
    public: Public,
}

#[derive(Debug, PartialEq, Eq)]
enum Public {
    /// Modulus and exponent, big-endian without leading zeros.
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// An uncompressed point of P-256.
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl Key {
    pub fn algorithm(&self) -> Algorithm {
        match self.public {
            Public::Rsa { .. } => Algorithm::Rs256,
            Public::P256(_) => Algorithm::Es256,
            Public::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    pub fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match &self.public {
            Public::Rsa { n, e } => {
                let key = RsaPublicKeyComponents { n, e };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            Public::P256(point) => {
                let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
                key.verify(message, signature)
            }
            Public::Ed25519(key) => {
                UnparsedPublicKey::new(&ED25519, key).verify(message, signature)
            }
        };
        verified.is_ok()
    }
}

impl Public {
    fn rsa(n: &[u8], e: &[u8]) -> Option<Self> {
        let trimmed = |bytes: &[u8]| {
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            bytes[zeros..].to_vec()
        };
        let (n, e) = (trimmed(n), trimmed(e));
        let unused = n.first()?.leading_zeros() as usize;
        (RSA_BITS.contains(&(n.len() * 8 - unused)) && !e.is_empty()).then_some(Self::Rsa { n, e })
    }

    fn p256(point: &[u8]) -> Option<Self> {
        (point.len() == 65 && point.first() == Some(&4)).then(|| Self::P256(point.to_vec()))
    }

    fn ed25519(key: &[u8]) -> Option<Self> {
        (key.len() == 32).then(|| Self::Ed25519(key.to_vec()))
    }
}

/// All keys of a file that can be used, at least one.
pub fn parse(content: &[u8]) -> Result<Vec<Key>, &'static str> {
    let keys = match content.trim_ascii_start().first() {
        Some(b'{') => jwks(content)?,
        _ => pem(content)?,
    };
    match keys.len() {
        0 => Err("it has no public key for RS256 with 2048 bits or more, ES256 or EdDSA"),
        count if count > KEYS => Err("it has more than 32 keys"),
        _ => Ok(keys),
    }
}

#[derive(Deserialize)]
struct Jwks {
    keys: Vec<Jwk>,
}

/// Members that select a key or make it up; others say nothing about signatures.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// Issuers publish keys for encryption and for other algorithms in the same file, which are left out.
fn jwks(content: &[u8]) -> Result<Vec<Key>, &'static str> {
    let jwks: Jwks = serde_json::from_slice(content).map_err(|_| "it is not a JWKS")?;
    Ok(jwks.keys.into_iter().filter_map(Jwk::key).collect())
}

impl Jwk {
    fn key(self) -> Option<Key> {
        let Self { kty, kid: id, purpose, key_ops, alg, crv, n, e, x, y } = self;
        let bytes = |text: Option<String>| BASE64_URL_SAFE_NO_PAD.decode(text?).ok();
        let public = match (&*kty, crv.as_deref()) {
            ("RSA", _) => Public::rsa(&bytes(n)?, &bytes(e)?)?,
            ("EC", Some("P-256")) => {
                let (x, y) = (bytes(x)?, bytes(y)?);
                Public::p256(&[&[4], &x[..], &y[..]].concat()).filter(|_| x.len() == y.len())?
            }
            ("OKP", Some("Ed25519")) => Public::ed25519(&bytes(x)?)?,
            _ => return None,
        };
        let key = Key { id, public };
        let signs = purpose.is_none_or(|purpose| purpose == "sig")
            && key_ops.is_none_or(|all| all.iter().any(|operation| operation == "verify"))
            && alg.is_none_or(|name| Algorithm::named(&name) == Some(key.algorithm()));
        signs.then_some(key)
    }
}

/// Sections `PUBLIC KEY`. One of another kind is an error, since the file was written for this server.
fn pem(content: &[u8]) -> Result<Vec<Key>, &'static str> {
    let sections: Result<Vec<_>, _> = SubjectPublicKeyInfoDer::pem_slice_iter(content).collect();
    let sections = sections.map_err(|_| "it is neither a JWKS nor PEM")?;
    let keys: Option<Vec<_>> = sections.iter().map(|section| public_key(section)).collect();
    let keys = keys.ok_or("it has a public key for another algorithm than RS256 with 2048 bits or more, ES256 and EdDSA")?;
    Ok(keys.into_iter().map(|public| Key { id: None, public }).collect())
}

fn public_key(info: &[u8]) -> Option<Public> {
    let (_, info) = SubjectPublicKeyInfo::from_der(info).ok()?;
    let algorithm = &info.algorithm.algorithm;
    if *algorithm == oids::OID_SIG_ED25519 {
        return Public::ed25519(&info.subject_public_key.data);
    }
    match info.parsed().ok()? {
        Parsed::RSA(key) => Public::rsa(key.modulus, key.exponent),
        Parsed::EC(point) => {
            let curve = info.algorithm.parameters.as_ref()?.as_oid().ok()?;
            Public::p256(point.data()).filter(|_| curve == oids::OID_EC_P256)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
