//! Who wrote a shared key last: an earlier run of the same import, which was cut and goes on, or somebody else, whose value stays.

use std::collections::{BTreeSet, HashMap};

use serde_json::json;
use xxhash_rust::xxh3::xxh3_128;

use super::log::Log;
use crate::{
    cli::{
        args::{JSON_FORM, MAX_PAGE},
        calls::retry,
        connect::Server,
        failure::Failure,
    },
    domain::json::Json,
    proto::v1::{self, key_change::ValueForm},
};

/// The newest changes of shared keys, by scope and key, for all files of a run.
pub struct Writers<'a> {
    server: &'a Server,
    newest: HashMap<(String, String, String), v1::KeyChange>,
}

/// What an import of one session leaves on the keys that it writes.
pub struct Mark {
    key: v1::SessionKey,
    /// Author of its changes outside of the session's log.
    pub author: String,
    /// Sequences of the session's events that came from the file.
    pub sequences: BTreeSet<i64>,
}

impl Mark {
    /// Of a session whose log is empty or has some events of the file.
    pub fn new(key: &v1::SessionKey, log: Option<&Log>, events: &[v1::Event]) -> Self {
        let v1::SessionKey { app_name, user_id, session_id } = key;
        let address = json!([app_name, user_id, session_id]).to_string();
        let in_log = |event: &v1::Event| Some(log?.events.get(&event.event_id)?.sequence);
        Self {
            key: key.clone(),
            author: format!("import-{:032x}", xxh3_128(address.as_bytes())),
            sequences: events.iter().filter_map(in_log).collect(),
        }
    }

    fn is_on(&self, change: &v1::KeyChange) -> bool {
        match &change.session {
            Some(session) => *session == self.key && self.sequences.contains(&change.sequence),
            None => change.author == self.author,
        }
    }
}

impl<'a> Writers<'a> {
    pub fn new(server: &'a Server) -> Self {
        Self { server, newest: HashMap::new() }
    }

    /// Whether the key has its value, which is of this version, from the import with this mark.
    pub async fn is_marked(
        &mut self,
        (scope, key, version): (&v1::Scope, &str, i64),
        mark: &Mark,
    ) -> Result<bool, Failure> {
        let place = (scope.app_name.clone(), scope.user_id.clone(), key.to_owned());
        if let Some(known) = self.newest.get(&place).filter(|known| known.version == version) {
            return Ok(mark.is_on(known));
        }
        let newest = self.changes(scope, key, 1).await?.into_iter().next();
        let Some(newest) = newest else { return Ok(false) };
        let is_marked = newest.version == version && mark.is_on(&newest);
        self.newest.insert(place, newest);
        Ok(is_marked)
    }

    /// The value that the import with this mark gave to the key last, `None` if it removed it; as far as the last changes tell.
    pub async fn last_marked(
        &self,
        scope: &v1::Scope,
        key: &str,
        mark: &Mark,
    ) -> Result<Option<Option<Json>>, Failure> {
        let changes = self.changes(scope, key, MAX_PAGE).await?;
        let last = changes.into_iter().find(|change| mark.is_on(change));
        Ok(last.map(|change| match change.value_form {
            Some(ValueForm::ValueJson(text)) => Some(Json::from_stored(text)),
            _ => None,
        }))
    }

    /// The last changes, newest first.
    async fn changes(
        &self,
        scope: &v1::Scope,
        key: &str,
        page_size: i32,
    ) -> Result<Vec<v1::KeyChange>, Failure> {
        let request = v1::ListKeyChangesRequest {
            scope: Some(scope.clone()),
            key: key.to_owned(),
            page_size,
            json_form: JSON_FORM,
            ..Default::default()
        };
        let call = async || self.server.state().list_key_changes(request.clone()).await;
        Ok(retry(call).await?.changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_of_the_import_by_its_author_or_by_its_event() {
        let key =
            |session: &str| v1::SessionKey { session_id: session.to_owned(), ..Default::default() };
        let event = |id: &str, sequence| v1::Event {
            event_id: id.to_owned(),
            sequence,
            ..Default::default()
        };
        let events = [("a", 1), ("own", 2)].map(|(id, at)| (id.to_owned(), event(id, at)));
        let log = Log { events: events.into(), ..Default::default() };
        let mark = Mark::new(&key("s"), Some(&log), &[event("a", 0), event("b", 0)]);
        let change = |session: Option<&str>, sequence, author: &str| v1::KeyChange {
            session: session.map(key),
            sequence,
            author: author.to_owned(),
            ..Default::default()
        };
        assert!(mark.is_on(&change(Some("s"), 1, "agent")));
        assert!(mark.is_on(&change(None, 0, &mark.author)));
        for other in [
            change(Some("s"), 2, "agent"),
            change(Some("t"), 1, "agent"),
            change(None, 0, "system"),
            change(None, 0, &Mark::new(&key("t"), None, &[]).author),
        ] {
            assert!(!mark.is_on(&other), "{other:?}");
        }
        assert!(!Mark::new(&key("s"), None, &[event("a", 1)]).is_on(&change(Some("s"), 1, "x")));
    }
}
