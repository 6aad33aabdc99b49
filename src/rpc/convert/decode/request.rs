//! A request while it is read: everything wrong with it is collected, each fault with the path of its field.

use std::{cell::RefCell, fmt};

use crate::domain::{
    error::{Error, Reason, Violation},
    field::Path,
};

/// Faults that are kept of one request. A status names twenty; a hostile request of four megabytes could have millions, which must
/// not cost more than the request itself.
const FAULTS_KEPT: usize = 1000;

/// A place in a request, and the faults found so far.
#[derive(Clone, Copy)]
pub struct At<'a> {
    path: Path<'a>,
    faults: &'a RefCell<Vec<Violation>>,
}

/// A fault has been added; there is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faulted(());

/// A part of a request, unless it is at fault. `?` comes after every part has been read.
pub type Decoded<T> = Result<T, Faulted>;

/// Builds a struct of its parts: all of them are read before a fault ends it.
macro_rules! decoded {
    ($type:ident { $($part:ident: $read:expr),* $(,)? }) => {{
        $(let $part = $read;)*
        // In a closure, so that a fault ends the struct and not the function that builds it.
        Ok(()).and_then(move |()| Ok($type { $($part: $part?),* }))
    }};
}
pub(super) use decoded;

/// Reads a request; all its faults together are one error.
pub fn decode<T>(read: impl FnOnce(At<'_>) -> Decoded<T>) -> Result<T, Error> {
    let faults = RefCell::default();
    let read = read(At { path: Path::REQUEST, faults: &faults });
    match (read, faults.into_inner()) {
        (Ok(request), faults) if faults.is_empty() => Ok(request),
        (_, faults) => Err(Error::Invalid(faults)),
    }
}

impl At<'_> {
    pub fn field<'a>(&'a self, name: &'a str) -> At<'a> {
        At { path: self.path.field(name), ..*self }
    }

    pub fn key<'a>(&'a self, key: &'a str) -> At<'a> {
        At { path: self.path.key(key), ..*self }
    }

    pub fn path(&self) -> Path<'_> {
        self.path
    }

    /// Adds a fault; `metadata` names the variable parts of its message.
    pub fn fault(
        self,
        reason: Reason,
        message: impl Into<String>,
        metadata: &[(&'static str, &dyn fmt::Display)],
    ) -> Faulted {
        if !self.is_full() {
            let mut violation = Violation::new(self.path, reason, message);
            for (name, value) in metadata {
                violation = violation.with(name, value);
            }
            self.faults.borrow_mut().push(violation);
        }
        Faulted(())
    }

    /// Adds a fault of something countable: its unit, how much there is, and how much is allowed.
    pub fn over_limit(
        self,
        reason: Reason,
        (unit, actual, limit): (&'static str, usize, usize),
        advice: &str,
    ) -> Faulted {
        let message = format!("{actual} {unit} exceed the limit of {limit}. {advice}");
        self.fault(reason, message, &[(unit, &actual), ("limit", &limit)])
    }

    pub fn missing(self) -> Faulted {
        self.fault(Reason::MissingField, "This field is required.", &[])
    }

    /// Adds a fault of a `oneof` without a value.
    pub fn unset(self, fields: &str) -> Faulted {
        self.fault(Reason::MissingField, format!("The message is empty. Set {fields}."), &[])
    }

    /// Reads every item of a list, also after one that is at fault.
    pub fn each<T, U>(
        self,
        items: Vec<T>,
        mut read: impl FnMut(At<'_>, T) -> Decoded<U>,
    ) -> Decoded<Vec<U>> {
        let mut all = Ok(Vec::with_capacity(items.len()));
        for (index, item) in items.into_iter().enumerate() {
            if self.is_full() {
                break;
            }
            let at = At { path: self.path.index(index), ..self };
            match (read(at, item), &mut all) {
                (Ok(item), Ok(read)) => read.push(item),
                (Err(fault), _) => all = Err(fault),
                (Ok(_), Err(_)) => {}
            }
        }
        all
    }

    /// Whether enough faults were found to stop reading.
    pub fn is_full(&self) -> bool {
        self.faults.borrow().len() >= FAULTS_KEPT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_read_and_faults_keep_the_order_of_the_request() {
        let error = decode(|at| {
            let all = at.field("list").each(vec![1, 2, 3], |at, item| {
                if item == 2 { Ok(item) } else { Err(at.missing()) }
            });
            let last: Decoded<()> = Err(at.field("last").missing());
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
        let error = decode(|at| {
            at.field("key").missing();
            Ok(())
        });
        assert!(matches!(error, Err(Error::Invalid(violations)) if violations.len() == 1));
    }

    #[test]
    fn a_hostile_request_costs_no_more_than_a_thousand_faults() {
        let mut read = 0;
        let error = decode(|at| {
            at.each(vec![(); 5000], |at, ()| -> Decoded<()> {
                read += 1;
                Err(at.missing())
            })
        });
        assert!(matches!(error, Err(Error::Invalid(violations)) if violations.len() == 1000));
        assert_eq!(read, 1000);
    }
}
