//! Files of secrets that others may read, and of rules that others may change, in the log at the start.

use std::path::Path;

use crate::{
    config::Config,
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

/// The files that the flags name.
fn files(config: &Config) -> impl Iterator<Item = (&'static str, &Path, Purpose)> {
    let Config { tls, identity, postgres, .. } = config;
    let files = [
        ("--tls-cert", &tls.tls_cert, Purpose::Decisive),
        ("--tls-key", &tls.tls_key, Purpose::Secret),
        ("--tls-client-ca", &tls.tls_client_ca, Purpose::Decisive),
        ("--token-hashes", &identity.token_hashes, Purpose::Secret),
        // Public keys.
        ("--jwt-keys", &identity.jwt_keys, Purpose::Decisive),
        ("--policy", &identity.policy, Purpose::Decisive),
        ("--postgres-password-file", &postgres.postgres_password_file, Purpose::Secret),
    ];
    files.into_iter().filter_map(|(flag, path, purpose)| Some((flag, path.as_deref()?, purpose)))
}
