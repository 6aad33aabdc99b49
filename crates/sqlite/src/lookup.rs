//! Rows that both decisions and reads look up.

use std::sync::LazyLock;

use rusqlite::Params;

use super::{
    prelude::*,
    row::{SESSION_COLUMNS, SESSION_WIDTH},
};
use sessiond_core::read::{Node, SessionRecord};
use sessiond_store::rows::{EVENT_BYTES, EVENT_COLUMNS};

impl Tables {
    /// The number of a scope, if it has a row.
    pub(super) fn node_id(&self, node: &Node) -> Result<Option<NodeId>> {
        match node.incarnation {
            Incarnation(0) => self.value(
                "SELECT id FROM scope WHERE app = ?1 AND user = ?2",
                (node.app_name.as_str(), node.user_id.as_str()),
            ),
            Incarnation(id) => Ok(Some(id)),
        }
    }

    /// The session at an address of a user, expired or not.
    pub(super) fn session_of(
        &self,
        user: NodeId,
        key: &SessionKey,
    ) -> Result<Option<SessionRecord>> {
        let sql = format!(
            "SELECT {SESSION_COLUMNS} FROM session WHERE user_scope = ?1 AND session_id = ?2"
        );
        self.one(&sql, (user, key.session_id.as_str()), |row| {
            row::session(row, key.app_name.clone())
        })
    }

    /// Sessions of any application.
    pub(super) fn sessions(
        &self,
        condition: &str,
        parameters: impl Params,
    ) -> Result<Vec<SessionRecord>> {
        let sql = format!(
            "SELECT {SESSION_COLUMNS}, (SELECT app FROM scope WHERE scope.id = app_scope)
             FROM session WHERE {condition}"
        );
        self.all(&sql, parameters, |row| row::session(row, row.get(SESSION_WIDTH)?))
    }

    /// The markers of a session's rewinds behind one event and up to another, the newest ones first.
    pub(super) fn markers(
        &self,
        session: NodeId,
        (after, up_to): (Sequence, Sequence),
        max_rows: usize,
    ) -> Result<Vec<Marker>> {
        let sql = "SELECT sequence, rewind_to FROM event
            WHERE session = ?1 AND sequence > ?2 AND sequence <= ?3 AND rewind_to IS NOT NULL
            ORDER BY sequence DESC LIMIT ?4";
        let marker = |row: &Row<'_>| Ok(Marker { sequence: row.get(0)?, to: row.get(1)? });
        self.all(sql, (session, after, up_to, max_rows), marker)
    }

    /// The fingerprint of the event of a session that has an id, and the bytes of its long columns.
    pub(super) fn event_head(
        &self,
        incarnation: Incarnation,
        id: &EventId,
    ) -> Result<Option<(Fingerprint, usize)>> {
        static HEAD: LazyLock<String> = LazyLock::new(|| {
            format!(
                "SELECT fingerprint, {EVENT_BYTES} FROM event WHERE event_id = ?2 AND session = ?1"
            )
        });
        self.one(&HEAD, (incarnation.0, id.as_str()), |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// The event of a session that has an id.
    pub(super) fn event_with_id(
        &self,
        incarnation: Incarnation,
        id: &EventId,
    ) -> Result<Option<Event>> {
        static EVENT: LazyLock<String> = LazyLock::new(|| {
            format!("SELECT {EVENT_COLUMNS} FROM event WHERE event_id = ?2 AND session = ?1")
        });
        self.one(&EVENT, (incarnation.0, id.as_str()), row::event)
    }

    pub(super) fn key(&self, node: NodeId, name: &str) -> Result<Option<(Json, Version)>> {
        let sql = "SELECT value, version FROM state WHERE node = ?1 AND name = ?2";
        self.one(sql, (node, name), |row| Ok((row::value(row, 0)?, row.get(1)?)))
    }
}
