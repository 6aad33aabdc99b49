//! Names of exported files.

use ring::digest::{SHA256, digest};

/// Bytes of the longest name that consists of the ids; file systems take 255.
const PLAIN_BYTES: usize = 180;
/// Characters of the last id in a name that is a hash.
const READABLE_CHARS: usize = 40;

/// Short and plain ids are written out, `app~user~session`. All others, which may be long, hold slashes or differ only
/// in case, become `session~~hash` of all of them. Empty ids at the end do not count.
///
/// Callers choose ids. They cannot make two names equal: the hash is a SHA-256, and no name of plain ids has `~~`.
pub fn file_name<const N: usize>(ids: [&String; N], suffix: &str) -> String {
    let ids: Vec<_> = ids.into_iter().filter(|id| !id.is_empty()).collect();
    let length: usize = ids.iter().map(|id| id.len() + 1).sum();
    if length <= PLAIN_BYTES && ids.iter().all(|id| is_plain(id)) {
        let ids: Vec<_> = ids.iter().map(|id| id.as_str()).collect();
        return format!("{}{suffix}", ids.join("~"));
    }
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    let last = ids.last().map(|id| id.as_str()).unwrap_or_default();
    let readable: String = last.chars().take(READABLE_CHARS).map(plain).collect();
    let hash = digest(&SHA256, serde_json::json!(ids).to_string().as_bytes());
    let hash: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{readable}~~{hash}{suffix}")
}

/// Whether the id is safe on every file system and in a shell.
fn is_plain(id: &str) -> bool {
    let harmless = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.');
    !id.is_empty() && !id.starts_with(['.', '-']) && id.bytes().all(harmless)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const SUFFIX: &str = ".session.json";

    fn name(app: &str, user: &str, session: &str) -> String {
        file_name([app, user, session].map(str::to_owned).each_ref(), SUFFIX)
    }

    #[test]
    fn plain_ids_are_written_out() {
        assert_eq!(name("shop", "alice", "s-1.2"), "shop~alice~s-1.2.session.json");
    }

    #[test]
    fn a_name_that_is_a_hash_is_never_one_of_plain_ids() {
        let of_two = |ids: [&str; 2]| file_name(ids.map(str::to_owned).each_ref(), SUFFIX);
        // As Python's hashlib makes it.
        let hash = "a36c5c367c3f8c9846fd8496db86ae7add4c614e76c5b2c80407f5d05a375301";
        let hashed = of_two(["shop", "a~b"]);
        assert_eq!(hashed, format!("a_b~~{hash}{SUFFIX}"));
        assert_eq!(of_two(["a_b", hash]), format!("a_b~{hash}{SUFFIX}"));
    }

    #[test]
    fn every_name_is_one_safe_path_component() {
        let long = "x".repeat(512);
        let wide = "é".repeat(256);
        let ids = [
            "a",
            "A",
            "..",
            ".",
            ".hidden",
            "-rf",
            "a/b",
            "a\\b",
            "../../etc/passwd",
            "a~b",
            "a b",
            "con",
            "a\nb",
            "%2f",
            &long,
            &wide,
        ];
        for id in ids {
            for name in [name("app", "user", id), name(id, "user", "s"), name("app", id, "s")] {
                assert!(name.len() <= 200 && name.ends_with(SUFFIX), "{name}");
                assert!(!name.starts_with(['.', '-', '~']), "{name}");
                let safe = |letter: char| letter.is_ascii_alphanumeric() || "~._-".contains(letter);
                assert!(name.chars().all(safe), "{name}");
            }
        }
    }

    #[test]
    fn no_two_sessions_share_a_name_whatever_the_case() {
        let long = |end: &str| format!("{}{end}", "x".repeat(500));
        let (one, other) = (long("1"), long("2"));
        let ids =
            ["a", "A", "a~b", "b", "a_b", "a/b", "a.b", "é", "è", "E", "~", "_", &one, &other];
        let mut seen = HashSet::new();
        for app in ids {
            for user in ids {
                for session in ids {
                    let name = name(app, user, session);
                    assert!(seen.insert(name.to_lowercase()), "{name}");
                }
            }
        }
    }
}
