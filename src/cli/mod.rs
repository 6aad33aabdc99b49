//! The client half of the program: every RPC as a command, import and export, benchmarks.

mod adk_file;
mod args;
mod bench;
mod connect;
mod delta;
mod event;
mod export;
mod failure;
mod health;
mod import;
mod message;
mod output;
mod parse;
mod session;
mod state;
mod time;
mod watch;

use std::process::ExitCode;

use clap::Subcommand;

use connect::Group;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create, read, list, update, fork, rewind and delete sessions.
    Session(Group<session::Action>),
    /// Append and list events.
    Event(Group<event::Action>),
    /// Read and update state, and list the changes of a key.
    State(Group<state::Action>),
    /// Render a template with a session's state.
    Render(state::RenderArgs),
    /// Watch the changes of a session, a user or an application.
    Watch(watch::WatchArgs),
    /// Create sessions from ADK session files, or from files of `export`.
    Import(import::ImportArgs),
    /// Write sessions into ADK session files, which `import` restores.
    Export(export::ExportArgs),
    /// Measure the throughput and latency of a running server.
    Bench(bench::BenchArgs),
    /// Check the health of a server.
    Health(health::HealthArgs),
}

/// Runs a command. Answers go to standard output as JSON, errors to standard error.
///
/// Exit codes: 0 success, 1 failure, 2 usage.
pub async fn run(command: Command) -> ExitCode {
    let outcome = match command {
        Command::Session(args) => session::run(args).await,
        Command::Event(args) => event::run(args).await,
        Command::State(args) => state::run(args).await,
        Command::Render(args) => state::render(args).await,
        Command::Watch(args) => watch::run(args).await,
        Command::Import(args) => import::run(args).await,
        Command::Export(args) => export::run(args).await,
        Command::Bench(args) => bench::run(args).await,
        Command::Health(args) => health::run(args).await,
    };
    outcome.map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS)
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
            // The rest of the line is the shell's.
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
