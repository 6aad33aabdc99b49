//! Reading a session, now or as of an event.

use futures_util::future::{OptionFuture, try_join};

use super::{
    super::{
        bare::{FIRST_ROWS, next_rows},
        columns::Columns,
        log::rows,
        node::Node,
        prelude::*,
        row::{self, Found, SESSION_COLUMNS, number, time},
    },
    pool::Reader,
};
use crate::{
    commit::only_live,
    store::{SessionQuery, SessionView, search::Search},
};

/// The nodes that are visible from a scope, by kind.
pub(super) type Nodes = [Option<Node>; ScopeKind::ALL.len()];

impl Reader<'_> {
    /// The live session that is meant. Errors: [`Error::SessionNotFound`], [`Error::AmbiguousSessionId`].
    async fn live_session(&self, session: &SessionRef) -> Result<Found, Error> {
        match session {
            SessionRef::Full(key) => self.live(key).await,
            SessionRef::Bare(id, sight) if sight.sees_nothing() => Err(Error::not_found_bare(id)),
            SessionRef::Bare(id, sight) => {
                only_live(id, self.live_with(id, sight).await?.into_iter())
            }
        }
    }

    async fn live(&self, key: &SessionKey) -> Result<Found, Error> {
        let sql = format!(
            "SELECT {SESSION_COLUMNS} FROM session
             WHERE app_name = $1 AND user_id = $2 AND session_id = $3"
        );
        let found = Columns::new(sql).address(key).all(self.connection).await?;
        let found = found.first().map(|row| row::session(row, 0)).transpose()?;
        let now = self.now().await;
        let live = found.filter(|found| !found.info.expired(now));
        live.ok_or_else(|| Error::not_found(key))
    }

    /// The live sessions with an id that a caller sees, two at most: they are enough to see that it is ambiguous.
    async fn live_with(&self, id: &SessionId, sight: &Visibility) -> Result<Vec<Found>, Error> {
        let now = self.now().await;
        let sql = format!(
            "SELECT {SESSION_COLUMNS} FROM session_name JOIN session USING (app_name, user_id, session_id)
             WHERE session_id = $1 AND (app_name, user_id) > ($4, $5)
                 AND (expire_secs IS NULL OR (expire_secs, expire_nanos) > ($2, $3))
             ORDER BY app_name, user_id LIMIT $6"
        );
        let mut limit = if sight.is_everything() { 2 } else { FIRST_ROWS };
        let (mut live, mut after) = (Vec::new(), (String::new(), String::new()));
        loop {
            let select = Columns::new(sql.clone()).text(id).time(now);
            let select = select.text(after.0.as_str()).text(after.1.as_str());
            let rows = select.number(limit).all(self.connection).await?;
            for row in &rows {
                let found = row::session(row, 0)?;
                if found.info.key.is_seen(sight) {
                    live.push(found);
                }
                if live.len() == 2 {
                    return Ok(live);
                }
            }
            match rows.last() {
                Some(last) if rows.len() as u64 == limit => {
                    after = (last.try_get(0)?, last.try_get(1)?);
                }
                _ => return Ok(live),
            }
            limit = next_rows(limit);
        }
    }

    /// The nodes that are visible from a scope, and the session, if it is one. Errors: [`Error::SessionNotFound`].
    pub(super) async fn visible_from(
        &self,
        scope: &Scope,
    ) -> Result<(Nodes, Option<Found>), Error> {
        let app = scope.app_name();
        let user = scope.user_id().map(|user| Node::user(app, user));
        let (own, found) = match scope {
            Scope::Session(key) => {
                let found = self.live(key).await?;
                (Some(Node::session(key, found.info.incarnation)), Some(found))
            }
            Scope::Application(_) | Scope::User(..) => (None, None),
        };
        Ok(([Some(Node::application(app)), user, own], found))
    }

    /// The events that rewinds leave visible as of an event.
    pub(super) async fn visible(&self, session: &Node, as_of: Sequence) -> Result<Visible, Error> {
        let sql = "SELECT sequence, rewind_to FROM marker
            WHERE app_name = $1 AND user_id = $2 AND incarnation = $3 AND sequence <= $4
            ORDER BY sequence";
        let rows = Columns::new(sql).node(session).number(as_of).all(self.connection).await?;
        let marker = |row: &Row| Ok(Marker { sequence: number(row, 0)?, to: number(row, 1)? });
        let markers: Vec<Marker> = rows.iter().map(marker).collect::<Result<_>>()?;
        Ok(Visible::new(&markers, as_of))
    }

    /// Reads a session, and begins to read its events.
    pub(in super::super) async fn read_session(
        &self,
        query: &SessionQuery,
    ) -> Result<(SessionView, Option<Search>), Error> {
        let SessionQuery { session, as_of, with_state, events } = query;
        let Found { mut info, .. } = self.live_session(session).await?;
        let newest = info.last_sequence;
        if let Some(asked) = as_of.filter(|&asked| asked > newest) {
            return Err(Error::BeyondLastSequence { asked, last_sequence: newest });
        }
        let node = Node::session(&info.key, info.incarnation);
        let mut versions = info.created_versions;
        if let Some(at) = *as_of {
            info.last_event_time = info.create_time;
            info.last_sequence = at;
            if at > 0 {
                let columns = "sequence, event_secs, event_nanos, app_version, user_version";
                for row in rows(self.connection, &node, columns, &[at], None).await? {
                    info.last_event_time = time(&row, 1)?;
                    versions =
                        ScopeVersions { application: number(&row, 3)?, user: number(&row, 4)? };
                }
            }
        }
        let mut search = events.clone().map(|selection| Search::new(&info, selection));
        let state = async {
            Ok::<_, Error>(match (*with_state, *as_of) {
                (false, _) => None,
                (true, None) => Some(self.merged(&node).await?),
                (true, Some(at)) => Some(self.merged_as_of(&node, (at, newest), versions).await?),
            })
        };
        let events = OptionFuture::from(search.as_mut().map(|search| self.read_events(search)));
        let (state, events) = try_join(state, async { events.await.transpose() }).await?;
        Ok((SessionView { info, state, events: events.flatten() }, search))
    }
}
