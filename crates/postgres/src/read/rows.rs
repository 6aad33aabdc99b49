//! The rows of a snapshot.

use std::collections::HashMap;

use tokio::sync::SetOnce;

use super::super::{
    log::rows,
    prelude::*,
    row::{self, SESSION_COLUMNS, Value, address, asked, bytes, number, optional_time, time},
    schema::list_period,
};
use sessiond_core::{
    commit::{ScopeLogRow, Source},
    domain::permission::Users,
    read::{
        EventHead, ListKey, Node, Past, Rows, ScopeHead, SessionOrder, SessionRecord,
        SessionsQuery, is_of, until_damage,
    },
};
use sessiond_store::{
    Clock,
    rows::{EVENT_COLUMNS, EVENT_HEAD_COLUMNS, change_columns},
};

const READ_HEADS: &str = "
SELECT n.at, s.version, s.base, s.state_bytes
FROM unnest($1, $2, $3) WITH ORDINALITY AS n (place, app_name, user_id, at)
JOIN scope s ON s.place = n.place AND s.app_name = n.app_name AND s.user_id = n.user_id";

const READ_STATES: &str = "
SELECT n.at, s.name, s.value, s.version
FROM unnest($1, $2, $3, $4) WITH ORDINALITY AS n (place, app_name, user_id, incarnation, at)
JOIN state s ON s.place = n.place AND s.app_name = n.app_name AND s.user_id = n.user_id
    AND s.incarnation = n.incarnation
WHERE s.value IS NOT NULL";

const READ_KEYS: &str = "
SELECT n.at, s.value, s.version
FROM unnest($1, $2, $3, $4, $5)
    WITH ORDINALITY AS n (place, app_name, user_id, incarnation, name, at)
JOIN state s ON s.place = n.place AND s.app_name = n.app_name AND s.user_id = n.user_id
    AND s.incarnation = n.incarnation AND s.name = n.name
WHERE s.value IS NOT NULL";

/// A transaction that reads.
pub(in super::super) struct Reader<'c> {
    pub(super) connection: &'c Connection,
    /// It comes with the first answer, so that what does not need it can be sent before.
    now: SetOnce<Time>,
    /// Tells how long it has taken; `None`: that is not bounded.
    clock: Option<&'c dyn Clock>,
}

impl<'c> Reader<'c> {
    /// In a transaction that begins. `now` is told later.
    pub(super) fn new(connection: &'c Connection, clock: &'c dyn Clock) -> Self {
        Self { connection, now: SetOnce::new(), clock: Some(clock) }
    }

    /// In a transaction that has begun, whose time is known.
    pub(in super::super) fn at(connection: &'c Connection, now: Time) -> Self {
        Self { connection, now: SetOnce::new_with(Some(now)), clock: None }
    }

    /// Tells the time of the transaction.
    pub(super) fn begun(&self, now: Time) -> Result<(), Error> {
        self.now.set(now).map_err(Error::internal)
    }
}

impl Rows for Reader<'_> {
    fn time(&self) -> Time {
        self.clock.map_or_else(Time::default, Clock::now)
    }

    async fn now(&self) -> Time {
        *self.now.wait().await
    }

    async fn session(&self, key: &SessionKey) -> Result<Option<SessionRecord>, Error> {
        let sql = format!(
            "SELECT {SESSION_COLUMNS} FROM session
             WHERE place = $1 AND app_name = $2 AND user_id = $3 AND session_id = $4"
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
        let sql = of_names(
            &format!("s.{}", of_session()),
            "place = $1 AND session_id = $2 AND (app_name, user_id) > ($3, $4)",
            "app_name, user_id",
            "$5",
        );
        // No name is empty.
        let after = after.map(|info| (info.key.app_name.as_str(), info.key.user_id.as_str()));
        let (app, user) = after.unwrap_or_default();
        let select = Columns::new(sql).place([id.as_str()]).text(id).text(app).text(user);
        let select = select.number(max_rows as u64);
        let rows = select.all(self.connection).await?;
        rows.iter().map(|row| Ok(record(row)?.info)).collect()
    }

    async fn listed(
        &self,
        query: &SessionsQuery,
        after: Option<&ListKey>,
        max_rows: usize,
    ) -> Result<Vec<Result<SessionRecord, Error>>, Error> {
        // No id is empty.
        let (time, user, session) = match (after, query.order) {
            (Some((time, user, session)), _) => (*time, user.as_str(), session.as_str()),
            (None, SessionOrder::LeastRecent) => (Time::from_stored(i64::MIN, 0), "", ""),
            (None, SessionOrder::MostRecent) => (Time::LAST, "", ""),
        };
        // Of one user all have the same user id.
        let user = query.user_id.as_ref().map_or(user, UserId::as_str);
        let select = Columns::new(select_list(query)).text(&query.app_name).time(time).text(user);
        let select = select.text(session).number(max_rows as u64);
        let mut select = select.value(Type::INT8, list_period(time));
        if let (None, Users::Only(users)) = (&query.user_id, &query.seen) {
            select = select.texts(users.iter());
        }
        Ok(select.all(self.connection).await?.iter().map(record).collect())
    }

    async fn addresses(
        &self,
        app_name: Option<&AppName>,
        (after, up_to): (&SessionKey, &SessionKey),
        max_rows: usize,
    ) -> Result<Vec<(SessionKey, Option<Time>)>, Error> {
        let behind = match app_name {
            None => "(app_name, user_id, session_id) > ($1, $2, $3)",
            Some(_) => "app_name = $1 AND (user_id, session_id) > ($2, $3)",
        };
        let sql = of_names(
            "s.app_name, s.user_id, s.session_id, s.expire_secs, s.expire_nanos",
            &format!("{behind} AND (app_name, user_id) <= ($4, $5)"),
            "app_name, user_id, session_id",
            "$6",
        );
        let select = Columns::new(sql).text(&after.app_name).text(&after.user_id);
        let select = select.text(&after.session_id).text(&up_to.app_name).text(&up_to.user_id);
        let rows = select.number(max_rows as u64).all(self.connection).await?;
        rows.iter().map(|row| Ok((address(row)?, optional_time(row, 3)?))).collect()
    }

    async fn scopes(
        &self,
        app_name: Option<&AppName>,
        (after, up_to): (&SessionKey, &SessionKey),
        max_rows: usize,
    ) -> Result<Vec<(AppName, UserId, usize)>, Error> {
        let (behind, order) = match app_name {
            None => ("(app_name, user_id) > ($1, $2)", "app_name, user_id"),
            Some(_) => ("app_name = $1 AND user_id > $2", "user_id"),
        };
        let sql = format!(
            "SELECT app_name, user_id, state_bytes FROM scope
             WHERE {behind} AND (app_name, user_id) <= ($3, $4) ORDER BY {order} LIMIT $5"
        );
        let select = Columns::new(sql).text(&after.app_name).text(&after.user_id);
        let select = select.text(&up_to.app_name).text(&up_to.user_id).number(max_rows as u64);
        let rows = select.all(self.connection).await?;
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
            WHERE place = $1 AND app_name = $2 AND user_id = $3 AND incarnation = $4
                AND name = ANY($5)";
        let select = Columns::new(sql).node(node).texts(names.iter().copied());
        let rows = select.all(self.connection).await?;
        let newest = |row: &Row| Ok((row.try_get::<&str>(0)?.into(), number(row, 1)?));
        rows.iter().map(newest).collect()
    }

    async fn snapshot(&self, node: &Node, at: Version) -> Result<(Past, Version), Error> {
        let sql = "SELECT version, key_names, key_values, key_versions FROM snapshot
            WHERE place = $1 AND app_name = $2 AND user_id = $3 AND incarnation = $4
                AND version <= $5
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

    async fn markers(
        &self,
        session: &Node,
        (after, up_to): (Sequence, Sequence),
        max_rows: usize,
    ) -> Result<Vec<Marker>, Error> {
        let sql = "SELECT sequence, rewind_to FROM marker
            WHERE place = $1 AND app_name = $2 AND user_id = $3 AND incarnation = $4
                AND sequence > $5 AND sequence <= $6
            ORDER BY sequence DESC LIMIT $7";
        let select = Columns::new(sql).node(session).number(after).number(up_to);
        let rows = select.number(max_rows as u64).all(self.connection).await?;
        let marker = |row: &Row| Ok(Marker { sequence: number(row, 0)?, to: number(row, 1)? });
        rows.iter().map(marker).collect()
    }

    async fn sequences(
        &self,
        session: &Node,
        ids: &[EventId],
    ) -> Result<HashMap<EventId, Sequence>, Error> {
        // Without the application and the user, as the index that it uses.
        let sql = "SELECT event_id, sequence FROM event
            WHERE place = $1 AND incarnation = $2 AND event_id = ANY($3)";
        let select = Columns::new(sql).place([session.app_name.as_str(), session.user_id.as_str()]);
        let select = select.number(session.incarnation.0).texts(ids.iter());
        let rows = select.all(self.connection).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, number(row, 1)?))).collect()
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
        let found = rows(self.connection, session, EVENT_COLUMNS, wanted, Some(max_bytes)).await?;
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

/// The sessions of a list behind one of them. Ties ascend in either order. Of several users, `$8`, each has no more than are wanted of all, so
/// that the index of users is read and nothing else.
fn select_list(query: &SessionsQuery) -> String {
    let across = ("l.user_id, l.session_id", "($4, $5)");
    let (user, (ties, after)) = match (&query.user_id, &query.seen) {
        (Some(_), _) => ("AND l.user_id = $4", ("l.session_id", "$5")),
        (None, Users::Only(_)) => ("AND l.user_id = u.seen", across),
        (None, Users::All) => ("", across),
    };
    let (behind, direction) = match query.order {
        SessionOrder::LeastRecent => (">", "ASC"),
        SessionOrder::MostRecent => ("<", "DESC"),
    };
    let time = "(s.last_event_secs, s.last_event_nanos)";
    let list = format!(
        "SELECT s.{} FROM session_list l
         JOIN session s ON s.place = l.place AND s.app_name = l.app_name AND s.user_id = l.user_id
             AND s.session_id = l.session_id
         WHERE l.app_name = $1 {user} AND l.period {behind}= $7
             AND ({time} {behind} ($2, $3) OR {time} = ($2, $3) AND ({ties}) > {after})
         ORDER BY l.period {direction}, s.last_event_secs {direction}, s.last_event_nanos {direction},
             {ties} LIMIT $6",
        of_session()
    );
    match (&query.user_id, &query.seen) {
        (None, Users::Only(_)) => format!(
            "SELECT s.* FROM unnest($8::text[]) AS u (seen) CROSS JOIN LATERAL ({list}) AS s
             ORDER BY last_event_secs {direction}, last_event_nanos {direction}, user_id, session_id
             LIMIT $6"
        ),
        _ => list,
    }
}

/// Sessions by their names, in the order of these columns. The names are found first: the planner could otherwise go through all sessions
/// for a part of what it knows of them.
fn of_names(columns: &str, names: &str, order: &str, limit: &str) -> String {
    format!(
        "WITH n AS MATERIALIZED (
             SELECT * FROM session_name WHERE {names} ORDER BY {order} LIMIT {limit})
         SELECT {columns} FROM n JOIN session s ON s.place = n.session_place
             AND s.app_name = n.app_name AND s.user_id = n.user_id AND s.session_id = n.session_id
         ORDER BY n.{}",
        order.replace(", ", ", n.")
    )
}

/// The columns of a session beside another table's, behind the first `s.`.
fn of_session() -> String {
    SESSION_COLUMNS.replace(", ", ", s.")
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
