//! How the client finds the server: its address, the connection, the generated clients.

use std::{fmt, str::FromStr, time::Duration};

use clap::Args;
use tonic::transport::{Channel, Endpoint};

use super::failure::{Failure, root_cause};
use crate::proto::v1::{
    event_service_client::EventServiceClient, session_service_client::SessionServiceClient,
    state_service_client::StateServiceClient, watch_service_client::WatchServiceClient,
};

/// What the client talks to when nobody says otherwise.
const DEFAULT_SERVER: &str = "http://127.0.0.1:50051";
/// A server on this machine or nearby accepts within this or not at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Answers are made to fit 4 MiB; the room above is for servers that are told otherwise.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// A watch may be silent for long: pings tell a quiet server from a lost one.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Which server, and how long to wait for it.
#[derive(Debug, Clone, Args)]
pub struct ConnectArgs {
    /// Where the server listens: HOST:PORT, http://HOST:PORT or unix:/PATH.
    #[arg(
        long,
        env = "SESSIOND_SERVER",
        default_value = DEFAULT_SERVER,
        value_name = "ADDRESS",
        global = true,
        help_heading = "Connection"
    )]
    pub server: ServerAddress,
    /// Give up on a call after so many seconds; 0: never. Does not end a watch.
    #[arg(
        long,
        env = "SESSIOND_TIMEOUT",
        default_value_t = 30,
        value_name = "SECONDS",
        global = true,
        help_heading = "Connection"
    )]
    pub timeout: u64,
}

/// Address of a server, in the form that the transport takes: `http://…` or `unix:…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddress(String);

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ServerAddress {
    type Err = String;

    /// An empty text counts as none, so that `SESSIOND_SERVER=` does no harm.
    fn from_str(text: &str) -> Result<Self, String> {
        const FORMS: &str = "write HOST:PORT, http://HOST:PORT or unix:/PATH";
        if text.is_empty() {
            return Ok(Self(DEFAULT_SERVER.to_owned()));
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.trim_start_matches('/').is_empty() {
                Err(format!("no path after `unix:`; {FORMS}"))
            } else {
                Ok(Self(text.to_owned()))
            };
        }
        if text.starts_with("https://") {
            return Err(format!("this client speaks plain HTTP/2 only; {FORMS}"));
        }
        let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let endpoint = Endpoint::from_shared(url.clone())
            .map_err(|error| format!("{}; {FORMS}", root_cause(&error)))?;
        let uri = endpoint.uri();
        if uri.scheme_str() != Some("http") || uri.host().is_none_or(str::is_empty) {
            return Err(format!("no such kind of address; {FORMS}"));
        }
        if uri.port_u16().is_none() {
            return Err(format!("the port is missing; {FORMS}"));
        }
        Ok(Self(url))
    }
}

/// A connection and the generated clients over it.
#[derive(Debug, Clone)]
pub struct Server {
    channel: Channel,
}

impl Server {
    /// Connects for calls that are answered: each is given up after `--timeout`.
    ///
    /// # Errors
    ///
    /// One sentence that names the address and the cause.
    pub async fn connect(args: &ConnectArgs) -> Result<Self, Failure> {
        let mut endpoint = endpoint(args)?;
        if args.timeout > 0 {
            endpoint = endpoint.timeout(Duration::from_secs(args.timeout));
        }
        Self::over(&endpoint, args).await
    }

    /// Connects for streams that may last.
    ///
    /// # Errors
    ///
    /// As [`Server::connect`].
    pub async fn connect_for_streams(args: &ConnectArgs) -> Result<Self, Failure> {
        let endpoint =
            endpoint(args)?.http2_keep_alive_interval(KEEP_ALIVE).keep_alive_while_idle(true);
        Self::over(&endpoint, args).await
    }

    async fn over(endpoint: &Endpoint, args: &ConnectArgs) -> Result<Self, Failure> {
        let channel = endpoint
            .connect()
            .await
            .map_err(|error| unreachable(&args.server, &root_cause(&error)))?;
        Ok(Self { channel })
    }

    /// The connection itself, for services of other contracts.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// SessionService.
    pub fn sessions(&self) -> SessionServiceClient<Channel> {
        SessionServiceClient::new(self.channel()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// EventService.
    pub fn events(&self) -> EventServiceClient<Channel> {
        EventServiceClient::new(self.channel()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// StateService.
    pub fn state(&self) -> StateServiceClient<Channel> {
        StateServiceClient::new(self.channel()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// WatchService.
    pub fn watch(&self) -> WatchServiceClient<Channel> {
        WatchServiceClient::new(self.channel()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }
}

fn endpoint(args: &ConnectArgs) -> Result<Endpoint, Failure> {
    let endpoint = Endpoint::from_shared(args.server.to_string())
        .map_err(|error| unreachable(&args.server, &root_cause(&error)))?;
    Ok(endpoint.connect_timeout(CONNECT_TIMEOUT))
}

fn unreachable(server: &ServerAddress, cause: &str) -> Failure {
    Failure::Failed(format!("cannot reach a sessiond at {server}: {cause}"))
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
            let parsed = text.parse::<ServerAddress>();
            assert_eq!(parsed.map(|a| a.to_string()).as_deref(), Ok(address));
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
            let error = text.parse::<ServerAddress>().unwrap_err();
            assert!(error.contains("HOST:PORT"), "{text}: {error}");
        }
    }

    #[tokio::test]
    async fn a_connection_that_fails_is_one_sentence_with_the_address() {
        let dir = tempfile::tempdir().unwrap();
        let path = format!("unix:{}", dir.path().join("none.sock").display());
        let args = ConnectArgs { server: path.parse().unwrap(), timeout: 1 };
        let text = Server::connect(&args).await.unwrap_err().text();
        assert!(text.starts_with(&format!("cannot reach a sessiond at {path}: ")), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}
