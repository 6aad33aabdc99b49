//! The connection to the server, and the generated clients over it.

use std::time::Duration;

use clap::Args;
use tonic::transport::{Channel, Endpoint};

use super::failure::{Failure, root_cause};
use crate::proto::v1::{
    event_service_client::EventServiceClient, session_service_client::SessionServiceClient,
    state_service_client::StateServiceClient, watch_service_client::WatchServiceClient,
};

const HEADING: &str = "Connection";
const DEFAULT_TIMEOUT_SECS: u64 = 30;
const DEFAULT_SERVER: &str = "http://127.0.0.1:50051";
/// A server on this machine or nearby accepts within milliseconds.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Far above the 4 MiB of a server's largest answer.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// Interval of the pings that tell a quiet watch from a lost server.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Args)]
pub struct ConnectArgs {
    /// Address of the server: HOST:PORT, http://HOST:PORT or unix:/PATH.
    #[arg(long, env = "SESSIOND_SERVER", default_value = DEFAULT_SERVER, value_name = "ADDRESS", global = true, help_heading = HEADING, value_parser = parse_address)]
    pub server: String,
    /// Timeout of a call in seconds; 0: none. Does not end a watch.
    #[arg(long, env = "SESSIOND_TIMEOUT", default_value_t = DEFAULT_TIMEOUT_SECS, value_name = "SECONDS", global = true, help_heading = HEADING)]
    pub timeout: u64,
}

/// Returns the form that the transport takes, `http://…` or `unix:…`. An empty text is the default, as in
/// `SESSIOND_SERVER=`.
fn parse_address(text: &str) -> Result<String, String> {
    let wrong =
        |fault| Err(format!("`{text}` {fault}. Write HOST:PORT, http://HOST:PORT or unix:/PATH"));
    if text.is_empty() {
        return Ok(DEFAULT_SERVER.to_owned());
    }
    if let Some(path) = text.strip_prefix("unix:") {
        let is_empty = path.trim_start_matches('/').is_empty();
        return if is_empty { wrong("has no path") } else { Ok(text.to_owned()) };
    }
    if text.starts_with("https://") {
        return wrong("needs TLS, which the client does not support");
    }
    let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let Ok(endpoint) = Endpoint::from_shared(url.clone()) else {
        return wrong("is not an address");
    };
    let uri = endpoint.uri();
    if uri.scheme_str() != Some("http") || uri.host().is_none_or(str::is_empty) {
        return wrong("is not an address");
    }
    if uri.port_u16().is_none() { wrong("has no port") } else { Ok(url) }
}

#[derive(Debug, Clone)]
pub struct Server {
    channel: Channel,
}

impl Server {
    /// Connects for unary calls, which `--timeout` bounds.
    pub async fn connect(args: &ConnectArgs) -> Result<Self, Failure> {
        Self::connect_with(args, |endpoint| match args.timeout {
            0 => endpoint,
            seconds => endpoint.timeout(Duration::from_secs(seconds)),
        })
        .await
    }

    /// Connects for streams, which last.
    pub async fn connect_for_streams(args: &ConnectArgs) -> Result<Self, Failure> {
        let pings = |endpoint: Endpoint| {
            endpoint.http2_keep_alive_interval(KEEP_ALIVE).keep_alive_while_idle(true)
        };
        Self::connect_with(args, pings).await
    }

    async fn connect_with(
        args: &ConnectArgs,
        settings: impl FnOnce(Endpoint) -> Endpoint,
    ) -> Result<Self, Failure> {
        let connect = async {
            let endpoint = Endpoint::from_shared(args.server.clone())?;
            settings(endpoint.connect_timeout(CONNECT_TIMEOUT)).connect().await
        };
        let channel = connect.await.map_err(|error| {
            let cause = root_cause(&error);
            let server = &args.server;
            Failure::Failed(format!(
                "cannot connect to {server}: {cause}. Start the server there, or pass --server"
            ))
        })?;
        Ok(Self { channel })
    }

    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    pub fn sessions(&self) -> SessionServiceClient<Channel> {
        SessionServiceClient::new(self.channel()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    pub fn events(&self) -> EventServiceClient<Channel> {
        EventServiceClient::new(self.channel()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    pub fn state(&self) -> StateServiceClient<Channel> {
        StateServiceClient::new(self.channel()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    pub fn watch(&self) -> WatchServiceClient<Channel> {
        WatchServiceClient::new(self.channel()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_an_address_is_understood() {
        for (text, address) in [
            ("localhost:50051", "http://localhost:50051"),
            ("127.0.0.1:1", "http://127.0.0.1:1"),
            ("[::1]:50051", "http://[::1]:50051"),
            ("http://db.internal:80", "http://db.internal:80"),
            ("unix:/run/s.sock", "unix:/run/s.sock"),
            ("unix:///run/s.sock", "unix:///run/s.sock"),
            ("", DEFAULT_SERVER),
        ] {
            let parsed = parse_address(text);
            assert_eq!(parsed.as_deref(), Ok(address));
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_forms_that_are() {
        for text in [
            "localhost",
            "https://h:1",
            "unix:",
            "unix://",
            "ftp://h:1",
            ":1",
            "a b:1",
            "h:99999999",
        ] {
            let error = parse_address(text).unwrap_err();
            assert!(error.contains("HOST:PORT"), "{text}: {error}");
        }
    }

    #[tokio::test]
    async fn a_connection_that_fails_is_one_sentence_with_the_address() {
        let dir = tempfile::tempdir().unwrap();
        let path = format!("unix:{}", dir.path().join("none.sock").display());
        let args = ConnectArgs { server: path.clone(), timeout: 1 };
        let text = Server::connect(&args).await.unwrap_err().text();
        assert!(text.starts_with(&format!("cannot connect to {path}: ")), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}
