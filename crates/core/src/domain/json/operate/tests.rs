//! Increments at every border, lists with and without a bound.

use proptest::prelude::*;
use serde_json::Value;

use super::super::tests::samples::{json, tree, value, write_styled};
use super::*;

use Amount::{Fraction, Whole};

#[track_caller]
fn added(current: &str, by: Amount, sum: &str) {
    let result = increment(Some(&json(current)), by).unwrap();
    assert_eq!(result.as_str(), sum, "{current} + {by:?}");
}

#[test]
fn integers_stay_integers() {
    added("41", Whole(1), "42");
    added("-0", Whole(0), "0");
    added("-5", Whole(-7), "-12");
    added("9007199254740993", Whole(2), "9007199254740995");
    added("9223372036854775806", Whole(1), "9223372036854775807");
    added("-9223372036854775807", Whole(-1), "-9223372036854775808");
    added("9223372036854775807", Whole(i64::MIN), "-1");
    assert_eq!(increment(None, Whole(-3)).unwrap().as_str(), "-3");
    assert_eq!(increment(None, Whole(0)).unwrap().as_str(), "0");
}

#[test]
fn everything_else_is_a_double_and_stays_one() {
    added("41", Fraction(1.0), "42.0");
    added("41.0", Whole(1), "42.0");
    added("1e2", Whole(1), "101.0");
    added("1E0", Fraction(0.5), "1.5");
    added("0.1", Fraction(0.2), "0.30000000000000004");
    added("-0.0", Whole(0), "0.0");
    added("1e300", Whole(1), "1e+300");
    added("9223372036854775807", Fraction(0.0), "9.223372036854776e+18");
    // An integer beyond 64 bits is still a number, and the sum is a double.
    added("9223372036854775808", Fraction(0.0), "9.223372036854776e+18");
    assert_eq!(increment(None, Fraction(2.0)).unwrap().as_str(), "2.0");
}

#[test]
fn leaving_the_range_is_refused() {
    for (current, by) in [
        ("9223372036854775807", Whole(1)),
        ("-9223372036854775808", Whole(-1)),
        ("1", Whole(i64::MAX)),
        ("9223372036854775808", Whole(-1)),
        ("-9223372036854775809", Whole(0)),
        ("18446744073709551615", Whole(0)),
        ("1.7976931348623157e308", Fraction(1e308)),
        ("-1.7976931348623157e308", Fraction(-1e308)),
        ("1", Fraction(f64::NAN)),
        ("1", Fraction(f64::INFINITY)),
    ] {
        let sum = increment(Some(&json(current)), by);
        assert_eq!(sum, None, "{current} {by:?}");
    }
}

#[test]
fn lists_grow_at_the_end() {
    for (current, values, max_length, list) in [
        (None, "[]", 0, "[]"),
        (None, "[ 1 , 2 ]", 0, "[1 , 2]"),
        (Some("[]"), "[1]", 0, "[1]"),
        (Some("[ \n]"), "[1]", 0, "[1]"),
        (Some("[1]"), "[ ]", 0, "[1]"),
        (Some("[1,2]"), "[3,4]", 0, "[1,2,3,4]"),
        (Some(r#"[ {"a" : 1} ]"#), r#"[ "]" ]"#, 0, r#"[{"a" : 1},"]"]"#),
        (Some("[1,2,3]"), "[4]", 4, "[1,2,3,4]"),
        (Some("[1,2,3]"), "[4]", 3, "[2,3,4]"),
        (Some("[1,2,3]"), "[4]", 1, "[4]"),
        (Some("[1,2,3]"), "[4,5,6]", 2, "[5,6]"),
        (Some("[1,2,3]"), "[]", 2, "[2,3]"),
        (None, "[1,2,3]", 2, "[2,3]"),
        (None, "[]", 2, "[]"),
        (Some(r#"["a,[]", [ 1, [2 ]] ,1.0]"#), r#"["\u0041"]"#, 3, r#"[[ 1, [2 ]],1.0,"\u0041"]"#),
        (Some("[1]"), "[2]", usize::MAX, "[1,2]"),
    ] {
        let current = current.map(json);
        let result = list_append(current.as_ref(), &json(values), max_length, &mut None);
        assert_eq!(result.as_str(), list);
    }
}

#[test]
fn an_object_is_read_without_work_for_what_its_patch_adds() {
    let added: String = (0..1000).map(|at| format!(r#","k{at}":null"#)).collect();
    let patch = format!(r#"{{"a":{{"a":1{added}}}{added}}}"#);
    let patch = read_patch(&mut Reader::new(&patch));
    let target = format!("{{{}\"b\":{{}}}}", r#""a":{"a":0},"#.repeat(1000));
    let object = Object::read(&mut Reader::new(&target), &patch);
    // Of a key that comes again the last object is left, which has a place for its own member only.
    let [(_, Member::Changed(0, Some(inner))), (_, Member::Kept("{}"))] = &object.members[..]
    else {
        panic!("{} members", object.members.len());
    };
    assert_eq!((object.places.len(), inner.places.len(), inner.members.len()), (1, 1, 1));
    let mut text = String::new();
    object.write(&patch, &mut text);
    assert_eq!(text, r#"{"a":{"a":1},"b":{}}"#);
}

proptest! {
    #[test]
    fn whole_sums_are_those_of_64_bits(a: i64, b: i64) {
        let sum = increment(Some(&Json::integer(a)), Whole(b));
        prop_assert_eq!(sum, a.checked_add(b).map(Json::integer));
    }

    #[test]
    fn fractional_sums_are_those_of_doubles_and_remain_doubles(a: f64, b: f64, c: i64) {
        if let Ok(a_text) = Json::parse(format!("{a:?}")) {
            for (amount, sum) in [(Fraction(b), a + b), (Whole(c), a + c as f64)] {
                match increment(Some(&a_text), amount) {
                    Some(result) => {
                        prop_assert!(!is_integer(result.as_str()));
                        prop_assert_eq!(result.as_str().parse::<f64>().unwrap(), sum);
                        prop_assert!(Json::parse(result.into_string()).is_ok());
                    }
                    None => prop_assert!(!sum.is_finite()),
                }
            }
        }
    }

    #[test]
    fn lists_keep_the_newest_items_byte_for_byte(
        old in prop::collection::vec(value(), 0..5),
        new in prop::collection::vec(value(), 0..5),
        max_length in 0_usize..8,
        seed: u64,
    ) {
        let current = write_styled(&Value::from(old), seed);
        let values = write_styled(&Value::from(new), seed ^ 7);
        let mut known = None;
        let result = list_append(Some(&current), &values, max_length, &mut known);
        prop_assert_eq!(known, (max_length > 0).then_some(result.items().len()));
        // Appended to again, with and without what is known.
        for max_length in 0..8 {
            let (mut items, again) = (known, list_append(Some(&result), &values, max_length, &mut None));
            prop_assert_eq!(list_append(Some(&result), &values, max_length, &mut items), again.clone());
            prop_assert_eq!(items, (max_length > 0).then_some(again.items().len()));
        }
        let result = Json::parse(result.into_string()).unwrap();
        let mut expected = [current.items(), values.items()].concat();
        if max_length > 0 {
            expected.drain(..expected.len().saturating_sub(max_length));
        }
        prop_assert_eq!(result.items(), expected);
        let both = [tree(&current), tree(&values)];
        let both: Vec<Value> = both.iter().flat_map(|list| list.as_array().unwrap().clone()).collect();
        let kept = if max_length == 0 { both.len() } else { max_length.min(both.len()) };
        prop_assert_eq!(tree(&result), Value::from(both[both.len() - kept..].to_vec()));
    }
}
