//! TLS of a TCP listener: a certificate with its key and the authorities of clients, from files that are read again when they change.
//!
//! Connections that are open keep what they began with.

use std::sync::Arc;

use rustls::{
    RootCertStore, ServerConfig,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use tokio_rustls::TlsAcceptor;
use x509_parser::{certificate::X509Certificate, prelude::FromDer as _};

use super::reload::{NamedFile, Reload, Reloaded};
use crate::{config::TlsArgs, metrics::TlsMetrics, pem};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// With a client certificate, if there are authorities of clients.
    Grpc,
    /// The same.
    Http,
    /// A client certificate is optional: probes have none.
    Admin,
}

/// The files, and what new connections use of them.
#[derive(Clone)]
pub struct Tls(Arc<Reloaded<Configs>>);

struct Configs {
    grpc: Arc<ServerConfig>,
    http: Arc<ServerConfig>,
    admin: Arc<ServerConfig>,
}

impl Tls {
    /// Reads the files that the flags name; `None`: they name none.
    pub fn load(args: &TlsArgs, metrics: &TlsMetrics) -> Result<Option<Self>, String> {
        let TlsArgs { tls_cert, tls_key, tls_client_ca, reload_interval: _ } = args;
        let (Some(certificate), Some(key)) = (tls_cert, tls_key) else { return Ok(None) };
        let mut files =
            vec![NamedFile::new("--tls-cert", certificate), NamedFile::new("--tls-key", key)];
        files.extend(tls_client_ca.iter().map(|path| NamedFile::new("--tls-client-ca", path)));
        let metrics = metrics.clone();
        let reloaded = Reloaded::load("certificate", files, move |files, contents| {
            let config = |protocol| config(files, contents, protocol).map(Arc::new);
            let configs = Configs {
                grpc: config(Protocol::Grpc)?,
                http: config(Protocol::Http)?,
                admin: config(Protocol::Admin)?,
            };
            report_expiry(&metrics, contents);
            Ok(configs)
        });
        Ok(Some(Self(Arc::new(reloaded?))))
    }

    /// Begins TLS on a connection, by the files as they were read last.
    pub fn acceptor(&self, protocol: Protocol) -> TlsAcceptor {
        let configs = self.0.current();
        TlsAcceptor::from(Arc::clone(match protocol {
            Protocol::Grpc => &configs.grpc,
            Protocol::Http => &configs.http,
            Protocol::Admin => &configs.admin,
        }))
    }

    pub fn files(&self) -> Arc<dyn Reload> {
        Arc::clone(&self.0) as Arc<dyn Reload>
    }
}

/// Tells until when the certificates of the files are valid, which are those of [`config`].
fn report_expiry(metrics: &TlsMetrics, contents: &[Vec<u8>]) {
    for (file, at) in [("certificate", 0), ("client_ca", 2)] {
        if let Some(expiry) = contents.get(at).and_then(|pem| earliest_expiry(pem)) {
            metrics.expiry.with_label_values(&[file]).set(expiry);
        }
    }
}

/// The end of the certificate of a PEM file that ends first, in seconds since 1970. `None`: the file has none that can be read.
fn earliest_expiry(pem: &[u8]) -> Option<i64> {
    let certificates = pem::certificates(pem).ok()?;
    let expiry = |der: &[u8]| {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        Some(certificate.validity().not_after.timestamp())
    };
    certificates.iter().filter_map(|der| expiry(der)).min()
}

/// The certificate, its key, and perhaps the authorities of clients, with their contents.
fn config(
    files: &[NamedFile],
    contents: &[Vec<u8>],
    protocol: Protocol,
) -> Result<ServerConfig, String> {
    let ([chain_file, key_file, ..], [chain, key, ..]) = (files, contents) else {
        return Err("TLS needs a certificate and a key.".into());
    };
    let unusable = |error: rustls::Error| {
        format!(
            "The certificate in '{}' and the key in '{}' cannot be used ({error}). Pass a certificate with its own key.",
            chain_file.path.display(),
            key_file.path.display()
        )
    };
    let chain = pem::certificates(chain).map_err(|cause| refused(chain_file, cause))?;
    let key = pem::private_key(key).map_err(|cause| refused(key_file, cause))?;
    let builder = ServerConfig::builder();
    let builder = match (files.get(2), contents.get(2)) {
        (Some(file), Some(authorities)) => {
            builder.with_client_cert_verifier(verifier(file, authorities, protocol)?)
        }
        _ => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, key).map_err(unusable)?;
    config.alpn_protocols = match protocol {
        Protocol::Grpc => vec![b"h2".to_vec()],
        Protocol::Http => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        Protocol::Admin => vec![b"http/1.1".to_vec()],
    };
    Ok(config)
}

fn verifier(
    file: &NamedFile,
    authorities: &[u8],
    protocol: Protocol,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let unusable = |error: &str| refused(file, error);
    let mut roots = RootCertStore::empty();
    for certificate in pem::certificates(authorities).map_err(unusable)? {
        roots.add(certificate).map_err(|error| unusable(&error.to_string()))?;
    }
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots));
    let verifier = match protocol {
        Protocol::Grpc | Protocol::Http => verifier,
        Protocol::Admin => verifier.allow_unauthenticated(),
    };
    verifier.build().map_err(|error| unusable(&error.to_string()))
}

fn refused(file: &NamedFile, cause: &str) -> String {
    format!("{} Pass a PEM file.", file.refused(cause))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use clap::Parser;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd, generate_simple_self_signed};

    use super::*;
    use crate::metrics::Metrics;

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
        load_again(folder).unwrap()
    }

    fn load_again(folder: &Path) -> Result<Tls, String> {
        let path = |name| folder.join(name).display().to_string();
        let flags =
            ["--tls-cert".to_owned(), path("cert.pem"), "--tls-key".into(), path("key.pem")];
        let flags = ["serve".to_owned()].into_iter().chain(flags);
        Tls::load(&Program::parse_from(flags).tls, Metrics::default().tls()).map(Option::unwrap)
    }

    #[test]
    fn a_chain_expires_with_its_first_certificate() {
        let ending_in = |year| {
            let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(year, 1, 1);
            params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
        };
        let chain = ending_in(2040) + &ending_in(2031);
        assert_eq!(earliest_expiry(chain.as_bytes()), Some(1_924_992_000));
        assert_eq!(earliest_expiry(b""), None);
    }

    #[test]
    fn files_that_cannot_be_used_keep_the_certificate_until_they_can() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path());
        let tls = load(folder.path());
        let current = || Arc::as_ptr(&tls.0.current().grpc);
        let first = current();
        let stays = |is_usable| {
            assert_eq!((tls.0.reload(), current()), (is_usable, first));
        };
        stays(true);

        // The key of another certificate, as between two writes of a renewal.
        let old = fs::read(folder.path().join("cert.pem")).unwrap();
        write(folder.path());
        let new = fs::read(folder.path().join("cert.pem")).unwrap();
        fs::write(folder.path().join("cert.pem"), &old).unwrap();
        stays(false);
        let error = load_again(folder.path()).err().unwrap();
        assert!(error.contains("its own key"), "{error}");

        fs::remove_file(folder.path().join("key.pem")).unwrap();
        stays(false);
        let error = load_again(folder.path()).err().unwrap();
        assert!(error.contains("--tls-key"), "{error}");

        write(folder.path());
        assert_ne!(fs::read(folder.path().join("cert.pem")).unwrap(), new);
        assert!(tls.0.reload());
        assert_ne!(current(), first);
    }
}
