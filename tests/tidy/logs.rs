//! The log as JSON has each key once, and no value in the form of Rust's `Debug`.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::{assert_none, sources};

/// Macros of statements that log.
const MACROS: [&str; 5] = ["trace", "debug", "info", "warn", "error"];

/// Keys of every record.
const TAKEN: [&str; 6] = ["message", "level", "target", "timestamp", "span", "spans"];

/// The faults in the fields of statements that log, at any depth.
fn wrong_fields(tokens: TokenStream) -> Vec<String> {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let TokenTree::Group(group) = token else { continue };
        found.extend(wrong_fields(group.stream()));
        let before = |back: usize| at.checked_sub(back).map(|at| tokens[at].to_string());
        let logs = before(2).is_some_and(|name| MACROS.contains(&name.as_str()));
        if logs && before(1).as_deref() == Some("!") && group.delimiter() == Delimiter::Parenthesis
        {
            let arguments: Vec<_> = group.stream().into_iter().map(|it| it.to_string()).collect();
            found.extend(wrong_names(&arguments));
        }
    }
    found
}

/// The arguments of one statement as tokens, of which each group is one.
fn wrong_names(arguments: &[String]) -> Vec<String> {
    let (mut names, mut found) = (Vec::new(), Vec::new());
    for argument in arguments.split(|token| token == ",") {
        let shown = argument.strip_prefix(&["%".to_owned()][..]).unwrap_or(argument);
        let is_debug = argument.first().is_some_and(|token| token == "?")
            || argument.windows(2).any(|pair| pair[0] == "=" && pair[1] == "?");
        if is_debug {
            found.push(format!("`{}`: log the text of a value, `%value`", argument.join(" ")));
        }
        // `target: "…"` is no field, and text is the message.
        let ([name] | [name, ..]) = shown else { continue };
        let is_field = shown.len() == 1 || shown[1] == "=";
        if is_field && name.starts_with(char::is_alphabetic) {
            if TAKEN.contains(&name.as_str()) || names.contains(&name) {
                found.push(format!("`{name}`: the record has this key already"));
            }
            names.push(name);
        }
    }
    found
}

#[test]
fn the_log_has_each_key_once_and_no_debug_forms() {
    let sources = sources();
    let ours = sources.iter().filter(|(path, _)| !path.starts_with("clients/"));
    assert_none(ours.flat_map(|(path, text)| {
        let tokens = text.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
        wrong_fields(tokens).into_iter().map(move |says| format!("{path}: {says}"))
    }));
}

#[test]
fn keys_that_are_taken_and_debug_forms_are_seen() {
    for text in [
        "fn f() { error!(message, \"x\") }",
        "fn f() { info!(a, %target, \"x\") }",
        "fn f() { error!(?error, \"x\") }",
        "fn f() { tracing::error!(a = f(1, 2), b = ?error, \"x\") }",
        "fn f() { error!(a = 1, a = 2, \"x\") }",
    ] {
        assert_eq!(wrong_fields(text.parse().unwrap()).len(), 1, "{text}");
    }
    for text in [
        "fn f() { error!(error, \"x\") }",
        "fn f() { info!(target: \"sessiond::calls\", %id, a = b.c(?d, message), \"message\") }",
    ] {
        assert!(wrong_fields(text.parse().unwrap()).is_empty(), "{text}");
    }
}
