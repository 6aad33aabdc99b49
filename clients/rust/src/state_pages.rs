//! State that does not fit into one answer, put together from pages.

use std::collections::{BTreeMap, HashMap};

use adk_core::Result;
use serde_json::value::RawValue;

use crate::{
    address::{same_life, sent_key},
    call::Caller,
    error::{invalid, unexpected},
    observe::observe,
    proto::v1::{
        GetStateRequest, JsonForm, Scope, Session, SessionKey, get_state_response,
        session::StateForm, state_service_client::StateServiceClient,
    },
};

/// The state of a scope.
pub(crate) struct Pages {
    pub uid: String,
    /// One JSON object.
    pub text: String,
    pub versions: HashMap<String, i64>,
    pub damaged_keys: Vec<String>,
}

/// Reads the state that `request` selects. A value that does not fit into an answer by itself is missing.
pub(crate) async fn read_state(caller: &Caller, mut request: GetStateRequest) -> Result<Pages> {
    request.json_form = JsonForm::Text.into();
    let mut values: BTreeMap<String, Box<RawValue>> = BTreeMap::new();
    let mut pages = Pages {
        uid: String::new(),
        text: String::new(),
        versions: HashMap::new(),
        damaged_keys: Vec::new(),
    };
    loop {
        let page = caller
            .call(&request, |channel, request| async move {
                StateServiceClient::new(channel).get_state(request).await
            })
            .await?;
        same_life(&pages.uid, &page.uid)?;
        match page.state_form {
            Some(get_state_response::StateForm::StateJson(text)) => {
                let page: BTreeMap<String, Box<RawValue>> =
                    serde_json::from_str(&text).map_err(|cause| {
                        unexpected("sessiond sent state that is not a JSON object")
                            .with_source(cause)
                    })?;
                values.extend(page);
            }
            _ if page.state_omitted => {
                let scope = &request.scope;
                observe(|| tracing::warn!(?scope, "a state value that fits no answer omitted"));
            }
            _ => return Err(unexpected("sessiond sent no state as text")),
        }
        pages.uid = page.uid;
        pages.versions.extend(page.versions);
        pages.damaged_keys.extend(page.damaged_keys);
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    pages.text = serde_json::to_string(&values).map_err(|cause| {
        invalid("session.bad_json", "state cannot be written as JSON").with_source(cause)
    })?;
    Ok(pages)
}

/// Adds the state that did not fit into the answer that `session` came with, and names shared values that are damaged.
pub(crate) async fn complete(caller: &Caller, session: &mut Session) -> Result<()> {
    complete_within(caller, session, "", false).await
}

/// The same, with the `temp:` keys of an invocation and with versions.
pub(crate) async fn complete_within(
    caller: &Caller,
    session: &mut Session,
    invocation_id: &str,
    include_versions: bool,
) -> Result<()> {
    let SessionKey { app_name, user_id, session_id } = sent_key(session.key.clone())?;
    if session.state_omitted {
        let request = GetStateRequest {
            scope: Some(Scope { app_name, user_id, session_id: session_id.clone() }),
            invocation_id: invocation_id.into(),
            include_versions,
            ..GetStateRequest::default()
        };
        let Pages { uid, text, versions, damaged_keys } = read_state(caller, request).await?;
        same_life(&session.uid, &uid)?;
        session.state_form = Some(StateForm::StateJson(text));
        session.versions = versions;
        session.damaged_keys = damaged_keys;
        session.state_omitted = false;
    }
    warn_damaged(&session_id, &session.damaged_keys);
    Ok(())
}

/// Names the keys of users and applications that are missing from a state.
pub(crate) fn warn_damaged(session_id: &str, keys: &[String]) {
    if !keys.is_empty() {
        observe(|| {
            tracing::warn!(
                session_id,
                ?keys,
                "stored values are damaged and missing from the state"
            );
        });
    }
}
