//! The policy's file, which is read again when it changes.

use std::{path::Path, sync::Arc};

use super::reload::{NamedFile, Reloaded};
use crate::access::{Policy, parse};

pub fn load(path: &Path) -> Result<Arc<Reloaded<Policy>>, String> {
    let files = vec![NamedFile::new("--policy", path)];
    let policy = Reloaded::load("policy", files, |files, contents| {
        let text = contents.first().map(|content| str::from_utf8(content));
        let text = text.and_then(Result::ok).ok_or_else(|| files[0].refused("it is not UTF-8"))?;
        parse(text).map_err(|fault| {
            format!(
                "{} Try `sessiond policy check`.",
                files[0].refused(fault.trim_end_matches('.'))
            )
        })
    });
    policy.map(Arc::new)
}
