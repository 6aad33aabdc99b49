//! A session's state that no response holds, as it was right after an event: put together from the pages of its present state and the
//! changes of its keys.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    cli::{
        args::{JSON_FORM, MAX_PAGE},
        calls::{for_each_event, get_request, retry},
        connect::Server,
        convert::set_members,
        failure::Failure,
        whole_state::{members_of, state_request, whole_state},
    },
    domain::{
        json::Json,
        scope::{ScopeKind, StateKey},
    },
    proto::v1::{self, key_change::ValueForm, session},
};

/// Own and shared keys of a session.
struct Keys {
    scope: v1::Scope,
    /// Application and user keys with their present values.
    shared: Vec<(String, Json)>,
    /// Own keys with their present values and the sequences of the events that set them.
    own: BTreeMap<String, (Json, i64)>,
    /// Own keys that an event has set or removed.
    logged: BTreeSet<String>,
    damaged: Vec<String>,
}

/// Adds the state that the responses omitted. Each session is as of its last event, but keys of the application and the user get their
/// present values.
pub async fn complete(server: &Server, sessions: [&mut v1::Session; 2]) -> Result<(), Failure> {
    let mut keys = None;
    for session in sessions.into_iter().filter(|session| session.state_omitted) {
        let keys = match &mut keys {
            Some(keys) => keys,
            none => none.insert(Keys::read(server, session).await?),
        };
        let state = keys.as_of(server, session.last_sequence).await?;
        session.state_form =
            Some(session::StateForm::StateJson(Json::of_members(&state).into_string()));
        session.state_omitted = false;
        session.damaged_keys.clone_from(&keys.damaged);
    }
    Ok(())
}

impl Keys {
    async fn read(server: &Server, session: &v1::Session) -> Result<Self, Failure> {
        let key = session.key.clone().unwrap_or_default();
        let v1::SessionKey { app_name, user_id, session_id } = key.clone();
        let scope = v1::Scope { app_name, user_id, session_id };
        let request =
            v1::GetStateRequest { include_versions: true, ..state_request(scope.clone()) };
        let state = whole_state(server, request).await?;
        if state.uid != session.uid {
            return Err(changed());
        }
        let (mut shared, mut own, mut logged) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
        for (key, value) in members_of(&state) {
            match state.versions.get(&key) {
                Some(version) if is_own(&key) => drop(own.insert(key, (value, *version))),
                _ => shared.push((key, value)),
            }
        }
        // After the state, so that a key which is removed meanwhile is named by one of them.
        let events = Some(v1::EventSelection { include_rewound: true, ..Default::default() });
        let first = v1::GetSessionRequest { events, without_state: true, ..get_request(&key) };
        let first = retry(async || server.sessions().get_session(first.clone()).await).await?;
        for_each_event(server, first, events, |event| {
            let delta = event.state_delta.unwrap_or_default();
            let set = set_members(&delta).into_iter().map(|(key, _)| key);
            logged.extend(set.chain(delta.remove).filter(|key| is_own(key)));
            Ok(())
        })
        .await?;
        Ok(Self { scope, shared, own, logged, damaged: state.damaged_keys })
    }

    /// The merged state right after an event.
    async fn as_of(&self, server: &Server, at: i64) -> Result<Vec<(String, Json)>, Failure> {
        let mut own = BTreeMap::new();
        for key in self.own.keys().chain(&self.logged).collect::<BTreeSet<_>>() {
            let value = match self.own.get(key) {
                Some((value, version)) if *version <= at => Some(value.clone()),
                _ => self.value_at(server, key, at).await?,
            };
            own.extend(value.map(|value| (key.clone(), value)));
        }
        Ok(self.shared.iter().cloned().chain(own).collect())
    }

    /// The value of an own key right after an event.
    async fn value_at(&self, server: &Server, key: &str, at: i64) -> Result<Option<Json>, Failure> {
        let mut request = v1::ListKeyChangesRequest {
            scope: Some(self.scope.clone()),
            key: key.to_owned(),
            page_size: MAX_PAGE,
            json_form: JSON_FORM,
            ..Default::default()
        };
        loop {
            let call = async || server.state().list_key_changes(request.clone()).await;
            let page = retry(call).await?;
            if let Some(change) = page.changes.into_iter().find(|change| change.version <= at) {
                return Ok(match change.value_form {
                    Some(ValueForm::ValueJson(text)) => Some(Json::from_stored(text)),
                    Some(ValueForm::Value(_)) | None => None,
                });
            }
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                return Ok(None);
            }
        }
    }
}

pub fn changed() -> Failure {
    Failure::Failed("the session changed during the export. Export it again".to_owned())
}

fn is_own(key: &str) -> bool {
    StateKey::from_stored(key).scope() == Some(ScopeKind::Session)
}
