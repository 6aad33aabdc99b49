//! What `sessiond serve` can be told, by flags or by environment variables.

use std::{fmt, path::PathBuf, str::FromStr};

use clap::{Args, ValueEnum, builder::BoolishValueParser};

/// Runs the server until it is told to stop (SIGTERM or SIGINT).
#[derive(Args, Clone, Debug)]
#[command(
    args_override_self = true,
    after_help = "Examples:
  sessiond serve
  sessiond serve --listen unix:/run/sessiond.sock --store sqlite:/var/lib/sessiond/sessiond.db
  sessiond serve --store memory:                      # forgets everything when it stops

Exit codes: 0 stopped as asked, 1 could not start or could not stop in time, 2 usage."
)]
pub struct Config {
    /// Where to listen: HOST:PORT (port 0: a free one) or unix:PATH
    #[arg(
        long,
        env = "SESSIOND_LISTEN",
        default_value = "127.0.0.1:50051",
        value_name = "ADDRESS"
    )]
    pub listen: Listen,

    /// Where to keep everything: sqlite:PATH or memory:
    #[arg(long, env = "SESSIOND_STORE", default_value = "sqlite:sessiond.db", value_name = "URL")]
    pub store: String,

    /// Listen beyond loopback without transport security: whoever reaches the port reads and writes everything
    #[arg(long, env = "SESSIOND_INSECURE", value_parser = BoolishValueParser::new())]
    pub insecure: bool,

    /// Refuse session ids without application and user, which are otherwise looked up among all sessions
    #[arg(long, env = "SESSIOND_REQUIRE_FULL_KEYS", value_parser = BoolishValueParser::new())]
    pub require_full_keys: bool,

    /// Seconds to finish what is under way when told to stop
    #[arg(long, env = "SESSIOND_DRAIN_TIMEOUT", default_value_t = 30, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub drain_timeout: u64,

    /// Watches at the same time
    #[arg(long, env = "SESSIOND_MAX_WATCHES", default_value_t = 10_000, value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_watches: u32,

    /// Invocations whose temp: state is held at the same time
    #[arg(long, env = "SESSIOND_MAX_INVOCATIONS", default_value_t = 10_000, value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_invocations: u32,

    /// Bytes of one invocation's temp: state
    #[arg(long, env = "SESSIOND_MAX_TEMP_BYTES", default_value_t = 1024 * 1024, value_name = "BYTES",
          value_parser = clap::value_parser!(u32).range(1..=16 * 1024 * 1024))]
    pub max_temp_bytes: u32,

    /// Seconds without use after which an invocation's temp: state is dropped
    #[arg(long, env = "SESSIOND_TEMP_IDLE", default_value_t = 3600, value_name = "SECONDS",
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub temp_idle: u32,

    /// Threads that read from the store at the same time
    #[arg(long, env = "SESSIOND_READERS", default_value_t = 2, value_name = "COUNT",
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub readers: u16,

    /// Stop hard at this point of a commit; for tests of what survives
    #[arg(long, env = "SESSIOND_CRASH_POINT", hide = true, value_name = "POINT:COMMIT")]
    pub crash_point: Option<String>,

    /// How the log on standard error is written
    #[arg(long, env = "SESSIOND_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,

    /// What is logged: a level (error, warn, info, debug, trace), or a list like warn,sessiond=debug
    #[arg(long, env = "SESSIOND_LOG", default_value = "info", value_name = "FILTER")]
    pub log: String,
}

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// A line for people.
    Text,
    /// A JSON object a line.
    Json,
}

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A host name or address, and a port.
    Tcp(String),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err("give the path of the socket, as in unix:/run/sessiond.sock".into());
            }
            return Ok(Self::Unix(path.into()));
        }
        let port = text.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>()));
        match port {
            Some((host, Ok(_))) if !host.is_empty() => Ok(Self::Tcp(text.to_owned())),
            _ => Err("give HOST:PORT, as in 127.0.0.1:50051, or unix:PATH".into()),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        config: Config,
    }

    #[test]
    fn the_defaults_are_loopback_and_an_embedded_file() {
        let config = Program::parse_from(["serve"]).config;
        assert_eq!(config.listen, Listen::Tcp("127.0.0.1:50051".into()));
        assert_eq!(config.store, "sqlite:sessiond.db");
        assert!(!config.insecure);
    }

    #[test]
    fn an_address_that_is_none_is_refused_with_an_example() {
        for text in ["", "localhost", ":50051", "localhost:http", "unix:"] {
            let error = text.parse::<Listen>().unwrap_err();
            assert!(error.contains("as in"), "{text}: {error}");
        }
        assert_eq!("[::1]:0".parse(), Ok(Listen::Tcp("[::1]:0".into())));
        assert_eq!("unix:a b".parse(), Ok(Listen::Unix("a b".into())));
    }

    #[test]
    fn every_flag_has_an_environment_variable() {
        use clap::CommandFactory as _;
        for argument in Program::command().get_arguments() {
            let long = argument.get_long().unwrap_or_default();
            if long == "help" {
                continue;
            }
            let variable = format!("SESSIOND_{}", long.to_uppercase().replace('-', "_"));
            assert_eq!(argument.get_env().and_then(|name| name.to_str()), Some(&*variable));
        }
    }
}
