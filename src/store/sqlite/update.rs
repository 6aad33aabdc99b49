//! Changing the state of an application or a user outside of any session.

use super::{
    fault::{Outcome, Smuggler},
    find::lost,
    history::names_of,
    log::LogRow,
    plan::check,
    writer::Writer,
};
use crate::{
    domain::{
        delta::changes_in,
        error::Error,
        scope::{Scope, ScopeKind},
        session::{State, StateEntry},
    },
    store::{StateUpdate, StateUpdated},
};

impl Writer<'_> {
    pub(super) fn update_state(&mut self, update: StateUpdate) -> Outcome<StateUpdated> {
        let StateUpdate { scope, delta, precondition, author, request, now } = update;
        let kind = scope.kind();
        let app_name = scope.app_name().clone();
        let (Scope::Application(_) | Scope::User(..)) = &scope else {
            return Err(Error::Internal("a session's state changes by events".into()).into());
        };
        let app = self.scope(&app_name, None)?;
        let user = match scope.user_id() {
            None => None,
            Some(user) => Some(self.scope(&app_name, Some(user))?),
        };
        let node = user.unwrap_or(app);
        let replayed = match &request {
            None => false,
            Some(request) => self.seen(node, request)?,
        };
        if !replayed {
            let mut trio = self.cache.open_scopes(app, user).ok_or_else(lost)?;
            check(&mut trio, &mut self.reads, &precondition, kind)?;
            let mut smuggler = Smuggler::default();
            let resolved = delta.resolve("delta", |key| {
                let found = smuggler.hide(trio.value(&mut self.reads, key))?;
                Ok(found.map(|(value, _)| value.clone()))
            });
            let results = smuggler.reveal(resolved)?;
            let sizes = trio.sizes_after(&mut self.reads, &results)??;
            for kind in [ScopeKind::Application, ScopeKind::User] {
                let changes = changes_in(&results, kind);
                if changes.is_empty() {
                    continue;
                }
                let node = trio.node(kind);
                node.version += 1;
                node.bytes = sizes[kind as usize];
                let row = LogRow {
                    version: node.version,
                    time: now,
                    author: &author,
                    source: None,
                    changes: &changes,
                };
                self.writes.store_log(node, &row, names_of(kind, &results))?;
                self.changed.push(node.id);
                self.unwritten.push(node.id);
            }
            trio.put_all(results).for_each(drop);
            if let Some(request) = &request {
                self.remember(node, request)?;
            }
        }
        let mut entries: Vec<StateEntry> = Vec::new();
        let trio = self.cache.open_scopes(app, user).ok_or_else(lost)?;
        trio.app.entries(&mut self.reads, &mut entries)?;
        if let Some(user) = trio.user {
            user.entries(&mut self.reads, &mut entries)?;
        }
        Ok(StateUpdated { state: State(entries), replayed })
    }
}
