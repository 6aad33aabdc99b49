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
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use percent_encoding::percent_decode_str;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
    task::JoinHandle,
    time::timeout,
};
use tokio_postgres::{
    AsyncMessage, Client, Config, Error,
    config::{Host, SslMode, TargetSessionAttrs},
};
use tokio_postgres_rustls::MakeRustlsConnect;
use tracing::warn;

use super::{
    error::Fault,
    tls::{Mode, Parameters, Reach, TlsError},
};

/// Parameters that the URL can change. `connect_timeout` covers all of an attempt to reach a host, its answer included: a server that is
/// there takes a fraction of it. Each address of its name gets half of that. A host that vanished without a word is noticed within half a
/// minute.
const DEFAULTS: &str = "application_name=sessiond&connect_timeout=3&tcp_user_timeout=30&keepalives_idle=15&keepalives_interval=5&keepalives_retries=3";

/// Time between the attempts to reach two hosts, in which the first one answers if it is well. If it refuses, the next attempt comes at once.
const STAGGER: Duration = Duration::from_millis(100);

/// The address of a database. Neither `Display` nor `Debug` shows the password.
pub(in super::super) struct Address {
    /// The URL without the password.
    public: String,
    /// For each host, what to connect with.
    hosts: Vec<Config>,
    /// Time that an attempt to reach one host may take.
    limit: Duration,
    /// The host that all connections try first: the one that was connected to last, or its successor if it went back.
    pub(in super::super) last: AtomicUsize,
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
    #[error("--postgres-listen-url cannot be used. {0}")]
    Listen(Box<Self>),
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
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let schemes = ["postgres", "postgresql"];
        let Some((scheme, rest)) = base.split_once("://").filter(|it| schemes.contains(&it.0))
        else {
            return Err(AddressError::NotAnAddress);
        };
        // The driver takes the first one for the end of the password, and the rest of it for a host.
        if base.matches('@').count() > 1 || query.contains('@') {
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
        let mut config: Config = format!("{base}?{parameters}")
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
        let hosts = hosts(&config).map_err(AddressError::Invalid)?;
        let password_file = password_file.map(Path::to_owned);
        let (public, last) = (public(scheme, rest, query), AtomicUsize::new(0));
        let limit = config.get_connect_timeout().copied().unwrap_or_default();
        Ok(Self { public, hosts, limit, last, tls, password_file })
    }

    /// Time that connecting may take: until the last host has had its time, and as long for what follows.
    pub(in super::super) fn connecting(&self) -> Duration {
        let others = u32::try_from(self.hosts.len() - 1).unwrap_or(u32::MAX);
        self.limit.saturating_mul(2).saturating_add(STAGGER.saturating_mul(others))
    }

    /// The configuration for a host, with the password of now.
    fn current(&self, host: usize) -> Config {
        let mut config = self.hosts[host].clone();
        match self.password_file.as_deref().map(read_password).transpose() {
            Ok(password) => drop(password.map(|it| config.password(it))),
            Err(error) => warn!(%error, "the password file cannot be read any more"),
        }
        config
    }

    /// Connects to the first host that takes writes, and tells which it is. All are tried, each a moment after the one before, so that a
    /// host that takes connections and says nothing does not delay the others. The task ends when the client was dropped and the database
    /// has been told. The payloads of notifications go to `notifications`, which is dropped when it is full, and when the connection ends.
    pub(in super::super) async fn connect(
        &self,
        notifications: Option<mpsc::Sender<String>>,
    ) -> Result<(usize, Client, JoinHandle<()>), Fault> {
        let (count, last) = (self.hosts.len(), self.last.load(Relaxed));
        let attempt = async |nth| {
            let host = (last + nth) % count;
            let config = self.current(host);
            let connected = timeout(self.limit, config.connect(self.tls.clone())).await;
            (nth, host, connected.map_err(Fault::from).and_then(|it| Ok(it?)))
        };
        let mut attempts = FuturesUnordered::new();
        let mut failed: Option<(usize, Fault)> = None;
        for nth in 0..count {
            attempts.push(attempt(nth));
            let is_last = nth + 1 == count;
            let wait = if is_last { Duration::MAX } else { STAGGER };
            while let Ok(Some((nth, host, connected))) = timeout(wait, attempts.next()).await {
                match connected {
                    Ok((client, connection)) => {
                        self.last.store(host, Relaxed);
                        return Ok((host, client, tokio::spawn(drive(connection, notifications))));
                    }
                    Err(error) if failed.as_ref().is_none_or(|(first, _)| nth < *first) => {
                        failed = Some((nth, error));
                    }
                    Err(_) => {}
                }
                if !is_last {
                    break;
                }
            }
        }
        let none = || sessiond_core::domain::error::Error::internal("an address has no host");
        Err(failed.map_or_else(|| none().into(), |(_, error)| error))
    }

    /// This host went back. The next connection tries another one first.
    pub(in super::super) fn leave(&self, host: usize) {
        let next = (host + 1) % self.hosts.len();
        // Nothing to do if another connection has found a better one meanwhile.
        let _ = self.last.compare_exchange(host, next, Relaxed, Relaxed);
    }
}

/// Sends and receives for a client until it was dropped.
async fn drive<S, T>(
    mut connection: tokio_postgres::Connection<S, T>,
    mut notifications: Option<mpsc::Sender<String>>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    // Its client sees an error as well.
    while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
        if let (AsyncMessage::Notification(it), Some(sender)) = (message, &notifications)
            && sender.try_send(it.payload().to_owned()).is_err()
        {
            // The listener begins anew, and looks at what it has missed.
            notifications = None;
        }
    }
}

/// For each host of a configuration, one that has this host alone.
fn hosts(config: &Config) -> Result<Vec<Config>, String> {
    let (hosts, addresses) = (config.get_hosts(), config.get_hostaddrs());
    let ports = config.get_ports();
    let count = hosts.len().max(addresses.len());
    if ![0, 1, count].contains(&ports.len()) || ![0, count].contains(&addresses.len()) {
        return Err("it has another number of ports or addresses than of hosts".to_owned());
    }
    let host = |at: usize| {
        let mut one = Config::new();
        if let Some(host) = hosts.get(at) {
            match host {
                Host::Tcp(name) => one.host(name),
                Host::Unix(path) => one.host_path(path),
            };
        }
        addresses.get(at).map(|it| one.hostaddr(*it));
        ports.get(at).or(ports.first()).map(|it| one.port(*it));
        config.get_user().map(|it| one.user(it));
        config.get_password().map(|it| one.password(it));
        config.get_dbname().map(|it| one.dbname(it));
        config.get_options().map(|it| one.options(it));
        config.get_application_name().map(|it| one.application_name(it));
        // For each address of a name, so that the second has its time as well.
        config.get_connect_timeout().map(|it| one.connect_timeout(*it / 2));
        config.get_tcp_user_timeout().map(|it| one.tcp_user_timeout(*it));
        config.get_keepalives_interval().map(|it| one.keepalives_interval(it));
        config.get_keepalives_retries().map(|it| one.keepalives_retries(it));
        one.keepalives(config.get_keepalives()).keepalives_idle(config.get_keepalives_idle());
        one.ssl_mode(config.get_ssl_mode()).ssl_negotiation(config.get_ssl_negotiation());
        one.channel_binding(config.get_channel_binding());
        one.load_balance_hosts(config.get_load_balance_hosts());
        // A store writes, so a primary is meant.
        one.target_session_attrs(match config.get_target_session_attrs() {
            TargetSessionAttrs::Any => TargetSessionAttrs::ReadWrite,
            given => given,
        });
        one
    };
    Ok((0..count).map(host).collect())
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
    let (login, target) = rest.split_once('@').unwrap_or(("", rest));
    let user = login.split(':').next().filter(|user| !user.is_empty());
    let user = user.map(|user| format!("{user}@")).unwrap_or_default();
    let hosts =
        query.split('&').filter(|it| it.starts_with("host=") || it.starts_with("hostaddr="));
    let hosts = hosts.collect::<Vec<_>>().join("&");
    let separator = if hosts.is_empty() { "" } else { "?" };
    format!("{scheme}://{user}{target}{separator}{hosts}")
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
