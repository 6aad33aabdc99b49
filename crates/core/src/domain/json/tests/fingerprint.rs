//! What makes a fingerprint differ, what does not, and that it never changes.

use std::collections::HashMap;

use proptest::prelude::*;

use super::samples::{canonical, json, nested, small_value, value, write_styled};
use super::*;

fn of(text: &str) -> u128 {
    fingerprint(&json(text))
}

/// Fingerprints are on disks: a change of any of these makes replays fail there.
#[test]
fn pinned() {
    let pins = [
        ("null", 0x0d22d710dd4bfcbb3b708c43274002c7),
        ("true", 0x8d6f6747f4311613d29a1a182ac928da),
        ("false", 0xdcba4897496e86de07ef15a4c9f6d25d),
        ("0", 0xd28bc5890a2167bc5d8662aa91720680),
        ("-17", 0x2c56e91efb6f18faef4345d598d427a5),
        ("100", 0xb461dabd2c78d91093794cf48441774c),
        ("-250", 0x4db49501cf4748f43bbb0583fd91a6d3),
        ("0.1", 0xf26c8cf4fd729803de959db65acb6355),
        ("1e300", 0xd3364108a8e5890cf694ff82c1f283ef),
        (r#""""#, 0x499e6a3d71eee307d8a906987dfb34e2),
        (r#""a\u00e4\ud83d\ude00""#, 0x17cd4c8d67844244d912e9f3ffbb52c8),
        ("[]", 0x7a660e0671325e505ff0016dee88d417),
        ("[1,[2,null]]", 0xe863d5337bfd44e4f3f7ea945c0e52bd),
        ("{}", 0x5c29ccd387060d49379d2eab4cf5d934),
        (r#"{"a":1,"b":{"c":[true,"x"]}}"#, 0xe7e32abb8b085c6663d0b97bbbd34193),
    ];
    for (text, pin) in pins {
        assert_eq!(of(text), pin, "{text} {:#034x}", of(text));
    }
    let long = format!(r#"{{"text":"{}"}}"#, "0123456789abcdef".repeat(100));
    assert_eq!(of(&long), 0x7b4db8bdf5a9f8140839cf3f4d9777c8, "{:#034x}", of(&long));
}

#[test]
fn the_form_of_a_number_does_not_count() {
    for (number, forms) in [
        ("0", ["-0", "0.0", "-0.0", "0e9", "-0E-3", "0.000"]),
        ("1", ["1.0", "1e0", "1E0", "10e-1", "0.1e1", "1.000e+00"]),
        ("-250", ["-250.0", "-2.5e2", "-25e1", "-2500e-1", "-0.25e3", "-250.00"]),
        ("0.5", ["5e-1", "0.50", "0.05e1", "50e-2", "5E-1", "500e-3"]),
    ] {
        for form in forms {
            assert_eq!(of(number), of(form), "{number} {form}");
            assert_eq!(of(&format!("[{number}]")), of(&format!("[{form}]")));
        }
    }
    // At the border of what a double holds exactly, and beyond it.
    assert_eq!(of("9007199254740991"), of("9007199254740991.0"));
    assert_eq!(of("9007199254740992"), of("9007199254740992.0"));
    assert_eq!(of("100000000000000000000"), of("1e20"));
    assert_eq!(of("9007199254740993"), of("9007199254740993.0"));
    assert_ne!(of("9007199254740993"), of("9007199254740992.0"));
    assert_ne!(of("9223372036854775807"), of("9223372036854775808"));
    assert_ne!(of("18446744073709551616"), of("18446744073709551617"));
}

#[test]
#[allow(clippy::too_many_lines, reason = "most of it is a list")]
fn different_values_differ() {
    let values = [
        "null",
        "true",
        "false",
        "0",
        "1",
        "-1",
        "10",
        "0.1",
        "-0.1",
        "1e300",
        r#""""#,
        r#""null""#,
        r#""true""#,
        r#""0""#,
        r#""1""#,
        r#""a""#,
        r#""A""#,
        r#"" a""#,
        r#""[]""#,
        "[]",
        "{}",
        "[[]]",
        "[{}]",
        "[null]",
        "[0]",
        "[1]",
        "[0,1]",
        "[1,0]",
        "[0,0]",
        "[[0],1]",
        "[[0,1]]",
        "[0,[1]]",
        "[[],[]]",
        "[[[]]]",
        r#"["a","b"]"#,
        r#"["ab"]"#,
        r#"["a,b"]"#,
        r#"{"a":0}"#,
        r#"{"b":0}"#,
        r#"{"a":null}"#,
        r#"{"a":"b"}"#,
        r#"{"b":"a"}"#,
        r#"["a",0]"#,
        r#"[["a",0]]"#,
        r#"{"":0}"#,
        r#"{"a":0,"b":1}"#,
        r#"{"a":1,"b":0}"#,
        r#"{"a":0,"b":0}"#,
        r#"{"a":{"b":0}}"#,
        r#"{"a":{},"b":0}"#,
        r#"{"a":[],"b":0}"#,
        r#"{"a":{"b":{}}}"#,
        r#"{"a":{"c":0},"b":{"d":0}}"#,
        r#"{"a":{"d":0},"b":{"c":0}}"#,
        r#"[{"a":0},{"b":1}]"#,
        r#"[{"b":1},{"a":0}]"#,
    ];
    let mut seen = HashMap::new();
    for value in values {
        if let Some(other) = seen.insert(of(value), value) {
            panic!("{value} and {other} have one fingerprint");
        }
    }
}

#[test]
fn the_deepest_value_counts_to_its_core() {
    let deep = nested(crate::domain::json::JsonType::Object, MAX_NESTING);
    assert_ne!(of(&deep), of(&deep.replace('0', "1")));
    assert_eq!(of(&deep), of(&deep.replace('0', " 0.0 ")));
}

proptest! {
    #[test]
    fn the_way_it_is_written_does_not_count(value in value(), one: u64, other: u64) {
        let (one, other) = (write_styled(&value, one), write_styled(&value, other));
        prop_assert_eq!(fingerprint(&one), fingerprint(&other), "{} {}", one, other);
    }

    #[test]
    fn equal_exactly_when_the_values_are(
        a in small_value(), b in small_value(), one: u64, other: u64,
    ) {
        let (one, other) = (write_styled(&a, one), write_styled(&b, other));
        let equal = canonical(&a) == canonical(&b);
        prop_assert_eq!(fingerprint(&one) == fingerprint(&other), equal);
        prop_assert_eq!(same_value(&one, &other), equal);
    }
}
