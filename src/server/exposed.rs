//! Files of secrets that others may read, and of rules that others may change, in the log at the start.

use std::path::Path;

use crate::{
    config::{Config, IdentityArgs, PostgresArgs, TlsArgs},
    files::{Purpose, exposure},
};

/// Warns of each file that others may use against its purpose.
pub fn warn(config: &Config) {
    for (flag, path, purpose) in files(config) {
        if let Some(may) = exposure(path, purpose) {
            let path = path.display();
            tracing::warn!(flag, %path, "other users may {may} this file: restrict its mode, or that of its folder");
        }
    }
}

/// The files that the flags name. A new flag does not compile until it is handled here.
fn files(config: &Config) -> impl Iterator<Item = (&'static str, &Path, Purpose)> {
    let TlsArgs { tls_cert, tls_key, tls_client_ca, reload_interval: _ } = &config.tls;
    let IdentityArgs {
        token_hashes,
        jwt_keys,
        policy,
        jwt_issuer: _,
        jwt_audience: _,
        unix_peers: _,
    } = &config.identity;
    let PostgresArgs {
        postgres_password_file,
        postgres_writers: _,
        postgres_statement_timeout: _,
        postgres_listen_url: _,
        postgres_unnamed_statements: _,
    } = &config.postgres;
    let files = [
        ("--tls-cert", tls_cert, Purpose::Decisive),
        ("--tls-key", tls_key, Purpose::Secret),
        ("--tls-client-ca", tls_client_ca, Purpose::Decisive),
        ("--token-hashes", token_hashes, Purpose::Secret),
        // Public keys.
        ("--jwt-keys", jwt_keys, Purpose::Decisive),
        ("--policy", policy, Purpose::Decisive),
        ("--postgres-password-file", postgres_password_file, Purpose::Secret),
    ];
    files.into_iter().filter_map(|(flag, path, purpose)| Some((flag, path.as_deref()?, purpose)))
}
