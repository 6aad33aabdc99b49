//! Bearer tokens whose hashes stand in a file: a `[[token]]` entry each, with name, hash and perhaps an end.
//!
//! A fast hash is enough for them, because they are random: nobody can try 2¹²⁸ of them. A password would need a slow one.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::Arc,
};

use prost_types::Timestamp;
use serde::Deserialize;
use toml::value::Datetime;

use super::super::reload::{NamedFile, Reloaded};
use crate::{
    access::{Identity, SUBJECT},
    domain::{
        bearer::{NAME_RULE, TokenHash, is_name},
        time::Time,
    },
};

/// The holders, by the hashes of their tokens. How long a lookup takes tells something of a hash at most, from which no token follows.
pub struct StaticTokens(HashMap<TokenHash, Arc<Identity>>);

impl StaticTokens {
    pub fn holder(&self, hash: &TokenHash) -> Option<Arc<Identity>> {
        self.0.get(hash).cloned()
    }
}

/// The whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    #[serde(default)]
    token: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    sha256: String,
    expires: Option<Datetime>,
    /// The subject of the policy's rules, if that is not the name.
    user: Option<String>,
}

pub fn load(path: &Path) -> Result<Reloaded<StaticTokens>, String> {
    Reloaded::load_one("tokens", NamedFile::new("--token-hashes", path), |file, content| {
        parse(content).map_err(|cause| {
            format!("{} Print entries with `sessiond token hash`.", file.refused(&cause))
        })
    })
}

/// Faults are named without any text of the file, where somebody may have put the token itself.
fn parse(content: &[u8]) -> Result<StaticTokens, String> {
    let text = std::str::from_utf8(content).map_err(|_| "it is not UTF-8".to_owned())?;
    let Content { token } = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start.min(content.len()));
        let line = content[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        format!(
            "line {line}: entries are [[token]] with name, sha256, and perhaps expires and user"
        )
    })?;
    let mut holders = HashMap::with_capacity(token.len());
    for (entry, number) in token.into_iter().zip(1..) {
        let (hash, identity) =
            entry.holder().map_err(|cause| format!("entry {number}: {cause}"))?;
        if holders.insert(hash, Arc::new(identity)).is_some() {
            return Err(format!("entry {number}: its sha256 is that of an earlier entry"));
        }
    }
    Ok(StaticTokens(holders))
}

impl Entry {
    fn holder(self) -> Result<(TokenHash, Identity), &'static str> {
        let Self { name, sha256, expires, user } = self;
        if !is_name(&name) || !user.as_deref().is_none_or(is_name) {
            return Err(NAME_RULE);
        }
        let hash = TokenHash::parse(&sha256).ok_or("sha256 has 64 hexadecimal digits")?;
        let expire_time = match expires {
            Some(expires) => {
                Some(time(expires).ok_or("expires is a time as 2027-01-01T00:00:00Z")?)
            }
            None => None,
        };
        let claims = BTreeMap::from([(SUBJECT.to_owned(), user.unwrap_or_else(|| name.clone()))]);
        let name = format!("token:{name}");
        Ok((hash, Identity { name, aliases: Vec::new(), claims, expire_time }))
    }
}

fn time(time: Datetime) -> Option<Time> {
    // Without an offset it would depend on who reads it.
    time.offset?;
    let Timestamp { seconds, nanos } = time.to_string().parse().ok()?;
    Time::new(seconds, u32::try_from(nanos).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash of "abc", as FIPS 180 gives it.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn fault(text: &str) -> String {
        parse(text.as_bytes()).err().unwrap_or_else(|| panic!("it was taken: {text}"))
    }

    #[test]
    fn an_entry_names_the_holder_of_a_token() {
        let other = ABC.replace('b', "C");
        let text = format!(
            "# tokens\n[[token]]\nname = \"ci\"\nsha256 = \"{ABC}\"\n\n[[token]]\nname = \"ui\"\nsha256 = \"{other}\"\nexpires = 2027-01-01T01:00:00+01:00\nuser = \"alice\"\n"
        );
        let tokens = parse(text.as_bytes()).unwrap();
        let holder = |hex| tokens.holder(&TokenHash::parse(hex).unwrap()).unwrap();
        let sub = |user: &str| BTreeMap::from([("sub".to_owned(), user.to_owned())]);
        let (ci, ui) = (holder(ABC), holder(&other));
        assert_eq!((&*ci.name, &ci.claims, ci.expire_time), ("token:ci", &sub("ci"), None));
        assert_eq!((&*ui.name, &ui.claims), ("token:ui", &sub("alice")));
        assert_eq!(ui.expire_time, Time::new(1_798_761_600, 0));
        assert!(tokens.holder(&TokenHash::of("another")).is_none());
        assert!(parse(b"").unwrap().0.is_empty(), "no token is valid");
    }

    #[test]
    fn a_file_with_a_fault_is_refused_without_its_text() {
        let entry = format!("[[token]]\nname = \"ci\"\nsha256 = \"{ABC}\"\n");
        let line = |line: &str| format!("{entry}{line}\n");
        for (text, says) in [
            (entry.replace(&ABC[..1], "x"), "entry 1: sha256"),
            (entry.replace(ABC, "the-token-itself"), "entry 1: sha256"),
            (entry.replace(ABC, &"é".repeat(32)), "entry 1: sha256"),
            (entry.repeat(2), "entry 2: its sha256"),
            (entry.replace("ci", ""), "entry 1: name"),
            (entry.replace("ci", "a\\nb"), "entry 1: name"),
            (line("user = \"\""), "entry 1: name"),
            (line("expires = 2027-01-01T00:00:00"), "entry 1: expires"),
            (line("expires = 2027-01-01"), "entry 1: expires"),
            (line("expires = \"the-token-itself\""), "line 4"),
            (line("token = \"the-token-itself\""), "line 4"),
            ("the-token-itself".to_owned(), "line 1"),
            ("[[token]]\nname = \"ci\"\n".to_owned(), "line 1"),
        ] {
            let fault = fault(&text);
            assert!(fault.contains(says), "{text}: {fault}");
            assert!(!fault.contains("itself"), "{fault}");
        }
    }
}
