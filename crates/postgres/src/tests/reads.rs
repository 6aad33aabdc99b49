//! What reads do in the database: no scan of a table, no sorting of a whole list.

use super::{
    plans::{scan_of, unplaced_in},
    *,
};
use crate::{
    connect::connection::Connection,
    read::{pool::Pool, rows::Reader},
};
use sessiond_core::{domain::page::EventSelection, domain::permission::Users, read::Read};
use sessiond_store::{
    ApplicationsQuery, Condition, EventsQuery, KeyChangeQuery, SessionOrder, SessionQuery,
    SessionsQuery, StateQuery, UsersQuery, WatchQuery,
};

#[tokio::test]
async fn no_read_waits_for_a_database_that_went_back() {
    let options = PostgresOptions::new("postgres://me@127.0.0.1:1/x", StoreId([7; 16]));
    let shared = Arc::new(Shared::new(options).unwrap());
    let pool = Pool::new(Arc::clone(&shared)).unwrap();
    let refused = pool.figures().await.err();
    assert!(matches!(refused, Some(Error::StoreUnavailable(_))), "{refused:?}");
    shared.condition.send_replace(Condition::Behind);
    assert_eq!(pool.figures().await.err(), Some(Error::StoreBehind));
}

/// The answer of a read of few rows.
async fn answer<Q: Read>(reader: &Reader<'_>, query: Q) -> Q::Answer {
    query.read(reader).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_statement_of_a_read_scans_a_table() {
    for partitions in ["1", "4"] {
        let Some(fixture) = Fixture::of_partitions(partitions).await else { return };
        live(&fixture, &mut fixture.writer()).await;
        let connection = fixture.shared.connect().await.unwrap();
        let reader = Reader::at(&connection, at(1));
        read_events(&reader).await;
        read_state(&reader).await;
        list(&reader).await;
        let plans = connection.plans().await;
        assert!(plans.len() > 25, "{}", plans.len());
        for (sql, plan) in plans {
            assert_eq!(scan_of(&plan), None, "{sql}\n{}", plan.join("\n"));
            assert_eq!(unplaced_in(&sql, &plan), None, "{sql}\n{}", plan.join("\n"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_sessions_sorts_ties_only() {
    let Some(fixture) = Fixture::new().await else { return };
    let connection = fixture.shared.connect().await.unwrap();
    let reader = Reader::at(&connection, at(1));
    list(&reader).await;
    let sorts = async |connection: &Connection| {
        let plans = connection.plans().await.into_iter();
        let lists = plans.filter(|(sql, _)| sql.contains("FROM session_list"));
        let sorts = lists.map(|(sql, plan)| {
            let sorts = plan.iter().filter(|line| line.contains("->  Sort")).count();
            // The lists of several users are sorted into one.
            sorts.saturating_sub(usize::from(sql.contains("LATERAL")))
        });
        sorts.sum::<usize>()
    };
    // What the planner does outside of a snapshot, with the few rows of a test.
    assert_ne!(sorts(&connection).await, 0);
    connection.begin_snapshot().await.unwrap();
    assert_eq!(sorts(&connection).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_one_period_are_listed_by_their_times() {
    let Some(fixture) = Fixture::new().await else { return };
    let writer = &mut fixture.writer();
    // Second and nanosecond of each session's last event, in the order of the list.
    let times = [(10, 7), (20, 1), (20, 5), (20, 5), (20, 900_000_000), (21, 0), (30, 0)];
    let mut expected = Vec::new();
    for (number, (secs, nanos)) in times.into_iter().enumerate() {
        let id = format!("{number}");
        let mut append = one(&id, "last", &[]);
        append.events[0].event_time = Some(Time::new(secs, nanos).unwrap());
        for request in [Request::Create(creation(&id)), Request::Append(append)] {
            commit_one(&fixture, writer, request).await.unwrap();
        }
        expected.push(id);
    }
    let connection = fixture.shared.connect().await.unwrap();
    let reader = Reader::at(&connection, at(1));
    let ascending = listed(&reader, SessionOrder::LeastRecent).await;
    assert_eq!(ascending, expected);
    // Ties ascend in either order.
    expected.reverse();
    expected.swap(3, 4);
    assert_eq!(listed(&reader, SessionOrder::MostRecent).await, expected);
}

/// The ids of all sessions, by pages of two.
async fn listed(reader: &Reader<'_>, order: SessionOrder) -> Vec<String> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let query = SessionsQuery {
            app_name: address("s").app_name,
            user_id: None,
            seen: Users::All,
            labels: Labels::default(),
            order,
            after,
            max_items: 2,
            max_bytes: 1 << 20,
            with_state: false,
        };
        let page = answer(reader, query).await;
        ids.extend(page.sessions.iter().map(|(info, _)| info.key.session_id.to_string()));
        after = page.rest;
        if after.is_none() {
            return ids;
        }
    }
}

fn named(refs: Vec<EventRef>) -> EventsQuery {
    EventsQuery { key: address("s"), refs, max_bytes: usize::MAX }
}

pub(super) async fn read_events(reader: &Reader<'_>) {
    let author = Some(Author::new("agent").unwrap());
    let filter = EventFilter { author, ..EventFilter::default() };
    for (filter, recent) in [(EventFilter::default(), None), (filter, Some(3))] {
        for descending in [false, true] {
            let filter = filter.clone();
            let events = EventSelection { filter, recent, descending, ..EventSelection::default() };
            for session in
                [SessionRef::Full(address("s")), SessionRef::bare(address("s").session_id)]
            {
                let events = Some(events.clone());
                let query = SessionQuery { session, as_of: None, with_state: true, events };
                let view = answer(reader, query).await;
                assert!(view.events.is_some_and(|page| !page.events.is_empty()));
            }
        }
    }
    let past = SessionQuery {
        as_of: Some(3),
        with_state: true,
        ..SessionQuery::info(SessionRef::Full(address("s")))
    };
    assert_eq!(answer(reader, past).await.info.last_sequence, 3);
    let id = answer(reader, named(vec![EventRef::Sequence(2)])).await.found.remove(0).unwrap();
    let refs = vec![EventRef::Id(id.event_id.clone()), EventRef::Sequence(99)];
    assert_eq!(answer(reader, named(refs)).await.found, [Some(id), None]);
}

pub(super) async fn read_state(reader: &Reader<'_>) {
    let SessionKey { app_name, user_id, .. } = address("t");
    let scopes = [
        Scope::Application(app_name.clone()),
        Scope::User(app_name, user_id),
        Scope::Session(address("t")),
    ];
    for (scope, name) in scopes.into_iter().zip(["app:a", "user:u", "k"]) {
        for keys in [None, Some(vec![key(name)])] {
            let query = StateQuery { scope: scope.clone(), keys };
            assert!(!answer(reader, query).await.state.0.is_empty());
        }
        let query = KeyChangeQuery {
            scope: scope.clone(),
            key: key(name),
            before: None,
            max_items: 100,
            max_bytes: 1000,
        };
        assert!(answer(reader, query).await.changes.len() > 10);
        let all = StateQuery { scope: scope.clone(), keys: None };
        let now = answer(reader, all).await.position;
        let position = Position { sequence: 0, versions: ScopeVersions::default(), ..now };
        let query = WatchQuery { scope, position, max_items: 1000, max_bytes: 1 << 20 };
        assert!(answer(reader, query).await.complete);
    }
}

async fn list(reader: &Reader<'_>) {
    let SessionKey { app_name, user_id, .. } = address("s");
    let only = Users::Only(Arc::new([user_id.clone()].into()));
    for (user_id, seen) in [(None, Users::All), (Some(user_id.clone()), Users::All), (None, only)] {
        for order in [SessionOrder::LeastRecent, SessionOrder::MostRecent] {
            let query = SessionsQuery {
                app_name: app_name.clone(),
                user_id: user_id.clone(),
                seen: seen.clone(),
                labels: Labels::default(),
                order,
                after: None,
                max_items: 10,
                max_bytes: 1 << 20,
                with_state: true,
            };
            answer(reader, query).await;
        }
    }
    let applications = ApplicationsQuery { seen: None, after: None, max_items: 10 };
    answer(reader, applications).await;
    let users = UsersQuery { app_name, seen: None, after: None, max_items: 10 };
    answer(reader, users).await;
}
