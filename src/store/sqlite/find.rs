//! Opening what a write works on: sessions and scopes go into the writer's cache, and stay there while they are in use.

use rusqlite::OptionalExtension;

use super::{
    cache::greatest_of,
    fault::{Fault, Outcome},
    lookup::Found,
    node::Node,
    schema::NodeId,
    writer::Writer,
};
use crate::domain::{
    error::Error,
    id::{AppName, UserId},
    scope::{Scope, SessionRef},
    time::Time,
};

/// The cache has lost what was put into it: a defect.
pub(super) fn lost() -> Fault {
    Fault::Refused(Error::Internal("a scope was not in the writer's cache".into()))
}

impl Writer<'_> {
    /// Finds a live session and opens it, with its scopes.
    pub(super) fn find(&mut self, session: &SessionRef, now: Time) -> Outcome<NodeId> {
        let known = match session {
            SessionRef::Full(key) => self.cache.find(key),
            SessionRef::Bare(_) => None,
        };
        let id = match known {
            Some(live) if live.found.info.expired(now) => {
                return Err(Error::not_found(&live.found.info.key).into());
            }
            Some(live) => live.found.id(),
            None => {
                let found = self.reads.live_session(session, now)?;
                let id = found.id();
                if self.cache.live(id).is_none() {
                    self.load(found)?;
                }
                id
            }
        };
        self.load_scopes(id)?;
        Ok(id)
    }

    /// Opens a session that the database has.
    fn load(&mut self, found: Found) -> Outcome<()> {
        let id = found.id();
        let own = self.reads.session_node(&found)?;
        let indexed = self.reads.newest_event_id.query_row([id], |row| row.get::<_, Box<str>>(0));
        let indexed = indexed.optional()?;
        let tail = greatest_of(&own.tail).map(Box::<str>::from);
        let moved = self.reads.is_moved.query_row((found.app, found.user, id), |_| Ok(()));
        let moved = moved.optional()?.is_some();
        self.cache.keep_session(found, own, moved);
        if let Some(live) = self.cache.live(id) {
            live.greatest_id = indexed.max(tail);
        }
        Ok(())
    }

    /// Opens the scopes of a session that is open.
    fn load_scopes(&mut self, id: NodeId) -> Outcome<()> {
        let Some(live) = self.cache.live(id) else {
            return Err(lost());
        };
        let (app, user) = (live.found.app, live.found.user);
        for scope in [app, user] {
            if self.cache.scope(scope).is_none() {
                let name = self.reads.scope_of(scope)?;
                let node = self.reads.scope_node(scope, name)?;
                self.cache.keep_scope(node);
            }
        }
        Ok(())
    }

    /// Opens an application, or one of its users, that may not be there yet.
    pub(super) fn scope(&mut self, app: &AppName, user: Option<&UserId>) -> Outcome<NodeId> {
        if let Some(id) = self.cache.scope_id(app, user) {
            return Ok(id);
        }
        let scope = user.map_or_else(
            || Scope::Application(app.clone()),
            |user| Scope::User(app.clone(), user.clone()),
        );
        let node = match self.reads.scope_id(app, user)? {
            Some(id) => self.reads.scope_node(id, scope)?,
            None => {
                let id = self.new_node()?;
                let name = user.map_or("", UserId::as_str);
                self.writes.insert_scope.execute((app.as_str(), name, id))?;
                Node::new(id, scope, 0, true)
            }
        };
        let id = node.id;
        self.cache.keep_scope(node);
        Ok(id)
    }

    /// A number that no node has had.
    pub(super) fn new_node(&mut self) -> Outcome<NodeId> {
        self.next_node += 1;
        Ok(self.next_node - 1)
    }
}
