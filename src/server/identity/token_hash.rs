//! The SHA-256 of a bearer token, by which it is found. The token itself is kept nowhere.

use ring::digest::{SHA256, digest};

pub type TokenHash = [u8; 32];

pub fn of(token: &str) -> TokenHash {
    let mut hash = TokenHash::default();
    hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    hash
}
