//! Static bearer tokens, as a file has them: the rules of an entry's names, and the hash that stands for the token.

use std::fmt;

use ring::digest::{SHA256, digest};

const NAME_CHARS: usize = 256;

pub const NAME_RULE: &str =
    "name and user have 1 to 256 characters, none of them a control character";

/// Whether a text may be the name of a caller, or the user that it stands for.
pub fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().count() <= NAME_CHARS && !text.contains(char::is_control)
}

/// The SHA-256 of a bearer token, by which it is found. It is written as 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    pub fn of(token: &str) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        Self(hash)
    }

    /// Reads digits of either case.
    pub fn parse(hex: &str) -> Option<Self> {
        let mut hash = [0; 32];
        let is_hex = hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        for (byte, at) in hash.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(hex.get(at..at + 2)?, 16).ok()?;
        }
        is_hex.then_some(Self(hash))
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_read_as_it_is_written() {
        // As FIPS 180 gives it.
        let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let hash = TokenHash::of("abc");
        assert_eq!(hash.to_string(), hex);
        assert_eq!(TokenHash::parse(hex), Some(hash));
        assert_eq!(TokenHash::parse(&hex.to_uppercase()), Some(hash));
        for bad in
            ["", &hex[1..], &hex.replace('b', "g"), &hex.replace("ba", "+a"), &"é".repeat(32)]
        {
            assert_eq!(TokenHash::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_name_is_counted_in_characters() {
        assert!(is_name("a") && is_name(&"é".repeat(256)));
        for bad in ["", "a\nb", "\u{85}", &"é".repeat(257)] {
            assert!(!is_name(bad), "{bad:?}");
        }
        assert!(NAME_RULE.contains(&format!("1 to {NAME_CHARS} ")));
    }
}
