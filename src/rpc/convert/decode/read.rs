//! A request while it is read: everything wrong with it is collected, each fault with the path of its field.

use std::{cell::RefCell, fmt};

use crate::{
    domain::{error::Violation, limits::DELTA_OPERATIONS},
    rpc::prelude::*,
};

/// Faults that are kept of one request. A status names twenty; a hostile request of four megabytes could have millions, which must
/// not cost more than the request itself.
const FAULTS_KEPT: usize = 1000;

/// A place in a request, what may be named there, and the faults found so far.
#[derive(Clone, Copy)]
pub struct At<'a> {
    pub path: Path<'a>,
    pub bare: BareIds,
    /// Whose uids are known.
    pub store: StoreId,
    /// Only stored keys that can be seen from a scope of this kind; `None`: any key.
    pub keys: Option<ScopeKind>,
    pub faults: &'a RefCell<Vec<Violation>>,
}

/// Whether calls that accept a bare session id may be sent one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BareIds {
    Allowed,
    Refused,
}

/// A fault has been added; there is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faulted(());

/// A part of a request, unless it is at fault.
pub type Decoded<T> = Result<T, Faulted>;

/// A request with what it says about its answer.
pub type Asked<T> = Decoded<(T, Mode)>;

/// Reads a request; all its faults together are one error.
pub fn decode<Q, T>(
    request: Q,
    bare: BareIds,
    store: StoreId,
    read: impl FnOnce(At<'_>, Q) -> Decoded<T>,
) -> Result<T, Error> {
    let faults = RefCell::default();
    let at = At { path: Path::REQUEST, bare, store, keys: None, faults: &faults };
    match (read(at, request), faults.into_inner()) {
        (Ok(request), faults) if faults.is_empty() => Ok(request),
        (_, faults) => Err(Error::Invalid(faults)),
    }
}

/// Reads a part of a request as a `T` of the model.
pub trait Read<T> {
    fn read(self, at: At<'_>) -> Decoded<T>;
}

/// Destructures a message completely and reads its fields: with [`Read`] under their own names, or as an expression says. After all of
/// them have been read, a fault ends the function. Fields behind the semicolon are not read.
macro_rules! read {
    ($at:ident: $message:path {
        $($field:ident $(= $read:expr)?),* $(,)? $(; $($ignored:ident),* $(,)?)?
    } = $value:expr) => {
        let $message { $($field,)* $($($ignored: _,)*)? } = $value;
        $(let $field = read!(@ $at, $field $(, $read)?);)*
        $(let $field = $field?;)*
    };
    (@ $at:ident, $field:ident) => {
        $crate::rpc::convert::decode::read::Read::read($field, $at.field(stringify!($field)))
    };
    (@ $at:ident, $field:ident, $read:expr) => { $read };
}
pub(super) use read;

impl At<'_> {
    pub fn field<'a>(&'a self, name: &'a str) -> At<'a> {
        At { path: self.path.field(name), ..*self }
    }

    pub fn key<'a>(&'a self, key: &'a str) -> At<'a> {
        At { path: self.path.key(key), ..*self }
    }

    /// Adds a fault; `metadata` names the variable parts of its message.
    pub fn fault(
        self,
        reason: Reason,
        message: impl Into<String>,
        metadata: &[(&'static str, &dyn fmt::Display)],
    ) -> Faulted {
        let violation = Violation::new("", reason, message);
        self.add([metadata.iter().fold(violation, |it, (name, value)| it.with(name, value))])
    }

    /// Adds faults, at least one, whose fields are relative to this place.
    pub fn add(self, violations: impl IntoIterator<Item = Violation>) -> Faulted {
        for violation in violations {
            if !self.is_full() {
                let field = self.path.field(&violation.field).into();
                self.faults.borrow_mut().push(Violation { field, ..violation });
            }
        }
        Faulted(())
    }

    /// Adds a fault of something countable: its unit, how much there is, and how much is allowed.
    pub fn over_limit(
        self,
        reason: Reason,
        limit: (&'static str, usize, usize),
        advice: &str,
    ) -> Faulted {
        self.add([Violation::over_limit("", reason, limit, advice)])
    }

    pub fn missing(self) -> Faulted {
        self.fault(Reason::MissingField, "This field is required.", &[])
    }

    /// Reads a field that must be set.
    pub fn required<T, U: Read<T>>(self, value: Option<U>) -> Decoded<T> {
        value.ok_or_else(|| self.missing())?.read(self)
    }

    /// Adds a fault of a `oneof` without a value.
    pub fn unset(self, fields: &str) -> Faulted {
        self.fault(Reason::MissingField, format!("The message is empty. Set {fields}."), &[])
    }

    /// Reads every item, also after one that is at fault.
    pub fn all<T, U>(
        self,
        items: impl IntoIterator<Item = T>,
        mut read: impl FnMut(T) -> Decoded<U>,
    ) -> Decoded<Vec<U>> {
        let items = items.into_iter();
        let mut all = Ok(Vec::with_capacity(items.size_hint().0));
        for item in items {
            if self.is_full() {
                break;
            }
            match (read(item), &mut all) {
                (Ok(item), Ok(read)) => read.push(item),
                (Err(fault), _) => all = Err(fault),
                (Ok(_), Err(_)) => {}
            }
        }
        all
    }

    /// As [`At::all`], each item of a list at its index.
    pub fn each<T, U>(
        self,
        items: Vec<T>,
        mut read: impl FnMut(At<'_>, T) -> Decoded<U>,
    ) -> Decoded<Vec<U>> {
        self.all(items.into_iter().enumerate(), |(index, item)| {
            read(At { path: self.path.index(index), ..self }, item)
        })
    }

    /// Whether enough faults were found to stop reading.
    fn is_full(&self) -> bool {
        self.faults.borrow().len() >= FAULTS_KEPT
    }
}

impl Read<bool> for bool {
    fn read(self, _: At<'_>) -> Decoded<bool> {
        Ok(self)
    }
}

impl<T, U: Read<T>> Read<Option<T>> for Option<U> {
    fn read(self, at: At<'_>) -> Decoded<Option<T>> {
        self.map(|it| it.read(at)).transpose()
    }
}

/// A list of as many items as one commit or read takes.
impl<T, U: Read<T>> Read<Vec<T>> for Vec<U> {
    fn read(self, at: At<'_>) -> Decoded<Vec<T>> {
        if self.len() > DELTA_OPERATIONS {
            let limit = ("items", self.len(), DELTA_OPERATIONS);
            let advice = "Split the list into several requests.";
            return Err(at.over_limit(Reason::BadValue, limit, advice));
        }
        at.each(self, |at, item| item.read(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_read_and_faults_keep_the_order_of_the_request() {
        let error = decode((), BareIds::Allowed, StoreId([0; 16]), |at, ()| {
            let all = at.field("list").each(vec![1, 2, 3], |at, item| {
                if item == 2 { Ok(item) } else { Err(at.missing()) }
            });
            let last: Decoded<()> = Err(at.field("last").missing());
            Ok((all?, last?))
        });
        let Err(Error::Invalid(violations)) = error else {
            panic!("{error:?}");
        };
        let fields: Vec<_> = violations.iter().map(|violation| &*violation.field).collect();
        assert_eq!(fields, ["list[0]", "list[2]", "last"]);
    }

    #[test]
    fn a_value_beside_a_fault_is_no_request() {
        let error = decode((), BareIds::Allowed, StoreId([0; 16]), |at, ()| {
            at.field("key").missing();
            Ok(())
        });
        assert!(matches!(error, Err(Error::Invalid(violations)) if violations.len() == 1));
    }

    #[test]
    fn a_hostile_request_costs_no_more_than_a_thousand_faults() {
        let mut read = 0;
        let error = decode((), BareIds::Allowed, StoreId([0; 16]), |at, ()| {
            at.each(vec![(); 5000], |at, ()| -> Decoded<()> {
                read += 1;
                Err(at.missing())
            })
        });
        assert!(matches!(error, Err(Error::Invalid(violations)) if violations.len() == 1000));
        assert_eq!(read, 1000);
    }
}
