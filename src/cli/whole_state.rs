//! State that does not fit into one answer: read page by page, and put together.

use super::{
    args::JSON_FORM,
    calls::retry,
    connect::Server,
    failure::{Failure, tell},
};
use crate::{
    domain::json::Json,
    proto::v1::{self, get_state_response::StateForm, session},
};

/// Asks for what is visible from a scope.
pub fn state_request(scope: v1::Scope) -> v1::GetStateRequest {
    v1::GetStateRequest { scope: Some(scope), json_form: JSON_FORM, ..Default::default() }
}

/// The state of all pages as one answer. One page stays as it came.
pub async fn whole_state(
    server: &Server,
    mut request: v1::GetStateRequest,
) -> Result<v1::GetStateResponse, Failure> {
    let mut state = retry(async || server.state().get_state(request.clone()).await).await?;
    while !state.next_page_token.is_empty() {
        request.page_token.clone_from(&state.next_page_token);
        let page = retry(async || server.state().get_state(request.clone()).await).await?;
        join(&mut state, page);
    }
    Ok(state)
}

fn join(state: &mut v1::GetStateResponse, page: v1::GetStateResponse) {
    let mut members = members_of(state);
    members.extend(members_of(&page));
    state.state_form = Some(StateForm::StateJson(Json::of_members(&members).into_string()));
    state.state_rounded |= page.state_rounded;
    state.state_omitted |= page.state_omitted;
    state.versions.extend(page.versions);
    state.damaged_keys.extend(page.damaged_keys);
    state.damaged_keys.sort_unstable();
    state.damaged_keys.dedup();
    state.next_page_token = page.next_page_token;
    state.uid = page.uid;
}

/// The members of state that was asked for as text.
pub fn members_of(state: &v1::GetStateResponse) -> Vec<(String, Json)> {
    match &state.state_form {
        Some(StateForm::StateJson(text)) => Json::from_stored(text.clone()).members(),
        _ => Vec::new(),
    }
}

/// Reads the state that an answer with the session as it is now left out, and says what is still missing.
pub async fn complete(
    server: &Server,
    session: &mut v1::Session,
    request: &v1::GetSessionRequest,
) -> Result<(), Failure> {
    if session.state_omitted && request.as_of_sequence.is_none() {
        let v1::SessionKey { app_name, user_id, session_id } =
            session.key.clone().unwrap_or_default();
        let state = whole_state(
            server,
            v1::GetStateRequest {
                invocation_id: request.invocation_id.clone(),
                include_versions: request.include_versions,
                ..state_request(v1::Scope { app_name, user_id, session_id })
            },
        );
        let state = state.await?;
        let members = Json::of_members(&members_of(&state)).into_string();
        session.state_form = Some(session::StateForm::StateJson(members));
        session.versions = state.versions;
        session.state_omitted = state.state_omitted;
        session.damaged_keys = state.damaged_keys;
    }
    warn(session.state_omitted, &session.damaged_keys);
    Ok(())
}

/// Says what is missing from state that is printed.
pub fn warn(omitted: bool, damaged_keys: &[String]) {
    if omitted {
        tell("warning: the state is not complete: it does not fit into an answer");
    }
    if !damaged_keys.is_empty() {
        let keys = damaged_keys.join(", ");
        tell(&format!(
            "warning: the stored values of these keys are damaged and left out: {keys}. Run `sessiond verify` on the store"
        ));
    }
}

#[cfg(test)]
mod tests;
