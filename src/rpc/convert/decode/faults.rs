//! Collecting what is wrong with a request, each fault with the path of its field.

use std::fmt;

use crate::domain::error::{Error, Reason, Violation, quoted};

/// Faults that are kept of one request. A status names twenty; a hostile request of four megabytes could have millions, which must
/// not cost more than the request itself.
const FAULTS_KEPT: usize = 1000;

/// Faults found so far, in the order of the request.
#[derive(Debug, Default)]
pub struct Faults(Vec<Violation>);

/// The fault has been added to the [`Faults`]; there is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faulted(());

/// A part of a request, unless it is at fault. `?` comes after every part has been looked at.
pub type Decoded<T> = Result<T, Faulted>;

/// Reads a request; all its faults together are one error.
pub fn decode<T>(read: impl FnOnce(&mut Faults) -> Decoded<T>) -> Result<T, Error> {
    let mut faults = Faults::default();
    match read(&mut faults) {
        Ok(request) if faults.0.is_empty() => Ok(request),
        Ok(_) | Err(Faulted(())) => Err(Error::Invalid(faults.0)),
    }
}

impl Faults {
    /// Adds a fault whose message has no variable part.
    pub fn add(&mut self, at: Path<'_>, reason: Reason, message: &str) -> Faulted {
        if !self.are_many() {
            self.0.push(Violation::new(at.to_string(), reason, message));
        }
        Faulted(())
    }

    /// Adds a fault; `complete` names the variable parts of its message.
    pub fn add_with(
        &mut self,
        at: Path<'_>,
        reason: Reason,
        message: impl fmt::Display,
        complete: impl FnOnce(Violation) -> Violation,
    ) -> Faulted {
        if !self.are_many() {
            self.0.push(complete(Violation::new(at.to_string(), reason, message.to_string())));
        }
        Faulted(())
    }

    /// A required field is not there.
    pub fn missing(&mut self, at: Path<'_>) -> Faulted {
        self.add(at, Reason::MissingField, "This field is required; set it.")
    }

    /// Reads every item of a list, also behind one that is at fault.
    pub fn each<T, U>(
        &mut self,
        at: Path<'_>,
        items: Vec<T>,
        mut read: impl FnMut(&mut Self, Path<'_>, T) -> Decoded<U>,
    ) -> Decoded<Vec<U>> {
        let mut all = Ok(Vec::with_capacity(items.len()));
        for (index, item) in items.into_iter().enumerate() {
            if self.are_many() {
                break;
            }
            match (read(self, at.index(index), item), &mut all) {
                (Ok(item), Ok(read)) => read.push(item),
                (Err(fault), _) => all = Err(fault),
                (Ok(_), Err(_)) => {}
            }
        }
        all
    }

    /// Whether so many have been found that the rest need not be looked at.
    pub fn are_many(&self) -> bool {
        self.0.len() >= FAULTS_KEPT
    }
}

/// Where in a request something is: nothing is written down before it is at fault.
#[derive(Clone, Copy)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Request,
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl Path<'_> {
    /// The request itself.
    pub const REQUEST: Self = Self { parent: None, step: Step::Request };

    /// A field of the message that is here, or a path of fields.
    pub fn field<'a>(&'a self, name: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Field(name) }
    }

    /// An item of the list that is here.
    pub fn index(&self, index: usize) -> Path<'_> {
        Path { parent: Some(self), step: Step::Index(index) }
    }

    /// A member of the map that is here.
    pub fn key<'a>(&'a self, key: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Key(key) }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        let nested = self.parent.is_some_and(|parent| parent.parent.is_some());
        match self.step {
            Step::Request | Step::Field("") => Ok(()),
            // What follows a value of free form, as `[2]` in a list, brings its own punctuation.
            Step::Field(name) if nested && !name.starts_with('[') => write!(f, ".{name}"),
            Step::Field(name) => f.write_str(name),
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
    fn everything_is_looked_at_and_faults_keep_the_order_of_the_request() {
        let error = decode(|faults| {
            let request = Path::REQUEST;
            let all = faults.each(request.field("list"), vec![1, 2, 3], |faults, at, item| {
                if item == 2 { Ok(item) } else { Err(faults.missing(at)) }
            });
            let last: Decoded<()> = Err(faults.missing(request.field("last")));
            Ok((all?, last?))
        });
        let Err(Error::Invalid(violations)) = error else {
            panic!("{error:?}");
        };
        let fields: Vec<_> = violations.iter().map(|violation| violation.field.as_str()).collect();
        assert_eq!(fields, ["list[0]", "list[2]", "last"]);
    }

    #[test]
    fn a_value_beside_a_fault_is_no_request() {
        let error = decode(|faults| {
            faults.missing(Path::REQUEST.field("key"));
            Ok(())
        });
        assert!(matches!(error, Err(Error::Invalid(violations)) if violations.len() == 1));
    }

    #[test]
    fn a_hostile_request_costs_no_more_than_a_thousand_faults() {
        let mut read = 0;
        let error = decode(|faults| {
            faults.each(Path::REQUEST, vec![(); 5000], |faults, at, ()| -> Decoded<()> {
                read += 1;
                Err(faults.missing(at))
            })
        });
        assert!(matches!(error, Err(Error::Invalid(violations)) if violations.len() == 1000));
        assert_eq!(read, 1000);
    }
}
