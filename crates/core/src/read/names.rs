//! Lists of applications and users: those that have state, and those that have a live session.
//!
//! The rows of applications and users are read a piece at a time, and after each piece the sessions up to the same place.

use std::collections::BTreeSet;

use super::{ApplicationsQuery, NamePage, Read, Rows, UsersQuery};
use crate::domain::{limits::ID_BYTES, prelude::*};

/// Rows that are read at once. Of a name that is used the others are passed over.
const PIECE_NAMES: usize = 128;

/// Pieces of one step: some milliseconds.
const STEP_PIECES: usize = 8;

/// A text behind every name and id: more bytes than they may have, of the last character.
pub fn behind_all() -> String {
    "\u{10ffff}".repeat(ID_BYTES / 4 + 1)
}

/// A list of names on its way.
pub struct NamesRead<T> {
    /// The application whose users are listed; `None`: applications are.
    users_of: Option<AppName>,
    max_items: usize,
    found: BTreeSet<String>,
    scopes: ListPosition,
    /// Never behind that of the scopes.
    sessions: ListPosition,
    name: fn(String) -> T,
}

/// How far a table has been read.
#[derive(Clone)]
struct ListPosition {
    after: SessionKey,
    is_end: bool,
}

impl From<ApplicationsQuery> for NamesRead<AppName> {
    fn from(ApplicationsQuery { after, max_items }: ApplicationsQuery) -> Self {
        let after = after.map_or(key("", "", ""), |app| behind(app.as_str(), None));
        Self::new(None, after, max_items, AppName::from_stored)
    }
}

impl From<UsersQuery> for NamesRead<UserId> {
    fn from(UsersQuery { app_name, after, max_items }: UsersQuery) -> Self {
        let app = app_name.as_str();
        // The application's own row comes before those of its users.
        let user = after.as_ref().map_or("", UserId::as_str);
        let after = behind(app, Some(user));
        Self::new(Some(app_name), after, max_items, UserId::from_stored)
    }
}

impl<T> NamesRead<T> {
    fn new(
        users_of: Option<AppName>,
        after: SessionKey,
        max_items: usize,
        name: fn(String) -> T,
    ) -> Self {
        let scopes = ListPosition { after, is_end: false };
        let (found, sessions) = (BTreeSet::new(), scopes.clone());
        Self { users_of, max_items, found, scopes, sessions, name }
    }
}

impl<T> Read for NamesRead<T> {
    type Answer = NamePage<T>;

    async fn step<R: Rows>(&mut self, rows: &R) -> Result<Option<NamePage<T>>, Error> {
        for _ in 0..STEP_PIECES {
            let read_up_to = self.name_of(&self.sessions.after).to_owned();
            let known = self.found.range(..=read_up_to).count();
            // One more than the page tells whether others follow.
            if known > self.max_items || self.sessions.is_end {
                let found = self.found.iter().map(|name| (self.name)(name.clone()));
                return Ok(Some(NamePage::first(found, self.max_items)));
            }
            if !self.scopes.is_end && self.sessions.after >= self.scopes.after {
                self.read_scopes(rows).await?;
            } else {
                self.read_sessions(rows).await?;
            }
        }
        Ok(None)
    }
}

impl<T> NamesRead<T> {
    async fn read_scopes<R: Rows>(&mut self, rows: &R) -> Result<(), Error> {
        // What is known of a name by its sessions has not to be known by its scopes.
        let SessionKey { app_name, user_id, .. } = &self.sessions.after;
        let of = self.users_of.as_ref();
        let read = rows.scopes(of, (app_name, user_id), PIECE_NAMES).await?;
        self.scopes.is_end = read.len() < PIECE_NAMES;
        for (app, user, state_bytes) in read {
            let row = behind(app.as_str(), Some(user.as_str()));
            self.scopes.after = self.take(row, state_bytes > 0);
        }
        Ok(())
    }

    async fn read_sessions<R: Rows>(&mut self, rows: &R) -> Result<(), Error> {
        let up_to = match self.scopes.is_end {
            true => behind(self.users_of.as_ref().map_or(&behind_all(), AppName::as_str), None),
            false => self.scopes.after.clone(),
        };
        let range = (&self.sessions.after, &up_to);
        let read = rows.addresses(self.users_of.as_ref(), range, PIECE_NAMES).await?;
        let now = rows.now().await;
        let is_all = read.len() < PIECE_NAMES;
        for (row, expires) in read {
            self.sessions.after = self.take(row, expires.is_none_or(|at| at > now));
        }
        if is_all {
            // A name that was found may have led further.
            let after = up_to.max(self.sessions.after.clone());
            self.sessions = ListPosition { after, is_end: self.scopes.is_end };
        }
        Ok(())
    }

    /// Takes a row. Returns the place behind it, or behind its name if nothing else has to be known of that.
    fn take(&mut self, row: SessionKey, is_used: bool) -> SessionKey {
        let name = self.name_of(&row);
        if !is_used && !self.found.contains(name) {
            return row;
        }
        let behind = behind(row.app_name.as_str(), self.users_of.as_ref().map(|_| name));
        self.found.insert(name.to_owned());
        behind
    }

    fn name_of<'k>(&self, key: &'k SessionKey) -> &'k str {
        if self.users_of.is_some() { key.user_id.as_str() } else { key.app_name.as_str() }
    }
}

fn key(app: &str, user: &str, session: &str) -> SessionKey {
    SessionKey {
        app_name: AppName::from_stored(app),
        user_id: UserId::from_stored(user),
        session_id: SessionId::from_stored(session),
    }
}

/// Behind all rows of an application, or of one of its users.
fn behind(app: &str, user: Option<&str>) -> SessionKey {
    let all = behind_all();
    key(app, user.unwrap_or(&all), &all)
}
