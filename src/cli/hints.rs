//! What a shell offers after an option: files where a file is meant, and nothing where a name is, which no shell can know.

use clap::{Command, ValueHint};

/// The command with a hint on each of its arguments. Those that are paths have one by their type.
pub fn with_hints(command: Command) -> Command {
    let hinted = command.mut_args(|argument| {
        let is_name =
            argument.get_action().takes_values() && argument.get_value_hint() == ValueHint::Unknown;
        if is_name { argument.value_hint(ValueHint::Other) } else { argument }
    });
    hinted.mut_subcommands(with_hints)
}
