//! TLS to the database: `sslmode`, `sslrootcert`, `sslcert` and `sslkey` of its URL, as libpq has them.
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
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime},
    server::ParsedCertificate,
};
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::pem;

/// The parameters of the URL that this file reads.
pub(super) const PARAMETERS: [&str; 4] = ["sslmode", "sslrootcert", "sslcert", "sslkey"];

/// What servers of PostgreSQL 17 ask for if TLS begins at once, and older ones ignore.
const ALPN: &[u8] = b"postgresql";

/// `sslmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Disable,
    /// TLS if it can be had.
    Prefer,
    Require,
    /// The certificate is from an authority of `sslrootcert`.
    VerifyCa,
    /// The certificate has the server's name as well.
    VerifyFull,
}

/// The parameters as they were given.
#[derive(Clone, Debug, Default)]
pub(super) struct Parameters {
    mode: Option<Mode>,
    root: Option<Root>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

/// `sslrootcert`.
#[derive(Clone, Debug)]
enum Root {
    System,
    File(PathBuf),
}

/// Why the parameters cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    #[error(
        "'{0}' is not an sslmode. Use disable, allow, prefer, require, verify-ca or verify-full."
    )]
    UnknownMode(String),
    #[error(
        "sslmode={0} needs the certificate of an authority. Add sslrootcert=FILE, or sslrootcert=system for those of this machine."
    )]
    NoRoot(&'static str),
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
    pub(super) fn disabled() -> Self {
        Self { mode: Some(Mode::Disable), ..Self::default() }
    }

    /// Takes one of [`PARAMETERS`].
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), TlsError> {
        match name {
            "sslmode" => self.mode = Some(mode(value)?),
            "sslrootcert" if value == "system" => self.root = Some(Root::System),
            "sslrootcert" => self.root = Some(Root::File(value.into())),
            "sslcert" => self.certificate = Some(value.into()),
            "sslkey" => self.key = Some(value.into()),
            _ => {}
        }
        Ok(())
    }

    pub(super) fn mode(&self) -> Mode {
        match (self.mode, &self.root) {
            (Some(mode), _) => mode,
            (None, Some(Root::System)) => Mode::VerifyFull,
            (None, _) => Mode::Prefer,
        }
    }

    pub(super) fn connector(&self) -> Result<MakeRustlsConnect, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(unexpected)?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier(&provider)?);
        let mut config = match self.identity()? {
            Some((chain, key)) => builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| file_error("sslcert", self.certificate.as_deref(), error))?,
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![ALPN.into()];
        Ok(MakeRustlsConnect::new(config))
    }

    fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
        let mode = self.mode();
        let chain =
            |roots| ChainVerifier { roots, algorithms: provider.signature_verification_algorithms };
        let roots = match (&self.root, mode) {
            (_, Mode::Disable) => return Ok(Arc::new(chain(None))),
            (None, Mode::VerifyCa) => return Err(TlsError::NoRoot("verify-ca")),
            (None, Mode::VerifyFull) => return Err(TlsError::NoRoot("verify-full")),
            (None, Mode::Prefer | Mode::Require) => return Ok(Arc::new(chain(None))),
            (Some(Root::System), Mode::VerifyFull) => system_roots()?,
            (Some(Root::System), _) => return Err(TlsError::WeakSystem),
            (Some(Root::File(path)), _) => roots_of(path)?,
        };
        if mode == Mode::VerifyFull {
            let provider = Arc::clone(provider);
            let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
            return Ok(verifier.build().map_err(unexpected)?);
        }
        // libpq verifies whenever it has the authority's certificate.
        Ok(Arc::new(chain(Some(roots))))
    }

    /// The certificate that the server may ask for, with its key.
    fn identity(
        &self,
    ) -> Result<Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>, TlsError> {
        let (certificate, key) = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) if self.mode() != Mode::Disable => (certificate, key),
            (Some(_), None) | (None, Some(_)) => return Err(TlsError::HalfIdentity),
            _ => return Ok(None),
        };
        let chain = certificates("sslcert", certificate)?;
        let failed = |error: &dyn fmt::Display| file_error("sslkey", Some(key), error);
        let read = fs::read(key).map_err(|error| failed(&error))?;
        let key = pem::private_key(&read).map_err(|cause| failed(&cause))?;
        Ok(Some((chain, key)))
    }
}

impl Mode {
    /// What the driver has to know of it.
    pub(super) fn driver(self) -> SslMode {
        match self {
            Self::Disable => SslMode::Disable,
            Self::Prefer => SslMode::Prefer,
            Self::Require | Self::VerifyCa | Self::VerifyFull => SslMode::Require,
        }
    }
}

fn mode(text: &str) -> Result<Mode, TlsError> {
    match text {
        "disable" => Ok(Mode::Disable),
        // libpq begins without TLS. Whoever takes either can have the better one.
        "allow" | "prefer" => Ok(Mode::Prefer),
        "require" => Ok(Mode::Require),
        "verify-ca" => Ok(Mode::VerifyCa),
        "verify-full" => Ok(Mode::VerifyFull),
        _ => Err(TlsError::UnknownMode(text.into())),
    }
}

fn unexpected(error: impl fmt::Display) -> TlsError {
    TlsError::Unexpected(error.to_string())
}

fn file_error(parameter: &'static str, path: Option<&Path>, error: impl fmt::Display) -> TlsError {
    let path = path.map(Path::to_owned).unwrap_or_default();
    TlsError::File { parameter, path, cause: error.to_string() }
}

fn certificates(
    parameter: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |error: &dyn fmt::Display| file_error(parameter, Some(path), error);
    let read = fs::read(path).map_err(|error| failed(&error))?;
    pem::certificates(&read).map_err(|cause| failed(&cause))
}

fn roots_of(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("sslrootcert", path)? {
        let added = roots.add(certificate);
        added.map_err(|error| file_error("sslrootcert", Some(path), error))?;
    }
    Ok(roots)
}

fn system_roots() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // A machine may have certificates that rustls does not know how to read. The others are good.
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added > 0 {
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
