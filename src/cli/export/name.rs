//! File names for sessions: safe wherever files are kept, and never the same for two sessions.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use crate::proto::v1::SessionKey;

/// Longest name that is made of the ids themselves, in bytes; file systems take 255.
const MAX_PLAIN: usize = 180;
/// How much of a session's id shows in a name that is not.
const READABLE: usize = 40;
const SUFFIX: &str = ".session.json";

/// The name of a session's file.
///
/// Ids that are short and plain are written out, `app~user~session`. Any others, which may hold
/// slashes, be long, or differ in case alone, become `session~hash` of all three.
pub fn file_name(key: &SessionKey) -> String {
    let SessionKey { app_name, user_id, session_id } = key;
    let parts = [app_name, user_id, session_id];
    let length: usize = parts.iter().map(|part| part.len() + 1).sum();
    if length <= MAX_PLAIN && parts.into_iter().all(|part| is_plain(part)) {
        return format!("{app_name}~{user_id}~{session_id}{SUFFIX}");
    }
    let readable = session_id
        .chars()
        .take(READABLE)
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' });
    let readable: String = readable.collect();
    let all = serde_json::json!(parts).to_string();
    let hash = xxhash_rust::xxh3::xxh3_128(all.as_bytes());
    format!("{readable}~{hash:032x}{SUFFIX}")
}

/// Whether the id is the same on every file system and harmless to a shell.
fn is_plain(id: &str) -> bool {
    let harmless = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.');
    !id.is_empty() && !id.starts_with(['.', '-']) && id.bytes().all(harmless)
}

/// A file that appears whole or not at all.
#[derive(Debug)]
pub struct AtomicFile {
    to: BufWriter<File>,
    temporary: PathBuf,
    target: PathBuf,
    committed: bool,
}

impl AtomicFile {
    /// Begins a file in a directory that exists.
    ///
    /// # Errors
    ///
    /// When the directory cannot be written to.
    pub fn create(directory: &Path, name: &str) -> io::Result<Self> {
        let temporary = directory.join(format!(".{name}.{}.tmp", std::process::id()));
        Ok(Self {
            to: BufWriter::new(File::create(&temporary)?),
            temporary,
            target: directory.join(name),
            committed: false,
        })
    }

    /// Puts the file in its place, over one of that name, once its content is on the disk.
    ///
    /// # Errors
    ///
    /// When the disk is full, or the place taken by something else.
    pub fn commit(mut self) -> io::Result<PathBuf> {
        self.to.flush()?;
        self.to.get_ref().sync_all()?;
        fs::rename(&self.temporary, &self.target)?;
        self.committed = true;
        Ok(self.target.clone())
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.committed {
            // It is of no use to anybody; if it cannot be removed, nor is telling.
            let _ = fs::remove_file(&self.temporary);
        }
    }
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

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let names = || {
            let entries = fs::read_dir(dir.path()).unwrap();
            entries
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect::<Vec<_>>()
        };
        let mut given_up = AtomicFile::create(dir.path(), "a.json").unwrap();
        given_up.write_all(b"half").unwrap();
        assert_ne!(names(), ["a.json"]);
        drop(given_up);
        assert_eq!(names(), [""; 0]);
        for text in ["one", "two"] {
            let mut file = AtomicFile::create(dir.path(), "a.json").unwrap();
            file.write_all(text.as_bytes()).unwrap();
            let path = file.commit().unwrap();
            assert_eq!(fs::read_to_string(path).unwrap(), text);
        }
        assert_eq!(names(), ["a.json"]);
    }
}
