//! Finding scopes and sessions, and their heads.

use rusqlite::OptionalExtension;

use super::{
    fault::Outcome,
    head::RowId,
    row::{self, SessionRow},
    schema::NodeId,
    statements::Reads,
};
use crate::domain::{
    Sequence, Version,
    error::Error,
    event::ScopeVersions,
    id::{AppName, UserId},
    scope::{Scope, SessionKey, SessionRef},
    session::SessionInfo,
    time::Time,
};

/// A session and the numbers of its scopes.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) info: SessionInfo,
    pub(super) app: NodeId,
    pub(super) user: NodeId,
    /// Size of its own state.
    pub(super) bytes: usize,
}

impl Found {
    /// The number of this life of the session.
    pub(super) fn id(&self) -> NodeId {
        self.info.incarnation.0.cast_signed()
    }
}

/// Where the log of an application or a user ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ScopeHead {
    pub(super) version: Version,
    pub(super) bytes: usize,
}

impl Reads<'_> {
    /// The number of an application, or of one of its users. Never changes.
    pub(super) fn scope_id(
        &mut self,
        app: &AppName,
        user: Option<&UserId>,
    ) -> rusqlite::Result<Option<NodeId>> {
        let user = user.map_or("", UserId::as_str);
        self.scope_id.query_row((app.as_str(), user), |row| row.get(0)).optional()
    }

    /// Where a scope's log ends; version 0 where nothing was ever written.
    pub(super) fn scope_head(&mut self, scope: Option<NodeId>) -> rusqlite::Result<ScopeHead> {
        let Some(scope) = scope else {
            return Ok(ScopeHead::default());
        };
        let head = self.scope_head.query_row([scope], |row| {
            Ok(ScopeHead { version: row::count(row, 0)?, bytes: row::bytes(row, 1)? })
        });
        Ok(head.optional()?.unwrap_or_default())
    }

    /// The versions of a session's scopes now.
    pub(super) fn versions(&mut self, found: &Found) -> rusqlite::Result<ScopeVersions> {
        Ok(ScopeVersions {
            application: self.scope_head(Some(found.app))?.version,
            user: self.scope_head(Some(found.user))?.version,
        })
    }

    /// The session of an address, expired or not.
    pub(super) fn session(&mut self, key: &SessionKey) -> rusqlite::Result<Option<Found>> {
        let Some(user) = self.scope_id(&key.app_name, Some(&key.user_id))? else {
            return Ok(None);
        };
        let row = self
            .session_by_address
            .query_row((user, key.session_id.as_str()), row::session)
            .optional()?;
        row.map(|row| self.with_head(row, key.app_name.clone())).transpose()
    }

    /// A life of a session, expired or not.
    pub(super) fn session_of(&mut self, id: NodeId) -> rusqlite::Result<Option<Found>> {
        let Some(row) = self.session_by_id.query_row([id], row::session).optional()? else {
            return Ok(None);
        };
        let app = self.app_name(row.app)?;
        self.with_head(row, app).map(Some)
    }

    /// The one live session that is meant.
    pub(super) fn live_session(&mut self, session: &SessionRef, now: Time) -> Outcome<Found> {
        match session {
            SessionRef::Full(key) => self.live(key, now),
            SessionRef::Bare(id) => {
                let mut live: Option<SessionRow> = None;
                let mut rows = self.sessions_by_bare_id.query([id.as_str()])?;
                while let Some(row) = rows.next()? {
                    let row = row::session(row)?;
                    if row.expired(now) {
                        continue;
                    }
                    if live.is_some() {
                        return Err(Error::AmbiguousSessionId(id.clone()).into());
                    }
                    live = Some(row);
                }
                drop(rows);
                let row = live.ok_or_else(|| Error::not_found_bare(id))?;
                let app = self.app_name(row.app)?;
                Ok(self.with_head(row, app)?)
            }
        }
    }

    /// The live session of an address.
    pub(super) fn live(&mut self, key: &SessionKey, now: Time) -> Outcome<Found> {
        match self.session(key)? {
            Some(found) if !found.info.expired(now) => Ok(found),
            _ => Err(Error::not_found(key).into()),
        }
    }

    /// The name of the application of this number.
    pub(super) fn app_name(&mut self, app: NodeId) -> rusqlite::Result<AppName> {
        self.scope_names.query_row([app], |row| Ok(AppName::from_stored(row::text(row, 0)?)))
    }

    /// The application or user of this number.
    pub(super) fn scope_of(&mut self, id: NodeId) -> rusqlite::Result<Scope> {
        self.scope_names.query_row([id], |row| {
            let app = AppName::from_stored(row::text(row, 0)?);
            Ok(match row::text(row, 1)? {
                "" => Scope::Application(app),
                user => Scope::User(app, UserId::from_stored(user)),
            })
        })
    }

    /// Puts what the newest event says into a session.
    pub(super) fn with_head(&mut self, row: SessionRow, app: AppName) -> rusqlite::Result<Found> {
        let (app_scope, user_scope, id) = (row.app, row.user, row.id);
        let mut bytes = row.initial_bytes;
        let mut info = row.into_info(app);
        if let Some((last, size)) = self.head(id)?
            && let Some(newest) = last.newest()
        {
            let (event_time, commit_time) = self.event_times(newest)?;
            info.last_sequence = last.version();
            info.last_event_time = event_time;
            info.update_time = info.update_time.max(commit_time);
            bytes = size;
        }
        Ok(Found { info, app: app_scope, user: user_scope, bytes })
    }

    /// When the event of a row happened, and when it was committed.
    pub(super) fn event_times(&mut self, row: RowId) -> rusqlite::Result<(Time, Time)> {
        self.event_times.query_row([row], |row| Ok((row::time(row, 0)?, row::time(row, 2)?)))
    }

    /// The versions of the wider scopes that an event left; 0: those right after the creation.
    pub(super) fn versions_as_of(
        &mut self,
        found: &Found,
        sequence: Sequence,
    ) -> rusqlite::Result<ScopeVersions> {
        if sequence == 0 {
            return Ok(found.info.created_versions);
        }
        let row = self.row_of(found.id(), sequence)?;
        self.event_versions.query_row([row], |row| {
            Ok(ScopeVersions { application: row::count(row, 0)?, user: row::count(row, 1)? })
        })
    }
}
