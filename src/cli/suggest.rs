//! Tips of errors. A misplaced subcommand: `sessiond append` is told of `event append`, and `sessiond session watch` of `watch`. A name
//! without its option: `sessiond session get s1` is told of `--session s1`.

use std::ffi::OsString;

use clap::{
    Command,
    builder::StyledStr,
    error::{ContextKind, ContextValue, Error},
};

/// Adds a tip to an error of these arguments, if there is one.
pub fn suggest(error: &mut Error, program: &Command, arguments: impl Iterator<Item = OsString>) {
    suggest_subcommands(error, program);
    suggest_option(error, arguments);
}

/// For an argument without an option, the first option that the usage asks for, unless it was given.
fn suggest_option(error: &mut Error, mut arguments: impl Iterator<Item = OsString>) {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return };
    let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) else { return };
    let usage = usage.to_string();
    let option = usage.split_whitespace().find(|word| word.starts_with("--"));
    let Some(option) = option.filter(|_| !argument.starts_with('-')) else { return };
    let is_option = |it: OsString| it.to_string_lossy().split('=').next() == Some(option);
    if !arguments.any(is_option) {
        let tip = StyledStr::from(format!("write it behind its option, '{option} {argument}'"));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
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
