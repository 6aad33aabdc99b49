//! Preconditions: what must hold at a commit.

use super::{
    Version,
    error::{Error, Reason, SequenceConflict, Violation},
    json::{Json, same_value},
    limits::PRECONDITION_BYTES,
    scope::{Scope, StateKey},
    session::SessionInfo,
    token::Life,
};

#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// Whether it has a value; null is a value.
    Exists(bool),
    /// The version of its last write. Never met by a key without a value.
    Version(Version),
    /// Compared as JSON.
    Value(Json),
}

/// All conditions are checked, and all that fail are reported.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Precondition {
    /// The version of the scope that is written, for a session its last sequence.
    pub expected_sequence: Option<Version>,
    /// Keys of any stored scope.
    pub keys: Vec<(StateKey, Condition)>,
    /// The life that is meant of the scope that is written.
    pub life: Option<Life>,
}

impl Precondition {
    /// Checks that the scope at an address is the one that is meant, before anything else, also for a replay.
    pub fn check_life(&self, actual: Option<Life>, scope: &Scope) -> Result<(), Error> {
        match self.life {
            Some(meant) if Some(meant) != actual => Err(Error::Replaced(scope.clone())),
            _ => Ok(()),
        }
    }

    /// As [`Precondition::check_life`], of a session.
    pub fn check_session(&self, info: &SessionInfo) -> Result<(), Error> {
        self.check_life(Some(Life::of_session(info)), &Scope::Session(info.key.clone()))
    }

    /// Checks against the version of the scope that is written to and the values and versions of keys. Adds the bytes of those values to
    /// `work`.
    pub fn check<'s>(
        &self,
        actual: Version,
        work: &mut usize,
        current: impl Fn(&StateKey) -> Option<(&'s Json, Version)>,
    ) -> Result<(), Error> {
        let sequence = self
            .expected_sequence
            .filter(|&expected| expected != actual)
            .map(|expected| SequenceConflict { expected, actual });
        let mut keys: Vec<StateKey> = Vec::new();
        let mut compared = 0;
        for (key, condition) in &self.keys {
            let found = current(key);
            if found.is_some_and(|(value, _)| value.is_damaged()) {
                return Err(Error::damaged_key(key));
            }
            let bytes = found.map_or(0, |(value, _)| value.len());
            (compared, *work) = (compared + bytes, *work + bytes);
            if compared > PRECONDITION_BYTES {
                let message = format!(
                    "The conditions compare more than {PRECONDITION_BYTES} bytes of values. Name each key once."
                );
                let fault = Violation::new("precondition.keys", Reason::BadValue, message);
                return Err(fault.with("limit", PRECONDITION_BYTES).into());
            }
            let holds = match (condition, found) {
                (Condition::Exists(wanted), found) => found.is_some() == *wanted,
                (Condition::Version(wanted), Some((_, version))) => version == *wanted,
                (Condition::Value(wanted), Some((value, _))) => same_value(wanted, value),
                (Condition::Version(_) | Condition::Value(_), None) => false,
            };
            if !holds && !keys.contains(key) {
                keys.push(key.clone());
            }
        }
        if sequence.is_none() && keys.is_empty() {
            return Ok(());
        }
        Err(Error::Conflict { sequence, keys })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> StateKey {
        StateKey::new(text).unwrap()
    }

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).unwrap()
    }

    fn check(expected_sequence: Option<u64>, keys: &[(&str, Condition)]) -> Result<(), Error> {
        let keys = keys.iter().map(|(name, condition)| (key(name), condition.clone())).collect();
        let there = json("{\"a\":1.0,\"b\":null}");
        Precondition { expected_sequence, keys, life: None }
            .check(7, &mut 0, |key| (key.as_str() == "there").then_some((&there, 3)))
    }

    #[test]
    fn each_condition_holds_or_not() {
        let good = [
            ("there", Condition::Exists(true)),
            ("there", Condition::Version(3)),
            ("there", Condition::Value(json("{\"b\":null, \"a\":1}"))),
            ("missing", Condition::Exists(false)),
        ];
        assert_eq!(check(Some(7), &good), Ok(()));
        for bad in [
            ("there", Condition::Exists(false)),
            ("there", Condition::Version(2)),
            ("there", Condition::Value(json("{\"a\":1}"))),
            ("missing", Condition::Exists(true)),
            ("missing", Condition::Version(0)),
            ("missing", Condition::Value(json("null"))),
        ] {
            let name = key(bad.0);
            assert_eq!(
                check(None, &[bad]),
                Err(Error::Conflict { sequence: None, keys: vec![name] })
            );
        }
    }

    #[test]
    fn compared_bytes_are_bounded() {
        let large = json(&format!("[\"{}\"]", "x".repeat(250_000)));
        let many = |count| Precondition {
            expected_sequence: None,
            keys: vec![(key("list"), Condition::Value(json("[1]"))); count],
            life: None,
        };
        let check = |count| many(count).check(0, &mut 0, |_| Some((&large, 1)));
        assert!(matches!(check(10), Err(Error::Conflict { .. })));
        assert!(matches!(check(1000), Err(Error::Invalid(_))));
    }

    #[test]
    fn everything_that_fails_is_reported_once() {
        let missing = || ("missing", Condition::Exists(true));
        assert_eq!(
            check(Some(6), &[missing(), ("there", Condition::Version(1)), missing()]),
            Err(Error::Conflict {
                sequence: Some(SequenceConflict { expected: 6, actual: 7 }),
                keys: vec![key("missing"), key("there")]
            })
        );
    }
}
