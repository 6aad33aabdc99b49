//! A JWT (RFC 7519) in the compact form of a JWS (RFC 7515): its parts, and what its claims say.
//!
//! The signatures are ring's, which TLS uses as well. Of the JOSE family this takes what RFC 8725 recommends and nothing else: no key or
//! address of one in the header, no encryption, no compression.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::jwt_keys::Algorithm;
use crate::{
    access::{Identity, SUBJECT},
    domain::{error::CredentialFault, json::Reader, time::Time},
};

/// Seconds by which the clocks of issuer and server may differ.
const CLOCK_SKEW_SECS: i64 = 60;

/// Claims that a principal carries beside those that the policy names, and bytes of each of their names and values. They are kept as long
/// as the token is valid.
const CLAIMS: usize = 32;
const CLAIM_BYTES: usize = 512;

/// A token whose signature has not been verified.
pub struct Unverified<'a> {
    pub algorithm: Algorithm,
    pub key_id: Option<String>,
    /// The signed text: header and claims as they were sent.
    pub message: &'a [u8],
    pub signature: Vec<u8>,
    claims: &'a str,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    /// Extensions that a recipient has to understand. This one understands none.
    crit: Option<Value>,
}

/// The members of a JSON object, which must have different names: of two with one name, a proxy may read the other one.
fn members(text: &[u8]) -> Option<Map<String, Value>> {
    let members: Map<_, _> = serde_json::from_slice(text).ok()?;
    let mut reader = Reader::new(str::from_utf8(text).ok()?);
    reader.head();
    let names = std::iter::from_fn(|| reader.next_key().map(|_| reader.skip_value())).count();
    (names == members.len()).then_some(members)
}

pub fn has_its_form(token: &str) -> bool {
    token.bytes().filter(|byte| *byte == b'.').count() == 2
}

/// Takes a token apart. Its claims are not looked at before its signature is verified.
pub fn parse(token: &str) -> Result<Unverified<'_>, CredentialFault> {
    let malformed = CredentialFault::Malformed;
    if !has_its_form(token) {
        return Err(malformed);
    }
    let (message, signature) = token.rsplit_once('.').ok_or(malformed)?;
    let (header, claims) = message.split_once('.').ok_or(malformed)?;
    let header = decode(header).ok_or(malformed)?;
    let header = members(&header).ok_or(malformed)?;
    let header: Header = serde_json::from_value(header.into()).map_err(|_| malformed)?;
    let Header { alg, kid: key_id, crit: None } = header else { return Err(malformed) };
    let algorithm = Algorithm::named(&alg).ok_or(CredentialFault::Algorithm)?;
    let signature = decode(signature).ok_or(malformed)?;
    Ok(Unverified { algorithm, key_id, message: message.as_bytes(), signature, claims })
}

fn decode(part: &str) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(part).ok()
}

/// The issuer whose tokens are accepted, and the audience that they must name.
pub struct Expected {
    pub issuer: String,
    pub audience: String,
}

/// The identity that the claims give. Their signature has been verified. It may have expired. `named`: the claims that decide about users.
pub fn identity(
    token: &Unverified<'_>,
    expected: &Expected,
    named: &BTreeSet<String>,
    now: Time,
) -> Result<Identity, CredentialFault> {
    let content = decode(token.claims).ok_or(CredentialFault::Malformed)?;
    let claims = members(&content).ok_or(CredentialFault::Malformed)?;
    let text = |name| claims.get(name).and_then(Value::as_str);
    if text("iss") != Some(&*expected.issuer) {
        return Err(CredentialFault::Issuer);
    }
    let is_meant = match claims.get("aud") {
        Some(Value::String(audience)) => *audience == expected.audience,
        Some(Value::Array(all)) => all.iter().any(|one| *one == *expected.audience),
        _ => false,
    };
    if !is_meant {
        return Err(CredentialFault::Audience);
    }
    let expires = claims.get("exp").and_then(seconds).ok_or(CredentialFault::Claims)?;
    let expire_time = Time::from_stored(expires.saturating_add(CLOCK_SKEW_SECS), 0);
    if let Some(begins) = claims.get("nbf") {
        let begins = seconds(begins).ok_or(CredentialFault::Claims)?;
        if begins.saturating_sub(CLOCK_SKEW_SECS) > now.secs() {
            return Err(CredentialFault::NotYetValid);
        }
    }
    let fits = |text: &str| !text.is_empty() && text.len() <= CLAIM_BYTES;
    let subject = text(SUBJECT).filter(|subject| fits(subject)).ok_or(CredentialFault::Claims)?;
    let mut kept = BTreeMap::from([(SUBJECT.to_owned(), subject.to_owned())]);
    let texts = claims.iter().filter_map(|(name, value)| Some((name, value.as_str()?)));
    let texts = texts.filter(|(name, value)| fits(name) && value.len() <= CLAIM_BYTES);
    let (first, rest): (Vec<_>, Vec<_>) = texts.partition(|(name, _)| named.contains(*name));
    for (at, (name, value)) in first.iter().chain(&rest).enumerate() {
        if at < first.len() || kept.len() < CLAIMS {
            kept.insert((*name).clone(), (*value).to_owned());
        }
    }
    let name = format!("jwt:{subject}");
    Ok(Identity { claims: kept, expire_time: Some(expire_time), ..Identity::new(name) })
}

/// A NumericDate: seconds since 1970, perhaps with a fraction, which is dropped.
fn seconds(date: &Value) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates, and so do later sums")]
    date.as_i64().or_else(|| date.as_f64().map(|date| date as i64))
}
