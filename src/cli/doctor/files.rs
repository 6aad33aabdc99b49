//! Files of secrets that other users may read, and of rules that they may change.

use std::path::{Path, PathBuf};

use clap::Args;

use super::finding::{Finding, Outcome};
use crate::{
    cli::connect::ConnectArgs,
    files::{Purpose, exposure},
};

/// Files of a server on this machine, as `serve` takes them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Files of the server, if it is on this machine")]
pub struct FileArgs {
    /// Policy of the server
    #[arg(long, env = "SESSIOND_POLICY", value_name = "PATH")]
    policy: Option<PathBuf>,
    /// Hashes of tokens
    #[arg(long, env = "SESSIOND_TOKEN_HASHES", value_name = "PATH")]
    token_hashes: Option<PathBuf>,
    /// Public keys of JWTs
    #[arg(long, env = "SESSIOND_JWT_KEYS", value_name = "PATH")]
    jwt_keys: Option<PathBuf>,
    /// Certificate of the server (--tls-cert of serve)
    #[arg(long, env = "SESSIOND_TLS_CERT", value_name = "PATH")]
    server_tls_cert: Option<PathBuf>,
    /// Private key of the server (--tls-key of serve)
    #[arg(long, env = "SESSIOND_TLS_KEY", value_name = "PATH")]
    server_tls_key: Option<PathBuf>,
    /// Authorities of client certificates (--tls-client-ca of serve)
    #[arg(long, env = "SESSIOND_TLS_CLIENT_CA", value_name = "PATH")]
    server_tls_client_ca: Option<PathBuf>,
    /// Password of the PostgreSQL database
    #[arg(long, env = "SESSIOND_POSTGRES_PASSWORD_FILE", value_name = "PATH")]
    postgres_password_file: Option<PathBuf>,
}

/// Looks at the modes of all files that are named.
pub fn examine(args: &FileArgs, connect: &ConnectArgs, store: &str) -> Vec<Finding> {
    let database = store.strip_prefix("sqlite:").map(PathBuf::from);
    // Without `..`: a new flag does not compile until it is decided whether its file is looked at.
    let ConnectArgs { server: _, timeout: _, tls, token, output: _ } = connect;
    let FileArgs {
        policy,
        token_hashes,
        jwt_keys,
        server_tls_cert,
        server_tls_key,
        server_tls_client_ca,
        postgres_password_file,
    } = args;
    let named = [
        (&database, Purpose::Secret),
        (policy, Purpose::Decisive),
        (token_hashes, Purpose::Secret),
        (jwt_keys, Purpose::Decisive),
        (server_tls_cert, Purpose::Decisive),
        (server_tls_key, Purpose::Secret),
        (server_tls_client_ca, Purpose::Decisive),
        (postgres_password_file, Purpose::Secret),
        (token.file(), Purpose::Secret),
        (tls.key(), Purpose::Secret),
    ];
    let named = named.into_iter().filter_map(|(path, purpose)| Some((path.as_deref()?, purpose)));
    let named = named.filter(|(path, _)| path.exists());
    let findings: Vec<_> = named.filter_map(|(path, purpose)| finding(path, purpose)).collect();
    match findings.is_empty() {
        true => vec![Finding::new("files", Outcome::Ok, "closed to other users")],
        false => findings,
    }
}

fn finding(path: &Path, purpose: Purpose) -> Option<Finding> {
    let may = exposure(path, purpose)?;
    let detail = format!(
        "other users may {may} '{}'. Restrict its mode, or that of its folder",
        path.display()
    );
    Some(Finding::new("files", Outcome::Warning, detail))
}
