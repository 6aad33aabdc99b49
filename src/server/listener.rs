//! A TCP port or a Unix socket that is listened on.

use std::{
    io,
    net::SocketAddr,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use tokio::net::{TcpListener, UnixListener, UnixStream, lookup_host, tcp, unix};
use tokio_util::either::Either;

use crate::config::Listen;

/// A bound listener.
pub enum Listener {
    /// With the address that it is bound to.
    Tcp(TcpListener, SocketAddr),
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

/// Device and inode of a file.
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
    pub async fn bind(listen: &Listen, insecure: bool) -> Result<Self, String> {
        match listen {
            Listen::Tcp(address) => bind_tcp(address, insecure).await,
            Listen::Unix(path) => bind_unix(path).await,
        }
    }

    /// The address, as clients write it.
    pub fn address(&self) -> String {
        match self {
            Self::Tcp(_, address) => address.to_string(),
            Self::Unix(_, file) => format!("unix:{}", file.path.display()),
        }
    }

    pub async fn accept(&self) -> io::Result<Halves> {
        Ok(match self {
            Self::Tcp(listener, _) => {
                let (stream, _) = listener.accept().await?;
                // Answers are written whole, so there is nothing to wait for. A client that has left already is noticed by HTTP.
                let _ = stream.set_nodelay(true);
                let (reader, writer) = stream.into_split();
                (Either::Left(reader), Either::Left(writer))
            }
            Self::Unix(listener, _) => {
                let (reader, writer) = listener.accept().await?.0.into_split();
                (Either::Right(reader), Either::Right(writer))
            }
        })
    }
}

async fn bind_tcp(address: &str, insecure: bool) -> Result<Listener, String> {
    let addresses: Vec<SocketAddr> = lookup_host(address)
        .await
        .map_err(|_| {
            format!(
                "Cannot listen on {address}: unknown host. Pass a local address, for example 127.0.0.1:50051."
            )
        })?
        .collect();
    if let Some(open) = addresses.iter().find(|address| !address.ip().is_loopback())
        && !insecure
    {
        return Err(format!(
            "Refusing to listen on {open} without TLS. Listen on 127.0.0.1 or a Unix socket, or pass --insecure to override."
        ));
    }
    let listener =
        TcpListener::bind(&addresses[..]).await.map_err(|error| bind_error(address, &error))?;
    let bound = listener.local_addr().map_err(|error| bind_error(address, &error))?;
    Ok(Listener::Tcp(listener, bound))
}

fn bind_error(address: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "{address} is in use, perhaps by another sessiond. Stop that process, or pass another address with --listen (port 0 takes a free one)."
        ),
        io::ErrorKind::PermissionDenied => format!(
            "Permission denied to listen on {address}. Use a port above 1023 or a writable path."
        ),
        io::ErrorKind::AddrNotAvailable => format!(
            "{address} is not a local address. Pass one with --listen, for example 127.0.0.1:50051."
        ),
        _ => format!("Cannot listen on {address}: {error}. Pass another address with --listen."),
    }
}

/// Binds a socket's path. A socket that no process listens on any more is replaced; any other file is not.
async fn bind_unix(path: &Path) -> Result<Listener, String> {
    let name = format!("unix:{}", path.display());
    if let Ok(found) = std::fs::symlink_metadata(path) {
        if !found.file_type().is_socket() {
            return Err(format!(
                "{name} exists and is not a socket. Remove it, or pass another path with --listen."
            ));
        }
        if UnixStream::connect(path).await.is_ok() {
            return Err(bind_error(&name, &io::ErrorKind::AddrInUse.into()));
        }
        std::fs::remove_file(path).map_err(|error| bind_error(&name, &error))?;
    }
    let listener = UnixListener::bind(path).map_err(|error| bind_error(&name, &error))?;
    Ok(Listener::Unix(listener, SocketFile { path: path.to_owned(), identity: identity(path) }))
}
