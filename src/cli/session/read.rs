//! Sessions are read and listed.

use super::{GetArgs, ListArgs, Order, SelectionArgs};
use crate::{
    cli::{
        args::{JSON_FORM, label_map},
        connect::Server,
        failure::Failure,
        output::Output,
        view::{GetView, SessionView},
    },
    proto::v1::{
        Event, EventSelection, GetSessionRequest, ListEventsRequest, ListSessionsRequest,
        SessionKey, SessionOrder,
    },
};

impl SelectionArgs {
    /// The selection as the contract has it.
    pub fn selection(&self) -> EventSelection {
        EventSelection {
            recent: self.recent,
            after_time: self.after_time,
            after_sequence: self.after_sequence.unwrap_or_default(),
            include_rewound: self.include_rewound,
        }
    }
}

pub(super) fn get_request(args: &GetArgs) -> Result<GetSessionRequest, Failure> {
    let selection = args.selection.selection();
    let wanted = args.events || selection != EventSelection::default();
    Ok(GetSessionRequest {
        key: Some(args.key.key()?),
        events: wanted.then_some(selection),
        as_of_sequence: args.as_of,
        invocation_id: args.invocation.clone(),
        without_state: args.without_state,
        json_form: JSON_FORM,
    })
}

pub(super) async fn get(request: GetSessionRequest, server: &Server) -> Result<(), Failure> {
    let selection = request.events;
    let answer = server.sessions().get_session(request).await?.into_inner();
    let session = answer.session.unwrap_or_default();
    let mut events = answer.events;
    if let (Some(selection), Some(key)) = (selection, &session.key) {
        rest_of_events(server, key, selection, answer.next_page_token, &mut events).await?;
    }
    let view = GetView::new(session, selection.map(|_| events))?;
    let mut output = Output::stdout();
    output.line(&view)?;
    output.flush()
}

/// Fetches the events that did not fit beside the state.
async fn rest_of_events(
    server: &Server,
    key: &SessionKey,
    selection: EventSelection,
    mut token: String,
    events: &mut Vec<Event>,
) -> Result<(), Failure> {
    while !token.is_empty() {
        let request = ListEventsRequest {
            key: Some(key.clone()),
            page_size: 1000,
            page_token: token,
            selection: Some(selection),
            json_form: JSON_FORM,
            ..ListEventsRequest::default()
        };
        let page = server.events().list_events(request).await?.into_inner();
        events.extend(page.events);
        token = page.next_page_token;
    }
    Ok(())
}

pub(super) async fn list(args: ListArgs, server: &Server) -> Result<(), Failure> {
    let mut output = Output::stdout();
    let mut request = ListSessionsRequest {
        app_name: args.app,
        user_id: args.user,
        order: match args.order {
            Order::Oldest => SessionOrder::LastEventTimeAsc,
            Order::Newest => SessionOrder::LastEventTimeDesc,
        }
        .into(),
        labels: label_map(&args.labels),
        include_state: args.state,
        json_form: JSON_FORM,
        ..ListSessionsRequest::default()
    };
    let mut seen = 0;
    while let Some(page_size) = args.pages.next(seen) {
        request.page_size = page_size;
        let page = server.sessions().list_sessions(request.clone()).await?.into_inner();
        for session in page.sessions {
            output.line(&SessionView::try_from(session)?)?;
            seen += 1;
        }
        output.flush()?;
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Get {
        #[command(flatten)]
        args: GetArgs,
    }

    fn request(arguments: &[&str]) -> GetSessionRequest {
        let line = [&["x", "--app", "", "--user", "", "--session", "s"], arguments].concat();
        get_request(&Get::try_parse_from(line).unwrap().args).unwrap()
    }

    #[test]
    fn events_come_when_asked_for_in_any_way() {
        assert_eq!(request(&[]).events, None);
        assert_eq!(request(&["--events"]).events, Some(EventSelection::default()));
        assert_eq!(request(&["--recent", "0"]).events.unwrap().recent, Some(0));
        assert_eq!(request(&["--after-sequence", "3"]).events.unwrap().after_sequence, 3);
        assert!(request(&["--include-rewound"]).events.unwrap().include_rewound);
        assert!(request(&["--after-time", "2024-01-01T00:00:00Z"]).events.is_some());
    }

    #[test]
    fn the_past_is_told_from_the_present() {
        assert_eq!(request(&[]).as_of_sequence, None);
        assert_eq!(request(&["--as-of", "0"]).as_of_sequence, Some(0));
    }
}
