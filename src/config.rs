//! The settings of `sessiond serve`: flags, each with an environment variable.

mod http;

use std::{num::NonZeroU32, path::PathBuf, str::FromStr, time::Duration};

use clap::{
    Args, ValueEnum,
    builder::{BoolishValueParser, NonEmptyStringValueParser},
};

pub use http::{HttpArgs, HttpListen};

use crate::{
    files::FileMode,
    store::{LimitOptions, postgres::PostgresSettings},
};

/// Runs the server until SIGTERM or SIGINT.
#[derive(Args, Clone, Debug)]
#[command(
    args_override_self = true,
    after_help = "Examples:
  sessiond serve
  sessiond serve --listen unix:/run/sessiond.sock \\
      --store sqlite:/var/lib/sessiond/sessiond.db
  sessiond serve --store memory:                      # stores nothing on disk
  sessiond serve --store postgres://sessiond@db/sessiond    # one of many replicas

Exit codes: 0 clean shutdown, 1 failed to start or to shut down in time, 2
usage error."
)]
pub struct Config {
    /// Address to listen on: HOST:PORT (port 0 takes a free one) or unix:PATH
    #[arg(
        long,
        env = "SESSIOND_LISTEN",
        default_value = "127.0.0.1:50051",
        value_name = "ADDRESS"
    )]
    pub listen: Listen,

    #[command(flatten)]
    pub store: StoreArgs,

    /// Address of the admin listener, HOST:PORT or unix:PATH, which needs TLS beyond loopback: /livez, /readyz, /version, /metrics and /log over HTTP
    #[arg(long, env = "SESSIOND_ADMIN_LISTEN", value_name = "ADDRESS")]
    pub admin_listen: Option<Listen>,

    /// Let the admin listener be plain HTTP beyond loopback, for probes and scrapes; PUT /log is refused then
    #[arg(long, env = "SESSIOND_ADMIN_INSECURE", requires = "admin_listen", value_parser = BoolishValueParser::new())]
    pub admin_insecure: bool,

    /// Number of applications whose appends are counted each for itself in the metrics, all others together
    #[arg(long, env = "SESSIOND_METRICS_APPLICATIONS", default_value_t = 0, value_name = "COUNT",
          value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub metrics_applications: u16,

    /// Verify a SQLite file before serving it, and refuse to serve a damaged one
    #[arg(long, env = "SESSIOND_VERIFY", value_parser = BoolishValueParser::new())]
    pub verify: bool,

    /// Mode of the files that are made, in octal: 0640 lets their group read. A file that is there keeps its own
    #[arg(long, env = "SESSIOND_FILE_MODE", default_value_t, value_name = "MODE")]
    pub file_mode: FileMode,

    /// Mode of the files of Unix sockets, in octal: 0660 lets their group connect
    #[arg(long, env = "SESSIOND_SOCKET_MODE", default_value_t, value_name = "MODE")]
    pub socket_mode: FileMode,

    /// Listen beyond loopback without TLS: everything crosses the network as plain text, and without tokens every client can read and write everything
    #[arg(long, env = "SESSIOND_INSECURE", value_parser = BoolishValueParser::new())]
    pub insecure: bool,

    /// Refuse session ids without application and user, which are otherwise looked up among the sessions that the caller may read; the default with a policy
    #[arg(long, env = "SESSIOND_REQUIRE_FULL_KEYS", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "BOOL", value_parser = BoolishValueParser::new())]
    pub require_full_keys: Option<bool>,

    /// Serve no reflection, through which tools read the contract
    #[arg(long, env = "SESSIOND_NO_REFLECTION", value_parser = BoolishValueParser::new())]
    pub no_reflection: bool,

    /// Shutdown timeout in seconds
    #[arg(long, env = "SESSIOND_DRAIN_TIMEOUT", default_value_t = 30, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub drain_timeout: u64,

    /// Maximum number of open connections, fewer if the limit of open files is too low
    #[arg(long, env = "SESSIOND_MAX_CONNECTIONS", default_value_t = 2_000, value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_connections: u32,

    /// Maximum size of all buffered requests and of responses that clients have not read, in bytes, at least 301989888 (288 MiB)
    #[arg(long, env = "SESSIOND_MAX_BUFFER_BYTES", default_value_t = 384 * 1024 * 1024, value_name = "BYTES",
          value_parser = clap::value_parser!(u64).range(288 * 1024 * 1024..=1024 * 1024 * 1024 * 1024))]
    pub max_buffer_bytes: u64,

    /// Maximum number of open watches
    #[arg(long, env = "SESSIOND_MAX_WATCHES", default_value_t = 10_000, value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_watches: u32,

    /// Maximum number of invocations with temp: state
    #[arg(long, env = "SESSIOND_MAX_INVOCATIONS", default_value_t = 10_000, value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_invocations: u32,

    /// Maximum size of an invocation's temp: state in bytes
    #[arg(long, env = "SESSIOND_MAX_TEMP_BYTES", default_value_t = 1024 * 1024, value_name = "BYTES",
          value_parser = clap::value_parser!(u32).range(1..=16 * 1024 * 1024))]
    pub max_temp_bytes: u32,

    /// Seconds after which an unused invocation's temp: state is dropped
    #[arg(long, env = "SESSIOND_TEMP_IDLE", default_value_t = 3600, value_name = "SECONDS",
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub temp_idle: u32,

    /// Number of threads, or connections to PostgreSQL, that read from the store
    #[arg(long, env = "SESSIOND_READERS", default_value_t = 2, value_name = "COUNT",
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub readers: u16,

    /// Crash at this point of a commit; for tests of durability
    #[arg(long, env = "SESSIOND_CRASH_POINT", hide = true, value_name = "POINT:COMMIT")]
    pub crash_point: Option<String>,

    /// Format of the log on standard error
    #[arg(long, env = "SESSIOND_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,

    /// Log each call: method, request id, principal, address, code, duration and bytes, and nothing of its content
    #[arg(long, env = "SESSIOND_LOG_CALLS", value_parser = BoolishValueParser::new())]
    pub log_calls: bool,

    /// Log filter: a level of sessiond's lines (error, warn, info, debug, trace; those of libraries stop at info), or a list like warn,h2=debug
    #[arg(long, env = "SESSIOND_LOG", default_value = "info", value_name = "FILTER")]
    pub log: String,

    // Behind the flags above, which would otherwise stand under the heading of the one before them.
    #[command(flatten)]
    pub tls: TlsArgs,

    #[command(flatten)]
    pub http: HttpArgs,

    #[command(flatten)]
    pub identity: IdentityArgs,

    #[command(flatten)]
    pub limits: LimitArgs,

    #[command(flatten)]
    pub postgres: PostgresArgs,
}

impl Config {
    /// Whether callers show a certificate. TLS is for TCP alone.
    pub fn asks_certificates(&self) -> bool {
        self.tls.tls_client_ca.is_some() && matches!(self.listen, Listen::Tcp(_))
    }

    /// Whether session ids without application and user are refused. How long a look-up takes tells whether others have the id, so a
    /// policy, which keeps callers apart, refuses them unless the flag says otherwise.
    pub fn requires_full_keys(&self) -> bool {
        self.require_full_keys.unwrap_or(self.identity.policy.is_some())
    }

    /// Whether anything says who a caller is.
    pub fn identifies(&self) -> bool {
        self.takes_tokens() || self.identity.unix_peers || self.asks_certificates()
    }

    /// Whether callers may show a token.
    pub fn takes_tokens(&self) -> bool {
        self.identity.token_hashes.is_some() || self.identity.jwt_keys.is_some()
    }
}

/// The store of `serve`, and of `migrate`.
#[derive(Args, Clone, Debug)]
pub struct StoreArgs {
    /// Store: sqlite:PATH, postgres://USER@HOST/DATABASE or memory:
    // The variable's value may have a password, which a help text would show.
    #[arg(
        long = "store",
        env = "SESSIOND_STORE",
        hide_env_values = true,
        default_value = "sqlite:sessiond.db",
        value_name = "URL"
    )]
    pub url: String,
}

/// TLS of a TCP address.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "TLS")]
pub struct TlsArgs {
    /// PEM file with the server's certificate, and those that lead to its authority
    #[arg(long, env = "SESSIOND_TLS_CERT", value_name = "PATH", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// PEM file with the certificate's private key
    #[arg(long, env = "SESSIOND_TLS_KEY", value_name = "PATH", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// PEM file with the authorities of client certificates: every client must show one (mutual TLS)
    #[arg(long, env = "SESSIOND_TLS_CLIENT_CA", value_name = "PATH", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,

    /// Interval in seconds at which the files of TLS, tokens, JWT keys and the policy are read again
    #[arg(long, env = "SESSIOND_RELOAD_INTERVAL", default_value_t = 10, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub reload_interval: u64,
}

/// Limits of each caller and each application, so that the flood of one leaves capacity for the others. Each replica counts for itself.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Appends a second by each caller
    #[arg(long, env = "SESSIOND_MAX_APPENDS_PER_PRINCIPAL", value_name = "COUNT", value_parser = limit)]
    pub max_appends_per_principal: Option<NonZeroU32>,

    /// Appends a second to each application
    #[arg(long, env = "SESSIOND_MAX_APPENDS_PER_APPLICATION", value_name = "COUNT", value_parser = limit)]
    pub max_appends_per_application: Option<NonZeroU32>,

    /// Open watches of each caller
    #[arg(long, env = "SESSIOND_MAX_WATCHES_PER_PRINCIPAL", value_name = "COUNT", value_parser = limit)]
    pub max_watches_per_principal: Option<NonZeroU32>,

    /// Open watches of each application
    #[arg(long, env = "SESSIOND_MAX_WATCHES_PER_APPLICATION", value_name = "COUNT", value_parser = limit)]
    pub max_watches_per_application: Option<NonZeroU32>,
}

fn limit(text: &str) -> Result<NonZeroU32, &'static str> {
    text.parse()
        .map_err(|_| "a limit is a whole number from 1; without the flag nothing is limited")
}

impl LimitArgs {
    pub fn options(&self) -> LimitOptions {
        LimitOptions {
            principal_appends: self.max_appends_per_principal,
            application_appends: self.max_appends_per_application,
            principal_watches: self.max_watches_per_principal,
            application_watches: self.max_watches_per_application,
        }
    }
}

/// Identities of callers, and their rights. Without any of these settings, and without client certificates, every caller may do everything.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Identity")]
pub struct IdentityArgs {
    /// TOML file with the hashes of bearer tokens, as `sessiond token hash` prints them
    #[arg(long, env = "SESSIOND_TOKEN_HASHES", value_name = "PATH")]
    pub token_hashes: Option<PathBuf>,

    /// JWKS or PEM file with the public keys of JWTs: RS256, ES256 or EdDSA
    #[arg(long, env = "SESSIOND_JWT_KEYS", value_name = "PATH", requires_all = ["jwt_issuer", "jwt_audience"])]
    pub jwt_keys: Option<PathBuf>,

    /// Issuer (iss) that a JWT must have
    #[arg(long, env = "SESSIOND_JWT_ISSUER", value_name = "NAME", requires = "jwt_keys", value_parser = NonEmptyStringValueParser::new())]
    pub jwt_issuer: Option<String>,

    /// Audience (aud) that a JWT must name
    #[arg(long, env = "SESSIOND_JWT_AUDIENCE", value_name = "NAME", requires = "jwt_keys", value_parser = NonEmptyStringValueParser::new())]
    pub jwt_audience: Option<String>,

    /// Callers of a Unix socket are identified by the user id of their process
    #[arg(long, env = "SESSIOND_UNIX_PEERS", value_parser = BoolishValueParser::new())]
    pub unix_peers: bool,

    /// TOML file that says what each caller may do; without it every caller may do everything
    #[arg(long, env = "SESSIOND_POLICY", value_name = "PATH")]
    pub policy: Option<PathBuf>,
}

/// What only a store on PostgreSQL has.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "PostgreSQL")]
pub struct PostgresArgs {
    /// File with the password, if the URL has none
    #[arg(long, env = "SESSIOND_POSTGRES_PASSWORD_FILE", value_name = "PATH")]
    pub postgres_password_file: Option<PathBuf>,

    /// Number of connections that write
    #[arg(long, env = "SESSIOND_POSTGRES_WRITERS", default_value_t = 4, value_name = "COUNT",
          value_parser = clap::value_parser!(u16).range(1..=64))]
    pub postgres_writers: u16,

    /// Seconds after which the database ends a statement
    #[arg(long, env = "SESSIOND_POSTGRES_STATEMENT_TIMEOUT", default_value_t = 3,
          value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=600))]
    pub postgres_statement_timeout: u64,

    /// URL of the database for the one connection that listens, past a pooler
    #[arg(long, env = "SESSIOND_POSTGRES_LISTEN_URL", value_name = "URL")]
    pub postgres_listen_url: Option<String>,

    /// Prepare no statement: for a pooler in transaction mode
    #[arg(long, env = "SESSIOND_POSTGRES_UNNAMED_STATEMENTS", value_parser = BoolishValueParser::new())]
    pub postgres_unnamed_statements: bool,
}

impl PostgresArgs {
    pub fn settings(&self) -> PostgresSettings {
        PostgresSettings {
            password_file: self.postgres_password_file.clone(),
            listen_url: self.postgres_listen_url.clone(),
            writers: self.postgres_writers.into(),
            statement_timeout: Duration::from_secs(self.postgres_statement_timeout),
            unnamed_statements: self.postgres_unnamed_statements,
            partitions: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object per line.
    Json,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// HOST:PORT.
    Tcp(String),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err(
                    "the socket has no path. Pass unix:PATH, as in unix:/run/sessiond.sock".into(),
                );
            }
            return Ok(Self::Unix(path.into()));
        }
        let port = text.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>()));
        match port {
            Some((host, Ok(_))) if !host.is_empty() => Ok(Self::Tcp(text.to_owned())),
            _ => Err("not an address. Pass HOST:PORT, as in 127.0.0.1:50051, or unix:PATH".into()),
        }
    }
}

#[cfg(test)]
mod tests;
