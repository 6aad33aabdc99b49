//! `sessiond token`: makes bearer tokens, and the entries by which a server knows them.

use std::{
    io::{self, IsTerminal as _, Read as _, Write as _},
    path::{Path, PathBuf},
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use clap::Subcommand;
use prost_types::Timestamp;
use ring::rand::{SecureRandom as _, SystemRandom};

use super::{
    bearer,
    failure::{Failure, tell},
    hidden::Form,
    output, time,
};
use crate::{
    domain::{
        bearer::{NAME_RULE, TokenHash, is_name},
        json::Json,
    },
    files::{FileMode, create_new},
};

/// Random bytes of a new token: 256 bits.
const RANDOM_BYTES: usize = 32;

/// The beginning of new tokens, by which people and scanners for secrets recognise them.
const PREFIX: &str = "sessiond_";

/// Characters of a token, at least: 128 random bits as base64.
const LEAST_CHARS: usize = 22;

/// Bytes of standard input: more than the longest token that a server takes.
const INPUT_BYTES: u64 = 64 * 1024;

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Make a new random token.
    #[command(after_help = "Examples:
  sessiond token new --out ci.token
  sessiond token new | vault kv put secret/sessiond/ci token=-

Without --out the token goes to standard output.")]
    New {
        /// New file of the token, which its owner alone may read. A file that is there is not replaced.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Mode of the file, in octal: 0640 lets its group read
        #[arg(long, requires = "out", default_value_t, value_name = "MODE")]
        file_mode: FileMode,
    },
    /// Read a token from standard input and print its entry for `serve --token-hashes`.
    #[command(after_help = "Examples:
  sessiond token hash ci < ci.token >> tokens.toml
  sessiond token hash ui --user alice --expires 2027-01-01T00:00:00Z \\
      < ui.token >> tokens.toml

The entry contains a hash, from which a random token cannot be computed.")]
    Hash {
        /// Name of the caller, as `token:NAME` in logs and policies.
        name: String,
        /// User that the token stands for; by default its name.
        #[arg(long, value_name = "ID")]
        user: Option<String>,
        /// The token expires at this time (RFC 3339).
        #[arg(long, value_name = "TIME", value_parser = time::parse)]
        expires: Option<Timestamp>,
    },
}

pub fn run(action: Action) -> Result<(), Failure> {
    let text = match action {
        Action::New { out: Some(path), file_mode } => return write(&path, file_mode, &new()?),
        Action::New { out: None, file_mode: _ } => new()?,
        Action::Hash { name, user, expires } => {
            if io::stdin().is_terminal() {
                tell(
                    "note: reading a token from standard input. Pass it as `< FILE`, or type it and end with Ctrl-D",
                );
            }
            let mut content = String::new();
            let read = io::stdin().lock().take(INPUT_BYTES).read_to_string(&mut content);
            read.map_err(|_| Failure::Failed("cannot read a token from standard input".into()))?;
            entry(&name, user.as_deref(), expires, &content)?
        }
    };
    output::print_in(Form::Text, &text)
}

fn new() -> Result<String, Failure> {
    let mut random = [0; RANDOM_BYTES];
    let filled = SystemRandom::new().fill(&mut random);
    filled.map_err(|_| Failure::Failed("this machine gives no random numbers".into()))?;
    Ok(format!("{PREFIX}{}\n", BASE64_URL_SAFE_NO_PAD.encode(random)))
}

/// Writes a token into a file that is not there yet.
fn write(path: &Path, mode: FileMode, token: &str) -> Result<(), Failure> {
    let written = create_new(path, mode).and_then(|mut file| {
        file.write_all(token.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::AlreadyExists => {
                "it exists. Remove it first, or choose another name".to_owned()
            }
            _ => error.to_string(),
        };
        Failure::Failed(format!("cannot make {}: {why}", path.display()))
    })
}

/// The entry of a token, which is no part of any message.
fn entry(
    name: &str,
    user: Option<&str>,
    expires: Option<Timestamp>,
    content: &str,
) -> Result<String, Failure> {
    let usage = |text: &str| Err(Failure::Usage(text.to_owned()));
    if !is_name(name) || !user.is_none_or(is_name) {
        return usage(NAME_RULE);
    }
    let Some(token) = bearer::token(content).filter(|token| token.len() >= LEAST_CHARS) else {
        return usage(
            "standard input has to contain one random token. Make one with `sessiond token new`",
        );
    };
    let hash = TokenHash::of(token);
    // Without control characters a string of JSON is one of TOML.
    let quoted = |text: &str| Json::string(text).into_string();
    let mut entry = format!("[[token]]\nname = {}\nsha256 = \"{hash}\"\n", quoted(name));
    entry.extend(expires.map(|expires| format!("expires = {expires}\n")));
    entry.extend(user.map(|user| format!("user = {}\n", quoted(user))));
    Ok(entry + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_and_differ() {
        let (first, second) = (new().unwrap(), new().unwrap());
        assert_ne!(first, second);
        assert_eq!(first.trim().len(), PREFIX.len() + 43);
        assert!(entry("ci", None, None, &first).is_ok());
    }

    #[test]
    fn a_file_of_a_token_is_new_and_its_owners() {
        use std::{fs, os::unix::fs::PermissionsExt as _};
        let folder = tempfile::tempdir().unwrap();
        for (name, text, mode) in [("a", "0600", 0o600), ("b", "0640", 0o640)] {
            let path = folder.path().join(name);
            let new = || write(&path, text.parse().unwrap(), &super::new().unwrap());
            new().unwrap();
            let first = fs::read_to_string(&path).unwrap();
            assert!(first.starts_with(PREFIX), "{first}");
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
            let refused = new().unwrap_err().text();
            assert!(refused.contains("it exists"), "{refused}");
            assert_eq!(fs::read_to_string(&path).unwrap(), first);
        }
        let (link, target) = (folder.path().join("link"), folder.path().join("target"));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(write(&link, FileMode::default(), "x").is_err());
        assert!(!target.exists());
    }

    #[test]
    fn an_entry_is_toml_and_has_the_hash_of_the_token_alone() {
        let expires = time::parse("2027-01-01T00:00:00Z").unwrap();
        let token = "abcdefghijklmnopqrstuvwxyz";
        let text = entry("a \"b\"", Some("älice"), Some(expires), &format!("{token}\n")).unwrap();
        let entry: toml::Table = toml::from_str(&text).unwrap();
        let entry = &entry["token"][0];
        assert_eq!(entry["name"].as_str(), Some("a \"b\""));
        assert_eq!(entry["user"].as_str(), Some("älice"));
        assert_eq!(entry["expires"].as_datetime().unwrap().to_string(), "2027-01-01T00:00:00Z");
        let hash = "71c480df93d6ae2f1efad1447c66c9525e316218cf51fc8d9ed832f2daf18b73";
        assert_eq!(entry["sha256"].as_str(), Some(hash));
        assert!(!text.contains(token));
    }

    #[test]
    fn what_is_no_random_token_is_refused_without_being_shown() {
        for (name, content) in
            [("ci", "hunter2"), ("ci", ""), ("ci", "hunter2 hunter2 hunter2 hunter2"), ("", "x")]
        {
            let error = entry(name, None, None, content).unwrap_err().text();
            assert!(!error.contains("hunter2"), "{error}");
        }
        assert!(entry("a\nb", None, None, &new().unwrap()).is_err());
    }
}
