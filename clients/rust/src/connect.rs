//! Connecting: the settings of a service, and the ways to make one.

use std::{path::Path, time::Duration};

use adk_core::Result;
use tonic::transport::Channel;

use crate::{
    channels::Channels,
    credentials::CredentialFiles,
    endpoint::{Settings, parse},
    health::wait_until_ready,
    metadata::CallMetadata,
    policy::{CallPolicy, Retry},
    service::SessiondSessionService,
};

impl SessiondSessionService {
    /// Connects to `HOST:PORT`, `unix:PATH`, `sessiond://HOST:PORT`, `sessiond:///PATH`, `http://HOST:PORT` or `https://HOST:PORT` (TLS),
    /// and waits until the server is ready to serve. The port is 50051 unless the address names one. A URI may set `timeout` (in seconds),
    /// `attempts`, `first_delay` and `max_delay`: `sessiond://127.0.0.1:50051?timeout=5`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a bad address, `Unavailable` or `Timeout` if no server gets ready there.
    pub async fn connect(address: impl Into<String>) -> Result<Self> {
        Self::builder(address).connect().await
    }

    /// Connects with the first call. Needs a Tokio runtime around it.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a bad address.
    pub fn connect_lazy(address: impl Into<String>) -> Result<Self> {
        Self::builder(address).connect_lazy()
    }

    /// Settings other than the defaults.
    pub fn builder(address: impl Into<String>) -> Builder {
        let files = CredentialFiles::default();
        Builder { address: address.into(), deadline: None, retry: None, files }
    }
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
    deadline: Option<Duration>,
    retry: Option<Retry>,
    files: CredentialFiles,
}

impl Builder {
    /// The longest that one call to the server takes, its retries included; 15 seconds by default, or 3 seconds as long as nothing
    /// listens at an address of this machine. A method of the service may
    /// make several calls, for example when a session's events do not fit into one answer. Wins over the address.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// When and how often failed calls are repeated. Wins over the address.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// PEM file with the authority of the server's certificate, for an `https` address. By default the environment variable
    /// `SESSIOND_TLS_CA` names it, and otherwise the authorities of the system are trusted.
    pub fn tls_ca(mut self, path: impl AsRef<Path>) -> Self {
        self.files.set_ca(path.as_ref());
        self
    }

    /// PEM files with the client's certificate and its key, for a server that asks for one. By default the environment variables
    /// `SESSIOND_CLIENT_TLS_CERT` and `SESSIOND_CLIENT_TLS_KEY` name them.
    pub fn client_certificate(
        mut self,
        certificate: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Self {
        self.files.set_client_certificate(certificate.as_ref(), key.as_ref());
        self
    }

    /// File with a token that is sent with every call and watch. It is read again when it changes. Without TLS the address must be a
    /// loopback address or a Unix socket. By default the environment variable `SESSIOND_TOKEN_FILE` names it.
    pub fn token_file(mut self, path: impl AsRef<Path>) -> Self {
        self.files.set_token(path.as_ref());
        self
    }

    /// Connects, and waits until the server is ready to serve, within the deadline and the attempts.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a bad address or file, `Unavailable` or `Timeout` if no server gets ready there.
    pub async fn connect(self) -> Result<SessiondSessionService> {
        let service = self.connect_lazy()?;
        wait_until_ready(&service.caller).await?;
        Ok(service)
    }

    /// Connects with the first call, which reports it if the server is unreachable. Needs a Tokio runtime around it.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a bad address or file.
    pub fn connect_lazy(self) -> Result<SessiondSessionService> {
        let address = parse(&self.address)?;
        let policy = self.policy(&address.settings, address.is_local());
        let files = self.files.or_environment(std::env::var_os);
        let metadata = CallMetadata::new(files.token_file(&address)?);
        let channels = Channels::to(files.endpoint(&address)?);
        Ok(SessiondSessionService::new(channels, policy, metadata))
    }

    /// Uses an existing channel, for example through a proxy. The address is not read, nor its settings, nor files and the environment.
    ///
    /// The service cannot open another channel, so its calls and watches share the 256 streams that a server allows on a connection,
    /// and what exceeds them waits. For more than 200 watches, make a service with a channel of its own for each 200 of them.
    pub fn with_channel(self, channel: Channel) -> SessiondSessionService {
        let policy = self.policy(&Settings::default(), false);
        SessiondSessionService::new(Channels::of_caller(channel), policy, CallMetadata::default())
    }

    fn policy(&self, settings: &Settings, is_local: bool) -> CallPolicy {
        let default = Retry::default();
        let retry = Retry {
            attempts: settings.attempts.unwrap_or(default.attempts),
            first_pause: settings.first_delay.unwrap_or(default.first_pause),
            longest_pause: settings.max_delay.unwrap_or(default.longest_pause),
        };
        CallPolicy::new(self.deadline.or(settings.timeout), self.retry.unwrap_or(retry), is_local)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_an_address_are_defaults() {
        let address = "sessiond://h:1?timeout=2.5&attempts=3&first_delay=0.2&max_delay=4";
        let policy =
            |builder: &Builder| builder.policy(&parse(&builder.address).unwrap().settings, true);
        let builder = SessiondSessionService::builder(address);
        let set = policy(&builder);
        assert_eq!(set.deadline, Duration::from_millis(2500));
        let (first_pause, longest_pause) = (Duration::from_millis(200), Duration::from_secs(4));
        assert_eq!(set.retry, Retry { attempts: 3, first_pause, longest_pause });

        let won = policy(&builder.deadline(Duration::from_secs(9)).retry(Retry::default()));
        assert_eq!((won.deadline, won.retry), (Duration::from_secs(9), Retry::default()));

        let plain = policy(&SessiondSessionService::builder("h:1"));
        assert_eq!(plain.deadline, Duration::from_secs(15), "as in the other adapters");
        assert_eq!(plain.absence, Duration::from_secs(3));
        assert_eq!(set.absence, Duration::from_millis(2500));
        let remote = SessiondSessionService::builder("h:1").policy(&Settings::default(), false);
        assert_eq!(remote.absence, Duration::from_secs(15));
    }
}
