//! Arguments that change state, and those that say what must hold for it to change.

use clap::{ArgMatches, Args, FromArgMatches};

use super::{
    json,
    parse::{self, Amount, Keyed},
};
use crate::proto::v1::{
    Increment, KeyCheck, ListAppend, MergePatch, Precondition, SetIfAbsent, StateDelta,
    StateOperation, increment, key_check, list_append, merge_patch, set_if_absent, state_delta,
    state_operation::Operation,
};

/// Changes of state, applied in this order: sets, removals, then the operations
/// as they stand on the command line.
#[derive(Debug, Clone, Default)]
pub struct DeltaArgs {
    flags: DeltaFlags,
    /// The operations in the order of the command line.
    operations: Vec<StateOperation>,
}

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "State")]
struct DeltaFlags {
    /// Set a key to a JSON value; may be repeated. Prefixes pick the scope: app:, user:, temp:, or none for the session's own.
    #[arg(long, value_name = "KEY=JSON", value_parser = parse::assignment)]
    set: Vec<Keyed<String>>,
    /// Set every key of a JSON object; a --set of the same key wins.
    #[arg(long, value_name = "JSON|@FILE", value_parser = parse::object_or_file)]
    set_all: Option<String>,
    /// Remove a key; may be repeated.
    #[arg(long, value_name = "KEY")]
    remove: Vec<String>,
    /// Add to a number; a missing key counts as 0.
    #[arg(long, value_name = "KEY=N", value_parser = parse::increment)]
    increment: Vec<Keyed<Amount>>,
    /// Append to a list; a missing key counts as an empty one.
    #[arg(long, value_name = "KEY=JSON_LIST", value_parser = parse::list_assignment)]
    append: Vec<Keyed<String>>,
    /// With --append: keep only the newest so many items of each list.
    #[arg(long, value_name = "N", requires = "append", value_parser = clap::value_parser!(i32).range(1..))]
    keep: Option<i32>,
    /// Set a key only where it has no value.
    #[arg(long = "default", value_name = "KEY=JSON", value_parser = parse::assignment)]
    defaults: Vec<Keyed<String>>,
    /// Merge an object into an object (RFC 7396: null removes a member).
    #[arg(long, value_name = "KEY=JSON_OBJECT", value_parser = parse::object_assignment)]
    merge: Vec<Keyed<String>>,
}

impl DeltaArgs {
    /// The delta, or none where nothing is to change.
    pub fn delta(&self) -> Option<StateDelta> {
        let delta = StateDelta {
            set_form: self.set_json().map(state_delta::SetForm::SetJson),
            remove: self.flags.remove.clone(),
            operations: self.operations.clone(),
        };
        (delta != StateDelta::default()).then_some(delta)
    }

    fn set_json(&self) -> Option<String> {
        let DeltaFlags { set, set_all, .. } = &self.flags;
        match (set_all, set.is_empty()) {
            (None, true) => None,
            (Some(all), true) => Some(all.clone()),
            (all, false) => {
                let object = json::Object::read(all.as_deref().unwrap_or("{}")).ok()?;
                let all = object.members.iter().map(|m| (m.key.as_str(), m.value));
                let set = set.iter().map(|s| (s.key.as_str(), s.value.as_str()));
                Some(json::write_object(all.chain(set)))
            }
        }
    }
}

impl DeltaFlags {
    fn operations(&self, matches: &ArgMatches) -> Vec<StateOperation> {
        let increments = self.increment.iter().map(|keyed| {
            let amount = match keyed.value {
                Amount::Whole(by) => increment::Amount::By(by),
                Amount::Double(by) => increment::Amount::ByDouble(by),
            };
            let amount = Some(amount);
            operation(&keyed.key, Operation::Increment(Increment { amount }))
        });
        let appends = self.append.iter().map(|keyed| {
            let append = ListAppend {
                values_form: Some(list_append::ValuesForm::ValuesJson(keyed.value.clone())),
                max_length: self.keep.unwrap_or_default(),
            };
            operation(&keyed.key, Operation::ListAppend(append))
        });
        let defaults = self.defaults.iter().map(|keyed| {
            let value_form = Some(set_if_absent::ValueForm::ValueJson(keyed.value.clone()));
            operation(&keyed.key, Operation::SetIfAbsent(SetIfAbsent { value_form }))
        });
        let merges = self.merge.iter().map(|keyed| {
            let patch_form = Some(merge_patch::PatchForm::PatchJson(keyed.value.clone()));
            operation(&keyed.key, Operation::MergePatch(MergePatch { patch_form }))
        });
        let places = |flag| matches.indices_of(flag).into_iter().flatten();
        let mut ordered: Vec<(usize, StateOperation)> =
            places("increment").zip(increments).collect();
        ordered.extend(places("append").zip(appends));
        ordered.extend(places("defaults").zip(defaults));
        ordered.extend(places("merge").zip(merges));
        ordered.sort_by_key(|(place, _)| *place);
        ordered.into_iter().map(|(_, operation)| operation).collect()
    }
}

fn operation(key: &str, operation: Operation) -> StateOperation {
    StateOperation { key: key.to_owned(), operation: Some(operation) }
}

// Derived arguments forget in which order different flags stood; operations need it.
impl FromArgMatches for DeltaArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let flags = DeltaFlags::from_arg_matches(matches)?;
        let operations = flags.operations(matches);
        Ok(Self { flags, operations })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for DeltaArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        DeltaFlags::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        DeltaFlags::augment_args_for_update(command)
    }
}

/// What must hold at the commit, or nothing is written.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Preconditions")]
pub struct PreconditionArgs {
    /// The session's last sequence must be this (a wider scope's: its version).
    #[arg(long, value_name = "SEQUENCE", value_parser = parse::sequence)]
    pub expect: Option<i64>,
    /// The key must have this value; may be repeated.
    #[arg(long, value_name = "KEY=JSON", value_parser = parse::assignment)]
    pub expect_value: Vec<Keyed<String>>,
    /// The key must have been written last at this version; may be repeated.
    #[arg(long, value_name = "KEY=VERSION", value_parser = parse::key_version)]
    pub expect_version: Vec<Keyed<i64>>,
    /// The key must have a value; may be repeated.
    #[arg(long, value_name = "KEY")]
    pub expect_exists: Vec<String>,
    /// The key must have no value; may be repeated.
    #[arg(long, value_name = "KEY")]
    pub expect_absent: Vec<String>,
}

impl PreconditionArgs {
    /// The precondition, or none where nothing is expected.
    pub fn precondition(&self) -> Option<Precondition> {
        let check =
            |key: &str, condition| KeyCheck { key: key.to_owned(), condition: Some(condition) };
        let value = |keyed: &Keyed<String>| key_check::Condition::ValueJson(keyed.value.clone());
        let values = self.expect_value.iter().map(|k| check(&k.key, value(k)));
        let version = |keyed: &Keyed<i64>| key_check::Condition::Version(keyed.value);
        let versions = self.expect_version.iter().map(|k| check(&k.key, version(k)));
        let exists = |yes| move |key: &String| check(key, key_check::Condition::Exists(yes));
        let present = self.expect_exists.iter().map(exists(true));
        let absent = self.expect_absent.iter().map(exists(false));
        let precondition = Precondition {
            expected_sequence: self.expect,
            keys: values.chain(versions).chain(present).chain(absent).collect(),
        };
        (precondition != Precondition::default()).then_some(precondition)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        delta: DeltaArgs,
        #[command(flatten)]
        precondition: PreconditionArgs,
    }

    fn line(arguments: &[&str]) -> Line {
        Line::try_parse_from([&["x"], arguments].concat()).unwrap()
    }

    #[test]
    fn nothing_said_is_no_delta_and_no_precondition() {
        assert_eq!(line(&[]).delta.delta(), None);
        assert_eq!(line(&[]).precondition.precondition(), None);
        let at_zero = line(&["--expect", "0"]).precondition.precondition();
        assert_eq!(at_zero.unwrap().expected_sequence, Some(0));
    }

    #[test]
    fn sets_become_one_object_with_the_single_ones_last() {
        let set = |arguments: &[&str]| match line(arguments).delta.delta().unwrap().set_form {
            Some(state_delta::SetForm::SetJson(text)) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(set(&["--set", "a=1.0", "--set", "user:b=\"x\""]), r#"{"a":1.0,"user:b":"x"}"#);
        assert_eq!(set(&["--set", "a=1", "--set-all", "{\"a\": 0}"]), r#"{"a":0,"a":1}"#);
        assert_eq!(set(&["--set-all", "{ \"a\": 0}"]), "{ \"a\": 0}");
    }

    #[test]
    fn operations_keep_the_order_of_the_command_line() {
        let delta = line(&[
            "--increment",
            "n=2",
            "--default",
            "n=1",
            "--append",
            "l=[1]",
            "--increment",
            "n=0.5",
            "--merge",
            "o={}",
            "--keep",
            "3",
            "--remove",
            "r",
        ])
        .delta
        .delta()
        .unwrap();
        let kinds: Vec<_> = delta
            .operations
            .iter()
            .map(|o| match o.operation.as_ref().unwrap() {
                Operation::Increment(i) => format!("{} {:?}", o.key, i.amount.unwrap()),
                Operation::ListAppend(a) => format!("{} keep {}", o.key, a.max_length),
                Operation::SetIfAbsent(_) => format!("{} default", o.key),
                Operation::MergePatch(_) => format!("{} merge", o.key),
            })
            .collect();
        assert_eq!(kinds, ["n By(2)", "n default", "l keep 3", "n ByDouble(0.5)", "o merge"]);
        assert_eq!(delta.remove, ["r"]);
        assert_eq!(delta.set_form, None);
    }

    #[test]
    fn every_condition_becomes_a_check() {
        let line = line(&[
            "--expect-value",
            "a={}",
            "--expect-version",
            "b=3",
            "--expect-exists",
            "c",
            "--expect-absent",
            "d",
        ]);
        let keys = line.precondition.precondition().unwrap().keys;
        let seen: Vec<_> = keys.into_iter().map(|k| (k.key, k.condition.unwrap())).collect();
        let expected = [
            ("a".to_owned(), key_check::Condition::ValueJson("{}".to_owned())),
            ("b".to_owned(), key_check::Condition::Version(3)),
            ("c".to_owned(), key_check::Condition::Exists(true)),
            ("d".to_owned(), key_check::Condition::Exists(false)),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_value_that_is_no_json_is_a_usage_error() {
        let error = Line::try_parse_from(["x", "--set", "a=hello"]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("'a=\"hello\"'"), "{error}");
    }
}
