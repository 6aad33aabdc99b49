//! Tokens and cursors there and back, damaged, and of another kind.

use super::*;

fn cursor() -> Cursor {
    Cursor {
        store: StoreId([7; 16]),
        scope: Digest(9),
        position: Position {
            incarnation: Incarnation(3),
            sequence: 5,
            versions: ScopeVersions { application: 1, user: 2 },
        },
    }
}

#[test]
fn tokens_come_back_as_they_went() {
    assert_eq!(Cursor::decode(&cursor().encode()), Some(cursor()));
    let events = EventToken {
        incarnation: Incarnation(1),
        request: Digest(2),
        from_session: true,
        as_of: Some(3),
        rest: Rest { after: 4, up_to: None },
        after_time: Time::new(-5, 6),
        include_rewound: true,
        uncounted: None,
    };
    for uncounted in [None, Some(Uncounted { recent: 3, counted_to: 9 })] {
        let events = EventToken { uncounted, ..events.clone() };
        assert_eq!(EventToken::decode(&events.encode()), Some(events));
    }
    let session =
        (Time::new(2, 3).unwrap(), UserId::new("ü").unwrap(), SessionId::new("s").unwrap());
    let sessions = SessionToken { request: Digest(1), after: session };
    assert_eq!(SessionToken::decode(&sessions.encode()), Some(sessions));
    let changes = ChangeToken { request: Digest(1), after: (Incarnation(2), 3) };
    assert_eq!(ChangeToken::decode(&changes.encode()), Some(changes));
    let state = StateToken { request: Digest(1), after: (Incarnation(2), "ü".to_owned()) };
    assert_eq!(StateToken::decode(&state.encode()), Some(state));
    for within in [None, Some(("u".to_owned(), String::new()))] {
        let names =
            NameToken { request: Digest(1), after: NamePlace { name: "ü".to_owned(), within } };
        assert_eq!(NameToken::decode(&names.encode()), Some(names));
    }
}

/// Callers keep cursors across releases.
#[test]
fn the_format_is_pinned() {
    let pin = "YwcHBwcHBwcHBwcHBwcHBwcJAAAAAAAAAAMAAAAAAAAABQAAAAAAAAABAAAAAAAAAAIAAAAAAAAAn_YJ8A";
    assert_eq!(cursor().encode(), pin);
    let mut events = EventToken {
        incarnation: Incarnation(1),
        request: Digest(u64::MAX),
        from_session: true,
        as_of: Some(3),
        rest: Rest { after: 4, up_to: None },
        after_time: Time::new(-5, 6),
        include_rewound: true,
        uncounted: None,
    };
    let pin = "ZQEAAAAAAAAA__________8BAQMAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAAB-_________8GAAAAAcj7zd8";
    assert_eq!(events.encode(), pin);
    events.as_of = None;
    events.rest.up_to = Some(9);
    events.after_time = None;
    events.include_rewound = false;
    let pin = "ZQEAAAAAAAAA__________8BAAAAAAAAAAAABAAAAAAAAAABCQAAAAAAAAAAf0H0_zoAAAD_yZo7AI3og_o";
    assert_eq!(events.encode(), pin);
    let user = UserId::new("ü").unwrap();
    let after = (Time::new(2, 3).unwrap(), user, SessionId::new("s").unwrap());
    let pin = "cAEAAAAAAAAAAgAAAAAAAAADAAAAAgAAAAAAAADDvAEAAAAAAAAAc1dKDU0";
    assert_eq!(SessionToken { request: Digest(1), after }.encode(), pin);
    let changes = ChangeToken { request: Digest(1), after: (Incarnation(2), 3) };
    assert_eq!(changes.encode(), "cAEAAAAAAAAAAgAAAAAAAAADAAAAAAAAAP7Kmjc");
}

#[test]
fn every_single_damaged_character_is_found() {
    let text = cursor().encode();
    for at in 0..text.len() {
        let mut damaged = text.clone().into_bytes();
        damaged[at] = if damaged[at] == b'A' { b'B' } else { b'A' };
        let damaged = String::from_utf8(damaged).unwrap();
        assert_eq!(Cursor::decode(&damaged), None, "at {at}");
        assert_eq!(Cursor::decode(&text[..at]), None);
    }
}

#[test]
fn one_kind_of_token_is_not_another() {
    assert_eq!(EventToken::decode(&cursor().encode()), None);
    assert_eq!(Cursor::decode("not a token"), None);
    assert_eq!(Cursor::decode(""), None);
}
