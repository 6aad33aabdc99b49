//! Damage, and what is not read.

use super::*;
use crate::domain::permission::{Listed, Permissions, Right, Visibility};

#[test]
fn damage_ends_a_page_and_begins_the_next() {
    let mut written = Written::events((1..=5).map(|at| event(at, None, &[])));
    written.events.remove(&4);
    let page = written.page(EventSelection::default()).unwrap();
    assert_eq!(sequences(&page), [1, 2, 3]);
    let Rest { after, up_to } = page.rest.unwrap();
    let rest = written.page(EventSelection { after, up_to, ..EventSelection::default() });
    let missing = Error::damaged(Damage::Log, "position 4 is missing");
    assert_eq!(rest, Err(missing));
}

#[test]
fn a_watch_shows_no_event_without_the_markers() {
    let events = (1..=3).map(|at| event(at, None, &[])).chain([event(4, Some(1), &[])]);
    let mut written = Written::events(events);
    let position =
        Position { incarnation: Incarnation(7), sequence: 0, versions: ScopeVersions::default() };
    let scope = Scope::Session(key());
    let query = WatchQuery { scope, position, max_items: 9, max_bytes: usize::MAX };
    let hidden = |page: &WatchPage| page.events.iter().filter(|event| event.rewound).count();
    // The marker as well.
    assert_eq!(hidden(&written.of(query.clone()).unwrap()), 3);
    written.markers_are_damaged = true;
    let found = written.of(query).map(|page| page.events.len());
    assert_eq!(found, Err(Error::damaged(Damage::Log, "a marker")));
}

#[test]
fn a_bare_id_of_a_caller_without_rights_is_not_looked_up() {
    let written = Written { ids_are_not_read: true, ..Written::events([event(1, None, &[])]) };
    let id = key().session_id;
    let listed = Listed { principal: String::new(), permissions: Vec::new() };
    let nothing = Visibility::new(Permissions::Listed(listed.into()), Right::Read, false);
    let found = finish(bare::only(&written, &id, &nothing));
    assert_eq!(found.unwrap_err(), Error::not_found_bare(&id));
}
