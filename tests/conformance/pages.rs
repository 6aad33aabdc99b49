//! Pages of events, compared with a naive model.

use sessiond::{
    domain::{
        event::{Event, NewEvent},
        id::{Author, InvocationId},
        limits::PAGE_SCANNED,
        page::{EventPage, EventSelection},
    },
    store::SessionQuery,
};

use crate::{fixture::*, requests::*};

const PATH: &str = "a/u/s";

/// A log of 24 events by two authors in three turns at odd times, with two rewinds.
async fn log(fixture: &Fixture) {
    fixture.new_session(PATH, &[]).await;
    for number in 1..=24i64 {
        let id = number.to_string();
        match number {
            9 => drop(fixture.rewind_session(rewind(PATH, 5, &id)).await.unwrap()),
            17 => drop(fixture.rewind_session(rewind(PATH, 14, &id)).await.unwrap()),
            _ => {
                let entry = NewEvent {
                    author: Author::new(["x", "y"][number as usize % 2]).unwrap(),
                    invocation_id: match number % 4 {
                        0 => None,
                        turn => Some(InvocationId::new(turn.to_string()).unwrap()),
                    },
                    event_time: Some(at(number * 7 % 10)),
                    body: Some(json(&format!("{{\"n\":\"{}\"}}", "x".repeat(number as usize)))),
                    ..event(&id, nothing())
                };
                fixture.append(append(PATH, [entry])).await.unwrap();
            }
        }
    }
}

/// The selected events by definition: filters first, then the newest `recent` of them.
fn select(all: &[Event], as_of: u64, selection: &EventSelection) -> Vec<u64> {
    let filter = &selection.filter;
    let mut selected: Vec<u64> = all
        .iter()
        .filter(|event| event.sequence <= as_of && event.sequence > selection.after)
        .filter(|event| selection.up_to.is_none_or(|up_to| event.sequence <= up_to))
        .filter(|event| filter.include_rewound || !event.rewound)
        .filter(|event| filter.after_time.is_none_or(|time| event.event_time >= time))
        .filter(|event| filter.author.as_ref().is_none_or(|author| event.author == *author))
        .filter(|event| {
            let wanted = filter.invocation_id.as_ref();
            wanted.is_none_or(|wanted| event.invocation_id.as_ref() == Some(wanted))
        })
        .map(|event| event.sequence)
        .collect();
    if let Some(recent) = selection.recent {
        let skipped = selected.len().saturating_sub(recent as usize);
        selected.drain(..skipped);
    }
    if selection.descending {
        selected.reverse();
    }
    selected
}

/// Every combination of filters, without order and pages.
fn selections() -> Vec<EventSelection> {
    let mut all = vec![everything()];
    let mut vary = |change: &dyn Fn(&EventSelection) -> Vec<EventSelection>| {
        let varied: Vec<_> = all.iter().flat_map(change).collect();
        all.extend(varied);
    };
    vary(&|s| {
        let mut s = s.clone();
        s.filter.include_rewound = true;
        vec![s]
    });
    vary(&|s| {
        let mut s = s.clone();
        s.filter.author = Some(Author::new("x").unwrap());
        vec![s]
    });
    vary(&|s| {
        let mut s = s.clone();
        s.filter.invocation_id = Some(InvocationId::new("2").unwrap());
        vec![s]
    });
    vary(&|s| {
        let mut s = s.clone();
        s.filter.after_time = Some(at(5));
        vec![s]
    });
    vary(&|s| {
        let after = [6, 23, 24, 99].map(|after| EventSelection { after, ..s.clone() });
        after.to_vec()
    });
    vary(&|s| {
        let up_to = [0, 13, 24, 99].map(|up_to| EventSelection { up_to: Some(up_to), ..s.clone() });
        up_to.to_vec()
    });
    vary(&|s| {
        let recent =
            [0, 1, 5, u64::MAX].map(|recent| EventSelection { recent: Some(recent), ..s.clone() });
        recent.to_vec()
    });
    all
}

/// Reads pages until nothing is left.
async fn page_by_page(fixture: &Fixture, mut query: EventQuery) -> Vec<u64> {
    let mut found = Vec::new();
    for _ in 0..1_000 {
        let page = fixture.list_events(query.clone()).await.unwrap().1;
        assert!(page.events.len() <= query.selection.max_items);
        let bytes: usize = page.events.iter().map(Event::bytes).sum();
        assert!(page.events.len() == 1 || bytes <= query.selection.max_bytes);
        found.extend(sequences(&page.events));
        let Some(rest) = page.rest else { return found };
        query.selection.after = rest.after;
        query.selection.up_to = rest.up_to;
        query.selection.recent = page.uncounted.map(|it| it.recent);
        query.selection.counted_to = page.uncounted.map(|it| it.counted_to);
    }
    panic!("the pages do not end");
}

pub async fn every_selection_agrees_with_its_definition(fixture: &mut Fixture) {
    log(fixture).await;
    for as_of in [None, Some(24), Some(16), Some(8), Some(0)] {
        let mut whole = events(PATH);
        whole.as_of = as_of;
        whole.selection.filter.include_rewound = true;
        let all = fixture.list_events(whole).await.unwrap().1.events;
        for selection in selections() {
            for descending in [false, true] {
                let selection = EventSelection { descending, ..selection.clone() };
                let expected = select(&all, as_of.unwrap_or(24), &selection);
                let query = EventQuery { as_of, selection, ..events(PATH) };
                let page = fixture.list_events(query.clone()).await.unwrap().1;
                assert_eq!(sequences(&page.events), expected, "{query:?}");
                assert_eq!(page.rest, None, "{query:?}");
                for event in page.events {
                    assert_eq!(event, all[event.sequence as usize - 1]);
                }
            }
        }
    }
}

pub async fn pages_add_up_to_the_whole(fixture: &mut Fixture) {
    log(fixture).await;
    let mut whole = events(PATH);
    whole.selection.filter.include_rewound = true;
    let all = fixture.list_events(whole).await.unwrap().1.events;
    let few = selections().into_iter().enumerate();
    for (at, selection) in few.filter(|(at, _)| at % 7 == 0) {
        for descending in [false, true] {
            let (max_items, max_bytes) =
                [(1, usize::MAX), (3, usize::MAX), (100, 1), (4, 500)][at % 4];
            let selection =
                EventSelection { descending, max_items, max_bytes, ..selection.clone() };
            let expected = select(&all, 24, &selection);
            let query = EventQuery { selection, ..events(PATH) };
            let found = page_by_page(fixture, query.clone()).await;
            assert_eq!(found, expected, "{query:?}");
        }
    }
}

/// A page is as full as its limits allow, and has a rest only if something is left.
pub async fn a_page_is_filled_to_its_limits(fixture: &mut Fixture) {
    log(fixture).await;
    for descending in [false, true] {
        let mut query = events(PATH);
        query.selection.descending = descending;
        let all = fixture.list_events(query.clone()).await.unwrap().1.events;
        for items in 1..=all.len() {
            let bytes: usize = all[..items].iter().map(Event::bytes).sum();
            for (max_items, max_bytes) in [(items, usize::MAX), (usize::MAX, bytes)] {
                query.selection.max_items = max_items;
                query.selection.max_bytes = max_bytes;
                let page = fixture.list_events(query.clone()).await.unwrap().1;
                assert_eq!(page.events, all[..items]);
                assert_eq!(page.rest.is_some(), items < all.len());
            }
            query.selection.max_bytes = bytes - 1;
            let page = fixture.list_events(query.clone()).await.unwrap().1;
            assert_eq!(page.events.len(), (items - 1).max(1));
        }
    }
}

pub async fn reading_a_session_selects_events_alike(fixture: &mut Fixture) {
    log(fixture).await;
    for selection in selections().into_iter().step_by(5) {
        for as_of in [None, Some(16)] {
            let listed = EventQuery { as_of, selection: selection.clone(), ..events(PATH) };
            let listed: EventPage = fixture.list_events(listed).await.unwrap().1;
            let read = SessionQuery { as_of, events: Some(selection.clone()), ..read(PATH) };
            let view = fixture.read_session(read).await.unwrap();
            assert_eq!(view.events.unwrap(), listed);
        }
    }
}

/// Events that are appended between two pages neither shift nor repeat others.
pub async fn pages_are_stable_while_the_log_grows(fixture: &mut Fixture) {
    fixture.new_session(PATH, &[]).await;
    for number in 1..=6 {
        fixture.append(plain(PATH, &number.to_string())).await.unwrap();
    }
    for (descending, first, rest) in
        [(true, [6, 5], vec![4, 3, 2, 1]), (false, [1, 2], vec![3, 4, 5, 6, 7, 8])]
    {
        let mut query = events(PATH);
        query.selection.descending = descending;
        query.selection.max_items = 2;
        let page = fixture.list_events(query.clone()).await.unwrap().1;
        assert_eq!(sequences(&page.events), first);
        let left = page.rest.unwrap();
        query.selection.after = left.after;
        query.selection.up_to = left.up_to;
        let id = format!("after {first:?}");
        fixture.append(plain(PATH, &id)).await.unwrap();
        assert_eq!(page_by_page(fixture, query).await, rest);
    }
}

/// A page ends when it has looked at enough, and the next one goes on, also with what is to be counted.
pub async fn a_selective_filter_finds_all_matches(fixture: &mut Fixture) {
    fixture.new_session(PATH, &[]).await;
    let total = PAGE_SCANNED + 500;
    for from in (0..total).step_by(500) {
        let batch = (from..from + 500).map(|at| {
            let author = if [1, total - 1].contains(&at) { "rare" } else { "common" };
            NewEvent { author: Author::new(author).unwrap(), ..event(&at.to_string(), nothing()) }
        });
        fixture.append(append(PATH, batch)).await.unwrap();
    }
    let last = total as u64;
    for (author, wanted) in [("rare", vec![last, 2]), ("nobody", vec![])] {
        for (descending, recent) in [(false, None), (true, None), (false, Some(2)), (true, Some(1))]
        {
            let mut query = events(PATH);
            query.selection.filter.author = Some(Author::new(author).unwrap());
            (query.selection.descending, query.selection.recent) = (descending, recent);
            let mut wanted = wanted.clone();
            wanted.truncate(recent.map_or(usize::MAX, |recent| recent as usize));
            if !descending {
                wanted.reverse();
            }
            let first = fixture.list_events(query.clone()).await.unwrap().1;
            assert!(first.rest.is_some() || recent == Some(1), "{first:?}");
            assert_eq!(page_by_page(fixture, query).await, wanted);
        }
    }
}
