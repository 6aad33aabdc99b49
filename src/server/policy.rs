//! The policy's file, which is read again when it changes.

use std::sync::Arc;

use super::reload::{NamedFile, Reloaded};
use crate::{
    access::{Policy, parse},
    config::Config,
};

/// Errors: a policy without an identity source, whose rules would match no caller.
pub fn load(config: &Config) -> Result<Option<Arc<Reloaded<Policy>>>, String> {
    let Some(path) = &config.identity.policy else { return Ok(None) };
    if !config.identifies() {
        return Err("--policy requires an identity source: pass --token-hashes, --jwt-keys, --tls-client-ca, or --unix-peers with a Unix socket.".into());
    }
    let file = NamedFile::new("--policy", path);
    let policy = Reloaded::load("policy", vec![file], |files, contents| {
        let (file, content) = (&files[0], &contents[0]);
        let text = str::from_utf8(content).map_err(|_| file.refused("it is not UTF-8"))?;
        parse(text).map_err(|fault| {
            format!("{} Try `sessiond policy check`.", file.refused(fault.trim_end_matches('.')))
        })
    });
    policy.map(|policy| Some(Arc::new(policy)))
}
