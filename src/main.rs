//! The `sessiond` program: parse arguments, start, exit code.

use std::{
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
    time::Duration,
};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::Shell;
use mimalloc::MiMalloc;
use sessiond::{
    cli,
    config::{Config, LogFormat},
    logging, offline,
    server::{self, Running},
    store,
};
use tokio::{
    runtime::Runtime,
    signal::unix::{SignalKind, signal},
};

/// A call makes some two hundred short-lived allocations, and many are freed on another thread.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The default of `serve` and of the client.
const DEFAULT_ADDRESS: &str = "127.0.0.1:50051";

/// Time in which tasks let go of their sockets. A store that is still being opened or closed is not waited for: what it has committed is
/// durable.
const LETTING_GO: Duration = Duration::from_secs(1);

/// Keeps the sessions, events and scoped state of AI agents, and speaks gRPC.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true)]
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
    /// Print a shell completion script
    #[command(after_help = "Examples:
  sessiond completions bash > \\
      ~/.local/share/bash-completion/completions/sessiond
  sessiond completions zsh > ~/.zfunc/_sessiond
  sessiond completions fish > ~/.config/fish/completions/sessiond.fish")]
    Completions { shell: Shell },
    #[command(flatten)]
    Offline(offline::Command),
}

fn main() -> ExitCode {
    let parsed = Program::command().term_width(help_width()).try_get_matches();
    let command = match parsed.and_then(|matches| Program::from_arg_matches(&matches)) {
        Ok(program) => program.command,
        Err(mut error) => {
            #[expect(clippy::disallowed_methods, reason = "a tip names an option that is missing")]
            let arguments = std::env::args_os();
            cli::suggest(&mut error, &Program::command(), arguments);
            error.exit()
        }
    };
    let runtime = match Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("failed to start the async runtime: {error}")),
    };
    let code = match command {
        Command::Serve(config) => {
            runtime.block_on(serve(&config)).unwrap_or_else(|text| fail(&text))
        }
        Command::Client(command) => runtime.block_on(cli::run(command)),
        Command::Completions { shell } => complete(shell),
        Command::Offline(command) => {
            runtime.block_on(offline::run(&command)).unwrap_or_else(|text| fail(&text))
        }
    };
    runtime.shutdown_timeout(LETTING_GO);
    code
}

/// The terminal's width, within which the examples of the help are not broken.
fn help_width() -> usize {
    terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0).clamp(80, 100))
}

fn complete(shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    let mut command = cli::with_hints(Program::command());
    clap_complete::generate(shell, &mut command, "sessiond", &mut script);
    match io::stdout().write_all(&script) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => fail(&error.to_string()),
        _ => ExitCode::SUCCESS,
    }
}

async fn serve(config: &Config) -> Result<ExitCode, String> {
    logging::init(config)?;
    let listen = |kind| signal(kind).map_err(|error| format!("failed to handle signals: {error}"));
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    tokio::pin!(stop);
    // The store may take long to open, or for ever: a database that does not answer.
    let started = tokio::select! {
        biased;
        started = server::start(config) => started,
        () = &mut stop => {
            tracing::info!("stopped while the store was being opened");
            return Ok(ExitCode::SUCCESS);
        }
    };
    let running = match started {
        Ok(running) => running,
        Err(text) if config.log_format == LogFormat::Json => {
            tracing::error!("{text}");
            return Ok(ExitCode::FAILURE);
        }
        Err(text) => return Err(text),
    };
    greet(&running, config);
    let drained = running.serve_until(stop).await;
    Ok(if drained { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints the address, the store and what to try: one command, on a terminal three that build on each other. A closed
/// standard output does not stop the server.
fn greet(running: &Running, config: &Config) {
    let (address, store) = (running.address(), store::public_url(&config.store.url));
    // grpcurl takes the path of a socket without a scheme, and would send it as the authority, which HTTP/2 rejects.
    let (security, place) = match (address.strip_prefix("unix:"), address.strip_prefix("https://"))
    {
        (Some(path), _) => ("-plaintext -unix -authority localhost", path),
        (_, Some(host)) if config.asks_certificates() => {
            ("-cacert ca.pem -cert client.pem -key client.key", host)
        }
        (_, Some(host)) => ("-cacert ca.pem", host),
        _ => ("-plaintext", address),
    };
    // A client with a certificate needs no token.
    let token = match config.takes_tokens() && !config.asks_certificates() {
        true => " -rpc-header \"authorization: Bearer $(cat token)\"",
        false => "",
    };
    let mut out = io::stdout().lock();
    let text = format!("sessiond listens on {address} and stores in {store}\n");
    let text = text
        // With TLS or tokens the lines would need the names of files and of the host in the certificate.
        + &if out.is_terminal() && !address.starts_with("https://") && token.is_empty() {
            let server = match address {
                DEFAULT_ADDRESS => String::new(),
                _ => format!(" --server {address}"),
            };
            format!(
                "Try these one after the other (Ctrl-C stops the server):\n\
             grpcurl {security} -d '{{\"app_name\":\"my_app\",\"user_id\":\"alice\",\"session_id\":\"first\",\"allow_existing\":true}}' {place} sessiond.v1.SessionService/CreateSession\n\
             sessiond event append{server} --session first --author user --body '{{\"content\":{{\"role\":\"user\",\"parts\":[{{\"text\":\"Hello\"}}]}}}}' --set topic='\"greeting\"'\n\
             python3 -c 'import asyncio; from sessiond_adk import SessiondSessionService as S; print(asyncio.run(S(\"{address}\").get_session(app_name=\"my_app\", user_id=\"alice\", session_id=\"first\")))'\n"
            )
        } else {
            format!(
                "try: grpcurl {security}{token} -d '{{\"app_name\":\"my_app\",\"user_id\":\"alice\",\"state\":{{\"app:theme\":\"dark\"}}}}' {place} sessiond.v1.SessionService/CreateSession\n"
            )
        };
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn fail(message: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "sessiond: {message}");
    ExitCode::FAILURE
}
