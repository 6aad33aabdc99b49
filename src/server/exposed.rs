//! Files of secrets that others may read, and of rules that others may change, in the log at the start.

use std::path::Path;

use crate::{
    config::{Config, IdentityArgs, PostgresArgs, TlsArgs},
    files::{Guard, exposure},
};

/// Warns of each file that others may use against its purpose.
pub fn warn(config: &Config) {
    for (flag, path, guard) in guarded(config) {
        if let Some(may) = exposure(path, guard) {
            let path = path.display();
            tracing::warn!(flag, %path, "other users may {may} this file: restrict its mode, or that of its folder");
        }
    }
}

/// The files that the flags name.
fn guarded(config: &Config) -> impl Iterator<Item = (&'static str, &Path, Guard)> {
    let TlsArgs { tls_cert, tls_key, tls_client_ca, reload_interval: _ } = &config.tls;
    let IdentityArgs {
        token_hashes,
        jwt_keys,
        jwt_issuer: _,
        jwt_audience: _,
        unix_peers: _,
        policy,
    } = &config.identity;
    let PostgresArgs { postgres_password_file, .. } = &config.postgres;
    let files = [
        ("--tls-cert", tls_cert, Guard::Decisive),
        ("--tls-key", tls_key, Guard::Secret),
        ("--tls-client-ca", tls_client_ca, Guard::Decisive),
        ("--token-hashes", token_hashes, Guard::Secret),
        // Public keys.
        ("--jwt-keys", jwt_keys, Guard::Decisive),
        ("--policy", policy, Guard::Decisive),
        ("--postgres-password-file", postgres_password_file, Guard::Secret),
    ];
    files.into_iter().filter_map(|(flag, path, guard)| Some((flag, path.as_deref()?, guard)))
}
