//! The title of a session, and headings.

use prost_types::Timestamp;

use super::view::View;
use crate::{
    cli::{
        adk_file::is_internal,
        terminal::{BOLD, DIM, escape, paint, wrap},
    },
    proto::v1::{self, session::Expiration},
};

/// The title of a session and what there is to know about it.
pub fn title(session: &v1::Session, view: &View) -> String {
    let key = session.key.clone().unwrap_or_default();
    let address = [&key.app_name, &key.user_id, &key.session_id].map(|id| escape(id).into_owned());
    let mut title = paint(BOLD, address.join(" / "));
    if !session.display_name.is_empty() {
        title.push_str(&format!("  {}", escape(&session.display_name)));
    }
    let events = session.last_sequence;
    let mut facts = vec![format!("{events} event{}", if events == 1 { "" } else { "s" })];
    let mut fact = |name: &str, time: Option<Timestamp>| {
        facts.extend(time.map(|time| format!("{name} {}", view.time(time))));
    };
    fact("created", session.create_time);
    fact("last event", session.last_event_time.filter(|_| events > 0));
    if let Some(Expiration::ExpireTime(time)) = session.expiration {
        fact("expires", Some(time));
    }
    if let Some(origin) = &session.forked_from {
        let id = origin.key.clone().unwrap_or_default().session_id;
        facts.push(format!("forked from {} at {}", escape(&id), origin.sequence));
    }
    let mut labels: Vec<_> = session
        .labels
        .iter()
        .filter(|(name, _)| !is_internal(name))
        .map(|(name, value)| escape(&format!("{name}={value}")).into_owned())
        .collect();
    labels.sort_unstable();
    facts.extend(labels);
    format!("{title}\n{}\n", paint(DIM, wrap(&facts.join(" · "), view.width, "").trim_end()))
}

/// A heading between two parts.
pub fn heading(text: &str) -> String {
    format!("\n{}\n", paint(BOLD, text))
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;

    use super::*;

    const VIEW: View =
        View { width: 60, full: false, now: Some(Timestamp { seconds: 120, nanos: 0 }) };

    #[test]
    fn the_header_tells_what_there_is_to_know() {
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        let session = v1::Session {
            key: Some(v1::SessionKey {
                app_name: "shop".to_owned(),
                user_id: "alice".to_owned(),
                session_id: "s1".to_owned(),
            }),
            display_name: "Shoes".to_owned(),
            last_sequence: 1,
            create_time: at(0),
            last_event_time: at(60),
            expiration: at(7320).map(Expiration::ExpireTime),
            labels: [("tier", "gold"), ("sessiond-adk/creation", "d0")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..Default::default()
        };
        let text = strip_str(&title(&session, &View { width: 100, ..VIEW })).to_string();
        assert_eq!(
            text,
            "shop / alice / s1  Shoes\n1 event · created 2 minutes ago · last event 1 minute ago · expires in 2 hours · tier=gold\n"
        );
    }

    #[test]
    fn no_id_reaches_the_terminal_as_a_control() {
        let evil = "\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}";
        let session = v1::Session {
            key: Some(v1::SessionKey {
                app_name: evil.to_owned(),
                user_id: evil.to_owned(),
                session_id: evil.to_owned(),
            }),
            display_name: evil.to_owned(),
            labels: [(evil.to_owned(), evil.to_owned())].into(),
            ..Default::default()
        };
        let text = strip_str(&title(&session, &VIEW)).to_string();
        assert_eq!(text.matches("\\u{1b}").count(), 6, "{text}");
        assert!(!text.contains(['\u{7}', '\u{9b}', '\u{202e}']), "{text:?}");
    }
}
