//! Connecting: the settings of a service, and the ways to make one.

use std::time::Duration;

use adk_core::Result;
use tonic::transport::Channel;

use crate::{
    endpoint::endpoint,
    health::wait_until_ready,
    policy::{CallPolicy, Retry},
    service::SessiondSessionService,
};

impl SessiondSessionService {
    /// Connects to `HOST:PORT`, `http://HOST:PORT` or `unix:PATH`, and waits until the server is ready to serve.
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
        Builder { address: address.into(), policy: CallPolicy::default() }
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
    policy: CallPolicy,
}

impl Builder {
    /// The longest that one call to the server takes, its retries included; 30 seconds by default. A method of the service may
    /// make several calls, for example when a session's events do not fit into one answer.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.policy.deadline = deadline;
        self
    }

    /// When and how often failed calls are repeated.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.policy.retry = retry;
        self
    }

    /// Connects, and waits until the server is ready to serve, within the deadline and the attempts.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a bad address, `Unavailable` or `Timeout` if no server gets ready there.
    pub async fn connect(self) -> Result<SessiondSessionService> {
        let service = self.connect_lazy()?;
        wait_until_ready(&service.caller).await?;
        Ok(service)
    }

    /// Connects with the first call, which reports it if the server is unreachable. Needs a Tokio runtime around it.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a bad address.
    pub fn connect_lazy(self) -> Result<SessiondSessionService> {
        let channel = endpoint(&self.address)?.connect_lazy();
        Ok(SessiondSessionService::new(channel, self.policy))
    }

    /// Uses an existing channel, for example with TLS or through a proxy.
    pub fn with_channel(self, channel: Channel) -> SessiondSessionService {
        SessiondSessionService::new(channel, self.policy)
    }
}
