//! The `sessiond` program: parse arguments, start, exit code.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::{Parser, Subcommand};
use mimalloc::MiMalloc;
use sessiond::{
    cli,
    config::Config,
    server::{self, Running},
    telemetry,
};
use tokio::{runtime::Runtime, signal::unix};

/// A call makes some two hundred short-lived allocations, many of them freed by another thread than made them.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Keeps the sessions, events and scoped state of AI agents, and speaks gRPC.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, max_term_width = 100)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one of these in a process")]
enum Command {
    /// Run the server until it is told to stop
    Serve(Box<Config>),
    #[command(flatten)]
    Client(cli::Command),
}

fn main() -> ExitCode {
    let command = Program::parse().command;
    let runtime = match Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("The machine gave no threads to run on: {error}.")),
    };
    match command {
        Command::Serve(config) => runtime.block_on(serve(&config)),
        Command::Client(command) => runtime.block_on(cli::run(command)),
    }
}

async fn serve(config: &Config) -> ExitCode {
    if let Err(sentence) = telemetry::init(config) {
        return fail(&sentence);
    }
    // From here on a signal drains; it must not kill a server that is just opening its store.
    let (mut terminate, mut interrupt) = match signals() {
        Ok(signals) => signals,
        Err(error) => return fail(&format!("Signals cannot be received here: {error}.")),
    };
    let running = match server::start(config).await {
        Ok(running) => running,
        Err(error) => return fail(&error.to_string()),
    };
    greet(&running, &config.store);
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    if running.serve_until(stop).await { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn signals() -> io::Result<(unix::Signal, unix::Signal)> {
    use unix::{SignalKind, signal};
    Ok((signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?))
}

/// Says where it listens, what it stores in, and a line to try. A closed standard output is no reason not to serve.
fn greet(running: &Running, store: &str) {
    let address = running.address();
    // grpcurl takes the path of a socket without what marks it as one, and would send it as the name of the host, which is none.
    let (unix, place) = match address.strip_prefix("unix:") {
        Some(path) => ("-unix -authority localhost ", path),
        None => ("", address),
    };
    let text = format!(
        "sessiond listens on {address} and stores in {store}\n\
         try: grpcurl -plaintext {unix}-d '{{\"app_name\":\"my_app\",\"user_id\":\"alice\",\"state\":{{\"app:theme\":\"dark\"}}}}' {place} sessiond.v1.SessionService/CreateSession\n"
    );
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn fail(sentence: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "sessiond: {sentence}");
    ExitCode::FAILURE
}
