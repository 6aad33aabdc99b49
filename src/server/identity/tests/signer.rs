//! Keys that sign JWTs for tests.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _},
};
use serde_json::{Value, json};

pub const ISSUER: &str = "https://issuer.example";
pub const AUDIENCE: &str = "sessiond";

/// The modulus of an RSA key whose private half is gone.
pub const RSA_MODULUS: &str = concat!(
    "s2r0HQg8D1N6n2PlOrtNw0Do5ErAjSORod84AmvMN36u4XCGMLyTltif5C9rqoDHfIekM4Oq2cASgEelrSzYDwlT0JFZqu16Cjh9HAEXr7Oq9N",
    "BGbsVSPbGPYv3b4RHOpRdNh4ncHFLlpaZZzNkh3Bypa-fId2tfSN7HrNWLi-Ktc0uZa7NNg9ib7OnWU2n9fWgDQU2Noi8BAIv9bXh2BG5_6dMA",
    "i3jOoBsL0w-rn7BLMZfyuUVw4pAXGymNWoZOJ1Dn3sJfB5kPlvwNGxD7OqkKajg1rzDrbyfX4crxbvIVBM_oHC4CV93_QDtQy1RZSsgflHgpbR",
    "JGheC46-DMxQ",
);

/// A token that it has signed: of alice, until 2100-01-01.
pub const RSA_TOKEN: &str = concat!(
    "eyJhbGciOiJSUzI1NiIsImtpZCI6InJzYSJ9.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwiYXVkIjoic2Vzc2lvbmQiLCJzdWIiO",
    "iJhbGljZSIsImV4cCI6NDEwMjQ0NDgwMH0.qrq7gQcbMsOsebypoEDsBRno0E-nwVn4w9dPlxILDC_BiwCvEF9AgAKjo-n4MEGeNXUfMYC0Eft",
    "FUDWCgYEtaLqJD-b8j9M2HEOthd6gLxC3hN9v3YrKbWyU5QNAzbaQPzap0GpQweQ1sJRiCizPG5ELYbuSRykXL8JPVfDCwU9bKxfaW63AlexzS",
    "v6DOfjDDY6eRjGvw_jzFvv1dUJbu01TCvCGwa9K84t92ROqvH4rXyJLC3XPL-w8B_76KT3bnIfN08rwUHmKOXw_02VBHXlVDB-ST_6Bglh9-Ia",
    "evKB22arxPc_MhMffK53I6Kw0dYO4LvPKqCKTCR_84AFFqw",
);

pub enum Signer {
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Signer {
    pub fn p256() -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self::P256(EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap())
    }

    pub fn ed25519() -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed25519(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap())
    }

    pub fn algorithm(&self) -> &'static str {
        match self {
            Self::P256(_) => "ES256",
            Self::Ed25519(_) => "EdDSA",
        }
    }

    pub fn jwk(&self, id: &str) -> Value {
        match self {
            Self::P256(key) => {
                let (x, y) = key.public_key().as_ref()[1..].split_at(32);
                json!({"kty": "EC", "crv": "P-256", "kid": id, "x": encode(x), "y": encode(y)})
            }
            Self::Ed25519(key) => {
                json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": encode(key.public_key())})
            }
        }
    }

    /// A token with this header and these claims, whatever they say.
    pub fn sign(&self, header: &Value, claims: &Value) -> String {
        let message = unsigned(header, claims);
        let signature = match self {
            Self::P256(key) => {
                let signature = key.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
                encode(signature)
            }
            Self::Ed25519(key) => encode(key.sign(message.as_bytes())),
        };
        format!("{message}.{signature}")
    }
}

/// Header and claims, as a token contains them.
pub fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.{}", encode(header.to_string()), encode(claims.to_string()))
}

pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

pub fn rsa_jwk(id: &str) -> Value {
    json!({"kty": "RSA", "kid": id, "use": "sig", "alg": "RS256", "n": RSA_MODULUS, "e": "AQAB"})
}
