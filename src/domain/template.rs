//! Templates: text with references to state, `{key}`, as agent frameworks write their instructions.

use std::borrow::Cow;

use indexmap::IndexSet;

use super::json::{Json, JsonType};

const PREFIXES: [&str; 3] = ["app:", "user:", "temp:"];
/// Names with this prefix belong to the artifact services of agent frameworks, not to state.
const ARTIFACT: &str = "artifact.";

/// Why a template cannot be rendered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RenderFault {
    /// Keys with their prefixes that have no value and are not optional: each once, in order of appearance.
    Missing(Vec<String>),
    /// The text has more bytes than the caller allows.
    TooLarge { limit: usize },
}

/// Puts values into a template; `lookup` takes a key with its prefix.
///
/// A reference is a run of `{`, a key and a run of `}`, with optional white space around the key. It is replaced by the key's
/// value; with `?` after the key, by nothing if there is no value. A key is one of `app:`, `user:`, `temp:` or no prefix, then a
/// letter or `_`, then letters, digits, `_` and `.`. As in Python, letters and digits are what Unicode allows in identifiers, so
/// that combining marks may follow a letter.
///
/// Everything else stays byte for byte: braces around anything else, names with the prefix `artifact.`, and braces after `$` or a
/// backslash. Strings are inserted decoded, null as nothing, other values as JSON text; inserted text is not searched again.
/// Takes time linear in the template and the inserted text.
///
/// # Errors
///
/// [`RenderFault::Missing`] before [`RenderFault::TooLarge`].
pub fn render<'a>(
    template: &str,
    max_bytes: usize,
    lookup: impl Fn(&str) -> Option<&'a Json>,
) -> Result<String, RenderFault> {
    // `None` once it is too large.
    let mut text = Some(String::new());
    let mut missing = IndexSet::new();
    for piece in Pieces::of(template) {
        match piece {
            Piece::Text(literal) => text = text.and_then(|text| append(text, literal, max_bytes)),
            Piece::Reference { key, optional } => match lookup(key) {
                Some(value) => {
                    text = text.and_then(|text| append(text, &inserted(value), max_bytes));
                }
                None if optional => {}
                None => {
                    missing.insert(key);
                }
            },
        }
    }
    if !missing.is_empty() {
        return Err(RenderFault::Missing(missing.into_iter().map(str::to_owned).collect()));
    }
    text.ok_or(RenderFault::TooLarge { limit: max_bytes })
}

fn append(mut text: String, part: &str, max_bytes: usize) -> Option<String> {
    if part.len() > max_bytes - text.len() {
        return None;
    }
    text.push_str(part);
    Some(text)
}

/// The replacement of a reference.
fn inserted(value: &Json) -> Cow<'_, str> {
    match value.decoded() {
        Some(characters) => characters,
        None if value.json_type() == JsonType::Null => Cow::Borrowed(""),
        None => Cow::Borrowed(value.as_str()),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Piece<'t> {
    Text(&'t str),
    /// The key has its prefix.
    Reference {
        key: &'t str,
        optional: bool,
    },
}

/// Splits a template into pieces, whose concatenation is the template.
///
/// At most one byte after a piece is looked at, so the time is linear for every template.
struct Pieces<'t> {
    template: &'t str,
    at: usize,
}

impl<'t> Pieces<'t> {
    fn of(template: &'t str) -> Pieces<'t> {
        Pieces { template, at: 0 }
    }

    /// Moves to `end`; returns the text before it.
    fn take(&mut self, end: usize) -> &'t str {
        let start = std::mem::replace(&mut self.at, end);
        &self.template[start..end]
    }

    /// The end of the run of `brace` that begins at `at`.
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
        let opening = self.template[self.at..].find('{').map_or(end, |skipped| self.at + skipped);
        if opening > self.at {
            return Some(Piece::Text(self.take(opening)));
        }
        let name = self.run_end(opening, b'{');
        if opening > 0 && matches!(bytes[opening - 1], b'$' | b'\\') {
            return Some(Piece::Text(self.take(name)));
        }
        let closing = self.template[name..].find(['{', '}']).map_or(end, |skipped| name + skipped);
        let behind = self.run_end(closing, b'}');
        let whole = self.take(behind);
        Some(match reference(&self.template[name..closing]) {
            Some((key, optional)) if behind > closing => Piece::Reference { key, optional },
            _ => Piece::Text(whole),
        })
    }
}

/// The key between braces, and whether `?` follows it.
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
