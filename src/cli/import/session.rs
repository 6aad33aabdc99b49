//! Imports one session. It is created for the file, goes on where an earlier run was cut, or stays as it is.

use super::{
    ImportArgs, Imported, Where,
    send::{Counts, Log, Sender},
    shared::{NewestChanges, Shared},
};
use crate::{
    cli::{
        adk_file::{Metadata, Plan, SessionFile},
        args::JSON_FORM,
        calls::{get_request, retry},
        connect::Server,
        convert::{self, state_of},
        failure::{Failure, tell},
        progress::progress_bar,
        time,
        whole_state::complete,
    },
    domain::json::Json,
    proto::v1::{self, create_session_request::StateForm, session},
};

/// Author of the correction of state that the log does not lead to.
const AUTHOR: &str = "system";

/// Imports a file with a session. `at` says how far it came.
pub async fn import(
    (server, newest): (&Server, &mut NewestChanges),
    file: SessionFile,
    label: &str,
    args: &ImportArgs,
    at: &mut Where,
) -> Result<Imported, Failure> {
    let key = at.key.clone();
    let plan = Plan::of(&file);
    let exact = file.exported.is_some();
    let metadata = file.exported.map(|exported| exported.metadata);
    let request = create_request(&key, &plan, metadata, args.no_expiry)?;
    let mut log = Log::read(server, &key).await?;
    let (resumed, values) = (log.is_some(), plan.shared_values());
    let writes = (log.as_ref(), &file.events[..]);
    let shared = Shared::read((server, newest), &key, writes, args.restore_shared, &values);
    let mut shared = shared.await?;
    // Before the session, so that they are there as of its beginning.
    if log.is_none() {
        shared.begin(&plan.initial).await?;
    }
    let answer = retry(async || server.sessions().create_session(request.clone()).await).await?;
    if !answer.created && log.is_none() {
        // Somebody has just created it.
        log = Log::read(server, &key).await?;
    }
    let mut sender = Sender {
        server,
        key: key.clone(),
        log: log.unwrap_or_default(),
        shared,
        exact,
        progress: progress_bar(label, Some(file.events.len() as u64)),
        counts: Counts { fragments_skipped: file.fragments, ..Counts::default() },
        batch: Default::default(),
        failed_at: String::new(),
    };
    if let Err(failure) = sender.send_all(file.events).await {
        at.event = std::mem::take(&mut sender.failed_at);
        if answer.created && sender.counts.events_imported == 0 {
            discard(server, &answer.session.unwrap_or_default()).await;
        }
        return Err(failure);
    }
    // Otherwise the session has gone on since, and the file's end is no longer its end.
    let is_end = sender.is_newest(&plan.last_id);
    let state_keys_corrected = if is_end { correct_own(server, &key, &plan).await? } else { 0 };
    let Sender { counts, mut shared, .. } = sender;
    let shared_counts = shared.end(plan.state(), &plan.gone).await?;
    if resumed {
        shared.find_changed().await?;
    }
    Ok(Imported {
        created: answer.created,
        counts,
        state_keys_corrected,
        shared: shared_counts,
        changed: shared.changed,
    })
}

/// Deletes the session that this import has created and that has no event yet.
async fn discard(server: &Server, session: &v1::Session) {
    let request = v1::DeleteSessionRequest {
        key: session.key.clone(),
        allow_missing: true,
        precondition: Some(v1::Precondition {
            uid: session.uid.clone(),
            expected_sequence: Some(0),
            ..Default::default()
        }),
    };
    if let Err(failure) =
        retry(async || server.sessions().delete_session(request.clone()).await).await
    {
        tell(&format!("note: the new session stays, without events: {}", failure.text()));
    }
}

fn create_request(
    key: &v1::SessionKey,
    plan: &Plan,
    metadata: Option<Metadata>,
    no_expiry: bool,
) -> Result<v1::CreateSessionRequest, Failure> {
    let metadata = metadata.unwrap_or_default();
    let expire_time = metadata.expire_time.filter(|_| !no_expiry);
    let expiration = expire_time.map(|text| match time::parse(&text) {
        Err(error) => Err(Failure::Failed(error)),
        Ok(time) if time::is_past(&time) => Err(Failure::Failed(format!(
            "the session expired at {text}. Pass --no-expiry to import it without expiration"
        ))),
        Ok(time) => Ok(session::Expiration::ExpireTime(time)),
    });
    let session = v1::Session {
        display_name: metadata.display_name,
        labels: metadata.labels.into_iter().collect(),
        expiration: expiration.transpose()?,
        ..Default::default()
    };
    Ok(v1::CreateSessionRequest {
        app_name: key.app_name.clone(),
        user_id: key.user_id.clone(),
        session_id: key.session_id.clone(),
        state_form: Some(StateForm::StateJson(plan.initial_state())),
        session: Some(session),
        allow_existing: true,
        json_form: JSON_FORM,
        include_versions: false,
    })
}

/// Brings the session's own state to the end of the file's, by one more event. Returns the number of keys that changed.
async fn correct_own(server: &Server, key: &v1::SessionKey, plan: &Plan) -> Result<usize, Failure> {
    let request = get_request(key);
    let answer = retry(async || server.sessions().get_session(request.clone()).await).await?;
    let mut session = answer.session.unwrap_or_default();
    complete(server, &mut session, &request).await?;
    let (set, remove) = plan.own_changes(&Json::from_stored(state_of(&session).to_owned()));
    let number = set.len() + remove.len();
    let Some(delta) = convert::delta(set, remove) else { return Ok(0) };
    let expected_sequence = Some(session.last_sequence);
    let request = v1::AppendEventRequest {
        key: Some(key.clone()),
        event: Some(v1::Event {
            event_id: plan.correction_id(),
            author: AUTHOR.to_owned(),
            event_time: plan.last_time,
            state_delta: Some(delta),
            ..Default::default()
        }),
        precondition: Some(v1::Precondition { expected_sequence, ..Default::default() }),
        json_form: JSON_FORM,
        ..Default::default()
    };
    retry(async || server.events().append_event(request.clone()).await).await?;
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_brings_back_the_metadata() {
        let text = |expires: &str| {
            format!(
                r#"{{"sessiond":{{"session":{{"format":1,"display_name":"n","labels":{{"a":"b"}},"expire_time":"{expires}"}},
                "initial_state":{{"k":1.0}},"hidden":[]}}}}"#
            )
        };
        let request = |expires: &str, no_expiry| {
            let text = text(expires);
            let file = SessionFile::read(&text).unwrap();
            let metadata = file.exported.map(|exported| exported.metadata);
            create_request(&v1::SessionKey::default(), &Plan::default(), metadata, no_expiry)
        };
        let late = request("9999-01-01T00:00:00.000000001Z", false).unwrap();
        let about = late.session.unwrap();
        assert_eq!((about.display_name.as_str(), about.labels["a"].as_str()), ("n", "b"));
        assert!(
            matches!(about.expiration, Some(session::Expiration::ExpireTime(t)) if t.nanos == 1)
        );
        assert!(request("2001-01-01T00:00:00Z", false).unwrap_err().text().contains("--no-expiry"));
        assert_eq!(
            request("2001-01-01T00:00:00Z", true).unwrap().session.unwrap().expiration,
            None
        );
    }
}
