//! State has to be the fold of the logs, now and as of every event.

use std::collections::{BTreeMap, BTreeSet};

use sessiond::{
    domain::{
        Sequence, Version,
        event::{Changes, Event},
        json::Json,
        page::EventSelection,
        scope::{Scope, ScopeKind, SessionKey, SessionRef, StateKey},
        session::State,
    },
    store::{Bases, KeyChange, KeyChangeQuery, SessionQuery, SessionView, StateQuery},
};
use sessiond_test_support::requests::everything;

use crate::{
    history::{KEYS, SHARED},
    observe::{Observer, every_event, live_sessions},
    requests::scope,
};

/// Keys with their values, and the versions that wrote them.
type Fold = BTreeMap<StateKey, (Json, Version)>;

/// Compares every fold with the state that the store answers.
pub async fn check(observer: &Observer) {
    for path in SHARED {
        wide(observer, scope(path)).await;
    }
    for key in live_sessions(observer).await {
        session(observer, &key).await;
    }
}

/// An application, or a user with its application.
async fn wide(observer: &Observer, scope: Scope) {
    let query = StateQuery { scope: scope.clone(), keys: None };
    let view = observer.store.read_state(query).await.unwrap();
    let logs = Logs::read(observer, &scope).await;
    let (versions, Bases(bases)) = (view.position.versions, view.bases);
    for (kind, version, base) in [
        (ScopeKind::Application, versions.application, bases.application),
        (ScopeKind::User, versions.user, bases.user),
    ] {
        // Each version of this life changed some key, and nothing changed without one.
        let made: BTreeSet<Version> = logs.of(kind).map(|change| change.version).collect();
        let begin = base.saturating_add(1);
        assert_eq!(made, (begin..=version).collect(), "{scope:?} {kind}");
    }
    let fold = logs.fold([versions.application, versions.user]);
    assert_eq!(folded(&view.state), fold, "{scope:?}");
}

async fn session(observer: &Observer, key: &SessionKey) {
    let now = read(observer, key, None, every_event()).await;
    let log = now.events.unwrap().events;
    let last = now.info.last_sequence;
    let sequences: Vec<Sequence> = log.iter().map(|event| event.sequence).collect();
    assert_eq!(sequences, (1..=last).collect::<Vec<_>>());
    assert!(log.is_sorted_by_key(|event| event.commit_time));

    let logs = Logs::read(observer, &Scope::Session(key.clone())).await;
    let mut own = own_keys(read(observer, key, Some(0), every_event()).await.state.unwrap());
    assert!(own.values().all(|(_, version)| *version == 0));
    let mut history = start_of_history(&own);
    let mut shown: Vec<Vec<Sequence>> = vec![Vec::new()];
    for n in 0..=last {
        let event = n.checked_sub(1).map(|at| &log[at as usize]);
        if let Some(event) = event {
            apply(&mut own, &mut history, event);
            logs.hold(event);
            shown.push(match event.rewind_to {
                Some(to) => shown[to as usize].clone(),
                None => [&shown[n as usize - 1][..], &[n]].concat(),
            });
        }
        let versions = event.map_or(now.info.created_versions, |event| event.versions);
        let mut expected = logs.fold([versions.application, versions.user]);
        expected.extend(own.clone());
        let view = read(observer, key, Some(n), everything()).await;
        assert_eq!(folded(&view.state.unwrap()), expected, "{key:?} as of {n}");
        let page = view.events.unwrap();
        let found: Vec<Sequence> = page.events.iter().map(|event| event.sequence).collect();
        assert_eq!(found, shown[n as usize], "{key:?} as of {n}");
    }
    let hidden = log.iter().filter(|event| event.rewound).map(|event| event.sequence);
    let visible = |sequence: &Sequence| shown[last as usize].contains(sequence);
    assert_eq!(hidden.collect::<Vec<_>>(), (1..=last).filter(|n| !visible(n)).collect::<Vec<_>>());

    assert_eq!(own_keys(now.state.unwrap()), own, "{key:?}");
    for name in KEYS.iter().filter(|name| !name.contains(':')) {
        let changes = changes(observer, &Scope::Session(key.clone()), name).await;
        let listed = changes.into_iter().map(|change| (change.version, change.value)).rev();
        let made = history.remove(*name).unwrap_or_default();
        assert_eq!(listed.collect::<Vec<_>>(), made, "{key:?} {name}");
    }
    assert!(history.is_empty(), "{history:?}");
}

/// By key, its changes, oldest first.
type History = BTreeMap<String, Vec<(Version, Option<Json>)>>;

fn start_of_history(own: &Fold) -> History {
    let own = own.iter();
    own.map(|(key, (value, _))| (key.to_string(), vec![(0, Some(value.clone()))])).collect()
}

fn apply(own: &mut Fold, history: &mut History, event: &Event) {
    for (key, value) in changed(&event.changes) {
        if key.scope() != Some(ScopeKind::Session) {
            continue;
        }
        history.entry(key.to_string()).or_default().push((event.sequence, value.clone()));
        match value {
            Some(value) => drop(own.insert(key, (value, event.sequence))),
            None => assert!(own.remove(&key).is_some(), "{key} was removed where it was not"),
        }
    }
}

fn changed(changes: &Changes) -> Vec<(StateKey, Option<Json>)> {
    let set = changes.set.iter().flat_map(Json::members);
    let set = set.map(|(name, value)| (StateKey::new(name).unwrap(), Some(value)));
    set.chain(changes.remove.iter().map(|key| (key.clone(), None))).collect()
}

/// State as a fold, which has each key once and in the order of all keys.
fn folded(state: &State) -> Fold {
    assert!(state.0.is_sorted_by(|a, b| a.key < b.key), "{state:?}");
    let entries = state.0.iter();
    entries.map(|entry| (entry.key.clone(), (entry.value.clone(), entry.version))).collect()
}

fn own_keys(state: State) -> Fold {
    let mut own = folded(&state);
    own.retain(|key, _| key.scope() == Some(ScopeKind::Session));
    own
}

async fn read(
    observer: &Observer,
    key: &SessionKey,
    as_of: Option<Sequence>,
    selection: EventSelection,
) -> SessionView {
    let query = SessionQuery {
        session: SessionRef::Full(key.clone()),
        as_of,
        with_state: true,
        events: Some(selection),
    };
    observer.store.read_session(query).await.unwrap()
}

/// All changes of a key, newest first.
async fn changes(observer: &Observer, scope: &Scope, name: &str) -> Vec<KeyChange> {
    let query = KeyChangeQuery {
        scope: scope.clone(),
        key: StateKey::new(name).unwrap(),
        before: None,
        max_items: usize::MAX,
        max_bytes: usize::MAX,
    };
    let page = observer.store.list_key_changes(query).await.unwrap();
    assert_eq!(page.rest, None);
    assert!(page.changes.is_sorted_by(|a, b| a.version > b.version));
    page.changes
}

/// The changes of every key of an application and a user, newest first.
struct Logs(BTreeMap<StateKey, Vec<KeyChange>>);

impl Logs {
    async fn read(observer: &Observer, scope: &Scope) -> Self {
        let mut logs = BTreeMap::new();
        for name in KEYS.iter().filter(|name| name.contains(':')) {
            let key = StateKey::new(*name).unwrap();
            logs.insert(key, changes(observer, scope, name).await);
        }
        Self(logs)
    }

    fn of(&self, kind: ScopeKind) -> impl Iterator<Item = &KeyChange> {
        self.0.iter().filter(move |(key, _)| key.scope() == Some(kind)).flat_map(|(_, log)| log)
    }

    /// Their fold at these versions of the application and the user.
    fn fold(&self, versions: [Version; 2]) -> Fold {
        let folded = self.0.iter().filter_map(|(key, log)| {
            let version = versions[usize::from(key.scope() == Some(ScopeKind::User))];
            let newest = log.iter().find(|change| change.version <= version)?;
            Some((key.clone(), (newest.value.clone()?, newest.version)))
        });
        folded.collect()
    }

    /// Checks that an event's changes of shared scopes are in their logs, under the versions that it left.
    fn hold(&self, event: &Event) {
        for (key, value) in changed(&event.changes) {
            let version = match key.scope() {
                Some(ScopeKind::Application) => event.versions.application,
                Some(ScopeKind::User) => event.versions.user,
                _ => continue,
            };
            let change = self.0[&key].iter().find(|change| change.version == version);
            let change = change.unwrap_or_else(|| panic!("{key} has no version {version}"));
            assert_eq!(change.value, value, "{key}");
            assert_eq!(change.author, event.author);
            assert_eq!(change.commit_time, event.commit_time);
            let (_, sequence) = change.source.as_ref().unwrap();
            assert_eq!(*sequence, event.sequence);
        }
    }
}
