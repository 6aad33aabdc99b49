//! The rows of a snapshot.

use std::collections::HashMap;

use super::{
    super::{
        log::rows,
        prelude::*,
        row::{self, SESSION_COLUMNS, Value, address, asked, bytes, number, optional_time, time},
    },
    pool::Reader,
};
use sessiond_core::{
    commit::{ScopeLogRow, Source},
    read::{
        EventHead, ListKey, Node, Past, Rows, ScopeHead, SessionRecord, SessionsQuery, is_of,
        until_damage,
    },
};
use sessiond_store::rows::{EVENT_COLUMNS, EVENT_HEAD_COLUMNS, change_columns};

const READ_HEADS: &str = "
SELECT n.place, s.version, s.base, s.state_bytes
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS n (app_name, user_id, place)
JOIN scope s ON s.app_name = n.app_name AND s.user_id = n.user_id";

const READ_STATES: &str = "
SELECT n.place, s.name, s.value, s.version
FROM unnest($1::text[], $2::text[], $3::bigint[])
    WITH ORDINALITY AS n (app_name, user_id, incarnation, place)
JOIN state s ON s.app_name = n.app_name AND s.user_id = n.user_id
    AND s.incarnation = n.incarnation
WHERE s.value IS NOT NULL";

const READ_KEYS: &str = "
SELECT n.place, s.value, s.version
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[])
    WITH ORDINALITY AS n (app_name, user_id, incarnation, name, place)
JOIN state s ON s.app_name = n.app_name AND s.user_id = n.user_id
    AND s.incarnation = n.incarnation AND s.name = n.name
WHERE s.value IS NOT NULL";

impl Rows for Reader<'_> {
    async fn now(&self) -> Time {
        self.time().await
    }

    async fn session(&self, key: &SessionKey) -> Result<Option<SessionRecord>, Error> {
        let sql = format!(
            "SELECT {SESSION_COLUMNS} FROM session
             WHERE app_name = $1 AND user_id = $2 AND session_id = $3"
        );
        let found = Columns::new(sql).address(key).all(self.connection).await?;
        found.first().map(record).transpose()
    }

    async fn of_id(
        &self,
        id: &SessionId,
        after: Option<&SessionInfo>,
        max_rows: usize,
    ) -> Result<Vec<SessionInfo>, Error> {
        let sql = format!(
            "SELECT {SESSION_COLUMNS} FROM session
             WHERE session_id = $1 AND (app_name, user_id) > ($2, $3)
             ORDER BY app_name, user_id LIMIT $4"
        );
        // No name is empty.
        let after = after.map(|info| (info.key.app_name.as_str(), info.key.user_id.as_str()));
        let (app, user) = after.unwrap_or_default();
        let select = Columns::new(sql).text(id);
        let select = select.text(app).text(user);
        let rows = select.number(max_rows as u64).all(self.connection).await?;
        rows.iter().map(|row| Ok(record(row)?.info)).collect()
    }

    async fn listed(
        &self,
        query: &SessionsQuery,
        after: Option<&ListKey>,
        max_rows: usize,
    ) -> Result<Vec<Result<SessionRecord, Error>>, Error> {
        let rows = self.sessions_behind(query, after, max_rows).await?;
        Ok(rows.iter().map(record).collect())
    }

    async fn addresses(
        &self,
        app_name: Option<&AppName>,
        range: (&SessionKey, &SessionKey),
        max_rows: usize,
    ) -> Result<Vec<(SessionKey, Option<Time>)>, Error> {
        let rows = self.addresses_behind(app_name, range, max_rows).await?;
        rows.iter().map(|row| Ok((address(row)?, optional_time(row, 3)?))).collect()
    }

    async fn scopes(
        &self,
        app_name: Option<&AppName>,
        after: (&AppName, &UserId),
        max_rows: usize,
    ) -> Result<Vec<(AppName, UserId, usize)>, Error> {
        let rows = self.scopes_behind(app_name, after, max_rows).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?, bytes(row, 2)?))).collect()
    }

    async fn heads(&self, shared: &[Node]) -> Result<Vec<ScopeHead>, Error> {
        let mut heads = vec![ScopeHead::default(); shared.len()];
        for row in Columns::new(READ_HEADS).scopes(shared.iter()).all(self.connection).await? {
            let (version, base) = (number(&row, 1)?, number(&row, 2)?);
            heads[asked(&row, shared.len())?] =
                ScopeHead { version, base, state_bytes: bytes(&row, 3)? };
        }
        Ok(heads)
    }

    async fn states(&self, nodes: &[Node]) -> Result<Vec<Vec<StateEntry>>, Error> {
        let mut states = vec![Vec::new(); nodes.len()];
        for row in Columns::new(READ_STATES).nodes(nodes.iter()).all(self.connection).await? {
            let at = asked(&row, nodes.len())?;
            let key = StateKey::in_scope(nodes[at].kind(), row.try_get(1)?);
            let (value, version) = (row::value(&row, 2)?, number(&row, 3)?);
            states[at].push(StateEntry { key, value, version });
        }
        for state in &mut states {
            state.sort_unstable_by(|a, b| a.key.name().cmp(b.key.name()));
        }
        Ok(states)
    }

    async fn keys(&self, keys: &[(&Node, &StateKey)]) -> Result<Vec<StateEntry>, Error> {
        let select = Columns::new(READ_KEYS)
            .nodes(keys.iter().map(|(node, _)| *node))
            .texts(keys.iter().map(|(_, key)| key.name()));
        let entry = |row: &Row| {
            let (_, key) = keys[asked(row, keys.len())?];
            let (value, version) = (row::value(row, 1)?, number(row, 2)?);
            Ok(StateEntry { key: key.clone(), value, version })
        };
        select.all(self.connection).await?.iter().map(entry).collect()
    }

    async fn newest(
        &self,
        node: &Node,
        names: &[&str],
    ) -> Result<HashMap<Box<str>, Version>, Error> {
        let sql = "SELECT name, version FROM state
            WHERE app_name = $1 AND user_id = $2 AND incarnation = $3 AND name = ANY($4)";
        let select = Columns::new(sql).node(node).texts(names.iter().copied());
        let rows = select.all(self.connection).await?;
        let newest = |row: &Row| Ok((row.try_get::<&str>(0)?.into(), number(row, 1)?));
        rows.iter().map(newest).collect()
    }

    async fn snapshot(&self, node: &Node, at: Version) -> Result<(Past, Version), Error> {
        let sql = "SELECT version, key_names, key_values, key_versions FROM snapshot
            WHERE app_name = $1 AND user_id = $2 AND incarnation = $3 AND version <= $4
            ORDER BY version DESC LIMIT 1";
        let found = Columns::new(sql).node(node).number(at).all(self.connection).await?;
        let Some(row) = found.first() else { return Ok(Default::default()) };
        let names: Vec<&str> = row.try_get(1)?;
        let values: Vec<Option<Value>> = row.try_get(2)?;
        let versions: Vec<i64> = row.try_get(3)?;
        if names.len() != values.len() || names.len() != versions.len() {
            let says = "the arrays of a snapshot differ in length";
            return Err(Error::damaged(Damage::Row, says));
        }
        let keys = names.into_iter().zip(values.into_iter().zip(versions));
        let past = keys.map(|(name, (value, version))| {
            (name.into(), (value.map(|Value(json)| json), version.cast_unsigned()))
        });
        Ok((past.collect(), number(row, 0)?))
    }

    async fn markers(&self, session: &Node, up_to: Sequence) -> Result<Vec<Marker>, Error> {
        let sql = "SELECT sequence, rewind_to FROM marker
            WHERE app_name = $1 AND user_id = $2 AND incarnation = $3 AND sequence <= $4
            ORDER BY sequence";
        let rows = Columns::new(sql).node(session).number(up_to).all(self.connection).await?;
        let marker = |row: &Row| Ok(Marker { sequence: number(row, 0)?, to: number(row, 1)? });
        rows.iter().map(marker).collect()
    }

    async fn event_heads(
        &self,
        session: &Node,
        wanted: &[Sequence],
    ) -> Result<Vec<EventHead>, Error> {
        let head = |row: &Row| {
            Ok(EventHead {
                sequence: number(row, 0)?,
                invocation_id: row.try_get(1)?,
                author: row.try_get(2)?,
                event_time: time(row, 3)?,
                commit_time: time(row, 5)?,
                versions: ScopeVersions { application: number(row, 7)?, user: number(row, 8)? },
            })
        };
        let found = rows(self.connection, session, EVENT_HEAD_COLUMNS, wanted, None).await?;
        until_damage(found.iter().map(head))
    }

    async fn events(
        &self,
        session: &Node,
        wanted: &[Sequence],
        max_bytes: usize,
    ) -> Result<Vec<Event>, Error> {
        let max_bytes = Some(max_bytes);
        let found = rows(self.connection, session, EVENT_COLUMNS, wanted, max_bytes).await?;
        until_damage(found.iter().map(|row| row::event(row, 0)))
    }

    async fn changes(
        &self,
        node: &Node,
        wanted: &[Version],
        except: Option<Incarnation>,
        max_bytes: usize,
    ) -> Result<Vec<ScopeLogRow>, Error> {
        let columns = change_columns(node.kind());
        let found = rows(self.connection, node, columns, wanted, Some(max_bytes)).await?;
        until_damage(found.iter().map(|row| change(row, node, except)))
    }
}

fn record(row: &Row) -> Result<SessionRecord, Error> {
    Ok(row::session(row)?.record)
}

fn change(row: &Row, node: &Node, except: Option<Incarnation>) -> Result<ScopeLogRow, Error> {
    let source = match node.kind() {
        ScopeKind::Session => None,
        _ => source(row, node)?,
    };
    let changes = match is_of(except, source.as_ref()) {
        true => Changes::default(),
        false => row::logged(row, node.kind())?,
    };
    let (version, commit_time) = (number(row, 0)?, time(row, 4)?);
    Ok(ScopeLogRow { version, commit_time, author: row.try_get(3)?, source, changes })
}

/// The event that made a change of an application or a user. A user's log does not name that user.
fn source(row: &Row, node: &Node) -> Result<Option<Source>, Error> {
    let Some(incarnation) = row.try_get::<Option<i64>>(6)? else { return Ok(None) };
    let user: Option<UserId> = row.try_get(7)?;
    let key = SessionKey {
        app_name: node.app_name.clone(),
        user_id: user.unwrap_or_else(|| node.user_id.clone()),
        session_id: row.try_get(8)?,
    };
    let incarnation = Incarnation(incarnation.cast_unsigned());
    Ok(Some(Source { key, incarnation, sequence: number(row, 9)? }))
}
