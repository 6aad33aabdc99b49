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
use tokio::{
    runtime::Runtime,
    signal::unix::{SignalKind, signal},
};

/// A call makes some two hundred short-lived allocations, and many are freed on another thread.
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
    /// Run the server until SIGTERM or SIGINT
    Serve(Box<Config>),
    #[command(flatten)]
    Client(cli::Command),
}

fn main() -> ExitCode {
    let command = Program::parse().command;
    let runtime = match Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("failed to start the async runtime: {error}")),
    };
    match command {
        Command::Serve(config) => {
            runtime.block_on(serve(&config)).unwrap_or_else(|text| fail(&text))
        }
        Command::Client(command) => runtime.block_on(cli::run(command)),
    }
}

async fn serve(config: &Config) -> Result<ExitCode, String> {
    telemetry::init(config)?;
    // From here on a signal drains, so that it does not kill a server that is opening its store.
    let listen = |kind| signal(kind).map_err(|error| format!("failed to handle signals: {error}"));
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    let running = server::start(config).await?;
    greet(&running, &config.store);
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    let drained = running.serve_until(stop).await;
    Ok(if drained { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints the address, the store and a command to try. A closed standard output does not stop the server.
fn greet(running: &Running, store: &str) {
    let address = running.address();
    // grpcurl takes the path of a socket without a scheme, and would send it as the authority, which HTTP/2 rejects.
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

fn fail(message: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "sessiond: {message}");
    ExitCode::FAILURE
}
