//! Tips of errors. A misplaced subcommand: `sessiond append` is told of `event append`, and `sessiond session watch` of `watch`. A name
//! without its option: `sessiond session get s1` is told of `--session`.

use std::ffi::OsString;

use clap::{
    Command,
    builder::StyledStr,
    error::{ContextKind, ContextValue, Error, ErrorKind},
};

/// Adds a tip to an error of these arguments, if there is one.
pub fn suggest(error: &mut Error, program: &Command, arguments: impl Iterator<Item = OsString>) {
    suggest_subcommands(error, program);
    suggest_option(error, arguments);
}

/// For an argument without an option, the options that the usage asks for and that were not given.
fn suggest_option(error: &mut Error, arguments: impl Iterator<Item = OsString>) {
    if error.kind() != ErrorKind::UnknownArgument {
        return;
    }
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg).cloned() else {
        return;
    };
    let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) else { return };
    if argument.starts_with('-') {
        // That a name may begin so is true, and not what was meant.
        error.remove(ContextKind::Suggested);
        return;
    }
    let given: Vec<String> = arguments.map(|it| it.to_string_lossy().into_owned()).collect();
    let is_given = |option: &str| given.iter().any(|it| it.split('=').next() == Some(option));
    let usage = usage.to_string();
    let words: Vec<&str> = usage.split_whitespace().collect();
    let is_missing = |words: &&[&str]| words[0].starts_with("--") && !is_given(words[0]);
    let missing = words.windows(2).filter(is_missing).map(|words| words.join(" "));
    let missing = missing.collect::<Vec<_>>().join(", ");
    if missing.is_empty() {
        return;
    }
    let tip = format!("a name goes after its option: {missing}");
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
}

/// For an unknown subcommand, those of this name elsewhere. They take the place of those that are spelt similarly.
fn suggest_subcommands(error: &mut Error, program: &Command) {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    let mut found = Vec::new();
    let is_named = |it: &&Command| it.get_name() == name;
    found.extend(program.get_subcommands().filter(is_named).map(|_| name.clone()));
    for group in program.get_subcommands() {
        found.extend(
            group
                .get_subcommands()
                .filter(is_named)
                .map(|_| format!("{} {name}", group.get_name())),
        );
    }
    if !found.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(found));
    }
}
