//! Paths of fields within a request: `events[2].state_delta.operations[0]`.

use std::{borrow::Cow, fmt};

use super::quote::quoted;

/// Path of a field, as field violations name it. Empty for the request itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldPath(Cow<'static, str>);

impl FieldPath {
    /// A field of the request.
    pub const fn new(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// As violations write it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// This path as the start of longer ones.
    pub fn path(&self) -> Path<'_> {
        Path { parent: None, step: Step::Field(&self.0) }
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A path under construction. It allocates nothing until [`Path::to_field`].
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
    /// The request itself.
    pub const REQUEST: Self = Self { parent: None, step: Step::Field("") };

    /// A field of this message, or a path of fields.
    pub fn field<'a>(&'a self, name: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Field(name) }
    }

    /// An item of this list.
    pub fn index(&self, index: usize) -> Path<'_> {
        Path { parent: Some(self), step: Step::Index(index) }
    }

    /// An entry of this map.
    pub fn key<'a>(&'a self, key: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Key(key) }
    }

    /// The path as a value of its own.
    pub fn to_field(&self) -> FieldPath {
        FieldPath(Cow::Owned(self.to_string()))
    }

    fn is_empty(&self) -> bool {
        matches!(self.step, Step::Field("")) && self.parent.is_none_or(Path::is_empty)
    }
}

impl From<Path<'_>> for FieldPath {
    fn from(path: Path<'_>) -> Self {
        path.to_field()
    }
}

impl From<&'static str> for FieldPath {
    fn from(name: &'static str) -> Self {
        Self::new(name)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Field("") => Ok(()),
            // A path within free-form JSON, such as `[2]`, brings its own punctuation.
            Step::Field(name) if name.starts_with('[') => f.write_str(name),
            Step::Field(name) if self.parent.is_none_or(Path::is_empty) => f.write_str(name),
            Step::Field(name) => write!(f, ".{name}"),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => write!(f, "[\"{}\"]", quoted(key)),
        }
    }
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
        let delta = FieldPath::new("event.state_delta");
        assert_eq!(
            delta.path().field("operations").index(1).to_field().as_str(),
            "event.state_delta.operations[1]"
        );
        assert_eq!(FieldPath::default().path().field("a").to_string(), "a");
    }
}
