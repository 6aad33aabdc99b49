//! Where the server is, and how patiently it is called.

use std::time::Duration;

use adk_core::Result;
use tonic::transport::{Channel, Endpoint};

use crate::{error, service::SessiondSessionService};

/// How long a connection may take to come about. The server runs beside the agent, so this is generous.
const CONNECT: Duration = Duration::from_secs(5);

/// A connection that says nothing for so long while calls are under way is asked whether it lives, and given up as long after.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// How often, and how patiently, a call is repeated that the server could not be reached for.
///
/// Only UNAVAILABLE is retried, and lost connections, which are the same: nobody can say whether the call was carried out. Every
/// write carries an id that stays the same in all attempts, so it takes effect once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Attempts in all, at least 1, which is: none again.
    pub attempts: u32,
    /// Pause after the first attempt. Each further one is twice as long, and each is shortened at random by up to a half, so that
    /// the clients of a server that comes back do not come all at once.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
}

impl Default for Retry {
    /// Ten attempts in about five seconds, which is longer than a restart of the server takes.
    fn default() -> Self {
        Self {
            attempts: 10,
            first_pause: Duration::from_millis(50),
            longest_pause: Duration::from_secs(1),
        }
    }
}

/// What every call is held to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub deadline: Duration,
    pub retry: Retry,
}

/// Settings of a [`SessiondSessionService`].
///
/// ```no_run
/// # async fn example() -> adk_core::Result<()> {
/// use std::time::Duration;
/// use sessiond_adk::SessiondSessionService;
///
/// let sessions = SessiondSessionService::builder("unix:/run/sessiond.sock")
///     .deadline(Duration::from_secs(5))
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    address: String,
    patience: Patience,
}

impl Builder {
    pub(crate) fn new(address: impl Into<String>) -> Self {
        let patience = Patience { deadline: Duration::from_secs(30), retry: Retry::default() };
        Self { address: address.into(), patience }
    }

    /// The longest that one call to the server takes, its retries included; 30 seconds unless said. A method of the service may
    /// need several calls, as when a session's events do not fit into one answer.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.patience.deadline = deadline;
        self
    }

    /// How often and how patiently calls are repeated.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.patience.retry = retry;
        self
    }

    /// Connects, and waits until the server is ready to serve, within the deadline and the attempts.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an address that is none, `Unavailable` or `Timeout` where nobody is ready there.
    pub async fn connect(self) -> Result<SessiondSessionService> {
        let service = self.connect_lazy()?;
        service.wait_until_ready().await?;
        Ok(service)
    }

    /// Connects with the first call, and says only then when the server cannot be reached. Needs a Tokio runtime around it.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an address that is none.
    pub fn connect_lazy(self) -> Result<SessiondSessionService> {
        let channel = endpoint(&self.address)?.connect_lazy();
        Ok(SessiondSessionService::new(channel, self.patience))
    }

    /// Uses a channel that exists: with transport security, for example, or through a proxy.
    pub fn with_channel(self, channel: Channel) -> SessiondSessionService {
        SessiondSessionService::new(channel, self.patience)
    }
}

fn endpoint(address: &str) -> Result<Endpoint> {
    let uri = uri(address)?;
    let endpoint = Endpoint::from_shared(uri).map_err(|cause| {
        error::invalid("session.bad_address", format!("{address:?} is no address of a server"))
            .with_source(cause)
    })?;
    Ok(endpoint
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE))
}

/// `HOST:PORT`, `http://HOST:PORT` or `unix:PATH`, as tonic wants it.
fn uri(address: &str) -> Result<String> {
    let bad =
        |says: &str| Err(error::invalid("session.bad_address", format!("{address:?} {says}")));
    let authority = match address.split_once("://") {
        _ if address.starts_with("unix:") => {
            let path = address.strip_prefix("unix://").or(address.strip_prefix("unix:"));
            return match path {
                None | Some("") => bad("names no socket: write unix:PATH"),
                Some(path) => Ok(format!("unix:{path}")),
            };
        }
        Some(("https", _)) => {
            return bad(
                "asks for transport security: make a tonic channel with it and use Builder::with_channel",
            );
        }
        Some(("http", authority)) => authority.strip_suffix('/').unwrap_or(authority),
        Some(_) => {
            return bad(
                "is of no scheme known here: write HOST:PORT, http://HOST:PORT or unix:PATH",
            );
        }
        None => address,
    };
    let is_host = |host: &str| {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        // An IPv6 address stands in brackets, as it has colons of its own.
        !host.is_empty()
            && !bare.unwrap_or(host).contains(['/', '?', '#', '@', '[', ']'])
            && (bare.is_some() || !host.contains(':'))
    };
    match authority.rsplit_once(':') {
        Some((host, port)) if is_host(host) && port.parse::<u16>().is_ok() => {
            Ok(format!("http://{authority}"))
        }
        _ => bad("is no HOST:PORT, nor http://HOST:PORT, nor unix:PATH"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_understood() {
        for (address, wanted) in [
            ("127.0.0.1:50051", "http://127.0.0.1:50051"),
            ("http://127.0.0.1:50051", "http://127.0.0.1:50051"),
            ("http://127.0.0.1:50051/", "http://127.0.0.1:50051"),
            ("[::1]:50051", "http://[::1]:50051"),
            ("sessions.internal:80", "http://sessions.internal:80"),
            ("unix:/run/sessiond.sock", "unix:/run/sessiond.sock"),
            ("unix:///run/sessiond.sock", "unix:/run/sessiond.sock"),
            ("unix:here.sock", "unix:here.sock"),
        ] {
            assert_eq!(uri(address).unwrap(), wanted);
            endpoint(address).unwrap();
        }
    }

    #[test]
    fn what_is_no_address_is_invalid_input() {
        for address in [
            "",
            "localhost",
            ":50051",
            "localhost:",
            "localhost:http",
            "http://localhost",
            "unix:",
            "unix://",
            "https://localhost:50051",
            "ftp://localhost:50051",
            "localhost:70000",
            "local host:1",
            "a:1/b:2",
            "::1:50051",
            "me@host:1",
            "host:1?",
            "[]x:1",
            "http://",
        ] {
            let error = endpoint(address).unwrap_err();
            assert_eq!(error.category, adk_core::ErrorCategory::InvalidInput, "{address}");
            assert_eq!(error.code, "session.bad_address", "{address}");
        }
    }
}
