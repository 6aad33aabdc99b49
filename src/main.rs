//! The `sessiond` program: parse arguments, start, exit code.

use std::{
    ffi::OsString,
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
#[command(version = concat!(env!("CARGO_PKG_VERSION"), env!("COMMIT_SUFFIX")), propagate_version = true)]
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
    for variable in unknown_variables() {
        tracing::warn!(variable, "no flag has this environment variable, so it is ignored");
    }
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

/// Prints the address and the store, and on a terminal what to try. Beside a log of JSON a collector reads nothing but JSON: the log has
/// the address as well. A closed standard output does not stop the server.
fn greet(running: &Running, config: &Config) {
    let mut out = io::stdout().lock();
    let is_terminal = out.is_terminal();
    if !is_terminal && config.log_format == LogFormat::Json {
        return;
    }
    let (address, store) = (running.address(), store::public_url(&config.store.url));
    let mut text = format!("sessiond listens on {address} and stores in {store}\n");
    if let Some(page) =
        running.http_address().and_then(page).filter(|_| is_terminal && cfg!(feature = "inspector"))
    {
        text += &format!("The inspector is at {page}\n");
    }
    if is_terminal {
        text += "Try these in another terminal (Ctrl-C stops the server):\n";
        text += &to_try(&reachable(address), config);
    }
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// The address by which a client of this machine reaches the server. None reaches `0.0.0.0`, and no certificate names it.
fn reachable(address: &str) -> String {
    let own = |secure: &str| match address.starts_with("https://") {
        true => "localhost".to_owned(),
        false => secure.to_owned(),
    };
    address.replace("0.0.0.0", &own("127.0.0.1")).replace("[::]", &own("[::1]"))
}

/// The page of an HTTP listener, as a browser takes it. `None`: it is on a Unix socket.
fn page(address: &str) -> Option<String> {
    let address = reachable(address);
    match address.starts_with("https://") {
        true => Some(address),
        false => (!address.starts_with("unix:")).then(|| format!("http://{address}")),
    }
}

/// A command in a line each. The names of files are those of docs/access.md.
fn to_try(address: &str, config: &Config) -> String {
    let (is_tls, has_certificate) = (address.starts_with("https://"), config.asks_certificates());
    // A client with a certificate needs no token.
    let has_token = config.takes_tokens() && !has_certificate;
    let mut flags = String::new();
    if address != DEFAULT_ADDRESS {
        flags += &format!(" --server {address}");
    }
    if is_tls {
        flags += " --tls-ca ca.pem";
    }
    if has_certificate {
        flags += " --tls-cert agent.pem --tls-key agent.key";
    }
    if has_token {
        flags += " --token-file ci.token";
    }
    // grpcurl takes the path of a socket without a scheme, and would send it as the authority, which HTTP/2 rejects.
    let (security, place) = match (address.strip_prefix("unix:"), address.strip_prefix("https://"))
    {
        (Some(path), _) => ("-plaintext -unix -authority localhost", path),
        (_, Some(host)) if has_certificate => {
            ("-cacert ca.pem -cert agent.pem -key agent.key", host)
        }
        (_, Some(host)) => ("-cacert ca.pem", host),
        _ => ("-plaintext", address),
    };
    let token = match has_token {
        true => " -H \"authorization: Bearer $(cat ci.token)\"",
        false => "",
    };
    format!(
        "sessiond demo{flags}\n\
         sessiond show --app demo --user alice --session rain-shoes{flags}\n\
         grpcurl {security}{token} -d '{{\"app_name\":\"my_app\",\"user_id\":\"alice\",\"state\":{{\"app:theme\":\"dark\"}}}}' {place} sessiond.v1.SessionService/CreateSession\n"
    )
}

/// The names of environment variables that begin as those of the flags do and that no flag has.
#[expect(clippy::disallowed_methods, reason = "no flag reads a mistyped variable")]
fn unknown_variables() -> Vec<String> {
    fn known(command: &clap::Command, names: &mut Vec<OsString>) {
        names.extend(command.get_arguments().filter_map(|it| Some(it.get_env()?.to_owned())));
        command.get_subcommands().for_each(|command| known(command, names));
    }
    let mut names = Vec::new();
    known(&Program::command(), &mut names);
    let set = std::env::vars_os().filter_map(|(name, _)| match names.contains(&name) {
        true => None,
        false => name.into_string().ok(),
    });
    let mut unknown: Vec<_> = set.filter(|name| is_ours(name)).collect();
    unknown.sort();
    unknown
}

/// Whether a variable is meant for this program. Kubernetes sets some about a service of this name, and the tests have their own.
fn is_ours(name: &str) -> bool {
    name.strip_prefix("SESSIOND_").is_some_and(|rest| {
        let first = rest.split('_').next().unwrap_or_default();
        !["SERVICE", "PORT", "TEST"].contains(&first)
    })
}

fn fail(message: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "sessiond: {message}");
    ExitCode::FAILURE
}
