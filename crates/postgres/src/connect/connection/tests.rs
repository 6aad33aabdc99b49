//! Plans of the statements that a connection has prepared.

use super::*;

impl Connection {
    /// Every prepared statement with its plan, line by line.
    pub(crate) async fn plans(&self) -> Vec<(String, Vec<String>)> {
        let prepared = self.prepared.as_ref().unwrap().lock().unwrap().clone();
        let mut plans = Vec::new();
        for (sql, statement) in prepared {
            let types: Vec<_> = statement.params().iter().map(Type::name).collect();
            let list = |open: &str, of: Vec<&str>, close: &str| match of.is_empty() {
                true => String::new(),
                false => format!("{open}{}{close}", of.join(", ")),
            };
            let nulls = list("(", vec!["NULL"; types.len()], ")");
            let explain = format!(
                "PREPARE explained {} AS {sql}; EXPLAIN EXECUTE explained{nulls}; DEALLOCATE explained",
                list("(", types, ")")
            );
            let answers = self.client.simple_query(&explain).await.unwrap();
            let lines = answers.iter().filter_map(|answer| match answer {
                SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            });
            plans.push((sql.into(), lines.collect()));
        }
        plans
    }
}
