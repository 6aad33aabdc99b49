//! TLS to the database: `sslmode`, `sslrootcert`, `sslcert` and `sslkey` of its URL, with libpq's names.
//!
//! Certificates are verified by rustls. Unlike libpq it needs the server's name among the certificate's alternative names, and it takes
//! no certificate of version 1 and no authority's certificate as that of a server.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor,
    },
    crypto::{
        CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature,
        verify_tls13_signature,
    },
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use sessiond_store::pem;

/// What servers of PostgreSQL 17 ask for if TLS begins at once, and older ones ignore.
const ALPN: &[u8] = b"postgresql";

/// `sslrootcert` for the authorities of this machine.
const SYSTEM: &str = "system";

/// `sslmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Disable,
    Require,
    /// The certificate is from an authority of `sslrootcert`.
    VerifyCa,
    /// The certificate has the server's name as well.
    VerifyFull,
}

/// How far a connection goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// A Unix socket, which has no TLS.
    Socket,
    Loopback,
    Network,
}

/// The parameters as they were given.
#[derive(Clone, Debug, Default)]
pub(super) struct Parameters {
    mode: Option<Mode>,
    root: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

/// Why the parameters cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    #[error("Unknown sslmode '{0}'. Use disable, require, verify-ca or verify-full.")]
    UnknownMode(String),
    #[error("sslmode=verify-ca needs the certificate of an authority. Add sslrootcert=FILE.")]
    NoRoot,
    #[error(
        "sslrootcert=system needs sslmode=verify-full: everybody gets a certificate of these authorities."
    )]
    WeakSystem,
    #[error("sslcert and sslkey belong together. Give both or neither.")]
    HalfIdentity,
    #[error(
        "The file '{path}' of {parameter} cannot be used ({cause}). It has to be a PEM file that this user can read."
    )]
    File { parameter: &'static str, path: PathBuf, cause: String },
    #[error(
        "This machine has no certificates of authorities ({0}). Install them, or name a file in sslrootcert."
    )]
    NoSystemRoots(String),
    #[error("TLS cannot be set up ({0}). Report this.")]
    Unexpected(String),
}

impl Parameters {
    /// Takes a parameter of the URL. Returns whether it is one of TLS.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<bool, TlsError> {
        match name {
            "sslmode" => self.mode = Some(mode(value)?),
            "sslrootcert" => self.root = Some(value.into()),
            "sslcert" => self.certificate = Some(value.into()),
            "sslkey" => self.key = Some(value.into()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The mode of a connection. A network is never trusted unasked.
    pub(super) fn mode(&self, reach: Reach) -> Mode {
        match (reach, self.mode, &self.root) {
            (Reach::Socket, ..) | (Reach::Loopback, None, None) => Mode::Disable,
            (_, mode, _) => mode.unwrap_or(Mode::VerifyFull),
        }
    }

    pub(super) fn connector(&self, mode: Mode) -> Result<MakeRustlsConnect, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(unexpected)?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier(mode, provider)?);
        let mut config = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) if mode != Mode::Disable => {
                let chain = read("sslcert", certificate, pem::certificates)?;
                let key = read("sslkey", key, pem::private_key)?;
                let config = builder.with_client_auth_cert(chain, key);
                config.map_err(|error| file_error("sslcert", certificate, error))?
            }
            (Some(_), None) | (None, Some(_)) => return Err(TlsError::HalfIdentity),
            _ => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![ALPN.into()];
        Ok(MakeRustlsConnect::new(config))
    }

    fn verifier(
        &self,
        mode: Mode,
        provider: Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
        let file = self.root.as_deref().filter(|root| *root != Path::new(SYSTEM));
        let roots = match (mode, &self.root, file) {
            (Mode::Disable, ..) | (Mode::Require, None, _) => None,
            (Mode::VerifyCa, None, _) => return Err(TlsError::NoRoot),
            // libpq verifies whenever it has the authority's certificate.
            (_, _, Some(path)) => Some(roots_of(path)?),
            (Mode::VerifyFull, _, None) => Some(system_roots()?),
            (Mode::Require | Mode::VerifyCa, Some(_), None) => return Err(TlsError::WeakSystem),
        };
        match (mode, roots) {
            (Mode::VerifyFull, Some(roots)) => {
                let verifier =
                    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
                Ok(verifier.build().map_err(unexpected)?)
            }
            (_, roots) => {
                let algorithms = provider.signature_verification_algorithms;
                Ok(Arc::new(ChainVerifier { roots, algorithms }))
            }
        }
    }
}

fn mode(text: &str) -> Result<Mode, TlsError> {
    match text {
        "disable" => Ok(Mode::Disable),
        "require" => Ok(Mode::Require),
        "verify-ca" => Ok(Mode::VerifyCa),
        "verify-full" => Ok(Mode::VerifyFull),
        _ => Err(TlsError::UnknownMode(text.into())),
    }
}

fn unexpected(error: impl fmt::Display) -> TlsError {
    TlsError::Unexpected(error.to_string())
}

fn file_error(parameter: &'static str, path: &Path, error: impl fmt::Display) -> TlsError {
    TlsError::File { parameter, path: path.to_owned(), cause: error.to_string() }
}

/// What a PEM file holds.
fn read<T>(
    parameter: &'static str,
    path: &Path,
    parse: fn(&[u8]) -> Result<T, &'static str>,
) -> Result<T, TlsError> {
    let pem = fs::read(path).map_err(|error| file_error(parameter, path, error))?;
    parse(&pem).map_err(|cause| file_error(parameter, path, cause))
}

fn roots_of(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in read("sslrootcert", path, pem::certificates)? {
        roots.add(certificate).map_err(|error| file_error("sslrootcert", path, error))?;
    }
    Ok(roots)
}

fn system_roots() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // A machine may have certificates that rustls does not know how to read. The others are good.
    if roots.add_parsable_certificates(found.certs).0 > 0 {
        return Ok(roots);
    }
    let causes: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
    Err(TlsError::NoSystemRoots(causes.join(", ")))
}

/// Verifies who issued a certificate, if there are roots, and never whose it is. The server has to have its key in any case, because
/// channel binding of passwords relies on that.
#[derive(Debug)]
struct ChainVerifier {
    roots: Option<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for ChainVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(roots) = &self.roots {
            let certificate = ParsedCertificate::try_from(certificate)?;
            let algorithms = self.algorithms.all;
            verify_server_cert_signed_by_trust_anchor(
                &certificate,
                roots,
                intermediates,
                now,
                algorithms,
            )?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
