//! Commands that read and list sessions.

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::{
    cli::{
        args::{AnyKeyArgs, JSON_FORM, PageArgs, SelectionArgs},
        connect::{ConnectArgs, Server},
        failure::Failure,
        log::for_each_event,
        message::AsJson,
        output, parse,
    },
    proto::v1,
};

#[derive(Debug, Args)]
pub struct GetArgs {
    #[command(flatten)]
    key: AnyKeyArgs,
    /// Also show its events, oldest first.
    #[arg(long)]
    events: bool,
    #[command(flatten)]
    selection: SelectionArgs,
    /// As of this event; 0: as it was created.
    #[arg(long, value_name = "SEQUENCE", value_parser = parse::sequence)]
    as_of: Option<i64>,
    /// Also show the temp: keys of this invocation.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    invocation: String,
    /// Omit the state.
    #[arg(long)]
    without_state: bool,
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Application.
    #[arg(long, env = "SESSIOND_APP", value_name = "NAME")]
    app: String,
    /// Only sessions of this user (--user '' for all if SESSIOND_USER is set).
    #[arg(long, env = "SESSIOND_USER", value_name = "ID")]
    user: Option<String>,
    /// Only sessions that have this label; may be repeated.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = parse::label)]
    labels: Vec<(String, String)>,
    /// Order by the time of the last event.
    #[arg(long, value_enum, default_value_t = Order::Oldest)]
    order: Order,
    /// Also show the merged state of each session.
    #[arg(long)]
    state: bool,
    #[command(flatten)]
    pages: PageArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Order {
    /// Least recently used first.
    Oldest,
    /// Most recently used first.
    Newest,
}

/// A session with all of its events, if they were asked for.
#[derive(Debug, Serialize)]
struct Found {
    session: AsJson<v1::Session>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<Vec<AsJson<v1::Event>>>,
}

fn get_request(args: &GetArgs) -> Result<v1::GetSessionRequest, Failure> {
    let selection = args.selection.selection();
    let wanted = args.events || selection != v1::EventSelection::default();
    Ok(v1::GetSessionRequest {
        key: Some(args.key.key()?),
        events: wanted.then_some(selection),
        as_of_sequence: args.as_of,
        invocation_id: args.invocation.clone(),
        without_state: args.without_state,
        json_form: JSON_FORM,
    })
}

pub async fn get(args: GetArgs, connect: &ConnectArgs) -> Result<(), Failure> {
    let request = get_request(&args)?;
    let server = Server::connect(connect).await?;
    let selection = request.events;
    let answer = server.sessions().get_session(request).await?.into_inner();
    let session = answer.session.unwrap_or_default();
    let (mut events, token) = (answer.events, answer.next_page_token);
    if let (Some(selection), Some(key)) = (selection, &session.key)
        && !token.is_empty()
    {
        // The events that did not fit beside the state.
        let push = |event| {
            events.push(event);
            Ok(())
        };
        for_each_event(&server, key, selection, token, push).await?;
    }
    let events = selection.map(|_| events.into_iter().map(AsJson).collect());
    output::print(&Found { session: AsJson(session), events })
}

pub async fn list(args: ListArgs, connect: &ConnectArgs) -> Result<(), Failure> {
    let order = match args.order {
        Order::Oldest => v1::SessionOrder::LastEventTimeAsc,
        Order::Newest => v1::SessionOrder::LastEventTimeDesc,
    };
    let request = v1::ListSessionsRequest {
        app_name: args.app,
        user_id: args.user.unwrap_or_default(),
        order: order.into(),
        labels: args.labels.into_iter().collect(),
        include_state: args.state,
        json_form: JSON_FORM,
        ..Default::default()
    };
    let server = Server::connect(connect).await?;
    let fetch = async |page_size, page_token| {
        let request = v1::ListSessionsRequest { page_size, page_token, ..request.clone() };
        let page = server.sessions().list_sessions(request).await?.into_inner();
        Ok((page.sessions, page.next_page_token))
    };
    output::print_pages(args.pages, AsJson, fetch).await
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

    fn request(arguments: &[&str]) -> v1::GetSessionRequest {
        let line = [&["x", "--app", "", "--user", "", "--session", "s"], arguments].concat();
        get_request(&Get::try_parse_from(line).unwrap().args).unwrap()
    }

    #[test]
    fn events_come_when_asked_for_in_any_way() {
        assert_eq!(request(&[]).events, None);
        assert_eq!(request(&["--events"]).events, Some(v1::EventSelection::default()));
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
