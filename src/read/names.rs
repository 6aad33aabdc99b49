//! Lists of applications and users: those that have state, and those that have a live session.

use std::collections::BTreeSet;

use super::{ApplicationsQuery, NamePage, Read, Rows, UsersQuery};
use crate::domain::{limits::ID_BYTES, prelude::*};

/// Rows that are read at once. Of a name that is used the others are passed over.
const PIECE_ROWS: usize = 128;

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
    /// As each of the tables tells.
    tables: [Names; 2],
    name: fn(String) -> T,
}

/// Names out of one table, on their way through its rows.
struct Names {
    table: Table,
    found: Vec<String>,
    /// The next row is behind this one.
    after: SessionKey,
    is_end: bool,
}

/// A table that tells which names are used.
#[derive(Clone, Copy)]
enum Table {
    Scope,
    Session,
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
        let after = after.map_or(key(app, "", ""), |user| behind(app, Some(user.as_str())));
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
        let tables = [Table::Scope, Table::Session].map(|table| {
            let (found, after) = (Vec::new(), after.clone());
            Names { table, found, after, is_end: false }
        });
        Self { users_of, max_items, tables, name }
    }
}

impl<T> Read for NamesRead<T> {
    type Answer = NamePage<T>;

    async fn step<R: Rows>(&mut self, rows: &R) -> Result<Option<NamePage<T>>, Error> {
        // One more than the page tells whether others follow.
        let wanted = self.max_items.saturating_add(1);
        let mut pieces = 0;
        for names in &mut self.tables {
            while !names.is_end && names.found.len() < wanted {
                if pieces == STEP_PIECES {
                    return Ok(None);
                }
                pieces += 1;
                names.read(rows, self.users_of.as_ref()).await?;
            }
        }
        let found: BTreeSet<&String> = self.tables.iter().flat_map(|names| &names.found).collect();
        let found = found.into_iter().map(|name| (self.name)(name.clone()));
        Ok(Some(NamePage::first(found, self.max_items)))
    }
}

impl Names {
    async fn read<R: Rows>(&mut self, rows: &R, users_of: Option<&AppName>) -> Result<(), Error> {
        let read = match self.table {
            Table::Scope => {
                let after = (&self.after.app_name, &self.after.user_id);
                let scopes = rows.scopes(users_of, after, PIECE_ROWS).await?.into_iter();
                let row = |(app, user, bytes): (AppName, UserId, usize)| {
                    (key(app.as_str(), user.as_str(), ""), bytes > 0)
                };
                scopes.map(row).collect()
            }
            Table::Session => {
                let sessions = rows.addresses(users_of, &self.after, PIECE_ROWS).await?;
                let now = rows.now().await;
                let is_live = |expires: Option<Time>| expires.is_none_or(|at| at > now);
                let row = |(key, expires)| (key, is_live(expires));
                sessions.into_iter().map(row).collect::<Vec<_>>()
            }
        };
        self.is_end = read.len() < PIECE_ROWS;
        for (row, is_used) in read {
            self.take(row, is_used, users_of.is_some());
        }
        Ok(())
    }

    fn take(&mut self, row: SessionKey, is_used: bool, of_users: bool) {
        let (app, user) = (row.app_name.as_str(), row.user_id.as_str());
        let name = if of_users { user } else { app };
        // Nothing else has to be known of a name that is used.
        if self.found.last().is_some_and(|last| last == name) {
            return;
        }
        if is_used {
            self.found.push(name.to_owned());
            self.after = behind(app, of_users.then_some(user));
        } else {
            self.after = row;
        }
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
