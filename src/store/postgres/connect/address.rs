//! Where the database is: its URL, parsed once, with the password, and connections to it.

use std::{
    env,
    error::Error as _,
    ffi::OsString,
    fmt, fs,
    future::poll_fn,
    io,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_postgres::{
    AsyncMessage, Client, Config, Error,
    config::{Host, SslMode},
    error::SqlState,
};
use tokio_postgres_rustls::MakeRustlsConnect;
use tracing::{debug, warn};

use super::tls::{self, Mode, TlsError};

/// Parameters of the URL that go to the driver.
const DRIVER_PARAMETERS: [&str; 16] = [
    "application_name",
    "channel_binding",
    "connect_timeout",
    "dbname",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "load_balance_hosts",
    "options",
    "password",
    "port",
    "sslnegotiation",
    "target_session_attrs",
    "user",
];

/// What the driver calls `keepalives_retries`.
const KEEPALIVES_COUNT: &str = "keepalives_count";

/// In milliseconds, as libpq has it. The driver reads seconds.
const USER_TIMEOUT: &str = "tcp_user_timeout";

/// Parameters that the URL can change. A server that is there answers within a second, and the next of several hosts is to be tried soon.
/// A host that vanished without a word is noticed within half a minute.
const DEFAULTS: &str = "application_name=sessiond&connect_timeout=2&keepalives_idle=15&keepalives_interval=5&keepalives_retries=3&";

/// The same for a host that vanished while something was sent to it.
const DEFAULT_USER_TIMEOUT: Duration = Duration::from_secs(30);

/// Time that a server which is there may take for TLS and for the password.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// The address of a database. Neither `Display` nor `Debug` shows the password.
#[derive(Clone)]
pub(in super::super) struct Address {
    config: Config,
    tls: MakeRustlsConnect,
    mode: Mode,
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
        "The URL of the database has a parameter without a value. Write it as NAME=VALUE, with a '?' in a password as %3F."
    )]
    NoValue,
    #[error(
        "The URL of the database has the parameter '{name}', which is not known. Known are {known}."
    )]
    UnknownParameter { name: String, known: String },
    #[error("The URL of the database has a {USER_TIMEOUT} that is not a number of milliseconds.")]
    NotMillis,
    #[error(
        "The URL of the database names no host. Write {FORM}, or ?host=PATH for the folder of a Unix socket."
    )]
    NoHost,
    #[error("The URL of the database cannot be read: {0}. Write {FORM}.")]
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
        if !["postgres://", "postgresql://"].iter().any(|scheme| place.starts_with(scheme)) {
            return Err(AddressError::NotAnAddress);
        }
        // The driver takes the first one for the end of the password, and the rest of it for a host.
        if place.matches('@').count() > 1 || query.contains('@') {
            return Err(AddressError::SecondAt);
        }
        let Parameters { driver, tls, user_timeout } = Parameters::parse(query)?;
        let mut config: Config = format!("{place}?{DEFAULTS}{driver}")
            .parse()
            .map_err(|error: Error| AddressError::Invalid(cause(&error)))?;
        let (hosts, addresses) = (config.get_hosts(), config.get_hostaddrs());
        if hosts.is_empty() && addresses.is_empty() {
            return Err(AddressError::NoHost);
        }
        // libpq has no TLS on Unix sockets, whatever the mode.
        let is_local =
            addresses.is_empty() && hosts.iter().all(|host| matches!(host, Host::Unix(_)));
        let tls = if is_local { tls::Parameters::disabled() } else { tls };
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
        config.tcp_user_timeout(user_timeout.unwrap_or(DEFAULT_USER_TIMEOUT));
        config.ssl_mode(tls.mode().driver());
        let password_file = password_file.map(Path::to_owned);
        Ok(Self { config, tls: tls.connector()?, mode: tls.mode(), password_file })
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
        if let Some(path) = &self.password_file {
            match read_password(path) {
                Ok(password) => {
                    config.password(password);
                }
                Err(error) => warn!(%error, "the password file cannot be read any more"),
            }
        }
        config
    }

    /// Connects. The task ends when the client was dropped and the database has been told. The payloads of notifications go to
    /// `notifications` as far as it has space, and it is dropped when the connection ends.
    pub(in super::super) async fn connect(
        &self,
        notifications: Option<mpsc::Sender<String>>,
    ) -> Result<(Client, JoinHandle<()>), Error> {
        let mut config = self.current();
        let mut connected = config.connect(self.tls.clone()).await;
        if let Err(error) = &connected
            && self.mode == Mode::Prefer
            && may_be_of_tls(error)
        {
            debug!(%error, "no connection with TLS, trying without");
            connected = config.ssl_mode(SslMode::Disable).connect(self.tls.clone()).await;
        }
        let (client, mut connection) = connected?;
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

/// The parameters of a URL, by who reads them.
#[derive(Default)]
struct Parameters {
    /// As a query.
    driver: String,
    tls: tls::Parameters,
    user_timeout: Option<Duration>,
}

impl Parameters {
    fn parse(query: &str) -> Result<Self, AddressError> {
        let mut read = Self::default();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, encoded) = parameter.split_once('=').ok_or(AddressError::NoValue)?;
            let value = percent_decode_str(encoded).decode_utf8();
            let value = value.map_err(|error| AddressError::Invalid(error.to_string()))?;
            if DRIVER_PARAMETERS.contains(&name) || name == KEEPALIVES_COUNT {
                let name = if name == KEEPALIVES_COUNT { "keepalives_retries" } else { name };
                let value = utf8_percent_encode(&value, NON_ALPHANUMERIC);
                read.driver += &format!("{name}={value}&");
            } else if tls::PARAMETERS.contains(&name) {
                read.tls.set(name, &value)?;
            } else if name == USER_TIMEOUT {
                let millis = value.parse().map_err(|_| AddressError::NotMillis)?;
                read.user_timeout = Some(Duration::from_millis(millis));
            } else {
                let own = [KEEPALIVES_COUNT, USER_TIMEOUT];
                let mut known = [&DRIVER_PARAMETERS[..], &tls::PARAMETERS, &own].concat();
                known.sort_unstable();
                let known = known.join(", ");
                return Err(AddressError::UnknownParameter { name: name.into(), known });
            }
        }
        Ok(read)
    }
}

/// `postgres://user@host:port,…/database`.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = &self.config;
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        f.write_str("postgres://")?;
        if let Some(user) = config.get_user() {
            write!(f, "{}@", encoded(user))?;
        }
        let hosts = config.get_hosts().iter().map(|host| match host {
            Host::Tcp(host) if host.contains(':') => format!("[{host}]"),
            Host::Tcp(host) => host.clone(),
            Host::Unix(path) => encoded(&path.to_string_lossy()),
        });
        let mut hosts: Vec<_> = hosts.collect();
        if hosts.is_empty() {
            hosts = config.get_hostaddrs().iter().map(ToString::to_string).collect();
        }
        let ports = config.get_ports();
        for (at, host) in hosts.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match ports.get(at).or(ports.first()) {
                Some(port) => write!(f, "{comma}{host}:{port}")?,
                None => write!(f, "{comma}{host}")?,
            }
        }
        config.get_dbname().map_or(Ok(()), |name| write!(f, "/{}", encoded(name)))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

/// Without the line feed that editors end a file with.
fn read_password(path: &Path) -> io::Result<Vec<u8>> {
    let mut password = fs::read(path)?;
    while matches!(password.last(), Some(b'\n' | b'\r')) {
        password.pop();
    }
    Ok(password)
}

/// Whether a connection without TLS may succeed: the server's TLS is broken, or its rules refuse connections with TLS.
fn may_be_of_tls(error: &Error) -> bool {
    let io = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    match (error.code(), io.map(io::Error::kind)) {
        (Some(code), _) => *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
        (None, kind) => {
            !matches!(kind, Some(io::ErrorKind::ConnectionRefused | io::ErrorKind::TimedOut))
        }
    }
}

/// What the driver says, without its own beginning.
fn cause(error: &Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests;
