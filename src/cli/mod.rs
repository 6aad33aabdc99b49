//! The client half of the program: every RPC as a command, import and export, a benchmark.
//!
//! Knows the generated client and nothing else of this crate.

mod ambient;
mod args;
mod bench;
mod connect;
mod delta;
mod event;
mod export;
mod failure;
mod health;
mod import;
mod json;
mod kit;
mod output;
mod parse;
mod render;
mod session;
mod state;
mod time;
mod view;
mod watch;

use std::process::ExitCode;

use clap::Subcommand;

use failure::Failure;

/// What the program can be asked to do as a client.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create, read, list, change, fork, rewind and delete sessions.
    Session(session::SessionArgs),
    /// Append events to a session, and list them.
    Event(event::EventArgs),
    /// Read and change state, and see how it came about.
    State(state::StateArgs),
    /// Put a session's state into a template.
    Render(render::RenderArgs),
    /// Follow what changes in a session, a user or an application.
    Watch(watch::WatchArgs),
    /// Make sessions from the files of agent kits, or of `export`.
    Import(import::ImportArgs),
    /// Write sessions into files that agent kits read, and `import` restores.
    Export(export::ExportArgs),
    /// Measure how fast a running server is.
    Bench(bench::BenchArgs),
    /// Ask whether the server takes calls.
    Health(health::HealthArgs),
}

/// Runs a command. Answers go to standard output as JSON, errors to standard error.
///
/// Exit codes: 0 done, 1 refused or failed, 2 a command line that cannot be meant.
pub async fn run(command: Command) -> ExitCode {
    let outcome = dispatch(command).await;
    outcome.map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS)
}

async fn dispatch(command: Command) -> Result<(), Failure> {
    match command {
        Command::Session(args) => session::run(args).await,
        Command::Event(args) => event::run(args).await,
        Command::State(args) => state::run(args).await,
        Command::Render(args) => render::run(args).await,
        Command::Watch(args) => watch::run(args).await,
        Command::Import(args) => import::run(args).await,
        Command::Export(args) => export::run(args).await,
        Command::Bench(args) => bench::run(args).await,
        Command::Health(args) => health::run(args).await,
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(subcommand)]
        command: Command,
    }

    #[test]
    fn the_command_line_is_consistent() {
        Program::command().debug_assert();
    }

    #[test]
    fn every_command_teaches_with_an_example_that_parses() {
        fn visit(command: &clap::Command, examples: &mut Vec<String>) {
            if command.has_subcommands() {
                command.get_subcommands().for_each(|c| visit(c, examples));
                return;
            }
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example"), "{} has no example", command.get_name());
            let help = help.replace("\\\n", " ");
            let lines = help.lines().filter(|line| line.starts_with("  sessiond "));
            examples.extend(lines.map(str::to_owned));
        }
        let mut examples = Vec::new();
        visit(&Program::command(), &mut examples);
        for example in examples {
            // What a shell would make of the rest of the line is not the program's.
            let line = example.split(['#', '>', '&']).next().unwrap();
            let words = words(line);
            if let Err(error) = Program::try_parse_from(&words) {
                panic!("{example}\n{error}");
            }
        }
    }

    /// Splits as a shell does, as far as the examples need it.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut quote = None;
        for letter in line.trim().chars() {
            match (quote, letter) {
                (Some(open), letter) if open == letter => quote = None,
                (None, '\'' | '"') => quote = Some(letter),
                (None, ' ') => words.push(String::new()),
                (_, letter) => words.last_mut().unwrap().push(letter),
            }
        }
        words.retain(|word| !word.is_empty());
        // The files of the examples are not there in a test.
        let file = |word: String| {
            if word.starts_with('@') { "{}".to_owned() } else { word }
        };
        words.into_iter().map(file).collect()
    }
}
