//! No unwrap without a reason, no unfinished code, no sleep in tests.

use crate::{Violation, source::Source};

/// Marks the sleep of the one helper that polls, on the same line or above it.
const POLL: &str = "// Bounded poll:";

fn violation(source: &Source, at: usize, says: &str) -> Violation {
    let token = &source.tokens[at];
    Violation::new(&source.path, token.line, format!("`{}`: {says}", token.text))
}

/// `.unwrap()`, `.expect(…)` and their like outside of tests, where no attribute gives a reason.
pub fn unwraps(source: &Source) -> Vec<Violation> {
    let mut excused = source.test_code();
    for attribute in source.attributes() {
        let words: Vec<_> = attribute.inside.clone().map(|at| source.text(at)).collect();
        let lint = words.contains(&"unwrap_used") || words.contains(&"expect_used");
        if words[..].first() == Some(&"expect") && lint && words.contains(&"reason") {
            excused.push(attribute.covers);
        }
    }
    let calls = source.idents().filter(|(at, token)| {
        let named = matches!(&*token.text, "unwrap" | "expect" | "unwrap_err" | "expect_err");
        let called = source.text(at + 1) == "(" && *at > 0 && source.text(at - 1) == ".";
        // As a function, `Option::unwrap`; in lints the word is `unwrap_used`.
        let passed = *at > 0 && source.text(at - 1) == "::";
        named && (called || passed)
    });
    calls
        .filter(|(at, _)| !excused.iter().any(|range| range.contains(at)))
        .map(|(at, _)| violation(source, at, "handle it, or give #[expect(…, reason = …)]"))
        .collect()
}

/// Macros and statuses of unfinished code.
pub fn unfinished(source: &Source) -> Vec<Violation> {
    let later = |at: usize, word: &str| match word {
        "todo" | "dbg" => source.text(at + 1) == "!",
        "unimplemented" => matches!(source.text(at + 1), "!" | "("),
        _ => false,
    };
    let words = source.idents().filter(|(at, token)| later(*at, &token.text));
    words.map(|(at, _)| violation(source, at, "what is here is finished")).collect()
}

/// Sleeps in tests: (those that poll within a bound and say so, the others).
fn sleeping(source: &Source) -> (Vec<usize>, Vec<usize>) {
    let tests = source.test_code();
    let words = source.idents().filter(|(at, token)| {
        let named = matches!(&*token.text, "sleep" | "sleep_until" | "sleep_ms");
        named
            && matches!(source.text(at + 1), "(" | "as")
            && tests.iter().any(|range| range.contains(at))
    });
    words.map(|(at, _)| at).partition(|&at| {
        let line = source.tokens[at].line;
        let around = line.saturating_sub(2)..line;
        source.lines[around].iter().any(|line| line.contains(POLL))
    })
}

/// Sleeps in tests that do not poll.
pub fn sleeps(source: &Source) -> Vec<Violation> {
    let says = "a test waits for what it waits for, never for a time";
    sleeping(source).1.into_iter().map(|at| violation(source, at, says)).collect()
}

/// Sleeps that poll, beyond the first of them: there is one helper for it.
pub fn second_polls(sources: &[Source]) -> Vec<Violation> {
    let polls = sources
        .iter()
        .flat_map(|source| sleeping(source).0.into_iter().map(move |at| (source, at)));
    polls
        .skip(1)
        .map(|(source, at)| violation(source, at, "there is one helper that polls; use it"))
        .collect()
}

#[test]
fn unwraps_are_seen() {
    for text in [
        "fn f() { a.unwrap(); }",
        "fn f() { a\n.expect(\"b\"); }",
        "fn f() { a.map(Option::unwrap); }",
        "fn f() { a.unwrap_err(); }",
        "#[cfg(not(test))] fn f() { a.unwrap() }",
        "#[cfg(test)] mod a {} fn f() { a.unwrap() }",
        "#[cfg(test)] use a::{b}; fn f() { a.unwrap() }",
        "#[expect(clippy::unwrap_used)] fn f() { a.unwrap() }",
        "#[allow(clippy::unwrap_used, reason = \"b\")] fn f() { a.unwrap() }",
        "#[expect(clippy::unwrap_used, reason = \"b\")] fn f() {} fn g() { a.unwrap() }",
        "fn f() { #[expect(clippy::unwrap_used, reason = \"b\")] let a = b.unwrap(); c.unwrap() }",
    ] {
        assert_eq!(unwraps(&Source::parse("src/x.rs", text)).len(), 1, "{text}");
    }
}

#[test]
fn reasons_and_tests_may_unwrap() {
    for text in [
        "#[expect(clippy::unwrap_used, reason = \"b\")] fn f() { a.unwrap() }",
        "#![expect(clippy::expect_used, reason = \"b\")] fn f() { a.expect(\"c\") }",
        "fn f() { #[expect(clippy::unwrap_used, reason = \"b\")] let a = { b }.unwrap(); }",
        "#[expect(clippy::unwrap_used, reason = \"b\")] pub const A: [B; 2] = c.unwrap();",
        "#[cfg(test)] mod tests { fn f() { a.unwrap() } }",
        "#[test] fn f() { a.unwrap() }",
        "fn f() { a.unwrap_or(b); a.unwrap_or_default(); expect(c); } // .unwrap()",
    ] {
        assert_eq!(unwraps(&Source::parse("src/x.rs", text)), [], "{text}");
    }
    assert_eq!(unwraps(&Source::parse("tests/x.rs", "fn f() { a.unwrap() }")), []);
}

#[test]
fn the_unfinished_is_seen() {
    for text in ["todo!()", "f(unimplemented!(\"a\"))", "Status::unimplemented(\"a\")", "dbg!(a)"] {
        assert_eq!(unfinished(&Source::parse("src/x.rs", text)).len(), 1, "{text}");
    }
    let text = "assert_eq!(code, Code::Unimplemented); let todo = unimplemented; \"todo!()\"";
    assert_eq!(unfinished(&Source::parse("tests/x.rs", text)), []);
}

#[test]
fn sleeps_are_seen_in_tests() {
    for text in
        ["sleep(A)", "tokio::time::sleep(A).await", "use a::sleep as nap;", "f(); thread::sleep(A)"]
    {
        assert_eq!(sleeps(&Source::parse("tests/x.rs", text)).len(), 1, "{text}");
        let inside = format!("#[cfg(test)] mod tests {{ {text} }}");
        assert_eq!(sleeps(&Source::parse("src/x.rs", &inside)).len(), 1, "{inside}");
        assert_eq!(sleeps(&Source::parse("src/x.rs", text)), [], "{text}");
    }
    assert_eq!(
        sleeps(&Source::parse("tests/x.rs", "use a::sleep; b.sleepless(); // sleep(A)")),
        []
    );
}

#[test]
fn one_place_may_poll() {
    let poll = |path| Source::parse(path, &format!("{POLL} ends at the deadline.\nsleep(A)"));
    assert_eq!(sleeps(&poll("tests/x.rs")), []);
    assert_eq!(second_polls(&[poll("tests/x.rs")]), []);
    assert_eq!(second_polls(&[poll("tests/x.rs"), poll("tests/y.rs")]).len(), 1);
    let far = Source::parse("tests/x.rs", &format!("{POLL}\n\nsleep(A)"));
    assert_eq!(sleeps(&far).len(), 1);
}
