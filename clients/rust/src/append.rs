//! Appending an event, without its `temp:` keys if the server cannot hold them.

use adk_core::Result;
use adk_session::KEY_PREFIX_TEMP;

use crate::{
    call::{CallResult, Caller},
    failure::Failure,
    json::{object_text, parse_object},
    observe::observe,
    proto::v1::{
        self, AppendEventRequest, AppendEventResponse, JsonForm, Precondition, SessionKey,
        event_service_client::EventServiceClient, state_delta::SetForm,
    },
};

/// `ErrorInfo.metadata["what"]` of OVERLOADED if the server's table of invocations with `temp:` keys is full.
const TEMP_INVOCATIONS: &str = "temp_invocations";

/// Appends one event. The server bounds how large `temp:` keys are and how many invocations have them. They are a convenience, and
/// the event is not, so it is then appended without them.
pub(crate) async fn append(
    caller: &Caller,
    key: SessionKey,
    precondition: Option<Precondition>,
    event: v1::Event,
) -> Result<AppendEventResponse> {
    let request = AppendEventRequest {
        key: Some(key),
        event: Some(event),
        precondition,
        ..AppendEventRequest::default()
    };
    append_request(caller, request).await
}

pub(crate) async fn append_request(
    caller: &Caller,
    mut request: AppendEventRequest,
) -> Result<AppendEventResponse> {
    request.json_form = JsonForm::Text.into();
    let refusal = match send(caller, &request).await {
        Ok(response) => return Ok(response),
        Err(refusal) => refusal,
    };
    let is_too_large = may_be_temp_too_large(&refusal);
    // An event that was stored without its `temp:` keys looks like another one when it is appended again with them.
    let without_temp = is_too_large || is_temp_full(&refusal) || refusal.is("EVENT_ID_REUSED");
    if !without_temp || !request.event.as_mut().map_or(Ok(false), drop_temp)? {
        return Err(refusal.into());
    }
    match send(caller, &request).await {
        Ok(response) => {
            let refusal = refusal.status.message();
            observe(|| tracing::warn!(refusal, "event stored without its temp: keys"));
            Ok(response)
        }
        // The stored event is another one with or without the keys: the first refusal names the event as it was passed. One that
        // is too large can never be stored, so there the second refusal is the one to mend.
        Err(failure) if failure.is("EVENT_ID_REUSED") && !is_too_large => Err(refusal.into()),
        Err(failure) => Err(failure.into()),
    }
}

async fn send(caller: &Caller, request: &AppendEventRequest) -> CallResult<AppendEventResponse> {
    caller
        .call_unless(is_temp_full, request, |channel, request| async move {
            EventServiceClient::new(channel).append_event(request).await
        })
        .await
}

/// Other OVERLOADED refusals, such as a full queue, concern the whole event.
fn is_temp_full(failure: &Failure) -> bool {
    failure.info().is_some_and(|info| {
        info.reason == "OVERLOADED"
            && info.metadata.get("what").is_some_and(|what| what == TEMP_INVOCATIONS)
    })
}

/// Whether `temp:` keys may be what is too large. The server names the key only if an operation made its value too large.
fn may_be_temp_too_large(failure: &Failure) -> bool {
    failure.info().is_some_and(|info| match info.reason.as_str() {
        "STATE_TOO_LARGE" => info.metadata.get("scope").is_some_and(|scope| scope == "invocation"),
        "VALUE_TOO_LARGE" => {
            info.metadata.get("key").is_none_or(|key| key.starts_with(KEY_PREFIX_TEMP))
        }
        "MESSAGE_TOO_LARGE" => true,
        _ => false,
    })
}

/// Removes every change of `temp:` keys from an event's delta. Returns whether there were any.
fn drop_temp(event: &mut v1::Event) -> Result<bool> {
    let Some(delta) = &mut event.state_delta else { return Ok(false) };
    let kept = |key: &str| !key.starts_with(KEY_PREFIX_TEMP);
    let changes = delta.remove.len() + delta.operations.len();
    delta.remove.retain(|key| kept(key));
    delta.operations.retain(|operation| kept(&operation.key));
    let mut dropped = delta.remove.len() + delta.operations.len() < changes;
    if let Some(SetForm::SetJson(text)) = &mut delta.set_form {
        let mut set = parse_object(text)?;
        let before = set.len();
        set.retain(|key, _| kept(key));
        dropped |= set.len() < before;
        *text = object_text(&set)?;
    }
    Ok(dropped)
}
