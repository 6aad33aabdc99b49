//! The client half of the program: every RPC as a command, import and export, benchmarks.

use sessiond_adk_files as adk_file;
mod admin;
mod append;
mod args;
mod bearer;
pub mod bench;
mod calls;
mod connect;
mod convert;
mod delta;
mod demo;
mod doctor;
mod event;
mod export;
mod failure;
mod find;
mod health;
mod hidden;
mod hints;
mod import;
mod message;
mod output;
mod parse;
mod progress;
mod resume;
mod session;
mod show;
mod state;
mod suggest;
mod terminal;
mod time;
mod tls;
mod token;
mod watch;
mod whole_state;

use std::process::ExitCode;

use clap::Subcommand;

pub use bearer::TokenArgs;
use connect::Group;
pub use connect::{ConnectArgs, Server};
pub use failure::{Failure, tell};
pub use hints::with_hints;
pub use output::print;
pub use parse::positive;
pub use progress::progress_bar;
pub use suggest::suggest;
pub use time::parse_seconds;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List applications.
    App(Group<admin::AppAction>),
    /// List the users of an application.
    User(Group<admin::UserAction>),
    /// Create, read, list, update, fork, rewind and delete sessions.
    Session(Group<session::Action>),
    /// Append and list events.
    Event(Group<event::Action>),
    /// Read and update state, and list the changes of a key.
    State(Group<state::Action>),
    /// Show a session as a conversation, live or as of an earlier event.
    Show(show::ShowArgs),
    /// Render a template with a session's state.
    Render(state::RenderArgs),
    /// Watch the changes of a session, a user or an application.
    Watch(watch::WatchArgs),
    /// Create sessions from ADK session files, or from files of `export`.
    Import(import::ImportArgs),
    /// Write sessions, or shared state, into files for ADK or for `import`.
    Export(export::ExportArgs),
    /// Measure the throughput and latency of a running server.
    Bench(bench::BenchArgs),
    /// Check the health of a server.
    Health(health::HealthArgs),
    /// Diagnose problems with a server, its store or the connection.
    Doctor(doctor::DoctorArgs),
    /// Create sample sessions in an application.
    Demo(demo::DemoArgs),
    /// Make bearer tokens for `serve --token-hashes`.
    #[command(subcommand)]
    Token(token::Action),
}

/// Runs a command. Answers go to standard output, as tables on a terminal and as JSON elsewhere. Errors go to standard error.
///
/// Exit codes: 0 success, 1 failure, 2 usage, 3 no connection to the server.
pub async fn run(command: Command) -> ExitCode {
    let (connect, outcome) = match command {
        Command::App(args) => (Some(args.connect.clone()), admin::run_app(args).await),
        Command::User(args) => (Some(args.connect.clone()), admin::run_user(args).await),
        Command::Session(args) => (Some(args.connect.clone()), session::run(args).await),
        Command::Event(args) => (Some(args.connect.clone()), event::run(args).await),
        Command::State(args) => (Some(args.connect.clone()), state::run(args).await),
        Command::Show(args) => (Some(args.connect.clone()), show::run(args).await),
        Command::Render(args) => (Some(args.connect.clone()), state::render(args).await),
        Command::Watch(args) => (Some(args.connect.clone()), watch::run(args).await),
        Command::Import(args) => (Some(args.connect.clone()), import::run(args).await),
        Command::Export(args) => (Some(args.connect.clone()), export::run(args).await),
        // These name no session.
        Command::Bench(args) => (None, bench::run(args).await),
        Command::Health(args) => (None, health::run(args).await),
        Command::Doctor(args) => (None, doctor::run(args).await),
        Command::Demo(args) => (None, demo::run(args).await),
        Command::Token(action) => (None, token::run(action)),
    };
    let Err(failure) = outcome else { return ExitCode::SUCCESS };
    match connect {
        Some(connect) => find::with_close_ids(&connect, failure).await.report(),
        None => failure.report(),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser};
    use prost::Message as _;

    use super::*;
    use crate::proto::DESCRIPTOR_SET;

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
            // Narrower terminals would break longer ones, and they could not be copied.
            let wide = help.lines().find(|line| line.chars().count() > 80);
            assert_eq!(wide, None, "{} has a line of more than 80 columns", command.get_name());
            let help = help.replace("\\\n", " ");
            let lines = help.lines().filter(|line| line.starts_with("  sessiond "));
            examples.extend(lines.map(str::to_owned));
        }
        let mut examples = Vec::new();
        visit(&Program::command(), &mut examples);
        for example in examples {
            // The rest of the line is the shell's.
            let line = example.split(['#', '<', '>', '&', '|']).next().unwrap();
            let words = words(line);
            if let Err(error) = Program::try_parse_from(&words) {
                panic!("{example}\n{error}");
            }
        }
    }

    #[test]
    fn every_rpc_has_a_command() {
        const COMMANDS: [(&str, &[&str]); 20] = [
            ("ListApplications", &["app", "list"]),
            ("ListUsers", &["user", "list"]),
            ("CreateSession", &["session", "create"]),
            ("GetSession", &["session", "get"]),
            ("ListSessions", &["session", "list"]),
            ("UpdateSession", &["session", "update"]),
            ("DeleteSession", &["session", "delete"]),
            ("ForkSession", &["session", "fork"]),
            ("RewindSession", &["session", "rewind"]),
            ("AppendEvent", &["event", "append"]),
            ("AppendEvents", &["event", "append-batch"]),
            ("AppendEventStream", &["event", "append-stream"]),
            ("BatchGetEvents", &["event", "get"]),
            ("ListEvents", &["event", "list"]),
            ("GetState", &["state", "get"]),
            ("UpdateState", &["state", "set"]),
            ("ListKeyChanges", &["state", "history"]),
            ("RenderTemplate", &["render"]),
            ("EndInvocation", &["state", "end-invocation"]),
            ("Watch", &["watch"]),
        ];
        let contract = prost_types::FileDescriptorSet::decode(DESCRIPTOR_SET).unwrap();
        let own = contract.file.iter().filter(|file| file.package() == "sessiond.v1");
        let methods = own.flat_map(|file| &file.service).flat_map(|service| &service.method);
        let methods: Vec<_> = methods.map(|method| method.name()).collect();
        assert!(methods.len() >= COMMANDS.len(), "the methods were found: {methods:?}");
        for method in methods {
            let found = COMMANDS.iter().find(|(name, _)| *name == method);
            let (_, path) = found.unwrap_or_else(|| panic!("{method} has no command"));
            let mut command = Program::command();
            for name in *path {
                let next = command.find_subcommand(name).cloned();
                command = next.unwrap_or_else(|| panic!("no {path:?} for {method}"));
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
