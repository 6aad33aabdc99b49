//! What an import does with shared keys, without a server.

use super::*;

#[test]
fn state_is_sent_in_parts_that_a_delta_takes() {
    let key = |bytes: usize| ("user:k".to_owned(), Some(Json::string(&"x".repeat(bytes))));
    let sizes =
        |keys: &[(String, Option<Json>)]| parts(keys).iter().map(|it| it.len()).collect::<Vec<_>>();
    assert_eq!(sizes(&[]), [0; 0]);
    assert_eq!(sizes(&[key(200_000), key(200_000), key(200_000)]), [2, 1]);
    assert_eq!(sizes(&[key(600_000), key(1)]), [1, 1], "a single one is the server's to judge");
    assert_eq!(sizes(&vec![key(1); 1001]), [1000, 1]);
}

#[test]
fn a_value_that_comes_meanwhile_stays_unless_all_are_restored() {
    let value = || Json::string("x");
    let state = State {
        values: [("app:there".to_owned(), value())].into(),
        versions: [("app:there".to_owned(), 7)].into(),
    };
    let changes = ["app:there", "app:absent"].map(|key| (key.to_owned(), Some(value())));
    let (delta, checks) = written(&changes, &state, false);
    assert_eq!(delta.operations, [convert::set_if_absent("app:absent".to_owned(), value())]);
    assert_eq!(checks, [check("app:there".to_owned(), Condition::Version(7))]);
    let (delta, checks) = written(&changes, &state, true);
    let set = changes.map(|(key, _)| (key, value())).to_vec();
    assert_eq!((Some(delta), checks), (convert::delta(set, Vec::new()), Vec::new()));
}

#[test]
fn a_key_gets_the_last_value_of_the_file_unless_it_is_of_others() {
    for (may_write, owned, is_right, is_touched, expected) in [
        (true, false, false, false, Fate::Set),
        (true, false, false, true, Fate::Set),
        (true, false, true, false, Fate::Kept),
        (true, false, true, true, Fate::Set),
        (true, true, false, true, Fate::Set),
        (true, true, true, true, Fate::Set),
        (true, true, true, false, Fate::Kept),
        (false, true, false, true, Fate::Changed),
        (false, false, false, true, Fate::Kept),
        (false, false, true, true, Fate::Kept),
    ] {
        let fate = fate(may_write, owned, is_right, is_touched);
        assert_eq!(fate, expected, "{may_write} {owned} {is_right} {is_touched}");
    }
}

#[test]
fn a_change_is_of_the_import_by_its_author_or_by_its_event() {
    let key =
        |session: &str| v1::SessionKey { session_id: session.to_owned(), ..Default::default() };
    let event =
        |id: &str, sequence| Event { event_id: id.to_owned(), sequence, ..Default::default() };
    let events = [("a", 1), ("own", 2)].map(|(id, at)| (id.to_owned(), event(id, at)));
    let log = Log { events: events.into(), ..Default::default() };
    let mark = Mark::new(&key("s"), Some(&log), &[event("a", 0), event("b", 0)]);
    let change = |session: Option<&str>, sequence, author: &str| v1::KeyChange {
        session: session.map(key),
        sequence,
        author: author.to_owned(),
        ..Default::default()
    };
    assert!(mark.is_on(&change(Some("s"), 1, "agent")));
    assert!(mark.is_on(&change(None, 0, &mark.author)));
    for other in [
        change(Some("s"), 2, "agent"),
        change(Some("t"), 1, "agent"),
        change(None, 0, "system"),
        change(None, 0, &Mark::new(&key("t"), None, &[]).author),
    ] {
        assert!(!mark.is_on(&other), "{other:?}");
    }
    assert!(!Mark::new(&key("s"), None, &[event("a", 1)]).is_on(&change(Some("s"), 1, "x")));
}
