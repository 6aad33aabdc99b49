//! Changes behind a position, for watches, and the changes of a key.

use std::collections::HashMap;

use futures_util::future::try_join;

use super::{
    super::{
        columns::Columns,
        log::{PIECE_BYTES, PIECE_ROWS, first_of, rows},
        node::Node,
        prelude::*,
        row::{self, number, time},
        snapshot::snapshot_before,
    },
    pool::Reader,
};
use crate::{
    domain::delta::changes,
    store::{
        Bases, Budget, KeyChange, KeyChangePage, KeyChangeQuery, ScopeChange, WatchPage,
        WatchQuery, rows::EVENT_COLUMNS,
    },
};

impl Reader<'_> {
    /// Reads what happened in a scope after a position.
    pub(in super::super) async fn read_changes(
        &self,
        query: &WatchQuery,
    ) -> Result<WatchPage, Error> {
        let WatchQuery { scope, position, max_items, max_bytes } = query;
        let (nodes, found) = self.visible_from(scope).await?;
        let info = found.map(|found| found.info);
        if let Some(info) = &info
            && info.incarnation != position.incarnation
        {
            return Err(Error::not_found(&info.key));
        }
        let mut page = WatchPage {
            events: Vec::new(),
            changes: Vec::new(),
            position: *position,
            complete: true,
            expire_time: info.as_ref().and_then(|info| info.expire_time),
            bases: Bases(ScopeVersions::default()),
        };
        let mut budget = Budget::new(*max_items, *max_bytes);
        let [application, user, session] = &nodes;
        let last = info.as_ref().map_or(0, |info| info.last_sequence);
        let events = async {
            match session {
                Some(session) if position.sequence < last => {
                    self.events_after(session, last, &mut page, &mut budget).await
                }
                _ => Ok(()),
            }
        };
        let versions = self.versions(scope.app_name(), scope.user_id());
        let ((), (versions, bases)) = try_join(events, versions).await?;
        page.bases = bases;
        let own = session.as_ref().map(|session| session.incarnation);
        for (node, version) in [(application, versions.application), (user, versions.user)] {
            if let (Some(node), true) = (node, page.complete) {
                self.scope_changes_after(node, version, own, &mut page, &mut budget).await?;
            }
        }
        Ok(page)
    }

    /// Puts the events after the page's position on it, as far as they fit.
    async fn events_after(
        &self,
        session: &Node,
        last: Sequence,
        page: &mut WatchPage,
        budget: &mut Budget,
    ) -> Result<(), Error> {
        let visible = self.visible(session, last).await?;
        while page.position.sequence < last {
            let (items_left, bytes_left) = budget.left();
            let max_rows = PIECE_ROWS.min(items_left.saturating_add(1));
            let wanted = first_of(&[(page.position.sequence, last)], false, max_rows);
            let max_bytes = Some(bytes_left);
            for row in rows(self.connection, session, EVENT_COLUMNS, &wanted, max_bytes).await? {
                let sequence = number(&row, 0)?;
                let event = row::event(&row, 0, !visible.contains(sequence))?;
                if !budget.take(event.bytes()) {
                    page.complete = false;
                    return Ok(());
                }
                page.events.push(event);
                page.position.sequence = sequence;
            }
        }
        Ok(())
    }

    /// Puts the changes of a wider scope behind the page's position on it, up to its version, as far as they fit.
    async fn scope_changes_after(
        &self,
        node: &Node,
        last: Version,
        own: Option<Incarnation>,
        page: &mut WatchPage,
        budget: &mut Budget,
    ) -> Result<(), Error> {
        let kind = node.kind();
        let versions = &mut page.position.versions;
        let (at, base) = match kind {
            ScopeKind::Application => (&mut versions.application, page.bases.0.application),
            ScopeKind::User | ScopeKind::Session => (&mut versions.user, page.bases.0.user),
        };
        if *at < last {
            *at = (*at).max(base);
        }
        let columns = "version, removed, set_json, commit_secs, commit_nanos, source";
        let mut rows_left = PAGE_SCANNED;
        while *at < last {
            let wanted = first_of(&[(*at, last)], false, PIECE_ROWS);
            let found = rows(self.connection, node, columns, &wanted, Some(PIECE_BYTES)).await?;
            let mut changed = Vec::with_capacity(found.len());
            for row in &found {
                let source = row.try_get::<Option<i64>>(5)?;
                let is_own = source.is_some_and(|it| Some(Incarnation(it.cast_unsigned())) == own);
                let results =
                    if is_own { Vec::new() } else { row::logged(row, kind)?.results().collect() };
                changed.push(results);
            }
            let keys: Vec<&str> = changed.iter().flatten().map(|(key, _)| key.name()).collect();
            let newest = self.newest(node, keys).await?;
            for (row, mut kept) in found.iter().zip(changed) {
                if rows_left == 0 {
                    page.complete = false;
                    return Ok(());
                }
                let version = number(row, 0)?;
                // Each key was looked up, which counts as a row.
                rows_left = rows_left.saturating_sub(1 + kept.len());
                // The keys that nothing has changed since.
                kept.retain(|(key, _)| newest.get(key.name()) == Some(&version));
                let changes: Changes = changes(kept.iter());
                if !changes.is_empty() {
                    if !budget.take(changes.text_len()) {
                        page.complete = false;
                        return Ok(());
                    }
                    let commit_time = time(row, 3)?;
                    page.changes.push(ScopeChange { scope: kind, version, changes, commit_time });
                }
                *at = version;
            }
        }
        Ok(())
    }

    /// The versions that changed keys last.
    async fn newest(
        &self,
        node: &Node,
        mut names: Vec<&str>,
    ) -> Result<HashMap<String, Version>, Error> {
        names.sort_unstable();
        names.dedup();
        if names.is_empty() {
            return Ok(HashMap::new());
        }
        let sql = "SELECT name, version FROM state
            WHERE app_name = $1 AND user_id = $2 AND incarnation = $3 AND name = ANY($4)";
        let rows = Columns::new(sql).node(node).texts(names).all(self.connection).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, number(row, 1)?))).collect()
    }

    /// Lists how a key came to its value, newest first.
    pub(in super::super) async fn list_key_changes(
        &self,
        query: &KeyChangeQuery,
    ) -> Result<KeyChangePage, Error> {
        let KeyChangeQuery { scope, key, before, max_items, max_bytes } = query;
        let (nodes, found) = self.visible_from(scope).await?;
        let own = found.map(|it| it.info).filter(|_| key.scope() == Some(ScopeKind::Session));
        let incarnation = own.as_ref().map_or(Incarnation(0), |own| own.incarnation);
        let mut page = KeyChangePage { changes: Vec::new(), more: false, incarnation };
        let Some(kind) = key.scope() else { return Ok(page) };
        let Some(node) = &nodes[kind as usize] else { return Ok(page) };
        let now = self.some_keys(&nodes, std::slice::from_ref(key)).await?;
        if now.0.first().is_some_and(|entry| entry.value.is_damaged()) {
            return Err(Error::damaged_key(key));
        }
        // What an earlier life has left is not read.
        let (newest, base) = match &own {
            Some(own) => (own.last_sequence, None),
            None => {
                let (versions, Bases(bases)) =
                    self.versions(scope.app_name(), scope.user_id()).await?;
                match kind {
                    ScopeKind::User => (versions.user, Some(bases.user)),
                    _ => (versions.application, Some(bases.application)),
                }
            }
        };
        let columns = match kind {
            ScopeKind::Session => "sequence, removed, set_json, author, commit_secs, commit_nanos",
            _ => {
                "version, removed, set_json, author, commit_secs, commit_nanos,
                 source_user, source_session, source_sequence"
            }
        };
        let mut budget = Budget::new(*max_items, *max_bytes);
        let mut put = |change| page.put(change, &mut budget);
        // One snapshot tells the change before it, and serves all the changes that follow it.
        let mut left = match before {
            Some(before) => before.checked_sub(1).map(|at| at.min(newest)),
            None => Some(newest),
        };
        while let Some(mut at) = left {
            let (mut snapshot, from) =
                snapshot_before(self.connection, node, at.saturating_sub(1)).await?;
            let earlier = snapshot.remove(key.name());
            if let (0, Some(own)) = (at, &own) {
                earlier.map(|(value, version)| {
                    let commit_time = own.create_time;
                    let author = Author::from_stored("");
                    put(KeyChange { version, value, commit_time, author, source: None })
                });
                break;
            }
            let mut is_whole = true;
            while is_whole && at > from {
                let wanted = first_of(&[(from, at)], true, PIECE_ROWS);
                for row in rows(self.connection, node, columns, &wanted, Some(PIECE_BYTES)).await? {
                    let version = number(&row, 0)?;
                    at = version - 1;
                    let changes = row::logged(&row, kind)?;
                    let Some((_, value)) = changes.results().find(|(changed, _)| changed == key)
                    else {
                        continue;
                    };
                    let source = match scope {
                        Scope::Session(own) if kind == ScopeKind::Session => {
                            Some((own.clone(), version))
                        }
                        _ => source_of(&row, scope)?,
                    };
                    let (author, commit_time) = (row.try_get(3)?, time(&row, 4)?);
                    is_whole = put(KeyChange { version, value, commit_time, author, source });
                    if !is_whole {
                        break;
                    }
                }
            }
            let is_of_life = |version: &Version| base.is_none_or(|base| *version > base);
            left = earlier.map(|(_, version)| version).filter(is_of_life).filter(|_| is_whole);
        }
        Ok(page)
    }
}

/// The event that made a change of an application or a user. A user's log does not name that user.
fn source_of(row: &Row, scope: &Scope) -> Result<Option<(SessionKey, Sequence)>> {
    let user: Option<UserId> = row.try_get(6)?;
    let session: Option<SessionId> = row.try_get(7)?;
    let (Some(user_id), Some(session_id)) = (user.or_else(|| scope.user_id().cloned()), session)
    else {
        return Ok(None);
    };
    let key = SessionKey { app_name: scope.app_name().clone(), user_id, session_id };
    Ok(Some((key, number(row, 8)?)))
}
