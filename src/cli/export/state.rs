//! State, page by page: an answer lacks what does not fit into it.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    cli::{
        adk_file::set_members,
        args::{JSON_FORM, MAX_PAGE},
        calls::{for_each_event, retry},
        connect::Server,
        failure::Failure,
        whole_state::{members_of, state_request, whole_state},
    },
    domain::{
        json::Json,
        scope::{ScopeKind, StateKey},
    },
    proto::v1::{self, key_change::ValueForm, session},
};

/// A key with its value, and the version at which it was last written.
pub struct Entry {
    pub key: String,
    pub value: Json,
    version: i64,
}

/// Everything that is visible from a scope now, in the order of the merged state.
pub async fn read(server: &Server, scope: v1::Scope) -> Result<Vec<Entry>, Failure> {
    let request = v1::GetStateRequest { include_versions: true, ..state_request(scope) };
    let state = whole_state(server, request).await?;
    let entry = |(key, value): (String, Json)| {
        let version = state.versions.get(&key).copied().unwrap_or_default();
        Entry { key, value, version }
    };
    Ok(members_of(&state).into_iter().map(entry).collect())
}

/// Adds the state that the answer left out of a session that was read as of its last event. Keys of the application and the user get
/// the values that they have now.
pub async fn complete(server: &Server, session: &mut v1::Session) -> Result<(), Failure> {
    let (true, Some(key)) = (session.state_omitted, session.key.clone()) else { return Ok(()) };
    let at = session.last_sequence;
    let v1::SessionKey { app_name, user_id, session_id } = key.clone();
    let scope = v1::Scope { app_name, user_id, session_id };
    let (mut state, mut own, mut later) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
    for Entry { key, value, version } in read(server, scope.clone()).await? {
        if !is_own(&key) {
            state.push((key, value));
        } else if version <= at {
            own.insert(key, value);
        } else {
            later.insert(key);
        }
    }
    // Keys that later events removed are named by these.
    let selection = v1::EventSelection {
        after_sequence: at,
        include_rewound: true,
        ..v1::EventSelection::default()
    };
    let first = v1::GetSessionRequest {
        key: Some(key),
        events: Some(selection),
        without_state: true,
        json_form: JSON_FORM,
        ..Default::default()
    };
    let first = retry(async || server.sessions().get_session(first.clone()).await).await?;
    for_each_event(server, first, Some(selection), |event| {
        let delta = event.state_delta.unwrap_or_default();
        let set = set_members(&delta).into_iter().map(|(key, _)| key);
        later.extend(set.chain(delta.remove).filter(|key| is_own(key) && !own.contains_key(key)));
        Ok(())
    })
    .await?;
    for key in later {
        if let Some(value) = value_at(server, &scope, &key, at).await? {
            own.insert(key, value);
        }
    }
    state.extend(own);
    session.state_form =
        Some(session::StateForm::StateJson(Json::of_members(&state).into_string()));
    session.state_omitted = false;
    Ok(())
}

fn is_own(key: &str) -> bool {
    StateKey::from_stored(key).scope() == Some(ScopeKind::Session)
}

/// The value of a session's own key right after an event.
async fn value_at(
    server: &Server,
    scope: &v1::Scope,
    key: &str,
    at: i64,
) -> Result<Option<Json>, Failure> {
    let mut request = v1::ListKeyChangesRequest {
        scope: Some(scope.clone()),
        key: key.to_owned(),
        page_size: MAX_PAGE,
        json_form: JSON_FORM,
        ..Default::default()
    };
    loop {
        let page = retry(async || server.state().list_key_changes(request.clone()).await).await?;
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
