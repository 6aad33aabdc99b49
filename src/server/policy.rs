//! The policy's file, which is read again when it changes.

use std::{path::Path, sync::Arc};

use super::reload::{NamedFile, Reloaded};
use crate::access::{Policy, parse};

pub fn load(path: &Path) -> Result<Arc<Reloaded<Policy>>, String> {
    let file = NamedFile::new("--policy", path);
    let policy = Reloaded::load_one("policy", file, |file, content| {
        let text = str::from_utf8(content).map_err(|_| file.refused("it is not UTF-8"))?;
        parse(text).map_err(|fault| {
            format!("{} Try `sessiond policy check`.", file.refused(fault.trim_end_matches('.')))
        })
    });
    policy.map(Arc::new)
}
