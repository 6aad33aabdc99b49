//! Templates: text with references to state, `{key}`, as agent frameworks write their instructions.

use std::{borrow::Cow, collections::HashMap};

use indexmap::IndexSet;

use super::{
    error::Error,
    json::{Json, JsonType},
    scope::{ScopeKind, TEMP},
};

const PREFIXES: [&str; 3] = [ScopeKind::Application.prefix(), ScopeKind::User.prefix(), TEMP];
/// Names with this prefix belong to the artifact services of agent frameworks, not to state.
const ARTIFACT: &str = "artifact.";

/// Puts values into a template; `lookup` takes a key with its prefix.
///
/// A reference is a run of `{`, a key and a run of `}`, with optional white space around the key. It is replaced by the key's
/// value; with `?` after the key, by nothing if there is no value. A key is one of `app:`, `user:`, `temp:` or no prefix, then a
/// letter or `_`, then letters, digits, `_` and `.`. As in Python, letters and digits are what Unicode allows in identifiers, so
/// that combining marks may follow a letter.
///
/// Everything else stays byte for byte: braces around anything else, names with the prefix `artifact.`, and braces after `$` or a
/// backslash. Strings are inserted decoded, null as nothing, other values as JSON text; inserted text is not searched again.
/// Takes time linear in the template and the values that it names: each is decoded once, however often it is named, and none after
/// the text has become too large.
///
/// # Errors
///
/// [`Error::MissingStateKey`] with the keys that have no value and are not optional, each once, in order of appearance; otherwise
/// [`Error::AnswerTooLarge`] if the text has more than `max_bytes`.
pub fn render<'a>(
    template: &str,
    max_bytes: usize,
    lookup: impl Fn(&str) -> Option<&'a Json>,
) -> Result<String, Error> {
    // `None`: it has become too large. What is missing is still looked for.
    let mut text = Some(String::new());
    let (mut missing, mut values) = (IndexSet::new(), HashMap::new());
    for (plain, reference) in pieces(template) {
        let part = match reference {
            None => plain,
            Some((key, optional)) => {
                let shown = |value| if text.is_some() { inserted(value) } else { Cow::default() };
                let value = values.entry(key).or_insert_with(|| lookup(key).map(shown));
                if value.is_none() && !optional {
                    missing.insert(key);
                }
                value.as_deref().unwrap_or_default()
            }
        };
        text = text.filter(|text| part.len() <= max_bytes - text.len());
        text.iter_mut().for_each(|text| text.push_str(part));
    }
    if missing.is_empty() {
        return text.ok_or(Error::AnswerTooLarge);
    }
    Err(Error::MissingStateKey(missing.into_iter().map(str::to_owned).collect()))
}

/// The replacement of a reference.
fn inserted(value: &Json) -> Cow<'_, str> {
    match value.decoded() {
        Some(characters) => characters,
        None if value.json_type() == JsonType::Null => Cow::Borrowed(""),
        None => Cow::Borrowed(value.as_str()),
    }
}

/// A text, and what it refers to: the key with its prefix, and whether it is optional.
type Piece<'t> = (&'t str, Option<(&'t str, bool)>);

/// Splits a template into pieces, whose texts are the template. At most one byte after a piece is looked at, so the time is linear
/// for every template.
fn pieces(template: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (before, rest) = template.split_at(at);
        let inside = rest.trim_start_matches('{');
        let braces = rest.len() - inside.len();
        let (end, reference) = if braces == 0 {
            (rest.find('{').unwrap_or(rest.len()), None)
        } else if before.ends_with(['$', '\\']) {
            (braces, None)
        } else {
            let name = &inside[..inside.find(['{', '}']).unwrap_or(inside.len())];
            let behind = inside[name.len()..].trim_start_matches('}');
            let is_closed = name.len() + behind.len() < inside.len();
            (rest.len() - behind.len(), reference(name).filter(|_| is_closed))
        };
        at += end;
        (end > 0).then(|| (&rest[..end], reference))
    })
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
