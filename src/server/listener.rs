//! The addresses of the server: a TCP address, with TLS or without, or the path of a Unix socket.

use std::{
    io,
    net::SocketAddr,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{
    net::{TcpListener, UnixListener, UnixSocket, UnixStream, lookup_host, tcp, unix},
    time::sleep,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::either::Either;

use super::tls::{Protocol, Tls};
use crate::{config::Listen, files::FileMode};

/// Pause after a connection could not be accepted, which mostly means that no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections to a Unix socket that wait to be accepted.
const BACKLOG: u32 = 1024;

pub struct Listener {
    socket: Socket,
    tls: Option<(Tls, Protocol)>,
}

pub struct Access<'a> {
    /// The flag that the address was passed with.
    pub flag: &'static str,
    /// Of the file of a Unix socket.
    pub socket_mode: FileMode,
    pub protocol: Protocol,
    pub tls: Option<&'a Tls>,
    /// Loopback is reached without TLS, even if there is one.
    pub plain_on_loopback: bool,
    /// Without TLS only loopback is allowed, and this says what to do about it.
    pub advice: Option<&'a str>,
}

enum Socket {
    /// With the address that it is bound to, and the host that was passed.
    Tcp(TcpListener, SocketAddr, String),
    Unix(UnixListener, SocketFile),
}

/// The halves of an accepted connection.
pub type Halves = (
    Either<tcp::OwnedReadHalf, unix::OwnedReadHalf>,
    Either<tcp::OwnedWriteHalf, unix::OwnedWriteHalf>,
);

/// The file of a socket; dropping it removes the file, unless another server has put its own there meanwhile.
pub struct SocketFile {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path) == self.identity {
            // It may have been removed already.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Listener {
    /// Binds an address. TLS and its rules are for TCP alone.
    pub async fn bind(listen: &Listen, access: Access<'_>) -> Result<Self, String> {
        let address = match listen {
            Listen::Tcp(address) => address,
            Listen::Unix(path) => {
                return Ok(Self { socket: bind_unix(path, &access).await?, tls: None });
            }
        };
        let addresses = resolve(address).await?;
        let beyond = addresses.iter().find(|address| !address.ip().is_loopback());
        let is_plain = access.plain_on_loopback && beyond.is_none();
        let tls = access.tls.filter(|_| !is_plain);
        if let (Some(open), None, Some(advice)) = (beyond, tls, access.advice) {
            return Err(format!("Refusing to listen on {open} without TLS. {advice}"));
        }
        let bound = async {
            let listener = TcpListener::bind(&addresses[..]).await?;
            let bound = listener.local_addr()?;
            let host = address.rsplit_once(':').map_or(&**address, |(host, _)| host);
            Ok(Socket::Tcp(listener, bound, host.to_owned()))
        };
        let socket = bound.await.map_err(|error| bind_error(address, access.flag, &error))?;
        Ok(Self { socket, tls: tls.map(|tls| (tls.clone(), access.protocol)) })
    }

    /// The address, as clients write it.
    pub fn address(&self) -> String {
        match &self.socket {
            Socket::Tcp(_, address, _) if self.tls.is_some() => format!("https://{address}"),
            Socket::Tcp(_, address, _) => address.to_string(),
            Socket::Unix(_, file) => format!("unix:{}", file.path.display()),
        }
    }

    /// The host of a loopback address without TLS, as it was passed.
    pub fn plain_host(&self) -> Option<&str> {
        match &self.socket {
            Socket::Tcp(_, address, host) if self.tls.is_none() && address.ip().is_loopback() => {
                Some(host)
            }
            _ => None,
        }
    }

    /// Whether it serves other machines and cannot tell callers apart.
    pub fn is_open(&self) -> bool {
        match &self.socket {
            Socket::Tcp(_, address, _) => self.tls.is_none() && !address.ip().is_loopback(),
            Socket::Unix(..) => false,
        }
    }

    /// The next connection, and how TLS begins on it.
    pub async fn accept(&self) -> (Halves, Option<TlsAcceptor>) {
        loop {
            match self.next().await {
                Ok(halves) => {
                    let tls = self.tls.as_ref().map(|(tls, protocol)| tls.acceptor(*protocol));
                    return (halves, tls);
                }
                Err(error) => {
                    tracing::warn!(%error, listen = self.address(), "failed to accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn next(&self) -> io::Result<Halves> {
        Ok(match &self.socket {
            Socket::Tcp(listener, ..) => {
                let (stream, _) = listener.accept().await?;
                // Answers are written whole, so there is nothing to wait for. A client that has left already is noticed by HTTP.
                let _ = stream.set_nodelay(true);
                let (reader, writer) = stream.into_split();
                (Either::Left(reader), Either::Left(writer))
            }
            Socket::Unix(listener, _) => {
                let (reader, writer) = listener.accept().await?.0.into_split();
                (Either::Right(reader), Either::Right(writer))
            }
        })
    }
}

/// The address of the client, as the log names it.
pub fn peer((reader, _): &Halves) -> Arc<str> {
    match reader {
        Either::Left(tcp) => {
            tcp.peer_addr().map_or_else(|_| "".into(), |address| address.to_string().into())
        }
        Either::Right(_) => "unix".into(),
    }
}

async fn resolve(address: &str) -> Result<Vec<SocketAddr>, String> {
    let found = lookup_host(address).await.map_err(|_| {
        format!(
            "Cannot listen on {address}: unknown host. Pass a local address, for example 127.0.0.1:50051."
        )
    })?;
    Ok(found.collect())
}

fn bind_error(address: &str, flag: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "{address} is in use, perhaps by another sessiond. Stop that process, or pass another address with {flag} (port 0 takes a free one)."
        ),
        io::ErrorKind::PermissionDenied => format!(
            "Permission denied to listen on {address}. Use a port above 1023 or a writable path."
        ),
        io::ErrorKind::AddrNotAvailable => format!(
            "{address} is not a local address. Pass one with {flag}, for example 127.0.0.1:50051."
        ),
        _ => format!("Cannot listen on {address}: {error}. Pass another address with {flag}."),
    }
}

/// Binds a socket's path. A socket that no process listens on any more is replaced; any other file is not.
async fn bind_unix(path: &Path, access: &Access<'_>) -> Result<Socket, String> {
    let flag = access.flag;
    let name = format!("unix:{}", path.display());
    if let Ok(found) = std::fs::symlink_metadata(path) {
        if !found.file_type().is_socket() {
            return Err(format!(
                "{name} exists and is not a socket. Remove it, or pass another path with {flag}."
            ));
        }
        if UnixStream::connect(path).await.is_ok() {
            return Err(bind_error(&name, flag, &io::ErrorKind::AddrInUse.into()));
        }
        std::fs::remove_file(path).map_err(|error| bind_error(&name, flag, &error))?;
    }
    let listen = || {
        let socket = UnixSocket::new_stream()?;
        socket.bind(path)?;
        // No connection comes before it listens.
        std::fs::set_permissions(path, access.socket_mode.permissions())?;
        socket.listen(BACKLOG)
    };
    let listener = listen().map_err(|error| bind_error(&name, flag, &error))?;
    Ok(Socket::Unix(listener, SocketFile { path: path.to_owned(), identity: identity(path) }))
}
