//! The connection to the server, and the generated clients over it.

use std::{
    io::{self, IsTerminal as _},
    time::Duration,
};

use clap::{Args, Subcommand};
use tonic::{
    service::interceptor::InterceptedService,
    transport::{Channel, Uri},
};

use super::{
    args::CONNECTION,
    bearer::{Bearer, TokenArgs},
    failure::{Failure, root_cause},
    output::Format,
    time,
    tls::TlsArgs,
};
use crate::proto::v1::{
    admin_service_client::AdminServiceClient, event_service_client::EventServiceClient,
    session_service_client::SessionServiceClient, state_service_client::StateServiceClient,
    watch_service_client::WatchServiceClient,
};

const DEFAULT_TIMEOUT_SECS: &str = "30";
pub const DEFAULT_SERVER: &str = "http://127.0.0.1:50051";
/// Of an address without one, as in the adapters.
const DEFAULT_PORT: u16 = 50051;
/// A server on this machine or nearby accepts within milliseconds.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Far above the 4 MiB of a server's largest answer.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// Interval of the pings that tell a quiet watch from a lost server.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Args)]
pub struct ConnectArgs {
    /// Address of the server: HOST:PORT, http://HOST:PORT, https://HOST:PORT for TLS, or unix:/PATH. The default port is 50051.
    #[arg(long, env = "SESSIOND_SERVER", default_value = DEFAULT_SERVER, value_name = "ADDRESS", global = true, help_heading = CONNECTION, value_parser = parse_address)]
    pub server: String,
    /// Timeout of a call in seconds, such as 30 or 0.5; 0 disables it. Does not apply to watches.
    #[arg(long, env = "SESSIOND_TIMEOUT", default_value = DEFAULT_TIMEOUT_SECS, value_name = "SECONDS", global = true, help_heading = CONNECTION, value_parser = time::parse_seconds)]
    pub timeout: Duration,
    #[command(flatten)]
    pub tls: TlsArgs,
    #[command(flatten)]
    pub token: TokenArgs,
    /// Output format: json, table or yaml; by default table on a terminal and json otherwise, but text for show, bench and demo.
    #[arg(
        long,
        short,
        env = "SESSIOND_OUTPUT",
        value_enum,
        value_name = "FORMAT",
        global = true,
        help_heading = "Output",
        hide_possible_values = true
    )]
    pub output: Option<Format>,
}

impl ConnectArgs {
    /// By default tables for people and lines for programs.
    pub fn format(&self) -> Format {
        let default = if io::stdout().is_terminal() { Format::Table } else { Format::Json };
        self.output.unwrap_or(default)
    }
}

/// Commands about one subject.
#[derive(Debug, Args)]
pub struct Group<A: Subcommand> {
    #[command(flatten)]
    pub connect: ConnectArgs,
    #[command(subcommand)]
    pub action: A,
}

/// Returns the form that the transport takes, `http://…`, `https://…` or `unix:…`. An empty text is the default, as in
/// `SESSIOND_SERVER=`.
fn parse_address(text: &str) -> Result<String, String> {
    let wrong = || {
        format!(
            "`{text}` is not an address. Write HOST:PORT, http://HOST:PORT, https://HOST:PORT or unix:/PATH"
        )
    };
    if text.is_empty() {
        return Ok(DEFAULT_SERVER.to_owned());
    }
    if let Some(path) = text.strip_prefix("unix:") {
        let has_path = !path.trim_start_matches('/').is_empty();
        return has_path.then(|| text.to_owned()).ok_or_else(wrong);
    }
    let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    match (uri.scheme_str(), uri.host().filter(|host| !host.is_empty()), uri.port_u16()) {
        (Some("http" | "https"), Some(_), Some(_)) => Ok(url),
        // Not `h:` or `h:99999999`.
        (Some(scheme @ ("http" | "https")), Some(host), None)
            if uri.authority().is_some_and(|it| it == host) =>
        {
            Ok(format!("{scheme}://{host}:{DEFAULT_PORT}"))
        }
        _ => Err(wrong()),
    }
}

type Authorized = InterceptedService<Channel, Bearer>;

#[derive(Debug, Clone)]
pub struct Server {
    /// For services that need no credential.
    pub channel: Channel,
    bearer: Bearer,
}

impl Server {
    pub async fn connect(
        ConnectArgs { server, timeout, tls, token, output: _ }: &ConnectArgs,
    ) -> Result<Self, Failure> {
        let endpoint = tls.endpoint(server)?;
        let bearer = token.bearer(server)?;
        let connect = async {
            let endpoint = endpoint
                .connect_timeout(CONNECT_TIMEOUT)
                .http2_keep_alive_interval(KEEP_ALIVE)
                .keep_alive_while_idle(true)
                // Answers to calls that were given up end no connection.
                .http2_max_local_error_reset_streams(None);
            match *timeout {
                Duration::ZERO => endpoint.connect().await,
                timeout => endpoint.timeout(timeout).connect().await,
            }
        };
        let channel = connect.await.map_err(|error| {
            let cause = root_cause(&error);
            let advice = if server.starts_with("https://") {
                "Start it with `sessiond serve --tls-cert`, or check --server, --tls-ca and --tls-cert"
            } else {
                "Start it with `sessiond serve`, or pass --server"
            };
            Failure::Unreachable(format!("cannot connect to {server}: {cause}. {advice}"))
        })?;
        Ok(Self { channel, bearer })
    }

    /// Calls from now on have the token that is in its file now. Returns whether it is another one.
    pub fn renew_token(&mut self) -> Result<bool, Failure> {
        self.bearer.renew()
    }

    fn authorized(&self) -> Authorized {
        InterceptedService::new(self.channel.clone(), self.bearer.clone())
    }

    pub fn sessions(&self) -> SessionServiceClient<Authorized> {
        SessionServiceClient::new(self.authorized()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    pub fn events(&self) -> EventServiceClient<Authorized> {
        EventServiceClient::new(self.authorized()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    pub fn state(&self) -> StateServiceClient<Authorized> {
        StateServiceClient::new(self.authorized()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    pub fn admin(&self) -> AdminServiceClient<Authorized> {
        AdminServiceClient::new(self.authorized()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    pub fn watch(&self) -> WatchServiceClient<Authorized> {
        WatchServiceClient::new(self.authorized()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }
}

#[cfg(test)]
mod tests;
