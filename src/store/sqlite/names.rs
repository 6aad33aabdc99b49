//! Lists of applications and users: the rows of `scope` that have a session or state.

use super::{connection::Tables, prelude::*};
use crate::store::{ApplicationsQuery, NamePage, UsersQuery};

/// Rows of scopes and sessions that one step looks at, most of them by a statement of its own: some milliseconds.
pub(super) const STEP_ROWS: usize = 1000;

/// A list on its way through the rows of `scope`, which lie in the order of their names.
pub(super) struct Names {
    /// The application whose users are listed; `None`: applications are.
    users_of: Option<AppName>,
    max_items: usize,
    found: Vec<String>,
    /// The row that is being looked at.
    row: Option<ScopeRow>,
    /// The last row that was. Without a user: all rows of that application.
    after: (String, Option<String>),
}

/// A row of `scope`.
struct ScopeRow {
    id: NodeId,
    app: String,
    user: String,
    has_state: bool,
    /// The last of its sessions that was looked at. All of them have expired.
    after_session: String,
}

impl Names {
    pub(super) fn applications(query: ApplicationsQuery) -> Self {
        let ApplicationsQuery { after, max_items } = query;
        // No name is empty.
        let after = (after.map(|app| app.to_string()).unwrap_or_default(), None);
        Self { users_of: None, max_items, found: Vec::new(), row: None, after }
    }

    pub(super) fn users(query: UsersQuery) -> Self {
        let UsersQuery { app_name, after, max_items } = query;
        // The application's own row comes before those of its users.
        let user = after.map(|user| user.to_string()).unwrap_or_default();
        let after = (app_name.to_string(), Some(user));
        Self { users_of: Some(app_name), max_items, found: Vec::new(), row: None, after }
    }

    /// Looks at the next rows. Returns whether the page is complete.
    pub(super) fn step(&mut self, tables: &Tables, now: Time) -> Result<bool> {
        let mut left = STEP_ROWS;
        // One more than the page tells whether others follow.
        while self.found.len() <= self.max_items {
            let row = match self.row.take() {
                None => self.next_row(tables)?,
                row => row,
            };
            let Some(mut row) = row else { return Ok(true) };
            left = left.saturating_sub(1);
            match tables.is_used(&mut row, now, &mut left)? {
                Some(is_used) => self.take(row, is_used),
                None => self.row = Some(row),
            }
            if left == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn next_row(&self, tables: &Tables) -> Result<Option<ScopeRow>> {
        let (app, user) = &self.after;
        match (user, &self.users_of) {
            (None, _) => tables.scope_behind("app > ?1", [app]),
            (Some(user), Some(_)) => tables.scope_behind("app = ?1 AND user > ?2", [app, user]),
            (Some(user), None) => tables.scope_behind("(app, user) > (?1, ?2)", [app, user]),
        }
    }

    fn take(&mut self, row: ScopeRow, is_used: bool) {
        let ScopeRow { app, user, .. } = row;
        if self.users_of.is_some() {
            self.found.extend(is_used.then(|| user.clone()));
        } else if is_used {
            self.found.push(app.clone());
            self.after = (app, None);
            return;
        }
        self.after = (app, Some(user));
    }

    pub(super) fn page<T>(self, name: fn(String) -> T) -> NamePage<T> {
        NamePage::first(self.found.into_iter().map(name), self.max_items)
    }
}

impl Tables {
    fn scope_behind(
        &self,
        condition: &str,
        parameters: impl rusqlite::Params,
    ) -> Result<Option<ScopeRow>> {
        let sql = format!(
            "SELECT id, app, user, state_bytes FROM scope
             WHERE {condition} ORDER BY app, user LIMIT 1"
        );
        self.one(&sql, parameters, |row| {
            let has_state = row.get::<u64>(3)? > 0;
            let (id, app, user) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(ScopeRow { id, app, user, has_state, after_session: String::new() })
        })
    }

    /// Whether a scope has state or a live session. `None`: it may have, but no row is left to look at.
    fn is_used(&self, row: &mut ScopeRow, now: Time, left: &mut usize) -> Result<Option<bool>> {
        if row.has_state {
            return Ok(Some(true));
        }
        // Applications have none of their own: their rows come with those of their users.
        let sql = "SELECT session_id, expire_secs, expire_nanos FROM session
            WHERE user_scope = ?1 AND session_id > ?2 ORDER BY session_id";
        let mut is_live = false;
        let mut after = None;
        let is_whole = self.each(sql, (row.id, &row.after_session), |session| {
            if is_live || *left == 0 {
                return Ok(false);
            }
            *left -= 1;
            let secs: Option<i64> = session.get(1)?;
            let nanos: Option<u32> = session.get(2)?;
            let end = secs.zip(nanos).map(|(secs, nanos)| Time::from_stored(secs, nanos));
            is_live = end.is_none_or(|end| end > now);
            after = Some(session.get(0)?);
            Ok(true)
        })?;
        row.after_session = after.unwrap_or_else(|| std::mem::take(&mut row.after_session));
        Ok(if is_live { Some(true) } else { is_whole.then_some(false) })
    }
}
