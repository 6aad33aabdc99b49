//! Changes behind a position, for watches, and the changes of a key.

use super::{connection::Tables, log::Log, prelude::*, row, snapshot::CHANGES};
use crate::{
    domain::delta::changes,
    store::{
        Bases, Budget, KeyChange, KeyChangePage, KeyChangeQuery, ScopeChange, WatchPage,
        WatchQuery, rows::EVENT_COLUMNS,
    },
};

/// No version is greater, whatever a client sends.
const LAST: Version = i64::MAX.cast_unsigned();

impl Tables {
    /// Reads what happened in a scope after a position.
    pub(super) fn read_changes(&self, query: &WatchQuery, now: Time) -> Result<WatchPage> {
        let WatchQuery { scope, position, max_items, max_bytes } = query;
        let (nodes, found) = self.visible_from(scope, now)?;
        let (_, bases) = self.versions_and_bases([nodes[0], nodes[1], None])?;
        let mut page = WatchPage {
            events: Vec::new(),
            changes: Vec::new(),
            position: *position,
            complete: true,
            expire_time: found.as_ref().and_then(|found| found.info.expire_time),
            bases,
        };
        let mut budget = Budget::new(*max_items, *max_bytes);
        if let Some(found) = &found {
            if found.info.incarnation != position.incarnation {
                return Err(Error::not_found(&found.info.key));
            }
            let (session, last) = (found.id(), found.info.last_sequence);
            if position.sequence < last {
                let visible = self.visible(session, last)?;
                let (log, range) =
                    (Log::of_session(found.info.incarnation), (position.sequence, last));
                page.complete = self.each_row(log, EVENT_COLUMNS, range, false, |row| {
                    let sequence = row.get(0)?;
                    let event = row::event(row, !visible.contains(sequence))?;
                    let fits = budget.take(event.bytes());
                    if fits {
                        page.events.push(event);
                        page.position.sequence = sequence;
                    }
                    Ok(fits)
                })?;
            }
        }
        let own = found.map(|found| found.id());
        for kind in [ScopeKind::Application, ScopeKind::User] {
            if let Some(node) = nodes[kind as usize]
                && page.complete
            {
                let log = Log { node, kind };
                page.complete = self.scope_changes_after(log, own, &mut page, &mut budget)?;
            }
        }
        Ok(page)
    }

    /// Puts changes of a shared scope on the page; whether all are there.
    fn scope_changes_after(
        &self,
        log: Log,
        own: Option<NodeId>,
        page: &mut WatchPage,
        budget: &mut Budget,
    ) -> Result<bool> {
        let (versions, Bases(bases)) = (&mut page.position.versions, page.bases);
        let (at, base) = match log.kind {
            ScopeKind::Application => (&mut versions.application, bases.application),
            ScopeKind::User | ScopeKind::Session => (&mut versions.user, bases.user),
        };
        if base == Version::MAX {
            return Ok(true);
        }
        let mut rows_left = PAGE_SCANNED;
        let newest = "SELECT version FROM state WHERE node = ?1 AND name = ?2
            UNION ALL SELECT version FROM removed WHERE node = ?1 AND name = ?2";
        let columns = format!("{}, {CHANGES}, commit_secs, commit_nanos, source", log.version());
        let after = (*at).max(base).min(LAST);
        self.each_row(log, &columns, (after, LAST), false, |row| {
            if rows_left == 0 {
                return Ok(false);
            }
            rows_left -= 1;
            let version = row.get(0)?;
            let source: Option<NodeId> = row.get(5)?;
            let mut kept = Vec::new();
            if source.is_none() || source != own {
                // The keys that nothing has changed since. Each is looked up, which counts as a row.
                for (key, value) in row::changes(row, 1)?.results() {
                    rows_left = rows_left.saturating_sub(1);
                    if self.value(newest, (log.node, key.name()))? == Some(version) {
                        kept.push((key, value));
                    }
                }
            }
            let changes: Changes = changes(kept.iter());
            if !changes.is_empty() {
                if !budget.take(changes.text_len()) {
                    return Ok(false);
                }
                let commit_time = row::time(row, 3)?;
                page.changes.push(ScopeChange { scope: log.kind, version, changes, commit_time });
            }
            *at = version;
            Ok(true)
        })
    }

    /// Lists how a key came to its value, newest first.
    pub(super) fn list_key_changes(
        &self,
        query: &KeyChangeQuery,
        now: Time,
    ) -> Result<KeyChangePage> {
        let KeyChangeQuery { scope, key, before, max_items, max_bytes } = query;
        let (nodes, found) = self.visible_from(scope, now)?;
        let own = found.filter(|_| key.scope() == Some(ScopeKind::Session));
        let incarnation = own.as_ref().map_or(Incarnation(0), |own| own.info.incarnation);
        let mut page = KeyChangePage { changes: Vec::new(), more: false, incarnation };
        let Some(kind) = key.scope() else { return Ok(page) };
        let Some(node) = nodes[kind as usize] else { return Ok(page) };
        if self.key(node, key.name())?.is_some_and(|(value, _)| value.is_damaged()) {
            return Err(Error::damaged_key(key));
        }
        let log = Log { node, kind };
        let source = match kind {
            ScopeKind::Session => "",
            _ => ", source_user, source_session, source_sequence",
        };
        let columns =
            format!("{}, {CHANGES}, author, commit_secs, commit_nanos{source}", log.version());
        let mut budget = Budget::new(*max_items, *max_bytes);
        let mut put = |change| page.put(change, &mut budget);
        // One snapshot tells the change before it, and serves all the changes that follow it.
        let mut left = before.unwrap_or(LAST).min(LAST).checked_sub(1);
        while let Some(at) = left {
            let (mut snapshot, from) = self.snapshot_before(log, at.saturating_sub(1))?;
            let earlier = snapshot.remove(key.name());
            if let (0, Some(own)) = (at, &own) {
                earlier.map(|(value, version)| {
                    let commit_time = own.info.create_time;
                    let author = Author::from_stored("");
                    put(KeyChange { version, value, commit_time, author, source: None })
                });
                break;
            }
            let is_whole = self.each_row(log, &columns, (from, at), true, |row| {
                let keys = row::changes(row, 1)?;
                let Some((_, value)) = keys.results().find(|(changed, _)| changed == key) else {
                    return Ok(true);
                };
                let version = row.get(0)?;
                let source = match scope {
                    Scope::Session(own) if kind == ScopeKind::Session => {
                        Some((own.clone(), version))
                    }
                    _ => source_of(row, scope)?,
                };
                let (author, commit_time) = (row.get(3)?, row::time(row, 4)?);
                Ok(put(KeyChange { version, value, commit_time, author, source }))
            })?;
            left = earlier.map(|(_, version)| version).filter(|_| is_whole);
        }
        Ok(page)
    }
}

/// The event that made a change of an application or a user. A user's log does not name that user.
fn source_of(row: &Row<'_>, scope: &Scope) -> Result<Option<(SessionKey, Sequence)>> {
    let user: Option<UserId> = row.get(6)?;
    let session: Option<SessionId> = row.get(7)?;
    let (Some(user_id), Some(session_id)) = (user.or_else(|| scope.user_id().cloned()), session)
    else {
        return Ok(None);
    };
    let key = SessionKey { app_name: scope.app_name().clone(), user_id, session_id };
    Ok(Some((key, row.get(8)?)))
}
