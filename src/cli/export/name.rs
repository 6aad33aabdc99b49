//! File names of sessions: legal on every file system, and never the same for two sessions.

use crate::proto::v1::SessionKey;

/// Bytes of the longest name that consists of the ids; file systems take 255.
const PLAIN_BYTES: usize = 180;
/// Characters of a session id in a name that is a hash.
const READABLE_CHARS: usize = 40;
const SUFFIX: &str = ".session.json";

/// Short and plain ids are written out, `app~user~session`. All others, which may be long, hold slashes or differ only
/// in case, become `session~hash` of all three.
pub fn file_name(key: &SessionKey) -> String {
    let SessionKey { app_name, user_id, session_id } = key;
    let parts = [app_name, user_id, session_id];
    let length: usize = parts.iter().map(|part| part.len() + 1).sum();
    if length <= PLAIN_BYTES && parts.into_iter().all(|part| is_plain(part)) {
        return format!("{app_name}~{user_id}~{session_id}{SUFFIX}");
    }
    let readable = session_id
        .chars()
        .take(READABLE_CHARS)
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' });
    let readable: String = readable.collect();
    let all = serde_json::json!(parts).to_string();
    let hash = xxhash_rust::xxh3::xxh3_128(all.as_bytes());
    format!("{readable}~{hash:032x}{SUFFIX}")
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

    fn name(app: &str, user: &str, session: &str) -> String {
        file_name(&SessionKey {
            app_name: app.to_owned(),
            user_id: user.to_owned(),
            session_id: session.to_owned(),
        })
    }

    #[test]
    fn plain_ids_are_written_out() {
        assert_eq!(name("shop", "alice", "s-1.2"), "shop~alice~s-1.2.session.json");
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
