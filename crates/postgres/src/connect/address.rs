//! Where the database is: its URL, parsed once, with the password, and connections to it.

use std::{
    env,
    error::Error as _,
    ffi::OsString,
    fmt, fs,
    future::poll_fn,
    io,
    net::IpAddr,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use percent_encoding::percent_decode_str;
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_postgres::{
    AsyncMessage, Client, Config, Error,
    config::{Host, SslMode},
};
use tokio_postgres_rustls::MakeRustlsConnect;
use tracing::warn;

use super::tls::{Mode, Parameters, Reach, TlsError};

/// Parameters that the URL can change. A server that is there answers within a second, and the next of several hosts is to be tried soon.
/// A host that vanished without a word is noticed within half a minute.
const DEFAULTS: &str = "application_name=sessiond&connect_timeout=2&tcp_user_timeout=30&keepalives_idle=15&keepalives_interval=5&keepalives_retries=3";

/// Time that a server which is there may take for TLS and for the password.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// The address of a database. Neither `Display` nor `Debug` shows the password.
#[derive(Clone)]
pub(in super::super) struct Address {
    /// The URL without the password.
    public: String,
    config: Config,
    tls: MakeRustlsConnect,
    password_file: Option<PathBuf>,
}

/// Why an address cannot be used: a whole sentence that says what to do. No part of the URL that can hold the password is in it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("The store is not the URL of a PostgreSQL database. Write {FORM}.")]
    NotAnAddress,
    #[error(
        "The URL of the database has a second '@'. Write '@' in a user, a password or a parameter as %40."
    )]
    SecondAt,
    #[error(
        "The URL of the database names no host. Write {FORM}, or ?host=PATH for the folder of a Unix socket."
    )]
    NoHost,
    #[error("The URL of the database cannot be read: {0}. Write {FORM}?NAME=VALUE&NAME=VALUE.")]
    Invalid(String),
    #[error("The password is both in the URL and in a file. Remove one of them.")]
    TwoPasswords,
    #[error("The password file '{path}' cannot be read ({cause}). Make it readable for this user.")]
    PasswordFile { path: PathBuf, cause: String },
    #[error(transparent)]
    Tls(#[from] TlsError),
}

const FORM: &str = "postgres://USER@HOST:PORT/DATABASE";

impl Address {
    /// Reads a URL. The password is the URL's, the file's or that of the environment variable PGPASSWORD. The file is read again for
    /// each connection, so that the password can be changed.
    #[expect(
        clippy::disallowed_methods,
        reason = "libpq's variable: flags can be seen by all users of a machine, so no flag takes a password"
    )]
    pub(in super::super) fn parse(
        url: &str,
        password_file: Option<&Path>,
    ) -> Result<Self, AddressError> {
        Self::parse_in(url, password_file, env::var_os("PGPASSWORD"))
    }

    fn parse_in(
        url: &str,
        password_file: Option<&Path>,
        pgpassword: Option<OsString>,
    ) -> Result<Self, AddressError> {
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        let schemes = ["postgres", "postgresql"];
        let Some((scheme, rest)) = place.split_once("://").filter(|it| schemes.contains(&it.0))
        else {
            return Err(AddressError::NotAnAddress);
        };
        // The driver takes the first one for the end of the password, and the rest of it for a host.
        if place.matches('@').count() > 1 || query.contains('@') {
            return Err(AddressError::SecondAt);
        }
        let (mut tls, mut parameters) = (Parameters::default(), DEFAULTS.to_owned());
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let no_value = || AddressError::Invalid("a parameter has no value".to_owned());
            let (name, value) = parameter.split_once('=').ok_or_else(no_value)?;
            let value = percent_decode_str(value).decode_utf8();
            let value = value.map_err(|error| AddressError::Invalid(error.to_string()))?;
            if !tls.set(name, &value)? {
                parameters += &format!("&{parameter}");
            }
        }
        let mut config: Config = format!("{place}?{parameters}")
            .parse()
            .map_err(|error: Error| AddressError::Invalid(cause(&error)))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(AddressError::NoHost);
        }
        let password = match (config.get_password(), password_file) {
            (Some(_), Some(_)) => return Err(AddressError::TwoPasswords),
            (Some(_), None) => None,
            (None, Some(path)) => Some(read_password(path).map_err(|error| {
                AddressError::PasswordFile { path: path.into(), cause: error.to_string() }
            })?),
            (None, None) => pgpassword.map(OsString::into_vec),
        };
        if let Some(password) = password {
            config.password(password);
        }
        let mode = tls.mode(reach(&config));
        config.ssl_mode(match mode {
            Mode::Disable => SslMode::Disable,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        });
        let tls = tls.connector(mode)?;
        let password_file = password_file.map(Path::to_owned);
        Ok(Self { public: public(scheme, rest, query), config, tls, password_file })
    }

    /// Time that connecting may take: as long as each of the hosts may stay silent, with a name for two of its addresses.
    pub(in super::super) fn connecting(&self) -> Duration {
        let hosts = self.config.get_hosts().len().max(self.config.get_hostaddrs().len());
        let addresses = u32::try_from(2 * hosts).unwrap_or(u32::MAX);
        let silent = self.config.get_connect_timeout().copied().unwrap_or_default();
        HANDSHAKE.saturating_add(silent.saturating_mul(addresses))
    }

    /// What to connect with now.
    fn current(&self) -> Config {
        let mut config = self.config.clone();
        match self.password_file.as_deref().map(read_password).transpose() {
            Ok(password) => drop(password.map(|it| config.password(it))),
            Err(error) => warn!(%error, "the password file cannot be read any more"),
        }
        config
    }

    /// Connects. The task ends when the client was dropped and the database has been told. The payloads of notifications go to
    /// `notifications` as far as it has space, and it is dropped when the connection ends.
    pub(in super::super) async fn connect(
        &self,
        notifications: Option<mpsc::Sender<String>>,
    ) -> Result<(Client, JoinHandle<()>), Error> {
        let (client, mut connection) = self.current().connect(self.tls.clone()).await?;
        let driver = tokio::spawn(async move {
            // Its client sees an error as well.
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                if let (AsyncMessage::Notification(it), Some(sender)) = (message, &notifications) {
                    let _ = sender.try_send(it.payload().to_owned());
                }
            }
        });
        Ok((client, driver))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.public)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

/// How far the connection goes.
fn reach(config: &Config) -> Reach {
    let is_loopback = |host: &Host| match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|it: IpAddr| it.is_loopback())
        }
        Host::Unix(_) => true,
    };
    let (hosts, addresses) = (config.get_hosts(), config.get_hostaddrs());
    // A host's address takes the place of its name.
    match addresses.is_empty() {
        true if hosts.iter().all(|host| matches!(host, Host::Unix(_))) => Reach::Socket,
        true if hosts.iter().all(is_loopback) => Reach::Loopback,
        false if addresses.iter().all(IpAddr::is_loopback) => Reach::Loopback,
        _ => Reach::Network,
    }
}

/// The user, the hosts and the database.
fn public(scheme: &str, rest: &str, query: &str) -> String {
    let (login, place) = rest.split_once('@').unwrap_or(("", rest));
    let user = login.split(':').next().filter(|user| !user.is_empty());
    let user = user.map(|user| format!("{user}@")).unwrap_or_default();
    let hosts =
        query.split('&').filter(|it| it.starts_with("host=") || it.starts_with("hostaddr="));
    let hosts = hosts.collect::<Vec<_>>().join("&");
    let separator = if hosts.is_empty() { "" } else { "?" };
    format!("{scheme}://{user}{place}{separator}{hosts}")
}

/// Without the line feed that editors end a file with.
fn read_password(path: &Path) -> io::Result<Vec<u8>> {
    let mut password = fs::read(path)?;
    while matches!(password.last(), Some(b'\n' | b'\r')) {
        password.pop();
    }
    Ok(password)
}

/// What the driver says, without its own beginning.
fn cause(error: &Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests;
