//! Writes one session.

use std::io::Write;

use super::{damage, state};
use crate::{
    cli::{
        adk_file::{FileWriter, Losses, Metadata},
        calls::{for_each_event, get_request},
        connect::Server,
        convert::{address_of, file_event, state_of},
        failure::{Failure, tell},
        time,
        whole_state::warn,
    },
    domain::{
        json::Json,
        visible::{Marker, Visible},
    },
    proto::v1::{self, session::Expiration},
};

/// The number of events, and what the form lacks.
pub type Written = (usize, Losses);

/// Writes a session as it is now, whatever is appended meanwhile.
pub async fn whole(
    server: &Server,
    key: &v1::SessionKey,
    exact: bool,
    to: &mut impl Write,
) -> Result<Written, Failure> {
    let now = get_request(key);
    let get = async |request| server.sessions().get_session(request).await;
    let mut session = get(now.clone()).await?.into_inner().session.unwrap_or_default();
    let created = v1::GetSessionRequest { as_of_sequence: Some(0), ..now.clone() };
    let mut created = get(created).await?.into_inner().session.unwrap_or_default();
    state::complete(server, &mut session, &mut created).await?;
    warn(false, &session.damaged_keys);
    let last = session.last_sequence;
    let mut writer = begin(to, &session, exact)?;
    if last > 0 {
        let events = Some(v1::EventSelection { include_rewound: true, ..Default::default() });
        let as_of_sequence = Some(last);
        let first = v1::GetSessionRequest { as_of_sequence, events, without_state: true, ..now };
        let first = get(first).await?.into_inner();
        let each = |event| Ok(writer.event(&file_event(event))?);
        let read = for_each_event(server, first, events, each).await?;
        if read.uid != session.uid {
            return Err(state::changed());
        }
    }
    if writer.events() as i64 != last {
        return Err(state::changed());
    }
    end(writer, (session, &created), exact)
}

/// Writes the readable part of a damaged session: all but the damaged events, or the session as of the last event before the damage.
/// Reports the omissions.
pub async fn readable(
    server: &Server,
    key: &v1::SessionKey,
    exact: bool,
    to: &mut impl Write,
) -> Result<Written, Failure> {
    let now = v1::GetSessionRequest { without_state: true, ..get_request(key) };
    let now = server.sessions().get_session(now).await?.into_inner().session.unwrap_or_default();
    let last = now.last_sequence;
    let mut markers = Vec::new();
    let note = |event: v1::Event| {
        let sequence = event.sequence.cast_unsigned();
        let marker = event.rewind_to_sequence.map(|to| Marker { sequence, to: to.cast_unsigned() });
        markers.extend(marker);
        Ok(())
    };
    let log = damage::each_event(server, key, last, note).await?;
    let visible = Visible::new(&markers, log.last.cast_unsigned());
    // The state as of an event is put together from the log.
    let as_of = [None, Some(log.last)];
    let as_of = if log.last == last { &as_of[..] } else { &as_of[1..] };
    let mut session = damage::session(server, key, as_of).await?;
    let mut created = damage::session(server, key, &[Some(0)]).await?;
    match state::complete(server, &mut session, &mut created).await {
        Err(Failure::Refused(status)) if damage::is_damage(&status) => {}
        completed => completed?,
    }
    warn(false, &session.damaged_keys);
    let mut writer = begin(to, &session, exact)?;
    let each = |event: v1::Event| {
        let rewound = !visible.contains(event.sequence.cast_unsigned());
        Ok(writer.event(&file_event(v1::Event { rewound, ..event }))?)
    };
    damage::each_event(server, key, log.last, each).await?;
    let written = end(writer, (session, &created), exact)?;
    let v1::SessionKey { user_id, session_id, .. } = key;
    let name = format!("note: session `{session_id}` of `{user_id}`");
    if log.last < last {
        let last = log.last;
        tell(&format!("{name} is damaged after event {last} and exported as of that event"));
    }
    if !log.damaged.is_empty() {
        let events = log.damaged.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        tell(&format!("{name}: empty events take the places of the damaged ones: {events}"));
    }
    Ok(written)
}

fn begin<'a, W: Write>(
    to: &'a mut W,
    session: &v1::Session,
    exact: bool,
) -> Result<FileWriter<'a, W>, Failure> {
    let address = address_of(session.key.clone().unwrap_or_default());
    let state = (!session.state_omitted).then(|| Json::from_stored(state_of(session).to_owned()));
    if state.is_none() {
        tell("warning: the state cannot be read and is left out. An import adds up the events");
    }
    Ok(FileWriter::begin(to, (&address, state.as_ref()), session.last_event_time, exact)?)
}

fn end<W: Write>(
    writer: FileWriter<'_, W>,
    (session, created): (v1::Session, &v1::Session),
    exact: bool,
) -> Result<Written, Failure> {
    if created.state_omitted && exact {
        tell("warning: the state at creation cannot be read and is left out");
    }
    let events = writer.events();
    let initial_state = Json::from_stored(state_of(created).to_owned());
    Ok((events, writer.end(&metadata_of(session), &initial_state)?))
}

fn metadata_of(session: v1::Session) -> Metadata {
    let forked_from = session.forked_from.map(|v1::ForkOrigin { key, sequence }| {
        let v1::SessionKey { app_name, user_id, session_id } = key.unwrap_or_default();
        serde_json::json!({ "app_name": app_name, "user_id": user_id, "session_id": session_id, "sequence": sequence })
    });
    Metadata {
        display_name: session.display_name,
        labels: session.labels.into_iter().collect(),
        expire_time: match session.expiration {
            Some(Expiration::ExpireTime(time)) => Some(time::format(time)),
            Some(Expiration::Ttl(_)) | None => None,
        },
        create_time: session.create_time.map(time::format),
        forked_from,
        ..Metadata::default()
    }
}
