//! TLS of a TCP listener: a certificate with its key and the authorities of clients, from files that are read again when they change.
//!
//! Connections that are open keep what they began with.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use tokio::{
    sync::watch,
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};
use tokio_rustls::TlsAcceptor;

use crate::{config::TlsArgs, pem};

/// What is spoken within TLS.
#[derive(Clone, Copy)]
pub enum Protocol {
    /// With a client certificate, if there are authorities of clients.
    Grpc,
    /// A client certificate is optional: probes have none.
    Http,
}

/// The files, and what new connections use of them.
#[derive(Clone)]
pub struct Tls {
    files: Files,
    current: watch::Sender<Configs>,
    /// The contents that were read last, whether they can be used or not.
    last: Contents,
    /// Why the files could not be used the last time, so that the log has it once.
    failure: Option<String>,
}

/// For each [`Protocol`].
#[derive(Clone)]
struct Configs {
    grpc: Arc<ServerConfig>,
    http: Arc<ServerConfig>,
}

#[derive(Clone)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    client_authorities: Option<PathBuf>,
}

/// The contents of the files.
#[derive(Clone, PartialEq, Eq)]
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_authorities: Option<Vec<u8>>,
}

impl Tls {
    /// Reads the files that the flags name; `None`: they name none.
    pub fn load(args: &TlsArgs) -> Result<Option<Self>, String> {
        let TlsArgs { tls_cert, tls_key, tls_client_ca, reload_interval: _ } = args.clone();
        let (Some(certificate), Some(key)) = (tls_cert, tls_key) else { return Ok(None) };
        let files = Files { certificate, key, client_authorities: tls_client_ca };
        let last = files.read()?;
        let current = watch::Sender::new(files.configs(&last)?);
        Ok(Some(Self { files, current, last, failure: None }))
    }

    /// Begins TLS on a connection, by the files as they were read last.
    pub fn acceptor(&self, protocol: Protocol) -> TlsAcceptor {
        let Configs { grpc, http } = self.current.borrow().clone();
        TlsAcceptor::from(match protocol {
            Protocol::Grpc => grpc,
            Protocol::Http => http,
        })
    }

    /// Reads the files again in this interval, for ever. Files that cannot be used change nothing.
    pub async fn follow(mut self, every: Duration) {
        let mut rounds = interval(every);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            rounds.tick().await;
            let files = self.files.clone();
            let read = spawn_blocking(move || files.read()).await;
            let Ok(read) = read else { continue };
            self.replace(read);
        }
    }

    fn replace(&mut self, read: Result<Contents, String>) {
        let config = match read {
            Ok(contents) if contents == self.last && self.failure.is_none() => return,
            Ok(contents) => {
                let config = self.files.configs(&contents);
                self.last = contents;
                config
            }
            Err(error) => Err(error),
        };
        match config {
            Ok(config) => {
                self.current.send_replace(config);
                self.failure = None;
                tracing::info!("the certificate was reloaded");
            }
            Err(error) => {
                if self.failure.as_ref() != Some(&error) {
                    tracing::error!(%error, "the certificate was not reloaded, keeping the old one");
                }
                self.failure = Some(error);
            }
        }
    }
}

impl Files {
    fn read(&self) -> Result<Contents, String> {
        Ok(Contents {
            certificate: read("--tls-cert", &self.certificate)?,
            key: read("--tls-key", &self.key)?,
            client_authorities: match &self.client_authorities {
                Some(path) => Some(read("--tls-client-ca", path)?),
                None => None,
            },
        })
    }

    fn configs(&self, contents: &Contents) -> Result<Configs, String> {
        let config = |protocol| self.config(contents, protocol).map(Arc::new);
        Ok(Configs { grpc: config(Protocol::Grpc)?, http: config(Protocol::Http)? })
    }

    fn config(&self, contents: &Contents, protocol: Protocol) -> Result<ServerConfig, String> {
        let unusable = |error| self.unusable(error);
        let chain = pem::certificates(&contents.certificate)
            .map_err(|cause| refused("--tls-cert", &self.certificate, cause))?;
        let key = pem::private_key(&contents.key)
            .map_err(|cause| refused("--tls-key", &self.key, cause))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(unusable)?;
        let builder = match self.verifier(contents, protocol)? {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(unusable)?;
        config.alpn_protocols = match protocol {
            Protocol::Grpc => vec![b"h2".to_vec()],
            Protocol::Http => vec![b"http/1.1".to_vec()],
        };
        Ok(config)
    }

    /// Verifies the certificates of clients.
    fn verifier(
        &self,
        contents: &Contents,
        protocol: Protocol,
    ) -> Result<Option<Arc<dyn ClientCertVerifier>>, String> {
        let (Some(path), Some(pem)) = (&self.client_authorities, &contents.client_authorities)
        else {
            return Ok(None);
        };
        let unusable = |error: &str| refused("--tls-client-ca", path, error);
        let mut roots = RootCertStore::empty();
        for certificate in pem::certificates(pem).map_err(unusable)? {
            roots.add(certificate).map_err(|error| unusable(&error.to_string()))?;
        }
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = match protocol {
            Protocol::Grpc => verifier,
            Protocol::Http => verifier.allow_unauthenticated(),
        };
        Ok(Some(verifier.build().map_err(|error| unusable(&error.to_string()))?))
    }

    fn unusable(&self, error: rustls::Error) -> String {
        format!(
            "The certificate in '{}' and the key in '{}' cannot be used ({error}). Pass a certificate with its own key.",
            self.certificate.display(),
            self.key.display()
        )
    }
}

fn read(flag: &str, path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error: io::Error| refused(flag, path, &error.to_string()))
}

fn refused(flag: &str, path: &Path, cause: &str) -> String {
    format!(
        "The file '{}' of {flag} cannot be used ({cause}). Pass a PEM file that this user can read.",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rcgen::generate_simple_self_signed;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        tls: TlsArgs,
    }

    fn write(folder: &Path) {
        let made = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
        fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    }

    fn load(folder: &Path) -> Tls {
        let path = |name| folder.join(name).display().to_string();
        let flags =
            ["--tls-cert".to_owned(), path("cert.pem"), "--tls-key".into(), path("key.pem")];
        let flags = ["serve".to_owned()].into_iter().chain(flags);
        Tls::load(&Program::parse_from(flags).tls).unwrap().unwrap()
    }

    #[test]
    fn files_that_cannot_be_used_keep_the_certificate_until_they_can() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path());
        let mut tls = load(folder.path());
        let current = |tls: &Tls| Arc::as_ptr(&tls.current.borrow().grpc);
        let read_again = |tls: &mut Tls| tls.replace(tls.files.read());
        let first = current(&tls);
        read_again(&mut tls);
        assert_eq!(current(&tls), first, "nothing has changed");

        // The key of another certificate, as between two writes of a renewal.
        let old = fs::read(folder.path().join("cert.pem")).unwrap();
        write(folder.path());
        let new = fs::read(folder.path().join("cert.pem")).unwrap();
        fs::write(folder.path().join("cert.pem"), &old).unwrap();
        read_again(&mut tls);
        assert_eq!(current(&tls), first);
        assert!(tls.failure.as_ref().is_some_and(|text| text.contains("its own key")));

        fs::remove_file(folder.path().join("key.pem")).unwrap();
        read_again(&mut tls);
        assert_eq!(current(&tls), first);
        assert!(tls.failure.as_ref().is_some_and(|text| text.contains("--tls-key")));

        write(folder.path());
        assert_ne!(fs::read(folder.path().join("cert.pem")).unwrap(), new);
        read_again(&mut tls);
        assert_ne!(current(&tls), first);
        assert_eq!(tls.failure, None);
    }
}
