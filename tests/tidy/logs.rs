//! The log as JSON has each key once, and no value in the form of Rust's `Debug`.

use crate::{Violation, source::Source};

/// Macros of statements that log.
const MACROS: [&str; 5] = ["trace", "debug", "info", "warn", "error"];

/// Keys of every record.
const TAKEN: [&str; 6] = ["message", "level", "target", "timestamp", "span", "spans"];

/// Fields that have the name of another key, and those that are written in the form of `Debug`.
pub fn fields(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    for (at, token) in source.idents() {
        let logs = MACROS.contains(&&*token.text) && source.text(at + 1) == "!";
        if logs && source.text(at + 2) == "(" {
            check(source, at + 3, &mut found);
        }
    }
    found
}

/// Checks the fields of a statement, whose arguments begin at a token.
fn check(source: &Source, begin: usize, found: &mut Vec<Violation>) {
    let (mut depth, mut names, mut is_first) = (0_usize, Vec::new(), true);
    for at in begin..source.tokens.len() {
        let (token, next) = (&source.tokens[at], source.text(at + 1));
        let mut add = |says: &str| {
            found.push(Violation::new(
                &source.path,
                token.line,
                format!("`{}`: {says}", token.text),
            ));
        };
        match &*token.text {
            ")" if depth == 0 => return,
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            "," if depth == 0 => {
                is_first = true;
                continue;
            }
            "?" if depth == 0 && (is_first || source.text(at - 1) == "=") => {
                add("log the text of a value, `%value`, or a name");
            }
            "?" | "%" if depth == 0 && is_first => continue,
            // `target: "…"` is no field.
            name if depth == 0
                && is_first
                && matches!(next, "=" | "," | ")")
                && source.is_ident(at) =>
            {
                if TAKEN.contains(&name) {
                    add("every record has this key already");
                }
                if names.contains(&name.to_owned()) {
                    add("the record has this key twice");
                }
                names.push(name.to_owned());
            }
            _ => {}
        }
        is_first = false;
    }
}

#[test]
fn keys_that_are_taken_and_debug_forms_are_seen() {
    for text in [
        "fn f() { error!(message, \"x\") }",
        "fn f() { tracing::warn!(a = 1, message = text, \"x\") }",
        "fn f() { info!(level = 1, \"x\") }",
        "fn f() { info!(a, %target, \"x\") }",
        "fn f() { debug!(timestamp = now(), \"x\") }",
        "fn f() { error!(?error, \"x\") }",
        "fn f() { error!(a = f(1, 2), b = ?error, \"x\") }",
        "fn f() { error!(a = 1, a = 2, \"x\") }",
    ] {
        assert_eq!(fields(&Source::parse("src/a.rs", text)).len(), 1, "{text}");
    }
    for text in [
        "fn f() { error!(error, \"x\") }",
        "fn f() { info!(target: \"sessiond::calls\", %id, a = b.c(?d, message), \"message\") }",
        "fn f() { info!(path = %a.display(), part = g()?, \"x {message}\") }",
        "fn f() { error!(\"{text}\") }",
        "fn error(message: &str) {}",
    ] {
        assert_eq!(fields(&Source::parse("src/a.rs", text)), [], "{text}");
    }
}
