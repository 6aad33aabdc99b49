//! The rules one by one, the frameworks' own pattern as a reference, and bounds on hostile templates.

use std::{cell::Cell, collections::HashMap};

use proptest::prelude::*;

use super::*;

const ENOUGH: usize = 1 << 20;

fn state() -> HashMap<String, Json> {
    let values = [
        ("key", r#""value""#),
        ("_k1", "1"),
        ("a.b", r#""dotted""#),
        ("app:key", r#""of \"app\"""#),
        ("user:key", r#""of\nuser""#),
        ("temp:key", r#""of temp""#),
        ("größe", "180.50"),
        ("名前", r#""\u540d""#),
        ("कुंजी", r#""marks""#),
        ("nothing", "null"),
        ("yes", "true"),
        ("list", r#"[ 1, "\u0041" ]"#),
        ("object", r#"{ "a": null }"#),
        ("braces", r#""{key} {missing}""#),
        ("half", r#""{""#),
        ("artifact", r#""a key like any other""#),
        ("artifact.file", r#""never""#),
        ("app:artifact.x", r#""of app""#),
        ("session:key", r#""never""#),
        ("", r#""never""#),
        ("app:", r#""never""#),
    ];
    let parse = |text: &str| Json::parse(text.to_owned()).unwrap();
    values.map(|(key, text)| (key.to_owned(), parse(text))).into()
}

fn rendered(template: &str) -> Result<String, Error> {
    let state = state();
    render(template, ENOUGH, |key| state.get(key))
}

/// The keys with their prefixes that a template refers to: each once, in order of appearance.
fn keys(template: &str) -> Vec<&str> {
    let references = pieces(template).filter_map(|piece| Some(piece.1?.0));
    references.collect::<IndexSet<_>>().into_iter().collect()
}

#[track_caller]
fn becomes(template: &str, text: &str) {
    assert_eq!(rendered(template).as_deref(), Ok(text), "{template}");
}

#[track_caller]
fn stays(template: &str) {
    becomes(template, template);
    assert_eq!(keys(template), [""; 0], "{template}");
}

#[track_caller]
fn misses(template: &str, missing: &[&str]) {
    let missing = missing.iter().map(|key| (*key).to_owned()).collect();
    assert_eq!(rendered(template), Err(Error::MissingStateKey(missing)), "{template}");
}

#[test]
fn references_are_replaced() {
    becomes("", "");
    becomes("no reference", "no reference");
    becomes("{key}", "value");
    becomes("a {key} b{_k1}c", "a value b1c");
    becomes("{a.b}", "dotted");
    becomes("{app:key}|{user:key}|{temp:key}", "of \"app\"|of\nuser|of temp");
    becomes("{größe}{名前}{कुंजी}", "180.50名marks");
    becomes("{artifact}{app:artifact.x}", "a key like any otherof app");
}

#[test]
fn runs_of_braces_are_replaced_whole() {
    becomes("{{key}}", "value");
    becomes("{{{key}", "value");
    becomes("{key}}}}", "value");
    becomes("{key}{key}", "valuevalue");
    becomes("{{key}}}{{{key}", "valuevalue");
    becomes("{x{key}x}", "{xvaluex}");
    becomes("{ {key} }", "{ value }");
    becomes("}{key}{", "}value{");
    becomes("{ }{key}", "{ }value");
    becomes("{{ }}{key}{{", "{{ }}value{{");
}

#[test]
fn white_space_may_stand_inside() {
    becomes("{ key }", "value");
    becomes("{{ \t\n key\r\n}}", "value");
    becomes("{\u{a0}key\u{3000}}", "value");
    becomes("{ nope? }", "");
    stays("{k ey}");
    stays("{key ?}");
    stays("{app: key}");
    stays("{app :key}");
    stays("{\u{200b}key}");
}

#[test]
fn a_question_mark_makes_it_optional() {
    becomes("{key?}", "value");
    becomes("[{nope?}]", "[]");
    becomes("{{ user:nope? }}", "");
    becomes("{nothing?}", "");
    stays("{key??}");
    stays("{?}");
    stays("{?key}");
    misses("{nope?}{nope}", &["nope"]);
}

#[test]
fn everything_else_stays() {
    for template in [
        "{",
        "}",
        "{{",
        "}}",
        "{}",
        "{{}}",
        "{ }",
        "{key",
        "key}",
        "{1key}",
        "{.key}",
        "{key-1}",
        "{a,b}",
        r#"{"key": 1}"#,
        "{key!r}",
        "{key:>10}",
        "{key[0]}",
        "{session:key}",
        "{App:key}",
        "{:key}",
        "{app:}",
        "{app:user:key}",
        "{app:1}",
        "{user:}",
        "{ø¹}",
        "{½}",
        "{😀}",
        "{\u{300}x}",
        "{\0}",
        "{key\0}",
        "function() { return { a: 1 }; }",
        "{{#if key}}",
        "{{/if}}",
        "{}key{}",
    ] {
        stays(template);
    }
    stays("\r\n\t é 😀 \u{feff}");
}

#[test]
fn artifacts_are_not_state() {
    stays("{artifact.file}");
    stays("{{ artifact.file? }}");
    stays("{artifact.}");
    stays("{artifact.a-b.txt}");
    misses("{artifacts.file}", &["artifacts.file"]);
    misses("{Artifact.file}", &["Artifact.file"]);
}

#[test]
fn a_dollar_or_a_backslash_keeps_braces() {
    stays("${key}");
    stays("\\{key}");
    stays("${{key}}");
    stays("$${key}");
    stays("\\\\{key}");
    stays("${nope}");
    stays("${key");
    stays("$");
    becomes("$ {key}", "$ value");
    becomes("${a{key}}", "${avalue");
    becomes("${key}{key}", "${key}value");
    becomes("${key{key}", "${keyvalue");
    becomes("{a${key}{key}", "{a${key}value");
    // What is inserted does not keep the braces behind it, nor make a reference with them.
    becomes("{half}{key}", "{value");
    becomes("{half}key}", "{key}");
}

#[test]
fn values_are_inserted_by_type() {
    becomes("{nothing}|{yes}|{list}|{object}", r#"|true|[ 1, "\u0041" ]|{ "a": null }"#);
    becomes("{braces}", "{key} {missing}");
}

#[test]
fn missing_keys_are_named_once_in_order() {
    misses("{b} {a}{key}{b}{user:a} {{ app:z }}", &["b", "a", "user:a", "app:z"]);
    misses("{no.pe}", &["no.pe"]);
}

#[test]
fn keys_are_listed_once_in_order() {
    let template = "{b} ${x} {{ app:a? }} {b?} {1} {temp:c}{artifact.d}";
    assert_eq!(keys(template), ["b", "app:a", "temp:c"]);
}

#[test]
fn the_text_is_bounded() {
    let state = state();
    let too_large = Err(Error::AnswerTooLarge);
    let bounded = |template: &str, limit| render(template, limit, |key| state.get(key));
    assert_eq!(bounded("a{key}b", 7).unwrap(), "avalueb");
    assert_eq!(bounded("a{key}b", 6), too_large);
    assert_eq!(bounded("{key}", 4), too_large);
    assert_eq!(bounded("{list}", 5), too_large);
    assert_eq!(bounded("text", 3), too_large);
    assert_eq!(bounded("", 0).unwrap(), "");
    assert_eq!(bounded("{nothing}{nope?}", 0).unwrap(), "");
    // Once something did not fit, nothing smaller follows in its place.
    assert_eq!(bounded("{key}a", 4), too_large);
    // What is missing is what the caller can mend, wherever it stands.
    let missing = Error::MissingStateKey(vec!["nope".to_owned()]);
    assert_eq!(bounded("{key}{key}{nope}", 4), Err(missing));
}

#[test]
fn many_references_to_a_large_value_do_not_fill_memory() {
    let large = Json::string(&"x".repeat(256 << 10));
    let template = "{a}".repeat(50_000);
    let limit = 4 << 20;
    let result = render(&template, limit, |_| Some(&large));
    assert_eq!(result, Err(Error::AnswerTooLarge));
}

/// A value is decoded when it is looked up, and only then.
#[test]
fn a_value_is_looked_up_once_however_often_it_is_named() {
    let value = Json::string("two\nlines");
    let looked_up = Cell::new(0);
    for (template, times, keys) in [("{a}{ a? }{b}", 1000, 2), ("{{a}}{nope?}", 10_000, 2)] {
        for limit in [1, ENOUGH] {
            looked_up.set(0);
            let lookup = |key: &str| {
                looked_up.set(looked_up.get() + 1);
                (key != "nope").then_some(&value)
            };
            let result = render(&template.repeat(times), limit, lookup);
            assert_eq!(result.is_ok(), limit == ENOUGH);
            assert_eq!(looked_up.get(), keys, "{template}");
        }
    }
}

/// The templates that make a backtracking search quadratic; each byte is in one piece, and a piece
/// is all that is looked at for it, so that the work is the sum of the pieces.
#[test]
fn hostile_templates_are_read_once() {
    let size = 256 << 10;
    for unit in ["{", "}", "{ ", "{}", "{a", "{a{", "${", "{a?", "{{a}", "a", "{\u{3000}"] {
        let template = unit.repeat(size / unit.len());
        let mut at = 0;
        for (text, _) in pieces(&template) {
            assert!(!text.is_empty(), "{unit} at {at}");
            at += text.len();
            // A run that is left half read would be read again for each of its braces.
            let end = template.as_bytes().get(at - 1..=at);
            assert!(!matches!(end, Some(b"{{" | b"}}")), "{unit} at {at}");
        }
        assert_eq!(at, template.len());
    }
    assert_eq!(pieces(&"{".repeat(size)).count(), 1);
    assert_eq!(pieces(&"{ {".repeat(2)).count(), 3);
}

/// Python's `(?<![\$\{\\]){+[^{}]*}+`, tried at every position as a regular expression would.
fn reference_render(template: &str, state: &HashMap<String, Json>) -> Result<String, Vec<String>> {
    let chars: Vec<char> = template.chars().collect();
    let span = |from: usize, wanted: fn(char) -> bool| {
        chars[from..].iter().take_while(|c| wanted(**c)).count() + from
    };
    let (mut text, mut missing, mut at) = (String::new(), Vec::new(), 0);
    while at < chars.len() {
        let guarded = at > 0 && ['$', '{', '\\'].contains(&chars[at - 1]);
        let name = span(at, |c| c == '{');
        let closing = span(name, |c| c != '{' && c != '}');
        let end = span(closing, |c| c == '}');
        if guarded || name == at || end == closing {
            text.push(chars[at]);
            at += 1;
            continue;
        }
        let whole: String = chars[at..end].iter().collect();
        at = end;
        let inside = whole.trim_start_matches('{').trim_end_matches('}').trim();
        let key = inside.strip_suffix('?').unwrap_or(inside);
        let parts: Vec<&str> = key.split(':').collect();
        let name = match parts[..] {
            [name] => name,
            ["app" | "user" | "temp", name] => name,
            _ => "",
        };
        let head = |c: char| c.is_alphabetic() || c == '_';
        let valid = name.starts_with(head)
            && name.chars().all(|c| head(c) || c.is_ascii_digit() || c == '.')
            && !key.starts_with("artifact.");
        match state.get(key) {
            _ if !valid => text.push_str(&whole),
            Some(value) => match serde_json::from_str(value.as_str()).unwrap() {
                serde_json::Value::Null => {}
                serde_json::Value::String(string) => text.push_str(&string),
                _ => text.push_str(value.as_str()),
            },
            None if inside.ends_with('?') => {}
            None if missing.iter().any(|known| known == key) => {}
            None => missing.push(key.to_owned()),
        }
    }
    if missing.is_empty() { Ok(text) } else { Err(missing) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn renders_like_the_pattern_of_the_frameworks(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "{", "{", "{{", "}", "}", "}}", "$", "\\", " ", "?", "key", "key", "a", ".", "1", "_k",
                ":", "app:", "user:", "nothing", "braces", "artifact", "artifact.", "ß", "-", "{key}",
                "{{ nope? }}", "{nope}", "x",
            ]),
            0..14,
        ),
    ) {
        let template = parts.concat();
        let expected = reference_render(&template, &state()).map_err(Error::MissingStateKey);
        prop_assert_eq!(rendered(&template), expected, "{}", template);
    }

    #[test]
    fn without_values_nothing_but_references_goes(template in "[{}$\\\\ a?:.ä\n]{0,30}") {
        let gone: Vec<String> = keys(&template).into_iter().map(str::to_owned).collect();
        match render(&template, ENOUGH, |_| None) {
            Ok(text) if gone.is_empty() => prop_assert_eq!(text, template),
            Ok(text) => prop_assert!(text.len() < template.len()),
            Err(Error::MissingStateKey(missing)) => {
                prop_assert!(missing.iter().all(|key| gone.contains(key)));
            }
            Err(fault) => prop_assert!(false, "{:?}", fault),
        }
    }
}
