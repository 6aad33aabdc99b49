//! A session's state that no response holds: put together from the pages of its present state and the changes of its keys.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    cli::{
        adk_file::is_shared,
        args::{JSON_FORM, MAX_PAGE},
        calls::{for_each_event, get_request, retry},
        connect::Server,
        convert::{set_members, state_of},
        failure::Failure,
        whole_state::{members_of, state_request, whole_state},
    },
    domain::json::Json,
    proto::v1::{self, key_change::ValueForm, session},
};

/// Adds the state that the responses omitted: as of the last event of `session`, and as of its creation. Keys of the application and the
/// user get their present values.
pub async fn complete(
    server: &Server,
    session: &mut v1::Session,
    created: &mut v1::Session,
) -> Result<(), Failure> {
    if !session.state_omitted && !created.state_omitted {
        return Ok(());
    }
    let key = session.key.clone().unwrap_or_default();
    let v1::SessionKey { app_name, user_id, session_id } = key.clone();
    let scope = v1::Scope { app_name, user_id, session_id };
    let state = whole_state(server, state_request(scope.clone())).await?;
    if state.uid != session.uid {
        return Err(changed());
    }
    // After the state, so that each key which is not as it was at the creation is named.
    let (mut touched, mut last) = (BTreeSet::new(), BTreeMap::new());
    let uid = session.uid.clone();
    let events = Some(v1::EventSelection { include_rewound: true, ..Default::default() });
    let first = v1::GetSessionRequest { events, without_state: true, ..get_request(&key) };
    let first = retry(async || server.sessions().get_session(first.clone()).await).await?;
    let read = for_each_event(server, first, events, |event| {
        let delta = event.state_delta.unwrap_or_default();
        let set = set_members(&delta).into_iter().map(|(key, value)| (key, Some(value)));
        let removed = delta.remove.into_iter().map(|key| (key, None));
        for (key, value) in set.chain(removed).filter(|(key, _)| !is_shared(key)) {
            touched.insert(key.clone());
            last.extend((event.sequence <= session.last_sequence).then_some((key, value)));
        }
        Ok(())
    })
    .await?;
    let (shared, mut own): (BTreeMap<_, _>, BTreeMap<_, _>) =
        members_of(&state).into_iter().partition(|(key, _)| is_shared(key));
    if created.state_omitted {
        own.retain(|key, _| !touched.contains(key));
        for key in touched {
            let value = value_at_creation(server, &scope, &key).await?;
            own.extend(value.map(|value| (key, value)));
        }
    } else {
        let members = Json::from_stored(state_of(created).to_owned()).members().into_iter();
        own = members.filter(|(key, _)| !is_shared(key)).collect();
    }
    // All that was read by address is of one life of the session.
    if read.uid != uid || uid_of(server, &key).await? != uid {
        return Err(changed());
    }
    for (session, last) in [(created, BTreeMap::new()), (session, last)] {
        for (key, value) in last {
            match value {
                Some(value) => own.insert(key, value),
                None => own.remove(&key),
            };
        }
        if session.state_omitted {
            let members: Vec<_> = shared.clone().into_iter().chain(own.clone()).collect();
            let text = Json::of_members(&members).into_string();
            session.state_form = Some(session::StateForm::StateJson(text));
            session.state_omitted = false;
            session.damaged_keys.clone_from(&state.damaged_keys);
        }
    }
    Ok(())
}

async fn uid_of(server: &Server, key: &v1::SessionKey) -> Result<String, Failure> {
    let request = v1::GetSessionRequest { without_state: true, ..get_request(key) };
    let answer = retry(async || server.sessions().get_session(request.clone()).await).await?;
    Ok(answer.session.unwrap_or_default().uid)
}

/// The value of one of the session's own keys before its first event.
async fn value_at_creation(
    server: &Server,
    scope: &v1::Scope,
    key: &str,
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
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            let oldest = page.changes.into_iter().last().filter(|oldest| oldest.version == 0);
            return Ok(oldest.and_then(|oldest| match oldest.value_form {
                Some(ValueForm::ValueJson(text)) => Some(Json::from_stored(text)),
                Some(ValueForm::Value(_)) | None => None,
            }));
        }
    }
}

pub fn changed() -> Failure {
    Failure::Failed("the session changed during the export. Export it again".to_owned())
}
