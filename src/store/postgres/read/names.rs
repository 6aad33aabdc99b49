//! Lists of applications and users: those that have state, and those that have a live session.

use super::{
    super::{columns::Columns, prelude::*},
    pool::Reader,
};
use crate::store::order::behind_all;

/// Rows that one statement reads. Of a name that is used the others are passed over.
const PIECE_ROWS: usize = 128;

/// Statements of one step: some milliseconds.
const STEP_PIECES: usize = 8;

/// Names out of one table, on their way through its rows.
pub(in super::super) struct Names {
    table: Table,
    /// The application whose users are listed; `None`: applications are.
    users_of: Option<AppName>,
    found: Vec<String>,
    /// Application, user and session behind which the next row is.
    after: [String; 3],
    is_end: bool,
}

/// A table that tells which names are used.
#[derive(Clone, Copy)]
enum Table {
    Scope,
    Session,
}

impl Names {
    /// The applications behind one, as each of the tables tells.
    pub(in super::super) fn applications(after: Option<AppName>) -> [Self; 2] {
        let after = match after {
            Some(app) => [app.to_string(), behind_all(), behind_all()],
            // No name is empty.
            None => Default::default(),
        };
        Self::behind(None, &after)
    }

    /// The users behind one, as each of the tables tells.
    pub(in super::super) fn users(app_name: AppName, after: Option<UserId>) -> [Self; 2] {
        let app = app_name.to_string();
        let after = match after {
            Some(user) => [app, user.to_string(), behind_all()],
            // The application's own row comes before those of its users.
            None => [app, String::new(), String::new()],
        };
        Self::behind(Some(&app_name), &after)
    }

    fn behind(users_of: Option<&AppName>, after: &[String; 3]) -> [Self; 2] {
        [Table::Scope, Table::Session].map(|table| {
            let (users_of, after) = (users_of.cloned(), after.clone());
            Self { table, users_of, found: Vec::new(), after, is_end: false }
        })
    }

    /// Whether it has this many names, or all.
    pub(super) fn is_complete(&self, names: usize) -> bool {
        self.is_end || self.found.len() >= names
    }

    pub(super) fn into_found(self) -> Vec<String> {
        self.found
    }

    fn select_behind(&self) -> &'static str {
        match (self.table, &self.users_of) {
            (Table::Scope, None) => {
                "SELECT app_name, user_id, '', state_bytes > 0 FROM scope
                 WHERE (app_name, user_id) > ($1, $2) ORDER BY app_name, user_id LIMIT $4"
            }
            (Table::Scope, Some(_)) => {
                "SELECT app_name, user_id, '', state_bytes > 0 FROM scope
                 WHERE app_name = $1 AND user_id > $2 ORDER BY user_id LIMIT $4"
            }
            (Table::Session, None) => {
                "SELECT app_name, user_id, session_id,
                     expire_secs IS NULL OR (expire_secs, expire_nanos) > ($5, $6)
                 FROM session WHERE (app_name, user_id, session_id) > ($1, $2, $3)
                 ORDER BY app_name, user_id, session_id LIMIT $4"
            }
            (Table::Session, Some(_)) => {
                "SELECT app_name, user_id, session_id,
                     expire_secs IS NULL OR (expire_secs, expire_nanos) > ($5, $6)
                 FROM session WHERE app_name = $1 AND (user_id, session_id) > ($2, $3)
                 ORDER BY user_id, session_id LIMIT $4"
            }
        }
    }

    /// Takes the next row.
    fn take(&mut self, row: &Row) -> Result<()> {
        let at = usize::from(self.users_of.is_some());
        let name: &str = row.try_get(at)?;
        if self.found.last().is_none_or(|last| last != name) {
            self.after = [row.try_get(0)?, row.try_get(1)?, row.try_get(2)?];
            if row.try_get(3)? {
                self.found.push(name.into());
                // Nothing else has to be known of it.
                self.after[at + 1..].fill_with(behind_all);
            }
        }
        Ok(())
    }
}

impl Reader<'_> {
    /// Looks at the next rows, until this many names are found.
    pub(in super::super) async fn continue_names(
        &self,
        names: &mut Names,
        wanted: usize,
    ) -> Result<(), Error> {
        let now = self.now().await;
        for _ in 0..STEP_PIECES {
            let [app, user, session] = &names.after;
            let mut select = Columns::new(names.select_behind());
            for after in [app, user, session] {
                select = select.text(after.as_str());
            }
            let rows = select.number(PIECE_ROWS as u64).time(now).all(self.connection).await?;
            for row in &rows {
                names.take(row)?;
            }
            names.is_end = rows.len() < PIECE_ROWS;
            if names.is_complete(wanted) {
                break;
            }
        }
        Ok(())
    }
}
