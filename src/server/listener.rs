//! Where calls come in: a TCP port or a Unix socket.

use std::{
    io,
    net::SocketAddr,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use tokio::{
    net::{TcpListener, UnixListener, UnixStream, lookup_host},
    sync::watch,
    task::JoinHandle,
};
use tokio_stream::{Stream, StreamExt as _, wrappers::UnixListenerStream};
use tonic::transport::{Server, server::TcpIncoming};

use super::{StartError, front::Front, stopped, unspoken::Unspoken};
use crate::config::Listen;

/// A bound listener.
pub(super) enum Listener {
    /// With the address that it is really bound to.
    Tcp(TcpListener, SocketAddr),
    /// With the path of its socket, which is removed at the end.
    Unix(UnixListener, SocketFile),
}

/// The file of a socket; dropping it removes the file, unless another server has put its own there meanwhile.
pub(super) struct SocketFile {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

/// Device and number of a file.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path) == self.identity {
            // Somebody may have removed it already, which is what was wanted.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Listener {
    /// Binds, or tells why that cannot be.
    pub(super) async fn bind(listen: &Listen, insecure: bool) -> Result<Self, StartError> {
        match listen {
            Listen::Tcp(address) => bind_tcp(address, insecure).await,
            Listen::Unix(path) => bind_unix(path).await,
        }
    }

    /// Where it listens, as clients write it.
    pub(super) fn address(&self) -> String {
        match self {
            Self::Tcp(_, address) => address.to_string(),
            Self::Unix(_, file) => format!("unix:{}", file.path.display()),
        }
    }

    /// Serves on a task of its own until `draining` turns true and the calls then under way have ended.
    pub(super) fn serve(
        self,
        transport: Server,
        front: Front,
        draining: watch::Receiver<bool>,
    ) -> JoinHandle<Result<(), tonic::transport::Error>> {
        let signal = stopped(draining.clone());
        match self {
            Self::Tcp(listener, _) => tokio::spawn(async move {
                let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
                let incoming = unspoken(incoming, draining);
                transport.serve_with_incoming_shutdown(front, incoming, signal).await
            }),
            Self::Unix(listener, file) => tokio::spawn(async move {
                let incoming = unspoken(UnixListenerStream::new(listener), draining);
                let served = transport.serve_with_incoming_shutdown(front, incoming, signal).await;
                drop(file);
                served
            }),
        }
    }
}

/// Connections, each of which ends when the server stops before its client has spoken.
fn unspoken<C>(
    incoming: impl Stream<Item = io::Result<C>>,
    draining: watch::Receiver<bool>,
) -> impl Stream<Item = io::Result<Unspoken<C>>> {
    incoming.map(move |accepted| Ok(Unspoken::new(accepted?, draining.clone())))
}

async fn bind_tcp(address: &str, insecure: bool) -> Result<Listener, StartError> {
    let addresses: Vec<SocketAddr> = lookup_host(address)
        .await
        .map_err(|_| {
            StartError::new(format!(
                "'{address}' cannot be listened on: the host is not known here; give an address of this machine, as in 127.0.0.1:50051."
            ))
        })?
        .collect();
    if let Some(open) = addresses.iter().find(|address| !address.ip().is_loopback())
        && !insecure
    {
        return Err(StartError::new(format!(
            "{open} can be reached from other machines, and there is no transport security: everybody there could read and write everything. Listen on 127.0.0.1 or a Unix socket, or say --insecure if this is meant."
        )));
    }
    let listener =
        TcpListener::bind(&addresses[..]).await.map_err(|error| bind_error(address, &error))?;
    let bound = listener.local_addr().map_err(|error| bind_error(address, &error))?;
    Ok(Listener::Tcp(listener, bound))
}

fn bind_error(address: &str, error: &io::Error) -> StartError {
    StartError::new(match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "{address} is in use by another program, perhaps another sessiond; stop it, or choose another address with --listen (port 0 takes a free one)."
        ),
        io::ErrorKind::PermissionDenied => format!(
            "{address} may not be listened on by this user; choose a port above 1023 or a path that it may write to."
        ),
        io::ErrorKind::AddrNotAvailable => format!(
            "{address} is no address of this machine; choose one that is, as in 127.0.0.1:50051."
        ),
        _ => format!(
            "{address} cannot be listened on ({error}); choose another address with --listen."
        ),
    })
}

/// Binds a socket's path. A file left by a process that died is replaced; one that somebody answers on is not, nor is anything else.
async fn bind_unix(path: &Path) -> Result<Listener, StartError> {
    let name = format!("unix:{}", path.display());
    if let Ok(found) = std::fs::symlink_metadata(path) {
        if !found.file_type().is_socket() {
            return Err(StartError::new(format!(
                "{name} is there and is no socket; choose another path with --listen, or remove it."
            )));
        }
        if UnixStream::connect(path).await.is_ok() {
            return Err(bind_error(&name, &io::ErrorKind::AddrInUse.into()));
        }
        std::fs::remove_file(path).map_err(|error| bind_error(&name, &error))?;
    }
    let listener = UnixListener::bind(path).map_err(|error| bind_error(&name, &error))?;
    Ok(Listener::Unix(listener, SocketFile { path: path.to_owned(), identity: identity(path) }))
}
