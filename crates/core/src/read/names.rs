//! Lists of applications and users: those that have state, and those that have a live session.
//!
//! The rows of applications and users are read a piece at a time, and after each piece the sessions up to the same place. A caller that
//! sees some names only has ranges of names, which are read one after the other.

use std::collections::BTreeSet;

use super::{ApplicationsQuery, NamePage, Read, Rows, UsersQuery, scan::Scan};
use crate::domain::{limits::ID_BYTES, permission::Pattern, prelude::*, token::NamePlace};

/// Rows that are read at once. Of a name that is used the others are passed over, so that fewer are read where names have many.
const PIECE_NAMES: usize = 128;
const FEWEST_NAMES: usize = 8;

/// A text behind every name and id: more bytes than they may have, of the last character.
pub fn behind_all() -> String {
    "\u{10ffff}".repeat(ID_BYTES / 4 + 1)
}

impl Read for ApplicationsQuery {
    type Answer = NamePage<AppName>;

    async fn read<R: Rows>(&self, rows: &R) -> Result<NamePage<AppName>, Error> {
        let Self { seen, after, max_items } = self;
        let names = Names::new(rows, None, after.as_ref());
        names.page(seen.as_deref(), *max_items, AppName::from_stored).await
    }
}

impl Read for UsersQuery {
    type Answer = NamePage<UserId>;

    async fn read<R: Rows>(&self, rows: &R) -> Result<NamePage<UserId>, Error> {
        let Self { app_name, seen, after, max_items } = self;
        let names = Names::new(rows, Some(app_name), after.as_ref());
        names.page(seen.as_deref(), *max_items, UserId::from_stored).await
    }
}

/// A list of names on its way.
struct Names<'r, R> {
    rows: &'r R,
    /// The application whose users are listed; `None`: applications are.
    users_of: Option<&'r AppName>,
    /// Those behind `sessions` may lack others before them.
    found: BTreeSet<String>,
    /// How far applications and users have been read, and whether none is left in the range.
    scopes: SessionKey,
    is_end: bool,
    /// How far sessions have been read. Never behind the scopes.
    sessions: SessionKey,
    piece: usize,
    scan: Scan<'r, R>,
}

impl<'r, R: Rows> Names<'r, R> {
    fn new(rows: &'r R, users_of: Option<&'r AppName>, after: Option<&NamePlace>) -> Self {
        let begin = after.map_or_else(|| begin(users_of), |place| row(users_of, place));
        Self {
            rows,
            users_of,
            found: BTreeSet::new(),
            scopes: begin.clone(),
            is_end: false,
            sessions: begin,
            piece: PIECE_NAMES,
            scan: Scan::new(rows),
        }
    }

    async fn page<T>(
        mut self,
        seen: Option<&[Pattern]>,
        max_items: usize,
        name: fn(String) -> T,
    ) -> Result<NamePage<T>, Error> {
        let all = [Pattern::Prefix(String::new())];
        let mut rest = None;
        'ranges: for range in ranges(seen.unwrap_or(&all)) {
            let (before, end) = self.ends(range);
            if end <= self.sessions {
                continue;
            }
            self.sessions = self.sessions.max(before);
            (self.scopes, self.is_end) = (self.sessions.clone(), false);
            while self.sessions < end {
                let known = self.found.range(..=self.name_of(&self.sessions).to_owned()).count();
                // One more than the page tells whether others follow.
                if known > max_items {
                    break 'ranges;
                }
                if self.scan.is_over() {
                    rest = Some(self.place());
                    break 'ranges;
                }
                if !self.is_end && self.sessions >= self.scopes {
                    self.read_scopes(&end).await?;
                }
                self.read_sessions(&end).await?;
            }
        }
        let read_up_to = self.name_of(&self.sessions).to_owned();
        let mut names: Vec<String> = self.found.range(..=read_up_to).cloned().collect();
        if names.len() > max_items {
            names.truncate(max_items);
            rest = names.last().map(|name| NamePlace { name: name.clone(), within: None });
        }
        Ok(NamePage { names: names.into_iter().map(name).collect(), rest })
    }

    async fn read_scopes(&mut self, end: &SessionKey) -> Result<(), Error> {
        // What is known of a name by its sessions has not to be known by its scopes.
        let range = (&self.sessions, end);
        let max_rows = self.piece.min(self.scan.left());
        let read = self.rows.scopes(self.users_of, range, max_rows).await?;
        self.is_end = read.len() < max_rows;
        self.scan.look(read.len(), read.len());
        for (app, user, state_bytes) in read {
            let row = behind(app.as_str(), Some(user.as_str()));
            self.scopes = self.take(row, state_bytes > 0);
        }
        Ok(())
    }

    async fn read_sessions(&mut self, end: &SessionKey) -> Result<(), Error> {
        let up_to = if self.is_end { end.clone() } else { self.scopes.clone() };
        let range = (&self.sessions, &up_to);
        // One at least, so that the page gets on.
        let max_rows = self.piece.min(self.scan.left().max(1));
        let read = self.rows.addresses(self.users_of, range, max_rows).await?;
        let now = self.rows.now().await;
        let (looked_at, mut repeated, mut dead) = (read.len(), 0, 0);
        for (row, expires) in read {
            let is_live = expires.is_none_or(|at| at > now);
            match self.found.contains(self.name_of(&row)) {
                true => repeated += 1,
                false => dead += usize::from(!is_live),
            }
            self.sessions = self.take(row, is_live);
        }
        // A range without rows is looked at as well, and the page misses it.
        self.scan.look(looked_at.max(1), looked_at - dead);
        if looked_at < max_rows {
            // A name that was found may have led further.
            self.sessions = up_to.max(self.sessions.clone());
        }
        self.piece = match repeated * 2 > looked_at {
            true => (self.piece / 4).max(FEWEST_NAMES),
            false => (self.piece * 2).min(PIECE_NAMES),
        };
        Ok(())
    }

    /// Takes a row. Returns the place behind it, or behind its name if nothing else has to be known of that.
    fn take(&mut self, row: SessionKey, is_used: bool) -> SessionKey {
        let name = self.name_of(&row);
        if !is_used && !self.found.contains(name) {
            return row;
        }
        let behind = behind(row.app_name.as_str(), self.users_of.map(|_| name));
        self.found.insert(name.to_owned());
        behind
    }

    fn name_of<'k>(&self, key: &'k SessionKey) -> &'k str {
        if self.users_of.is_some() { key.user_id.as_str() } else { key.app_name.as_str() }
    }

    /// How far sessions have been read, as a place.
    fn place(&self) -> NamePlace {
        let SessionKey { user_id, session_id, .. } = &self.sessions;
        let name = self.name_of(&self.sessions).to_owned();
        let all = behind_all();
        let is_behind = |id: &str| id == all;
        let is_whole = match self.users_of {
            Some(_) => is_behind(session_id.as_str()),
            None => is_behind(user_id.as_str()),
        };
        let session = session_id.to_string();
        let session = if is_behind(&session) { String::new() } else { session };
        NamePlace { name, within: (!is_whole).then(|| (user_id.to_string(), session)) }
    }

    /// The rows between which a range of names lies.
    fn ends(&self, range: &Pattern) -> (SessionKey, SessionKey) {
        let (first, last) = match range {
            Pattern::Exact(name) => (name, name.clone()),
            Pattern::Prefix(prefix) => (prefix, prefix.clone() + &behind_all()),
        };
        let place = |name| row(self.users_of, &NamePlace { name, within: None });
        let before = before(first);
        let before = if before.is_empty() { begin(self.users_of) } else { place(before) };
        (before, place(last))
    }
}

/// Patterns of which none covers another, in the order of their names.
fn ranges(patterns: &[Pattern]) -> Vec<&Pattern> {
    let text = |pattern: &Pattern| match pattern {
        Pattern::Exact(text) | Pattern::Prefix(text) => text.clone(),
    };
    let mut ranges: Vec<&Pattern> = patterns.iter().collect();
    // Of the same text the prefix comes first, and covers the name.
    ranges.sort_by_key(|pattern| (text(pattern), matches!(pattern, Pattern::Exact(_))));
    ranges.dedup_by(|next, kept| *next == *kept || kept.matches(&text(next)));
    ranges
}

/// A text right before a name in the order of lists: no name lies between the two.
fn before(name: &str) -> String {
    let mut text = name.to_owned();
    let Some(last) = text.pop() else { return text };
    // The end of the range is exclusive. It has no character if the last one is the first there is.
    if let Some(previous) = ('\u{1}'..last).next_back() {
        text.push(previous);
        text.push_str(&behind_all());
    }
    text
}

fn key(app: &str, user: &str, session: &str) -> SessionKey {
    SessionKey {
        app_name: AppName::from_stored(app),
        user_id: UserId::from_stored(user),
        session_id: SessionId::from_stored(session),
    }
}

/// Before all names of a list.
fn begin(users_of: Option<&AppName>) -> SessionKey {
    // The application's own row comes before those of its users.
    users_of.map_or(key("", "", ""), |app| behind(app.as_str(), Some("")))
}

/// Behind all rows of an application, or of one of its users.
fn behind(app: &str, user: Option<&str>) -> SessionKey {
    let all = behind_all();
    key(app, user.unwrap_or(&all), &all)
}

/// The row behind which a place lies.
fn row(users_of: Option<&AppName>, place: &NamePlace) -> SessionKey {
    let NamePlace { name, within } = place;
    let app = users_of.map_or(name.as_str(), AppName::as_str);
    match within {
        None => behind(app, users_of.map(|_| name.as_str())),
        Some((user, session)) => {
            let user = if users_of.is_some() { name } else { user };
            let all = behind_all();
            key(app, user, if session.is_empty() { &all } else { session })
        }
    }
}

#[cfg(test)]
mod tests;
