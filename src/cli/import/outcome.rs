//! How the import of a file ended.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{send::Counts, shared::SharedCounts};
use crate::proto::v1;

/// What became of a file's content.
#[derive(Debug, Default, Serialize)]
pub struct Imported {
    pub created: bool,
    #[serde(flatten)]
    pub counts: Counts,
    /// Of the session's own state.
    pub state_keys_corrected: usize,
    #[serde(flatten)]
    pub shared: SharedCounts,
    /// Shared keys that somebody else has written after this import did, and that stay.
    #[serde(skip)]
    pub changed: BTreeSet<String>,
}

/// How far the import of a file came, for the message about its failure.
#[derive(Debug, Default)]
pub struct Where {
    pub key: v1::SessionKey,
    /// Empty: at none.
    pub event: String,
}

impl Where {
    /// The address and the event, as far as they are known, before what is wrong there.
    pub fn describe(&self) -> String {
        let v1::SessionKey { app_name, user_id, session_id } = &self.key;
        let ids = [app_name, user_id, session_id].map(String::as_str);
        let ids: Vec<_> = ids.into_iter().filter(|id| !id.is_empty()).collect();
        let address = if ids.is_empty() { String::new() } else { ids.join(" / ") + ": " };
        match self.event.as_str() {
            "" => address,
            event => format!("{address}event `{event}`: "),
        }
    }
}
