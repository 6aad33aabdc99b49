//! Loads exactly the rows that requests need: a row that no need names is missing for the decision.

use sessiond::{
    commit::{Address, ReadSet, ScopeKey, ScopeState, SessionState, WorkingSet},
    domain::{
        id::{AppName, UserId},
        scope::{Scope, ScopeKind, SessionKey},
        session::Incarnation,
    },
};

use crate::tables::Tables;

/// Adds the rows that `loaded` lacks. The decisions since then have kept the others up to date.
pub fn load(tables: &Tables, loaded: &mut WorkingSet, needs: &[ReadSet<'_>], busy: &[Incarnation]) {
    for needs in needs {
        let key = match needs.address {
            Some(Address::Session(key)) => {
                address(tables, loaded, key);
                Some(key.clone())
            }
            Some(Address::Shared(scope)) => {
                wide(tables, loaded, scope, needs);
                None
            }
            None => None,
        };
        if let Some(key) = key {
            session(tables, loaded, &key, needs);
        }
        if needs.sweep {
            let infos = tables.sessions.iter().map(|row| &row.info);
            loaded.expired = infos.filter(|info| info.expired(loaded.now)).cloned().collect();
            let tombstones = tables.tombstones.iter();
            let idle = tombstones.copied().filter(|tombstone| !busy.contains(tombstone));
            loaded.tombstones = idle.take(2).collect();
        }
    }
}

/// An address with the head of the session that has it, expired or not.
fn address(tables: &Tables, loaded: &mut WorkingSet, key: &SessionKey) {
    let found = tables.incarnation(key);
    loaded.addresses.insert(key.clone(), found);
    let Some(incarnation) = found.filter(|found| !loaded.sessions.contains_key(found)) else {
        return;
    };
    let row = tables.session(incarnation).unwrap();
    let session = SessionState {
        info: row.info.clone(),
        own: head(tables, &ScopeKey::Session(incarnation)),
        markers: tables.markers(incarnation),
    };
    loaded.sessions.insert(incarnation, session);
}

fn session(tables: &Tables, loaded: &mut WorkingSet, key: &SessionKey, needs: &ReadSet<'_>) {
    if let Some(target) = needs.target {
        address(tables, loaded, &SessionKey { session_id: target.clone(), ..key.clone() });
    }
    let incarnation = loaded.addresses[key];
    scopes(tables, loaded, &key.app_name, Some(&key.user_id), incarnation, needs);
    let Some(incarnation) = incarnation else { return };
    let last_sequence = loaded.sessions[&incarnation].info.last_sequence;
    for (id, _) in &needs.events {
        let stored = tables.events(incarnation).find(|row| row.event.event_id == **id);
        loaded.events.insert((incarnation, (*id).clone()), stored.cloned().map(Into::into));
    }
    request(tables, loaded, ScopeKey::Session(incarnation), needs);
    if let Some(at) = needs.past.filter(|at| *at <= last_sequence) {
        loaded.past.insert((incarnation, at), tables.past(incarnation, at));
    }
    if let Some((from, after, up_to)) = needs.copy.filter(|(from, ..)| *from == incarnation) {
        // Small pieces, so that a fork takes several.
        loaded.pieces.insert((from, after), up_to.min(after + 3));
    }
    loaded.forks.extend(needs.fork.filter(|fork| tables.tombstones.contains(fork)));
}

fn wide(tables: &Tables, loaded: &mut WorkingSet, scope: &Scope, needs: &ReadSet<'_>) {
    scopes(tables, loaded, scope.app_name(), scope.user_id(), None, needs);
    let own = match scope.user_id() {
        None => ScopeKey::Application(scope.app_name().clone()),
        Some(user) => ScopeKey::User(scope.app_name().clone(), user.clone()),
    };
    request(tables, loaded, own, needs);
}

fn request(tables: &Tables, loaded: &mut WorkingSet, scope: ScopeKey, needs: &ReadSet<'_>) {
    let Some(id) = needs.request_id else { return };
    let known = tables.requests.iter().find(|row| row.scope == scope && row.id == *id);
    loaded.requests.insert((scope, id.clone()), known.map(|row| row.fingerprint));
}

fn scopes(
    tables: &Tables,
    loaded: &mut WorkingSet,
    app: &AppName,
    user: Option<&UserId>,
    incarnation: Option<Incarnation>,
    needs: &ReadSet<'_>,
) {
    for kind in ScopeKind::ALL {
        let key = match (kind, user, incarnation) {
            (ScopeKind::Application, ..) => ScopeKey::Application(app.clone()),
            (ScopeKind::User, Some(user), _) => ScopeKey::User(app.clone(), user.clone()),
            (ScopeKind::Session, _, Some(incarnation)) => ScopeKey::Session(incarnation),
            _ => continue,
        };
        let is_known = loaded.scope(&key).is_some();
        let scope = loaded.scope_mut(&key).unwrap();
        if !is_known {
            *scope = head(tables, &key);
        }
        let rows: Vec<_> = tables.state(&key).collect();
        for name in needs.keys().filter(|key| key.scope() == Some(kind)).map(|key| key.name()) {
            let row = rows.iter().find(|row| *row.name == *name);
            if !scope.covers(name) {
                scope.put(name, row.map(|row| (row.value.clone(), row.version)));
            }
        }
        if needs.all_state && !scope.complete {
            scope.keys.clear();
            for row in rows {
                scope.put(&row.name, Some((row.value.clone(), row.version)));
            }
            scope.complete = true;
        }
    }
}

/// A scope without its keys.
fn head(tables: &Tables, key: &ScopeKey) -> ScopeState {
    let row = tables.scope(key);
    ScopeState {
        version: row.map_or(0, |row| row.version),
        state_bytes: row.map_or(0, |row| row.state_bytes),
        ..ScopeState::default()
    }
}
