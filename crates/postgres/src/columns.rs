//! Statements over many rows at once: each parameter is a column, an array with one element for each row.

use std::borrow::Cow;

use futures_util::future::{BoxFuture, join_all};
use tokio_postgres::types::ToSql;

use super::{prelude::*, row::Text};
use sessiond_store::place::place_of;

/// A statement with the columns that it takes, in the order of its parameters.
pub(super) struct Columns<'a> {
    sql: Cow<'static, str>,
    types: Vec<Type>,
    values: Vec<Box<dyn ToSql + Sync + Send + 'a>>,
    /// Whether its columns have no row.
    is_empty: bool,
}

impl<'a> Columns<'a> {
    pub(super) fn new(sql: impl Into<Cow<'static, str>>) -> Self {
        Self { sql: sql.into(), types: Vec::new(), values: Vec::new(), is_empty: false }
    }

    /// No statement.
    pub(super) fn nothing() -> Self {
        Self { is_empty: true, ..Self::new("") }
    }

    /// Inserts a row for each element into `table (column, …)`.
    pub(super) fn insert(into: &str, on_conflict: &str) -> Self {
        let columns = into.split_once('(').map_or(into, |(_, columns)| columns);
        let columns = columns.trim_end_matches(')');
        Self::new(format!("INSERT INTO {into} {} {on_conflict}", rows_of(columns)))
    }

    /// Changes columns of the row that has the key, for each element.
    pub(super) fn update(table: &str, key: &str, columns: &str) -> Self {
        let set = each(columns, ", ", |column| format!("{column} = k.{column}"));
        let (rows, is_it) = (rows_of(&format!("{key}, {columns}")), each(key, " AND ", is_of));
        Self::new(format!("UPDATE {table} t SET {set} FROM ({rows}) AS k WHERE {is_it}"))
    }

    /// Deletes the row that has the key, for each element.
    pub(super) fn delete(table: &str, key: &str) -> Self {
        let (rows, is_it) = (rows_of(key), each(key, " AND ", is_of));
        Self::new(format!("DELETE FROM {table} t USING ({rows}) AS k WHERE {is_it}"))
    }

    /// Those of several statements that have a row, as one, with the rows of the last. None sees what the others change, so they change
    /// different tables.
    pub(super) fn together(statements: impl IntoIterator<Item = Self>) -> Self {
        let mut statements = statements.into_iter().filter(|it| !it.is_empty);
        let mut all = statements.next().unwrap_or_else(Self::nothing);
        let mut last = std::mem::take(&mut all.sql).into_owned();
        let mut others = Vec::new();
        for next in statements {
            others.push(format!("w{} AS ({last})", others.len()));
            last = renumbered(&next.sql, all.types.len());
            all.types.extend(next.types);
            all.values.extend(next.values);
        }
        let with = if others.is_empty() { "" } else { "WITH " };
        Self { sql: format!("{with}{} {last}", others.join(", ")).into(), ..all }
    }

    /// A parameter of this type.
    pub(super) fn value(mut self, of: Type, value: impl ToSql + Sync + Send + 'a) -> Self {
        self.types.push(of);
        self.values.push(Box::new(value));
        self
    }

    /// A column.
    fn array<T: ToSql + Sync + Send + 'a>(
        mut self,
        of: Type,
        values: impl IntoIterator<Item = T>,
    ) -> Self {
        let values: Vec<T> = values.into_iter().collect();
        self.is_empty = values.is_empty();
        self.value(of, values)
    }

    /// A sequence, a version or a size.
    pub(super) fn number(self, number: u64) -> Self {
        self.value(Type::INT8, number.cast_signed())
    }

    pub(super) fn text(self, text: impl Text<'a>) -> Self {
        self.value(Type::TEXT, text.text())
    }

    pub(super) fn texts<T: Text<'a>>(self, texts: impl IntoIterator<Item = T>) -> Self {
        self.array(Type::TEXT_ARRAY, texts.into_iter().map(T::text))
    }

    /// Sequences, versions and sizes.
    pub(super) fn numbers(self, numbers: impl IntoIterator<Item = u64>) -> Self {
        self.signed(numbers.into_iter().map(u64::cast_signed))
    }

    pub(super) fn signed<T: ToSql + Sync + Send + 'a>(
        self,
        numbers: impl IntoIterator<Item = T>,
    ) -> Self {
        self.array(Type::INT8_ARRAY, numbers)
    }

    /// Two columns: seconds and nanoseconds.
    pub(super) fn times(self, times: impl Iterator<Item = Time> + Clone) -> Self {
        self.optional_times(times.map(Some))
    }

    /// As [`Columns::times`].
    pub(super) fn optional_times(self, times: impl Iterator<Item = Option<Time>> + Clone) -> Self {
        let nanos = times.clone().map(|time| time.map(super::row::nanos));
        self.signed(times.map(|time| time.map(Time::secs))).array(Type::INT4_ARRAY, nanos)
    }

    pub(super) fn fingerprints(self, fingerprints: impl Iterator<Item = Fingerprint>) -> Self {
        self.array(Type::BYTEA_ARRAY, fingerprints.map(|it| it.0.to_le_bytes().to_vec()))
    }

    pub(super) fn trace_ids(self, ids: impl Iterator<Item = Option<TraceId>>) -> Self {
        self.array(Type::BYTEA_ARRAY, ids.map(|id| id.map(|id| id.to_bytes().to_vec())))
    }

    /// Four columns: place, application, user, incarnation.
    pub(super) fn nodes(self, nodes: impl Iterator<Item = &'a Node> + Clone) -> Self {
        self.scopes(nodes.clone()).numbers(nodes.map(|node| node.incarnation.0))
    }

    /// Four parameters that are no columns: place, application, user, incarnation.
    pub(super) fn node(self, node: &'a Node) -> Self {
        self.scope(&node.app_name, &node.user_id).number(node.incarnation.0)
    }

    /// Four parameters that are no columns: place, application, user, session id.
    pub(super) fn address(self, key: &'a SessionKey) -> Self {
        self.scope(&key.app_name, &key.user_id).text(&key.session_id)
    }

    /// Three parameters that are no columns: place, application, user.
    pub(super) fn scope(self, app: &'a AppName, user: &'a UserId) -> Self {
        self.place([app.as_str(), user.as_str()]).text(app).text(user)
    }

    /// The place of a name, as a parameter.
    pub(super) fn place<const N: usize>(self, name: [&str; N]) -> Self {
        self.value(Type::INT2, place_of(&name))
    }

    /// Two parameters that are no columns: seconds and nanoseconds.
    pub(super) fn time(self, time: Time) -> Self {
        self.value(Type::INT8, time.secs()).value(Type::INT4, super::row::nanos(time))
    }

    /// Three columns: place, application and user.
    pub(super) fn scopes(self, nodes: impl Iterator<Item = &'a Node> + Clone) -> Self {
        self.placed(nodes.map(|node| [node.app_name.as_str(), node.user_id.as_str()]))
    }

    /// As [`Columns::scopes`], of nodes that end sooner.
    pub(super) fn scopes_of(self, nodes: &[Node]) -> Self {
        let owned = |node: &Node| [node.app_name.as_str().into(), node.user_id.as_str().into()];
        self.placed::<String>(nodes.iter().map(owned))
    }

    /// Four columns: place, application, user, session id.
    pub(super) fn addresses(self, keys: impl Iterator<Item = &'a SessionKey> + Clone) -> Self {
        self.placed(keys.clone().map(|key| [key.app_name.as_str(), key.user_id.as_str()]))
            .texts(keys.map(|key| &key.session_id))
    }

    /// Three columns: place, application and user, of applications with users.
    pub(super) fn placed<T: Text<'a> + AsRef<str>>(
        self,
        names: impl Iterator<Item = [T; 2]>,
    ) -> Self {
        let (mut places, mut apps, mut users) = (Vec::new(), Vec::new(), Vec::new());
        for [app, user] in names {
            places.push(place_of(&[app.as_ref(), user.as_ref()]));
            apps.push(app);
            users.push(user);
        }
        self.array(Type::INT2_ARRAY, places).texts(apps).texts(users)
    }

    /// A column: the place of each name.
    pub(super) fn places<'n, const N: usize>(
        self,
        names: impl Iterator<Item = [&'n str; N]>,
    ) -> Self {
        self.array(Type::INT2_ARRAY, names.map(|name| place_of(&name)))
    }

    pub(super) async fn prepare(&self, connection: &Connection) -> Result<()> {
        match self.is_empty {
            true => Ok(()),
            false => connection.prepare(&self.sql, &self.types).await,
        }
    }

    /// Executes it, unless its columns have no row. The rows that it returns.
    pub(super) fn all<'c>(&'c self, connection: &'c Connection) -> Step<'c> {
        Box::pin(async move {
            if self.is_empty {
                return Ok(Vec::new());
            }
            let values = self.values.iter().map(|value| &**value as &(dyn ToSql + Sync));
            connection.all(&self.sql, &self.types, &values.collect::<Vec<_>>()).await
        })
    }
}

/// The elements of arrays as rows. As results they are read in step. As a table function's, `FROM unnest(…)`, each array would be stored
/// first.
fn rows_of(columns: &str) -> String {
    let mut number = 0;
    let columns = each(columns, ", ", |column| {
        number += 1;
        format!("unnest(${number}) AS {column}")
    });
    format!("SELECT {columns}")
}

/// Something for each of the columns.
fn each(columns: &str, separator: &str, of: impl FnMut(&str) -> String) -> String {
    columns.split(',').map(str::trim).map(of).collect::<Vec<_>>().join(separator)
}

fn is_of(column: &str) -> String {
    format!("t.{column} = k.{column}")
}

/// SQL whose parameters follow others.
fn renumbered(sql: &str, others: usize) -> String {
    let mut parts = sql.split('$');
    let mut renumbered = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        let (number, rest) = part.split_at(end);
        renumbered += &format!("${}{rest}", others + number.parse().unwrap_or(0));
    }
    renumbered
}

/// A statement of a pipeline. It is sent when it is first polled.
pub(super) type Step<'c> = BoxFuture<'c, Result<Vec<Row>>>;

/// A statement that returns no rows, as a step.
pub(super) fn step<'c>(statement: impl Future<Output = Result<()>> + Send + 'c) -> Step<'c> {
    Box::pin(async move { statement.await.map(|()| Vec::new()) })
}

/// Sends statements one behind the other without waiting. They are prepared. The error is that of the first that failed, because
/// those behind it fail for its sake.
pub(super) async fn pipeline(steps: Vec<Step<'_>>) -> Result<Vec<Vec<Row>>> {
    join_all(steps).await.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_together_keep_their_parameters() {
        let one = || Columns::new("DELETE FROM a WHERE b = $1 AND c = $2").number(1).number(2);
        let other = Columns::insert("d (e, f)", "").numbers([3]).numbers([4]);
        let all = Columns::together(vec![one(), other, one()]);
        let sql = "WITH w0 AS (DELETE FROM a WHERE b = $1 AND c = $2), \
            w1 AS (INSERT INTO d (e, f) SELECT unnest($3) AS e, unnest($4) AS f ) \
            DELETE FROM a WHERE b = $5 AND c = $6";
        assert_eq!(all.sql, sql);
        assert_eq!((all.types.len(), all.values.len()), (6, 6));
        let none = || Columns::insert("d (e)", "").numbers([]);
        assert_eq!(Columns::together(vec![none(), one()]).sql.trim(), one().sql);
        assert!(Columns::together(vec![none()]).is_empty);
    }

    #[test]
    fn columns_without_rows_are_nothing_to_do() {
        assert!(Columns::insert("d (e)", "").numbers([]).is_empty);
        assert!(!Columns::insert("d (e)", "").numbers([1]).is_empty);
        assert!(!Columns::new("DELETE FROM a").is_empty);
    }
}
