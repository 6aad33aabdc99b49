//! Templates: text with references to state, `{key}`, as the kits write their instructions.

use std::collections::HashSet;
use std::fmt;

use memchr::{memchr, memchr2};

use super::json::{Json, JsonType};

/// What may stand before the name in a key.
const PREFIXES: [&str; 3] = ["app:", "user:", "temp:"];
/// Names that begin so belong to the kits' artifact services, not to state.
const ARTIFACT: &str = "artifact.";
/// Keys that `Display` of [`RenderFault::Missing`] lists.
const SHOWN_KEYS: usize = 3;

/// Why a template cannot be rendered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RenderFault {
    /// Keys, with their prefixes, that have no value and are not marked with `?`: each once, in
    /// order of appearance. At least one.
    Missing(Vec<String>),
    /// The text would have more bytes than the caller allows.
    TooLarge {
        /// What is allowed, in bytes.
        limit: usize,
    },
}

impl fmt::Display for RenderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RenderFault::Missing(keys) => {
                let shown = keys.len().min(SHOWN_KEYS);
                write!(f, "refers to keys without a value: {}", keys[..shown].join(", "))?;
                match keys.len() - shown {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
            RenderFault::TooLarge { limit } => write!(f, "makes more than {limit} bytes of text"),
        }
    }
}

impl std::error::Error for RenderFault {}

/// Puts values into a template; `lookup` takes a key with its prefix.
///
/// A run of `{`, a key, and a run of `}`, with white space between allowed, is replaced whole by the
/// key's value; with `?` right behind the key, by nothing where there is no value. A key is one of
/// `app:`, `user:`, `temp:` or no prefix, a letter or `_`, then letters, digits, `_` and `.`.
/// Everything else stays byte for byte: braces around anything else, names that begin with
/// `artifact.`, and braces right behind `$` or a backslash. Strings are inserted decoded, null as
/// nothing, the rest as its JSON text. What is inserted is not searched again.
///
/// As in Python, letters and digits are what Unicode allows in identifiers, so that combining marks
/// may follow a letter. Takes time in proportion to the template and to what is inserted.
///
/// # Errors
///
/// [`RenderFault::Missing`] before [`RenderFault::TooLarge`].
pub fn render<'a>(
    template: &str,
    max_bytes: usize,
    lookup: impl Fn(&str) -> Option<&'a Json>,
) -> Result<String, RenderFault> {
    let mut text = Bounded::new(max_bytes, template.len());
    let mut missing = Vec::new();
    let mut known_missing = HashSet::new();
    for piece in Pieces::of(template) {
        match piece {
            Piece::Text(literal) => text.push(literal),
            Piece::Reference { key, optional } => match lookup(key) {
                Some(value) => text.push_value(value),
                None if optional => {}
                None if known_missing.insert(key) => missing.push(key.to_owned()),
                None => {}
            },
        }
    }
    if missing.is_empty() { text.finish() } else { Err(RenderFault::Missing(missing)) }
}

/// The keys, with their prefixes, that a template refers to: each once, in order of appearance.
pub fn keys(template: &str) -> Vec<&str> {
    let mut known = HashSet::new();
    Pieces::of(template)
        .filter_map(|piece| match piece {
            Piece::Reference { key, .. } => Some(key),
            Piece::Text(_) => None,
        })
        .filter(|key| known.insert(*key))
        .collect()
}

/// Text that stops growing at a limit.
struct Bounded {
    text: String,
    limit: usize,
    full: bool,
}

impl Bounded {
    fn new(limit: usize, expected: usize) -> Bounded {
        Bounded { text: String::with_capacity(expected.min(limit)), limit, full: false }
    }

    fn push(&mut self, part: &str) {
        self.full |= part.len() > self.limit - self.text.len();
        if !self.full {
            self.text.push_str(part);
        }
    }

    fn push_value(&mut self, value: &Json) {
        if self.full {
            return;
        }
        match value.decoded() {
            Some(characters) => self.push(&characters),
            None if value.json_type() == JsonType::Null => {}
            None => self.push(value.as_str()),
        }
    }

    fn finish(self) -> Result<String, RenderFault> {
        match self.full {
            false => Ok(self.text),
            true => Err(RenderFault::TooLarge { limit: self.limit }),
        }
    }
}

/// A part of a template.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Piece<'t> {
    /// Stays as it is.
    Text(&'t str),
    /// To be replaced.
    Reference {
        /// With its prefix.
        key: &'t str,
        /// Marked with `?`.
        optional: bool,
    },
}

/// Splits a template into pieces, which put together are the template.
///
/// Of what is behind a piece no more than one byte was looked at; this is why the time is linear,
/// whatever the template.
struct Pieces<'t> {
    template: &'t str,
    at: usize,
}

impl<'t> Pieces<'t> {
    fn of(template: &'t str) -> Pieces<'t> {
        Pieces { template, at: 0 }
    }

    /// The text from here to `end`; goes there.
    fn take(&mut self, end: usize) -> &'t str {
        let start = std::mem::replace(&mut self.at, end);
        &self.template[start..end]
    }

    /// Where the run of `brace` that begins at `at` has ended.
    fn run_end(&self, at: usize, brace: u8) -> usize {
        let rest = &self.template.as_bytes()[at..];
        at + rest.iter().take_while(|byte| **byte == brace).count()
    }
}

impl<'t> Iterator for Pieces<'t> {
    type Item = Piece<'t>;

    fn next(&mut self) -> Option<Piece<'t>> {
        let bytes = self.template.as_bytes();
        let end = bytes.len();
        if self.at == end {
            return None;
        }
        let opening = memchr(b'{', &bytes[self.at..]).map_or(end, |skipped| self.at + skipped);
        if opening > self.at {
            return Some(Piece::Text(self.take(opening)));
        }
        let name = self.run_end(opening, b'{');
        if opening > 0 && matches!(bytes[opening - 1], b'$' | b'\\') {
            return Some(Piece::Text(self.take(name)));
        }
        let closing = memchr2(b'{', b'}', &bytes[name..]).map_or(end, |skipped| name + skipped);
        let behind = self.run_end(closing, b'}');
        let whole = self.take(behind);
        Some(match reference(&self.template[name..closing]) {
            Some((key, optional)) if behind > closing => Piece::Reference { key, optional },
            _ => Piece::Text(whole),
        })
    }
}

/// The key that stands between braces, and whether `?` is right behind it.
fn reference(inside: &str) -> Option<(&str, bool)> {
    let inside = inside.trim();
    let (key, optional) = match inside.strip_suffix('?') {
        Some(key) => (key, true),
        None => (inside, false),
    };
    let name = PREFIXES.iter().find_map(|prefix| key.strip_prefix(prefix)).unwrap_or(key);
    let mut characters = name.chars();
    let first = characters.next()?;
    let valid = (first == '_' || unicode_ident::is_xid_start(first))
        && characters.all(|c| c == '.' || unicode_ident::is_xid_continue(c));
    (valid && !key.starts_with(ARTIFACT)).then_some((key, optional))
}

#[cfg(test)]
mod tests;
