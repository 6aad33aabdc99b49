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
    if let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) {
        let found = places_of(name, program);
        if !found.is_empty() {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(found));
        }
    }
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return };
    if error.kind() != ErrorKind::UnknownArgument {
        return;
    }
    if argument.starts_with('-') {
        // That a name may begin so is true, and not what was meant.
        error.remove(ContextKind::Suggested);
        return;
    }
    let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) else { return };
    let missing = missing_options(&usage.to_string(), arguments);
    if !missing.is_empty() {
        let tip = format!("a name goes after its option: {missing}");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    }
}

/// The options that the usage asks for and that were not given, each with the name of its value.
fn missing_options(usage: &str, arguments: impl Iterator<Item = OsString>) -> String {
    let given: Vec<String> = arguments.map(|it| it.to_string_lossy().into_owned()).collect();
    let is_given = |option: &str| given.iter().any(|it| it.split('=').next() == Some(option));
    let words: Vec<&str> = usage.split_whitespace().collect();
    let is_missing = |words: &&[&str]| words[0].starts_with("--") && !is_given(words[0]);
    let missing = words.windows(2).filter(is_missing).map(|words| words.join(" "));
    missing.collect::<Vec<_>>().join(", ")
}

/// The subcommands of this name, wherever they are.
fn places_of(name: &str, program: &Command) -> Vec<String> {
    let is_here = program.find_subcommand(name).is_some();
    let groups = program.get_subcommands().filter(|it| it.find_subcommand(name).is_some());
    let here = is_here.then(|| name.to_owned()).into_iter();
    here.chain(groups.map(|group| format!("{} {name}", group.get_name()))).collect()
}
