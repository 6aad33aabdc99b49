//! TLS of the client: the authority that it trusts, and its own certificate.

use std::path::{Path, PathBuf};

use clap::Args;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use super::{
    args::CONNECTION,
    failure::{Failure, root_cause},
};

#[derive(Debug, Clone, Default, Args)]
pub struct TlsArgs {
    /// PEM file with the authority of the server's certificate; without it those of this machine are trusted.
    #[arg(long, env = "SESSIOND_TLS_CA", value_name = "PATH", global = true, help_heading = CONNECTION)]
    tls_ca: Option<PathBuf>,
    /// PEM file with the client's certificate, for a server that asks for one.
    #[arg(long, env = "SESSIOND_CLIENT_TLS_CERT", value_name = "PATH", global = true, requires = "tls_key", help_heading = CONNECTION)]
    tls_cert: Option<PathBuf>,
    /// PEM file with the private key of that certificate.
    #[arg(long, env = "SESSIOND_CLIENT_TLS_KEY", value_name = "PATH", global = true, requires = "tls_cert", help_heading = CONNECTION)]
    tls_key: Option<PathBuf>,
}

impl TlsArgs {
    /// The file of the client's private key.
    pub fn key(&self) -> &Option<PathBuf> {
        let Self { tls_ca: _, tls_cert: _, tls_key } = self;
        tls_key
    }

    /// The endpoint of an address. A certificate or an authority means TLS.
    pub fn endpoint(&self, server: &str) -> Result<Endpoint, Failure> {
        let invalid = |error: tonic::transport::Error| Failure::Usage(root_cause(&error));
        let endpoint = Endpoint::from_shared(server.to_owned()).map_err(invalid)?;
        if server.starts_with("https://") {
            return endpoint.tls_config(self.config()?).map_err(invalid);
        }
        if self.tls_ca.is_some() || self.tls_cert.is_some() {
            let text = format!(
                "--tls-ca and --tls-cert need a server with TLS, and {server} has none. Write https://HOST:PORT"
            );
            return Err(Failure::Usage(text));
        }
        Ok(endpoint)
    }

    fn config(&self) -> Result<ClientTlsConfig, Failure> {
        let mut config = ClientTlsConfig::new();
        config = match &self.tls_ca {
            Some(path) => config.ca_certificate(Certificate::from_pem(read("--tls-ca", path)?)),
            None => config.with_native_roots(),
        };
        if let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) {
            let (certificate, key) = (read("--tls-cert", certificate)?, read("--tls-key", key)?);
            config = config.identity(Identity::from_pem(certificate, key));
        }
        Ok(config)
    }
}

fn read(flag: &str, path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| {
        Failure::Usage(format!("cannot read the file '{}' of {flag}: {error}", path.display()))
    })
}
