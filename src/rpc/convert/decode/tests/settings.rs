//! Expirations, masks and defaults.

use prost_types::{Duration, FieldMask, Timestamp};

use super::*;
use crate::{
    domain::{
        event::ScopeVersions,
        session::{Expiration, Incarnation},
        token::{Cursor, Digest, Position, StoreId},
    },
    engine::WatchFrom,
    proto::v1::{
        self, EndInvocationRequest, ListEventsRequest, ListKeyChangesRequest, ListSessionsRequest,
        RenderTemplateRequest, RewindSessionRequest, Session, UpdateSessionRequest, WatchRequest,
        session,
    },
    rpc::convert::Form,
};

#[test]
fn expirations_are_in_range_and_longer_than_nothing() {
    let create = |expiration| {
        let session = Some(Session { expiration: Some(expiration), ..Default::default() });
        create_session(v1::CreateSessionRequest {
            app_name: "a".into(),
            user_id: "u".into(),
            session,
            ..Default::default()
        })
        .map(|(new, _)| new.expiration)
    };
    let ttl = |seconds, nanos| session::Expiration::Ttl(Duration { seconds, nanos });
    for (seconds, nanos) in [(0, 0), (-1, 0), (0, -1), (1, -1), (1, 1_000_000_000), (-1, 5)] {
        assert_faults(create(ttl(seconds, nanos)), &[("session.ttl", "BAD_VALUE")]);
    }
    assert_eq!(create(ttl(0, 1)).unwrap(), Some(Expiration::After { secs: 0, nanos: 1 }));
    let at = session::Expiration::ExpireTime(Timestamp { seconds: 1, nanos: 1_000_000_000 });
    assert_faults(create(at), &[("session.expire_time", "BAD_VALUE")]);
}

#[test]
fn a_mask_names_what_is_updated_and_nothing_else() {
    let update = |paths: &[&str], expiration| {
        let session = Session { display_name: "d".into(), expiration, ..Default::default() };
        update_session(UpdateSessionRequest {
            key: key(),
            session: Some(session),
            update_mask: Some(FieldMask { paths: paths.iter().map(|it| (*it).into()).collect() }),
            ..Default::default()
        })
    };
    let time = Some(session::Expiration::ExpireTime(Timestamp { seconds: 1, nanos: 2 }));
    let ttl = Some(session::Expiration::Ttl(Duration { seconds: 1, nanos: 2 }));
    let named = update(&["display_name"], time).unwrap();
    assert_eq!(named.display_name.unwrap().as_str(), "d");
    assert_eq!((named.labels, named.expiration), (None, None));
    let after = Expiration::After { secs: 1, nanos: 2 };
    assert_eq!(update(&["ttl"], ttl).unwrap().expiration, Some(Some(after)));
    assert_eq!(update(&["ttl", "expire_time"], ttl).unwrap().expiration, Some(Some(after)));
    assert_eq!(update(&["expire_time"], None).unwrap().expiration, Some(None));
    assert!(update(&["labels"], None).unwrap().labels.is_some());
    // What is not named is not looked at.
    let bad = Some(session::Expiration::Ttl(Duration { seconds: -1, nanos: 0 }));
    assert_eq!(update(&["display_name"], bad).unwrap().expiration, None);
    assert_faults(update(&["ttl"], bad), &[("session.ttl", "BAD_VALUE")]);
    assert_faults(update(&["expire_time"], ttl), &[("update_mask", "BAD_MASK")]);
    assert_faults(update(&["ttl"], time), &[("update_mask", "BAD_MASK")]);
    assert_faults(
        update(&["labels", "*", "state"], None),
        &[("update_mask.paths[1]", "BAD_MASK"), ("update_mask.paths[2]", "BAD_MASK")],
    );
}

#[test]
fn defaults_are_filled_in() {
    let list = ListEventsRequest { key: key(), ..Default::default() };
    let ((query, token), mode) = list_events(list).unwrap();
    assert_eq!((query.events.unwrap().max_items, token, mode.form), (100, None, Form::Struct));
    let huge =
        ListEventsRequest { key: key(), page_size: 1001, json_form: 2, ..Default::default() };
    let ((query, _), mode) = list_events(huge).unwrap();
    assert_eq!((query.events.unwrap().max_items, mode.form), (1000, Form::Text));
    let rewind = RewindSessionRequest { key: key(), to_sequence: Some(0), ..Default::default() };
    assert_eq!(rewind_session(rewind).unwrap().0.author.as_str(), "system");
    let position = Position {
        incarnation: Incarnation(0),
        sequence: 1,
        versions: ScopeVersions { application: 2, user: 3 },
    };
    let cursor = Cursor { store: StoreId([1; 16]), scope: Digest(5), position };
    let from =
        WatchRequest { scope: user_scope(), cursor: cursor.encode(), start: 3, json_form: 0 };
    assert_eq!(watch(from).unwrap().1, WatchFrom::Cursor(cursor));
    let render = RenderTemplateRequest { key: key(), template: " ".into(), ..Default::default() };
    assert_eq!(render_template(render).unwrap().1, " ");
    let end = EndInvocationRequest { key: key(), invocation_id: "i".into() };
    assert_eq!(end_invocation(end).unwrap().1.as_str(), "i");
}

/// Beside whatever else is at fault.
#[test]
fn what_is_no_token_is_named_at_once() {
    let list = ListEventsRequest { page_token: "?".into(), page_size: -1, ..Default::default() };
    assert_faults(
        list_events(list),
        &[("key", "MISSING_FIELD"), ("page_size", "BAD_VALUE"), ("page_token", "BAD_PAGE_TOKEN")],
    );
    let list = ListSessionsRequest { page_token: "?".into(), ..Default::default() };
    assert_faults(
        list_sessions(list),
        &[("app_name", "MISSING_FIELD"), ("page_token", "BAD_PAGE_TOKEN")],
    );
    let list = ListKeyChangesRequest { page_token: "?".into(), ..Default::default() };
    assert_faults(
        list_key_changes(list),
        &[("scope", "MISSING_FIELD"), ("key", "MISSING_FIELD"), ("page_token", "BAD_PAGE_TOKEN")],
    );
    let of_none = WatchRequest { cursor: "?".into(), start: 9, ..Default::default() };
    assert_faults(
        watch(of_none),
        &[("scope", "MISSING_FIELD"), ("start", "BAD_VALUE"), ("cursor", "BAD_CURSOR")],
    );
}
