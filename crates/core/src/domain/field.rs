//! Paths of fields within a request: `events[2].state_delta.operations[0]`.

use std::{borrow::Cow, fmt, ops::Deref};

use super::limits::QUOTED_BYTES;

/// Path of a field, as field violations name it. Empty for the request itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldPath(Cow<'static, str>);

impl From<&'static str> for FieldPath {
    fn from(path: &'static str) -> Self {
        Self(path.into())
    }
}

impl From<Path<'_>> for FieldPath {
    fn from(path: Path<'_>) -> Self {
        let mut text = String::new();
        path.write_to(&mut text);
        Self(text.into())
    }
}

impl Deref for FieldPath {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A path under construction. It allocates nothing until it becomes a [`FieldPath`].
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl Path<'_> {
    pub const REQUEST: Self = Self { parent: None, step: Step::Field("") };

    /// A field of this message, or a path of fields.
    pub fn field<'a>(&'a self, name: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Field(name) }
    }

    pub fn index(&self, index: usize) -> Path<'_> {
        Path { parent: Some(self), step: Step::Index(index) }
    }

    pub fn key<'a>(&'a self, key: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Key(key) }
    }

    /// Every event of a request gets its path, so this does without the machinery of formats.
    fn write_to(&self, text: &mut String) {
        if let Some(parent) = self.parent {
            parent.write_to(text);
        }
        match self.step {
            Step::Field("") => {}
            Step::Field(name) => {
                // A path within free-form JSON, such as `[2]`, brings its own punctuation.
                if !(text.is_empty() || name.starts_with('[')) {
                    text.push('.');
                }
                text.push_str(name);
            }
            Step::Index(index) => text.extend(["[", &index.to_string(), "]"]),
            Step::Key(key) => text.extend(["[\"", &quoted(key), "\"]"]),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&FieldPath::from(*self))
    }
}

/// Truncates an id that a message quotes at 64 bytes, at a character, and marks that with an ellipsis.
pub fn quoted(id: &str) -> Cow<'_, str> {
    if id.len() <= QUOTED_BYTES {
        return id.into();
    }
    format!("{}…", &id[..id.floor_char_boundary(QUOTED_BYTES)]).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_as_in_the_contract() {
        let request = Path::REQUEST;
        let events = request.field("events");
        let event = events.index(2);
        let delta = event.field("state_delta");
        let set = delta.field("set");
        assert_eq!(events.to_string(), "events");
        assert_eq!(delta.to_string(), "events[2].state_delta");
        assert_eq!(set.key("app:x").to_string(), "events[2].state_delta.set[\"app:x\"]");
        assert_eq!(set.key(&"k".repeat(65)).to_string().len(), set.to_string().len() + 4 + 67);
    }

    #[test]
    fn a_field_starts_longer_paths() {
        let delta = FieldPath::from("event.state_delta");
        assert_eq!(
            &*FieldPath::from(Path::REQUEST.field(&delta).field("operations").index(1)),
            "event.state_delta.operations[1]"
        );
        assert_eq!(Path::REQUEST.field(&FieldPath::default()).field("a").to_string(), "a");
    }

    #[test]
    fn a_quoted_id_is_cut_at_a_character() {
        assert_eq!(quoted("short"), "short");
        assert_eq!(quoted(&"é".repeat(32)), "é".repeat(32));
        assert_eq!(quoted(&format!("x{}", "é".repeat(32))), format!("x{}…", "é".repeat(31)));
    }
}
