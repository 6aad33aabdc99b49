//! How deltas resolve.

use super::*;

fn key(text: &str) -> StateKey {
    StateKey::new(text).unwrap()
}

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

fn resolve(delta: &Delta, state: &[(&str, &str)]) -> Result<Vec<(String, Option<String>)>, Error> {
    let state: Vec<(&str, Json)> = state.iter().map(|(name, value)| (*name, json(value))).collect();
    let results = delta.resolve(&FieldPath::from("delta"), &mut 0, |key| {
        let found = state.iter().find(|(name, _)| *name == key.as_str());
        found.map(|(_, value)| value)
    })?;
    Ok(results
        .into_iter()
        .map(|(key, value)| (key.to_string(), value.map(Json::into_string)))
        .collect())
}

fn set(key_text: &str, value: &str) -> Delta {
    Delta { set: vec![(key(key_text), json(value))], ..Delta::default() }
}

#[test]
fn a_set_counts_as_a_change_also_to_an_equal_value() {
    let results = resolve(&set("a", "1"), &[("a", "1")]).unwrap();
    assert_eq!(results, [("a".into(), Some("1".into()))]);
}

#[test]
fn what_changes_nothing_leaves_no_trace() {
    let delta = Delta {
        set: vec![(key("brief"), json("1"))],
        remove: vec![key("missing"), key("brief")],
        operations: vec![(key("there"), Operation::SetIfAbsent(json("9")))],
    };
    assert_eq!(resolve(&delta, &[("there", "null")]).unwrap(), []);
}

#[test]
fn set_comes_before_remove_and_remove_before_operations() {
    let delta = Delta {
        set: vec![(key("a"), json("5"))],
        remove: vec![key("a")],
        operations: vec![
            (key("a"), Operation::Increment(Amount::Whole(2))),
            (key("a"), Operation::Increment(Amount::Whole(3))),
        ],
    };
    assert_eq!(resolve(&delta, &[("a", "100")]).unwrap(), [("a".into(), Some("5".into()))]);
}

#[test]
fn a_removed_key_that_was_there_is_a_change() {
    let delta = Delta { remove: vec![key("a")], ..Delta::default() };
    assert_eq!(resolve(&delta, &[("a", "1")]).unwrap(), [("a".into(), None)]);
}

#[test]
fn an_operation_on_the_wrong_type_names_key_and_types() {
    let values = [
        ("null", JsonType::Null),
        ("true", JsonType::Bool),
        ("1", JsonType::Number),
        ("\"{}\"", JsonType::String),
        ("[1,2]", JsonType::Array),
        ("{}", JsonType::Object),
    ];
    for (operation, wanted) in [
        (Operation::Increment(Amount::Whole(1)), JsonType::Number),
        (Operation::Increment(Amount::Fraction(1.0)), JsonType::Number),
        (Operation::ListAppend { values: json("[1]"), max_length: 0 }, JsonType::Array),
        (Operation::ListAppend { values: json("[1]"), max_length: 1 }, JsonType::Array),
        (Operation::MergePatch(json("{\"a\":null}")), JsonType::Object),
    ] {
        let delta = Delta { operations: vec![(key("a"), operation)], ..Delta::default() };
        for (text, found) in values {
            let mismatch = Err(Error::TypeMismatch { key: key("a"), wanted, found });
            assert_eq!(resolve(&delta, &[("a", text)]) == mismatch, found != wanted, "{text}");
        }
    }
}

#[test]
fn every_overflow_is_reported_with_its_place() {
    let add = |name: &str| (key(name), Operation::Increment(Amount::Whole(1)));
    let delta = Delta { operations: vec![add("a"), add("b"), add("c")], ..Delta::default() };
    let max = i64::MAX.to_string();
    let error = resolve(&delta, &[("a", &max), ("c", &max)]).unwrap_err();
    let Error::Invalid(violations) = error else { panic!("{error}") };
    let found: Vec<_> = violations.iter().map(|fault| (&*fault.field, fault.reason)).collect();
    assert_eq!(
        found,
        [
            ("delta.operations[0]", Reason::NumberOverflow),
            ("delta.operations[2]", Reason::NumberOverflow)
        ]
    );
}

#[test]
fn a_value_may_grow_up_to_its_limit_and_not_beyond() {
    let grow = |bytes: usize| Delta {
        operations: vec![(
            key("list"),
            Operation::ListAppend {
                values: json(&format!("[\"{}\"]", "x".repeat(bytes))),
                max_length: 0,
            },
        )],
        ..Delta::default()
    };
    // `[1,"…"]` is six bytes longer than the string's letters.
    assert!(resolve(&grow(VALUE_BYTES - 6), &[("list", "[1]")]).is_ok());
    let error = resolve(&grow(VALUE_BYTES - 5), &[("list", "[1]")]).unwrap_err();
    let Error::Invalid(violations) = error else { panic!("{error}") };
    assert_eq!(violations[0].reason, Reason::ValueTooLarge);
}

#[test]
fn what_a_delta_resolves_to_is_bounded_as_a_whole() {
    let operations = (0..5)
        .map(|at| {
            let values = json("[2]");
            (key(&format!("k{at}")), Operation::ListAppend { values, max_length: 0 })
        })
        .collect();
    let delta = Delta { operations, ..Delta::default() };
    let big = format!("[\"{}\"]", "x".repeat(230_000));
    let state: Vec<_> = ["k0", "k1", "k2", "k3", "k4"].map(|name| (name, big.as_str())).into();
    let error = resolve(&delta, &state).unwrap_err();
    let Error::Invalid(violations) = error else { panic!("{error}") };
    assert_eq!((violations[0].reason, &*violations[0].field), (Reason::ValueTooLarge, "delta"));
}

#[test]
fn temp_keys_are_moved_out_of_every_part() {
    let delta = Delta {
        set: vec![(key("temp:a"), json("1")), (key("a"), json("2"))],
        remove: vec![key("temp:b"), key("b")],
        operations: vec![
            (key("temp:c"), Operation::SetIfAbsent(json("3"))),
            (key("c"), Operation::SetIfAbsent(json("4"))),
        ],
    };
    let (stored, temp) = delta.split_temp();
    assert!(stored.keys().map(StateKey::as_str).eq(["a", "b", "c"]));
    assert!(temp.keys().map(StateKey::as_str).eq(["temp:a", "temp:b", "temp:c"]));
}

#[test]
fn a_fingerprint_sees_content_and_not_form() {
    let a = Delta {
        set: vec![(key("x"), json("{\"a\":1, \"b\":2}")), (key("y"), json("1.0"))],
        ..Delta::default()
    };
    let b = Delta {
        set: vec![(key("y"), json("1")), (key("x"), json("{\"b\":2,\"a\":1}"))],
        ..Delta::default()
    };
    assert_eq!(a.fingerprint(), b.fingerprint());
    let swapped = Delta {
        set: vec![(key("x"), json("1")), (key("y"), json("{\"b\":2,\"a\":1}"))],
        ..Delta::default()
    };
    assert_ne!(a.fingerprint(), swapped.fingerprint());
    assert_ne!(
        set("x", "1").fingerprint(),
        Delta { remove: vec![key("x")], ..Delta::default() }.fingerprint()
    );
}

#[test]
fn the_work_of_operations_is_bounded_as_a_whole() {
    let append = || (key("list"), Operation::ListAppend { values: json("[1]"), max_length: 0 });
    let big = format!("[\"{}\"]", "x".repeat(200_000));
    let delta = |count| Delta {
        operations: std::iter::repeat_with(append).take(count).collect(),
        ..Delta::default()
    };
    assert!(resolve(&delta(20), &[("list", &big)]).is_ok());
    let error = resolve(&delta(30), &[("list", &big)]).unwrap_err();
    let Error::Invalid(violations) = error else { panic!("{error}") };
    assert_eq!(violations[0].reason, Reason::ValueTooLarge);
    assert_eq!(&*violations[0].field, "delta.operations");
}

#[test]
fn the_work_of_operations_counts_what_they_read() {
    let long = "0".repeat(200_000);
    let spaces = " ".repeat(200_000);
    // Results that are short, and leave the value as it was: equal but for white space, or out of range.
    for (value, operation) in [
        (format!("[{spaces}]"), Operation::ListAppend { values: json("[]"), max_length: 0 }),
        (format!("[{spaces}]"), Operation::ListAppend { values: json("[]"), max_length: 1 }),
        (format!("{{{spaces}}}"), Operation::MergePatch(json(r#"{"a":null}"#))),
        (format!("1.7{long}e308"), Operation::Increment(Amount::Fraction(1e308))),
    ] {
        let delta = |count| Delta {
            operations: vec![(key("long"), operation.clone()); count],
            ..Delta::default()
        };
        let exceeded = |count| {
            let result = resolve(&delta(count), &[("long", &value)]);
            let Err(Error::Invalid(violations)) = result else { return false };
            violations.iter().any(|fault| &*fault.field == "delta.operations")
        };
        assert!(!exceeded(20) && exceeded(30), "{operation:?}");
    }
}
