//! An issuer of JWTs for tests: a key, its JWKS in a file, and the tokens that it signs.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Value, json};

use crate::harness::replace;

pub const ISSUER: &str = "https://issuer.example";
pub const AUDIENCE: &str = "sessiond";

pub struct Issuer(EcdsaKeyPair);

impl Issuer {
    #[expect(clippy::new_without_default, reason = "it makes a key")]
    pub fn new() -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self(EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap())
    }

    /// Writes its JWKS to a file, and returns the flags by which a server trusts it.
    pub fn publish(&self, file: &Path) -> Vec<String> {
        let (x, y) = self.0.public_key().as_ref()[1..].split_at(32);
        let key = json!({"kty": "EC", "crv": "P-256", "x": encode(x), "y": encode(y)});
        replace(file, &json!({ "keys": [key] }).to_string());
        let keys = file.display().to_string();
        ["--jwt-keys", &keys, "--jwt-issuer", ISSUER, "--jwt-audience", AUDIENCE]
            .map(str::to_owned)
            .to_vec()
    }

    /// A token of a subject that ends after these seconds.
    pub fn token(&self, subject: &str, seconds: i64) -> String {
        self.sign(&json!({
            "iss": ISSUER, "aud": AUDIENCE, "sub": subject, "exp": now() + seconds,
        }))
    }

    pub fn sign(&self, claims: &Value) -> String {
        let header = encode(json!({"alg": "ES256"}).to_string());
        let message = format!("{header}.{}", encode(claims.to_string()));
        let signature = self.0.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        format!("{message}.{}", encode(signature))
    }
}

pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_secs().try_into().unwrap()
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// A file with a token, for `--token-file`.
pub fn token_file(folder: &Path, name: &str, token: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, token).unwrap();
    path
}
