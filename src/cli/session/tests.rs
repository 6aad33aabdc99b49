//! What the commands about sessions send.

use clap::Parser;

use super::*;
use crate::proto::v1::session::Expiration;

#[derive(Debug, Parser)]
struct Create {
    #[command(flatten)]
    args: CreateArgs,
}

#[derive(Debug, Parser)]
struct Update {
    #[command(flatten)]
    args: UpdateArgs,
}

fn create_line(arguments: &[&str]) -> v1::CreateSessionRequest {
    let line = [&["x", "--app", "a", "--user", "u"], arguments].concat();
    create_request(Create::try_parse_from(line).unwrap().args)
}

fn update_line(arguments: &[&str]) -> Result<v1::UpdateSessionRequest, Failure> {
    let line = [&["x", "--app", "a", "--user", "u", "--session", "s"], arguments].concat();
    let args = Update::try_parse_from(line).unwrap().args;
    update_request(args.metadata, args.no_labels, args.no_expiry)
}

#[test]
fn initial_state_comes_from_both_arguments() {
    let state = |arguments: &[&str]| match create_line(arguments).state_form {
        Some(StateForm::StateJson(text)) => Some(text),
        Some(StateForm::State(_)) => panic!("not as text"),
        None => None,
    };
    assert_eq!(state(&[]), None);
    assert_eq!(state(&["--state", "{ \"a\":1.0}"]).unwrap(), "{ \"a\":1.0}");
    assert_eq!(
        state(&["--state", "{\"a\":1.0}", "--set", "app:b=[]"]).unwrap(),
        r#"{"a":1.0,"app:b":[]}"#
    );
}

#[test]
fn what_is_said_about_a_session_is_sent() {
    let request =
        create_line(&["--ttl", "1h", "--label", "a=b", "--display-name", "n", "--allow-existing"]);
    let session = request.session.unwrap();
    assert_eq!(session.display_name, "n");
    assert_eq!(session.labels["a"], "b");
    assert!(matches!(session.expiration, Some(Expiration::Ttl(d)) if d.seconds == 3600));
    assert!(request.allow_existing);
}

#[test]
fn an_update_masks_what_was_said_and_nothing_else() {
    let paths = |arguments: &[&str]| update_line(arguments).unwrap().update_mask.unwrap().paths;
    assert_eq!(paths(&["--display-name", ""]), ["display_name"]);
    assert_eq!(paths(&["--no-labels", "--ttl", "5s"]), ["labels", "ttl"]);
    assert_eq!(
        paths(&["--label", "a=b", "--expire-time", "2030-01-01T00:00:00Z"]),
        ["labels", "expire_time"]
    );
    assert_eq!(paths(&["--no-expiry"]), ["expire_time"]);
    assert_eq!(update_line(&["--no-expiry"]).unwrap().session.unwrap().expiration, None);
    assert!(matches!(update_line(&[]), Err(Failure::Usage(_))));
}

#[derive(Debug, Parser)]
struct Get {
    #[command(flatten)]
    args: GetArgs,
}

fn request(arguments: &[&str]) -> v1::GetSessionRequest {
    let line = [&["x", "--app", "", "--user", "", "--session", "s"], arguments].concat();
    get_request(v1::SessionKey::default(), Get::try_parse_from(line).unwrap().args)
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
