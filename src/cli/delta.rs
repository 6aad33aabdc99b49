//! Arguments for state deltas and preconditions.

use std::collections::BTreeMap;

use clap::{ArgMatches, Args, FromArgMatches};

use super::{convert, parse};
use crate::{
    domain::json::{Json, JsonType},
    proto::v1::{
        self, increment::Amount, key_check::Condition, list_append, merge_patch,
        state_delta::SetForm, state_operation::Operation,
    },
};

/// Changes of state, applied in this order: sets, removals, then the operations as they stand on the command line.
#[derive(Debug, Clone, Default)]
pub struct DeltaArgs(v1::StateDelta);

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "State")]
struct DeltaFlags {
    /// Set a key to a JSON value; may be repeated. The prefix app:, user: or temp: selects the scope; a key without a prefix is the session's own.
    #[arg(long, value_name = "KEY=JSON", value_parser = parse::assignment)]
    set: Vec<(String, Json)>,
    /// Set every key of a JSON object; a --set of the same key wins.
    #[arg(long, value_name = "JSON|@FILE", value_parser = parse::object_or_file)]
    set_all: Option<Json>,
    /// Remove a key; may be repeated.
    #[arg(long, value_name = "KEY")]
    remove: Vec<String>,
    /// Add to a number; a missing key counts as 0.
    #[arg(long, value_name = "KEY=N", value_parser = increment)]
    increment: Vec<v1::StateOperation>,
    /// Append to a list; a missing key counts as an empty one.
    #[arg(long, value_name = "KEY=JSON_LIST", value_parser = list_append)]
    append: Vec<v1::StateOperation>,
    /// With --append: keep only the newest N items of each list.
    #[arg(long, value_name = "N", requires = "append", value_parser = clap::value_parser!(i32).range(1..))]
    keep: Option<i32>,
    /// Set a key only if it has no value.
    #[arg(long, value_name = "KEY=JSON", value_parser = set_if_absent)]
    default: Vec<v1::StateOperation>,
    /// Merge an object into an object (RFC 7396: null removes a member).
    #[arg(long, value_name = "KEY=JSON_OBJECT", value_parser = merge_patch)]
    merge: Vec<v1::StateOperation>,
}

fn operation(key: String, operation: Operation) -> v1::StateOperation {
    v1::StateOperation { key, operation: Some(operation) }
}

/// `KEY=N`, where a point or an exponent makes N a double.
fn increment(text: &str) -> Result<v1::StateOperation, String> {
    let (key, number) = parse::keyed(text)?;
    let json = Json::parse(number.to_owned()).ok();
    if json.is_none_or(|json| json.json_type() != JsonType::Number) {
        return Err(format!("`{number}` is not a number within a double. Write 1, -5 or 0.5"));
    }
    let number = number.trim();
    let amount = if number.contains(['.', 'e', 'E']) {
        number.parse().map(Amount::ByDouble).map_err(|error| error.to_string())?
    } else {
        let whole = number.parse().map(Amount::By);
        whole.map_err(|_| format!("`{number}` does not fit into 64 bits. Write {number}.0"))?
    };
    Ok(operation(key, Operation::Increment(v1::Increment { amount: Some(amount) })))
}

fn list_append(text: &str) -> Result<v1::StateOperation, String> {
    let hint = |key: &str, value: &str| format!("Write the items as '{key}=[{value}]'");
    let (key, values) = parse::keyed_json(text, Json::array, hint)?;
    let values_form = Some(list_append::ValuesForm::ValuesJson(values.into_string()));
    Ok(operation(key, Operation::ListAppend(v1::ListAppend { values_form, max_length: 0 })))
}

fn set_if_absent(text: &str) -> Result<v1::StateOperation, String> {
    let (key, value) = parse::assignment(text)?;
    Ok(convert::set_if_absent(key, value))
}

fn merge_patch(text: &str) -> Result<v1::StateOperation, String> {
    let hint = |key: &str, _: &str| format!("Write '{key}={{\"member\": 1}}'");
    let (key, patch) = parse::keyed_json(text, Json::object, hint)?;
    let patch_form = Some(merge_patch::PatchForm::PatchJson(patch.into_string()));
    Ok(operation(key, Operation::MergePatch(v1::MergePatch { patch_form })))
}

/// One object of all keys to set: those of `all`, then the single ones, of which the last of a key wins.
pub fn set_object(all: Option<Json>, single: Vec<(String, Json)>) -> Option<String> {
    if single.is_empty() {
        return all.map(Json::into_string);
    }
    let mut keys = all.map(|all| all.members()).unwrap_or_default();
    keys.extend(single);
    Some(Json::of_members(&keys).into_string())
}

impl DeltaArgs {
    /// `None` if nothing is to change.
    pub fn delta(self) -> Option<v1::StateDelta> {
        (self.0 != v1::StateDelta::default()).then_some(self.0)
    }
}

// Derived arguments forget in which order different flags stood; operations need it.
impl FromArgMatches for DeltaArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let DeltaFlags { set, set_all, remove, increment, append, keep, default, merge } =
            DeltaFlags::from_arg_matches(matches)?;
        let given =
            [("increment", increment), ("append", append), ("default", default), ("merge", merge)];
        let positions = |flag| matches.indices_of(flag).into_iter().flatten();
        let given = given.into_iter().flat_map(|(flag, given)| positions(flag).zip(given));
        let mut operations: Vec<_> = given.collect::<BTreeMap<_, _>>().into_values().collect();
        for given in &mut operations {
            if let Some(Operation::ListAppend(append)) = &mut given.operation {
                append.max_length = keep.unwrap_or_default();
            }
        }
        let set_form = set_object(set_all, set).map(SetForm::SetJson);
        Ok(Self(v1::StateDelta { set_form, remove, operations }))
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

/// Conditions at the commit. Nothing is written unless all hold.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Preconditions")]
pub struct PreconditionArgs {
    /// Required identity of the session, as `session get` prints it: another session that has taken the id since is not meant.
    #[arg(long, value_name = "UID", default_value = "", hide_default_value = true)]
    uid: String,
    /// Required last sequence of the session; for `state set` without --session, the version of the application or user.
    #[arg(long, value_name = "SEQUENCE", value_parser = parse::sequence)]
    expect: Option<i64>,
    /// The key must have this value; may be repeated.
    #[arg(long, value_name = "KEY=JSON", value_parser = has_value)]
    expect_value: Vec<v1::KeyCheck>,
    /// The key must have been written last at this version; may be repeated.
    #[arg(long, value_name = "KEY=VERSION", value_parser = has_version)]
    expect_version: Vec<v1::KeyCheck>,
    /// The key must have a value; may be repeated.
    #[arg(long, value_name = "KEY")]
    expect_exists: Vec<String>,
    /// The key must have no value; may be repeated.
    #[arg(long, value_name = "KEY")]
    expect_absent: Vec<String>,
}

pub fn check(key: String, condition: Condition) -> v1::KeyCheck {
    v1::KeyCheck { key, condition: Some(condition) }
}

fn has_value(text: &str) -> Result<v1::KeyCheck, String> {
    let (key, value) = parse::assignment(text)?;
    Ok(check(key, Condition::ValueJson(value.into_string())))
}

fn has_version(text: &str) -> Result<v1::KeyCheck, String> {
    let (key, version) = parse::keyed(text)?;
    Ok(check(key, Condition::Version(parse::sequence(version)?)))
}

impl PreconditionArgs {
    /// `None` if nothing is expected.
    pub fn precondition(self) -> Option<v1::Precondition> {
        let exists = |exists| move |key| check(key, Condition::Exists(exists));
        let keys = self.expect_value.into_iter().chain(self.expect_version);
        let keys = keys.chain(self.expect_exists.into_iter().map(exists(true)));
        let keys = keys.chain(self.expect_absent.into_iter().map(exists(false))).collect();
        let precondition = v1::Precondition { expected_sequence: self.expect, keys, uid: self.uid };
        (precondition != v1::Precondition::default()).then_some(precondition)
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
        let of_life = line(&["--uid", "u1"]).precondition.precondition();
        assert_eq!(of_life.unwrap().uid, "u1");
        let at_zero = line(&["--expect", "0"]).precondition.precondition();
        assert_eq!(at_zero.unwrap().expected_sequence, Some(0));
    }

    #[test]
    fn sets_become_one_object_with_the_single_ones_last() {
        let set = |arguments: &[&str]| match line(arguments).delta.delta().unwrap().set_form {
            Some(SetForm::SetJson(text)) => text,
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
            ("a".to_owned(), Condition::ValueJson("{}".to_owned())),
            ("b".to_owned(), Condition::Version(3)),
            ("c".to_owned(), Condition::Exists(true)),
            ("d".to_owned(), Condition::Exists(false)),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_value_that_is_no_json_is_a_usage_error() {
        let error = Line::try_parse_from(["x", "--set", "a=hello"]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("'a=\"hello\"'"), "{error}");
    }

    #[test]
    fn lists_and_objects_are_told_from_the_rest() {
        assert!(list_append("k=[1]").is_ok());
        assert!(list_append("k=1").unwrap_err().ends_with("'k=[1]'"));
        assert!(merge_patch("k={\"a\":null}").is_ok());
        assert!(merge_patch("k=[]").is_err());
    }

    #[test]
    fn an_increment_is_whole_unless_it_says_otherwise() {
        let amount = |text| {
            increment(text).map(|increment| match increment.operation {
                Some(Operation::Increment(increment)) => increment.amount.unwrap(),
                other => panic!("{other:?}"),
            })
        };
        assert_eq!(amount("n=-5"), Ok(Amount::By(-5)));
        assert_eq!(amount("n=9223372036854775807"), Ok(Amount::By(i64::MAX)));
        assert_eq!(amount("n=1.0"), Ok(Amount::ByDouble(1.0)));
        assert_eq!(amount("n=1e3"), Ok(Amount::ByDouble(1000.0)));
        assert!(amount("n=9223372036854775808").unwrap_err().contains("64 bits"));
        for text in ["n=", "n=x", "n=\"1\"", "n=1e999", "n=+1", "n=NaN", "n=true", "n=01"] {
            assert!(amount(text).is_err(), "{text}");
        }
    }
}
