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
    net::{TcpListener, TcpStream, UnixListener, UnixSocket, UnixStream, lookup_host},
    time::sleep,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::either::Either;

use super::tls::{Protocol, Tls};
use crate::{
    config::{Config, Listen},
    files::FileMode,
};

/// Pause after a connection could not be accepted, which mostly means that no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections to a Unix socket that wait to be accepted.
const BACKLOG: u32 = 1024;

const GRPC_ADVICE: &str = "Pass --tls-cert and --tls-key, listen on 127.0.0.1 or a Unix socket, or pass --insecure to override.";
const HTTP_ADVICE: &str = "Pass --tls-cert and --tls-key, give a loopback address (--http-listen 127.0.0.1:8380), a Unix socket or off, or pass --insecure to override.";
const ADMIN_ADVICE: &str = "Pass --tls-cert and --tls-key, give a loopback address (--admin-listen 127.0.0.1:9464) or a Unix socket, or pass --admin-insecure for plain probes and scrapes.";

pub struct Listener {
    socket: Socket,
    tls: Option<(Tls, Protocol)>,
}

enum Socket {
    /// With the address that it is bound to, and the host that was passed.
    Tcp(TcpListener, SocketAddr, String),
    Unix(UnixListener, SocketFile),
}

/// An accepted connection.
pub type Stream = Either<TcpStream, UnixStream>;

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
    /// Binds an address of a protocol. TLS and its rules are for TCP alone: without it only loopback is open, unless a flag says that
    /// this is meant.
    pub async fn bind(
        listen: &Listen,
        protocol: Protocol,
        config: &Config,
        tls: Option<&Tls>,
    ) -> Result<Self, String> {
        let (flag, is_plain_meant, advice) = match protocol {
            Protocol::Grpc => ("--listen", config.insecure, GRPC_ADVICE),
            Protocol::Http => ("--http-listen", config.insecure, HTTP_ADVICE),
            Protocol::Admin => ("--admin-listen", config.admin_insecure, ADMIN_ADVICE),
        };
        let address = match listen {
            Listen::Tcp(address) => address,
            Listen::Unix(path) => {
                return Ok(Self {
                    socket: bind_unix(path, config.socket_mode, flag).await?,
                    tls: None,
                });
            }
        };
        let addresses = resolve(address).await?;
        let beyond = addresses.iter().find(|address| !address.ip().is_loopback());
        // Probes take no certificate that they do not know.
        let is_plain = protocol == Protocol::Admin && (is_plain_meant || beyond.is_none());
        let tls = tls.filter(|_| !is_plain);
        if let (Some(open), None, false) = (beyond, tls, is_plain_meant) {
            return Err(format!("Refusing to listen on {open} without TLS. {advice}"));
        }
        let bound = async {
            let listener = TcpListener::bind(&addresses[..]).await?;
            let bound = listener.local_addr()?;
            let host = address.rsplit_once(':').map_or(&**address, |(host, _)| host);
            Ok(Socket::Tcp(listener, bound, host.to_owned()))
        };
        let socket = bound.await.map_err(|error| bind_error(address, flag, &error))?;
        Ok(Self { socket, tls: tls.map(|tls| (tls.clone(), protocol)) })
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

    /// The host of a TCP address, as it was passed, and the address.
    pub fn tcp(&self) -> Option<(&str, SocketAddr)> {
        match &self.socket {
            Socket::Tcp(_, address, host) => Some((host, *address)),
            Socket::Unix(..) => None,
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
    pub async fn accept(&self) -> (Stream, Option<TlsAcceptor>) {
        loop {
            match self.next().await {
                Ok(stream) => {
                    let tls = self.tls.as_ref().map(|(tls, protocol)| tls.acceptor(*protocol));
                    return (stream, tls);
                }
                Err(error) => {
                    tracing::warn!(%error, listen = self.address(), "failed to accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn next(&self) -> io::Result<Stream> {
        Ok(match &self.socket {
            Socket::Tcp(listener, ..) => {
                let (stream, _) = listener.accept().await?;
                // Answers are written whole, so there is nothing to wait for. A client that has left already is noticed by HTTP.
                let _ = stream.set_nodelay(true);
                Either::Left(stream)
            }
            Socket::Unix(listener, _) => Either::Right(listener.accept().await?.0),
        })
    }
}

/// The address of the client, as the log names it.
pub fn peer(stream: &Stream) -> Arc<str> {
    match stream {
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
async fn bind_unix(path: &Path, mode: FileMode, flag: &str) -> Result<Socket, String> {
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
        std::fs::set_permissions(path, mode.permissions())?;
        socket.listen(BACKLOG)
    };
    let listener = listen().map_err(|error| bind_error(&name, flag, &error))?;
    Ok(Socket::Unix(listener, SocketFile { path: path.to_owned(), identity: identity(path) }))
}
