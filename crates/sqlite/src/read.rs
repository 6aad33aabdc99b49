//! The rows of a snapshot. They never wait.

use std::{
    collections::HashMap,
    future::{Ready, ready},
};

use rusqlite::params;

use super::{lists, log::Log, prelude::*};
use sessiond_core::{
    commit::{ScopeLogRow, Source},
    read::{
        EventHead, ListKey, Node, Past, Rows, ScopeHead, SessionOrder, SessionRecord,
        SessionsQuery, is_of, runs,
    },
};
use sessiond_store::{
    Clock,
    rows::{EVENT_COLUMNS, EVENT_HEAD_COLUMNS, change_columns},
};

/// The columns of a row's changes, in either log.
pub(super) const CHANGES: &str = "removed, set_json";

/// One transaction that reads.
pub(super) struct Snapshot<'t> {
    pub(super) tables: &'t Tables,
    pub(super) now: Time,
    pub(super) clock: &'t dyn Clock,
}

fn at_once<T>(read: impl FnOnce() -> Result<T>) -> Ready<Result<T>> {
    ready(read())
}

impl Snapshot<'_> {
    /// Rows of a log, each with the bytes of its long columns.
    fn rows<T>(
        &self,
        node: &Node,
        columns: &str,
        wanted: &[Version],
        max_bytes: usize,
        read: impl Fn(&Row<'_>) -> Result<(T, usize)>,
    ) -> Result<Vec<T>> {
        // No node has the number 0.
        let log = Log { node: self.tables.node_id(node)?.unwrap_or(0), kind: node.kind() };
        let (runs, descending) = runs(wanted);
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for range in runs {
            let is_whole = self.tables.each_row(log, columns, range, descending, |row| {
                let (row, row_bytes) = read(row)?;
                rows.push(row);
                bytes += row_bytes;
                Ok(bytes < max_bytes)
            });
            match is_whole {
                Err(Error::Damaged(..)) if !rows.is_empty() => break,
                is_whole => {
                    if !is_whole? {
                        break;
                    }
                }
            }
        }
        Ok(rows)
    }
}

#[allow(refining_impl_trait, reason = "rows are there at once")]
impl Rows for Snapshot<'_> {
    fn time(&self) -> Time {
        self.clock.now()
    }

    fn now(&self) -> Ready<Time> {
        ready(self.now)
    }

    fn session(&self, key: &SessionKey) -> Ready<Result<Option<SessionRecord>>> {
        at_once(|| {
            let user = self.tables.node_id(&Node::user(&key.app_name, &key.user_id))?;
            self.tables.session_of(user.unwrap_or(0), key)
        })
    }

    fn of_id(
        &self,
        id: &SessionId,
        after: Option<&SessionInfo>,
        max_rows: usize,
    ) -> Ready<Result<Vec<SessionInfo>>> {
        at_once(|| {
            let after = after.map_or(0, |info| info.incarnation.0);
            let behind = (id.as_str(), after, max_rows);
            let condition = "session_id = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
            let sessions = self.tables.sessions(condition, behind)?;
            Ok(sessions.into_iter().map(|record| record.info).collect())
        })
    }

    fn listed(
        &self,
        query: &SessionsQuery,
        after: Option<&ListKey>,
        max_rows: usize,
    ) -> Ready<Result<Vec<Result<SessionRecord>>>> {
        at_once(|| {
            let SessionsQuery { app_name, user_id, seen, order, .. } = query;
            let node = match user_id {
                None => Node::application(app_name),
                Some(user) => Node::user(app_name, user),
            };
            let Some(scope) = self.tables.node_id(&node)? else { return Ok(Vec::new()) };
            // No id is empty.
            let (secs, nanos, user, session) = match (after, order) {
                (Some((time, user, session)), _) => {
                    (time.secs(), time.nanos(), user.as_str(), session.as_str())
                }
                (None, SessionOrder::LeastRecent) => (i64::MIN, 0, "", ""),
                (None, SessionOrder::MostRecent) => (i64::MAX, 0, "", ""),
            };
            let moved = self.tables.moved()?;
            let behind =
                params![scope, secs, nanos, user, session, moved, lists::users_of(seen), max_rows];
            let sql = lists::select(query);
            let mut listed = Vec::new();
            let read = self.tables.each(&sql, behind, |row| {
                let record = row::session(row, app_name.clone());
                let goes_on = record.is_ok() && listed.len() + 1 < max_rows;
                listed.push(record);
                Ok(goes_on)
            });
            match read {
                Err(error @ Error::Damaged(..)) => listed.push(Err(error)),
                read => drop(read?),
            }
            Ok(listed)
        })
    }

    fn addresses(
        &self,
        app_name: Option<&AppName>,
        (after, up_to): (&SessionKey, &SessionKey),
        max_rows: usize,
    ) -> Ready<Result<Vec<(SessionKey, Option<Time>)>>> {
        at_once(|| {
            let (behind, same, order) = match app_name {
                None => ("(app, user) >= (?1, ?2)", "(app, user) > (?1, ?2)", "app, user"),
                Some(_) => ("app = ?1 AND user >= ?2", "user > ?2", "user"),
            };
            let sql = format!(
                "SELECT app, user, session_id, expire_secs, expire_nanos
                 FROM scope CROSS JOIN session ON user_scope = scope.id
                 WHERE {behind} AND (app, user) <= (?4, ?5) AND ({same} OR session_id > ?3)
                 ORDER BY {order}, session_id LIMIT ?6"
            );
            let SessionKey { app_name, user_id, session_id } = after;
            let behind = (app_name.as_str(), user_id.as_str(), session_id.as_str());
            let up_to = (up_to.app_name.as_str(), up_to.user_id.as_str());
            let parameters = (behind.0, behind.1, behind.2, up_to.0, up_to.1, max_rows);
            self.tables.all(&sql, parameters, |row| {
                let (app_name, user_id, session_id) = (row.get(0)?, row.get(1)?, row.get(2)?);
                Ok((SessionKey { app_name, user_id, session_id }, row::optional_time(row, 3)?))
            })
        })
    }

    fn scopes(
        &self,
        app_name: Option<&AppName>,
        (after, up_to): (&SessionKey, &SessionKey),
        max_rows: usize,
    ) -> Ready<Result<Vec<(AppName, UserId, usize)>>> {
        at_once(|| {
            let (behind, order) = match app_name {
                None => ("(app, user) > (?1, ?2)", "app, user"),
                Some(_) => ("app = ?1 AND user > ?2", "user"),
            };
            let sql = format!(
                "SELECT app, user, state_bytes FROM scope
                 WHERE {behind} AND (app, user) <= (?3, ?4) ORDER BY {order} LIMIT ?5"
            );
            let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
            let [after, up_to] =
                [after, up_to].map(|it| (it.app_name.as_str(), it.user_id.as_str()));
            self.tables.all(&sql, (after.0, after.1, up_to.0, up_to.1, max_rows), row)
        })
    }

    fn heads(&self, shared: &[Node]) -> Ready<Result<Vec<ScopeHead>>> {
        let sql = "SELECT version, base, state_bytes FROM scope WHERE app = ?1 AND user = ?2";
        let head = |node: &Node| {
            let names = (node.app_name.as_str(), node.user_id.as_str());
            let found = self.tables.one(sql, names, |row| {
                let (version, base, state_bytes) = row.all()?;
                Ok(ScopeHead { version, base, state_bytes })
            });
            Ok(found?.unwrap_or_default())
        };
        at_once(|| shared.iter().map(head).collect())
    }

    fn states(&self, nodes: &[Node]) -> Ready<Result<Vec<Vec<StateEntry>>>> {
        let sql = "SELECT name, value, version FROM state WHERE node = ?1 ORDER BY name";
        let state = |node: &Node| {
            let prefix = node.kind().prefix();
            let mut key = prefix.to_owned();
            self.tables.all(sql, [self.tables.node_id(node)?], |row| {
                key.truncate(prefix.len());
                key.push_str(row.text(0)?.unwrap_or_default());
                let (key, value) = (StateKey::from_stored(&*key), row::value(row, 1)?);
                Ok(StateEntry { key, value, version: row.get(2)? })
            })
        };
        at_once(|| nodes.iter().map(state).collect())
    }

    fn keys(&self, keys: &[(&Node, &StateKey)]) -> Ready<Result<Vec<StateEntry>>> {
        let entry = |(node, key): &(&Node, &StateKey)| {
            let Some(node) = self.tables.node_id(node)? else { return Ok(None) };
            let found = self.tables.key(node, key.name())?;
            let entry = |(value, version)| StateEntry { key: (*key).clone(), value, version };
            Ok(found.map(entry))
        };
        at_once(|| keys.iter().filter_map(|key| entry(key).transpose()).collect())
    }

    fn newest(&self, node: &Node, names: &[&str]) -> Ready<Result<HashMap<Box<str>, Version>>> {
        let sql = "SELECT version FROM state WHERE node = ?1 AND name = ?2
            UNION ALL SELECT version FROM removed WHERE node = ?1 AND name = ?2";
        at_once(|| {
            let id = self.tables.node_id(node)?;
            let newest = |name: &&str| {
                let version = self.tables.value(sql, (id, *name)).transpose()?;
                Some(version.map(|version| (Box::from(*name), version)))
            };
            names.iter().filter_map(newest).collect()
        })
    }

    fn snapshot(&self, node: &Node, at: Version) -> Ready<Result<(Past, Version)>> {
        at_once(|| self.tables.snapshot(self.tables.node_id(node)?.unwrap_or(0), at))
    }

    fn markers(
        &self,
        session: &Node,
        range: (Sequence, Sequence),
        max_rows: usize,
    ) -> Ready<Result<Vec<Marker>>> {
        at_once(|| self.tables.markers(session.incarnation.0, range, max_rows))
    }

    fn sequences(
        &self,
        session: &Node,
        ids: &[EventId],
    ) -> Ready<Result<HashMap<EventId, Sequence>>> {
        at_once(|| {
            let sql = "SELECT sequence FROM event WHERE event_id = ?2 AND session = ?1";
            let sequence = |id: &EventId| {
                let found = self.tables.value(sql, (session.incarnation.0, id.as_str()));
                Some(found.transpose()?.map(|sequence| (id.clone(), sequence)))
            };
            ids.iter().filter_map(sequence).collect()
        })
    }

    fn event_heads(&self, session: &Node, wanted: &[Sequence]) -> Ready<Result<Vec<EventHead>>> {
        at_once(|| {
            self.rows(session, EVENT_HEAD_COLUMNS, wanted, usize::MAX, |row| {
                let head = EventHead {
                    sequence: row.get(0)?,
                    invocation_id: row.get(1)?,
                    author: row.get(2)?,
                    event_time: row::time(row, 3)?,
                    commit_time: row::time(row, 5)?,
                    versions: ScopeVersions { application: row.get(7)?, user: row.get(8)? },
                };
                Ok((head, 0))
            })
        })
    }

    fn events(
        &self,
        session: &Node,
        wanted: &[Sequence],
        max_bytes: usize,
    ) -> Ready<Result<Vec<Event>>> {
        at_once(|| {
            self.rows(session, EVENT_COLUMNS, wanted, max_bytes, |row| {
                let event = row::event(row)?;
                let bytes = event.bytes();
                Ok((event, bytes))
            })
        })
    }

    fn changes(
        &self,
        node: &Node,
        wanted: &[Version],
        except: Option<Incarnation>,
        max_bytes: usize,
    ) -> Ready<Result<Vec<ScopeLogRow>>> {
        at_once(|| {
            self.rows(node, change_columns(node.kind()), wanted, max_bytes, |row| {
                let source = match node.kind() {
                    ScopeKind::Session => None,
                    _ => source(row, node)?,
                };
                let changes = match is_of(except, source.as_ref()) {
                    true => Changes::default(),
                    false => row::changes(row, 1)?,
                };
                let bytes = changes.text_len();
                let (version, author) = (row.get(0)?, row.get(3)?);
                let commit_time = row::time(row, 4)?;
                Ok((ScopeLogRow { version, commit_time, author, source, changes }, bytes))
            })
        })
    }
}

/// The event that made a change of an application or a user. A user's log does not name that user.
fn source(row: &Row<'_>, node: &Node) -> Result<Option<Source>> {
    let Some(incarnation) = row.get(6)? else { return Ok(None) };
    let user: Option<UserId> = row.get(7)?;
    let key = SessionKey {
        app_name: node.app_name.clone(),
        user_id: user.unwrap_or_else(|| node.user_id.clone()),
        session_id: row.get(8)?,
    };
    Ok(Some(Source { key, incarnation: Incarnation(incarnation), sequence: row.get(9)? }))
}
