//! The tip of a misplaced subcommand: `sessiond append` is told of `event append`, and `sessiond session watch` of `watch`.

use clap::{
    Command,
    error::{ContextKind, ContextValue, Error},
};

/// Adds to the error of an unknown subcommand those of this name elsewhere. They take the place of those that are spelt similarly.
pub fn suggest(error: &mut Error, program: &Command) {
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
