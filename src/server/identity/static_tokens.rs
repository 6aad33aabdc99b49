//! Bearer tokens whose hashes stand in a file: a `[[token]]` entry each, with name, hash and perhaps an end.
//!
//! A fast hash is enough, because tokens have 128 random bits. A password would need a slow one.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
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
pub type Holders = HashMap<TokenHash, Arc<Identity>>;

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

pub fn load(path: &Path) -> Result<Reloaded<Holders>, String> {
    let before = Mutex::new(HashMap::new());
    let file = NamedFile::new("--token-hashes", path);
    Reloaded::load("tokens", vec![file], move |files, contents| {
        let (file, content) = (&files[0], &contents[0]);
        let parsed = parse(content).map_err(|cause| {
            format!("{} Print entries with `sessiond token hash`.", file.refused(&cause))
        });
        let mut before = before.lock().unwrap_or_else(PoisonError::into_inner);
        *before = replace(&before, parsed?);
        Ok(before.clone())
    })
}

/// The holders in the place of those before. The tokens of those are taken back that are gone, stand for another holder, or end sooner.
fn replace(before: &Holders, mut entries: HashMap<TokenHash, Identity>) -> Holders {
    for (hash, held) in before {
        match entries.get_mut(hash) {
            Some(entry) if still_gives(entry, held) => entry.withdrawn = held.withdrawn.clone(),
            _ => held.withdrawn.cancel(),
        }
    }
    entries.into_iter().map(|(hash, entry)| (hash, Arc::new(entry))).collect()
}

/// Whether an entry gives what it gave before.
fn still_gives(entry: &Identity, before: &Identity) -> bool {
    let lasts = match (entry.expire_time, before.expire_time) {
        (Some(end), Some(before)) => end >= before,
        (end, _) => end.is_none(),
    };
    lasts && entry.name == before.name && entry.claims == before.claims
}

/// Faults are named without any text of the file, where somebody may have put the token itself.
fn parse(content: &[u8]) -> Result<HashMap<TokenHash, Identity>, String> {
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
        if holders.insert(hash, identity).is_some() {
            return Err(format!("entry {number}: its sha256 is that of an earlier entry"));
        }
    }
    Ok(holders)
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
        Ok((hash, Identity { claims, expire_time, ..Identity::new(name) }))
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
        let holder = |hex| &tokens[&TokenHash::parse(hex).unwrap()];
        let sub = |user: &str| BTreeMap::from([("sub".to_owned(), user.to_owned())]);
        let (ci, ui) = (holder(ABC), holder(&other));
        assert_eq!((&*ci.name, &ci.claims, ci.expire_time), ("token:ci", &sub("ci"), None));
        assert_eq!((&*ui.name, &ui.claims), ("token:ui", &sub("alice")));
        assert_eq!(ui.expire_time, Time::new(1_798_761_600, 0));
        assert!(!tokens.contains_key(&TokenHash::of("another")));
        assert!(parse(b"").unwrap().is_empty(), "no token is valid");
    }

    #[test]
    fn a_token_is_taken_back_when_its_entry_goes_or_gives_less() {
        let entry = |more: &str| format!("[[token]]\nname = \"ci\"\nsha256 = \"{ABC}\"\n{more}\n");
        let (day, next) = ("expires = 2027-01-01T00:00:00Z", "expires = 2027-01-02T00:00:00Z");
        for (before, after, stays) in [
            (entry(""), entry("# the same"), true),
            (entry(day), entry(day), true),
            (entry(day), entry(next), true),
            (entry(day), entry(""), true),
            (entry(next), entry(day), false),
            (entry(""), entry(day), false),
            (entry(""), entry("user = \"bob\""), false),
            (entry(""), entry("").replace("\"ci\"", "\"ui\""), false),
            (entry(""), entry("").replace("ba78", "ab78"), false),
            (entry(""), String::new(), false),
        ] {
            let [before, after] = [before, after].map(|text| parse(text.as_bytes()).unwrap());
            let held = replace(&Holders::new(), before);
            let first = &held[&TokenHash::parse(ABC).unwrap()];
            let again = replace(&held, after);
            assert_eq!(!first.withdrawn.is_cancelled(), stays, "{held:?} {again:?}");
            assert!(again.values().all(|it| !it.withdrawn.is_cancelled()));
            let gone = replace(&again, HashMap::new());
            assert!(first.withdrawn.is_cancelled() && gone.is_empty(), "also later");
        }
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
