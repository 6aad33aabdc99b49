//! Removing applications and users that have neither state nor sessions, so that nothing of them is left in the file, their names
//! included.

use std::collections::BTreeSet;

use super::{
    load::names, log::Log, prelude::*, purge::PURGED_ROWS, schema::PURGED, writer::Writer,
};
use sessiond_core::commit::{Emptied, ReadSet, SWEPT_SESSIONS, ScopeKey};

/// The changes of an application `?1` that name its user `?2`: those that `scope_log_user` has, and those behind it.
fn naming(max_rows: usize) -> String {
    let of_user =
        "source_user = ?2 AND scope = (SELECT id FROM scope WHERE app = ?1 AND user = '')";
    format!(
        "SELECT id FROM scope_log WHERE is_named = 1 AND {of_user}
         UNION ALL SELECT id FROM scope_log WHERE is_named = 0 AND {of_user}
             AND id > (SELECT named_through FROM meta WHERE id = 1)
         LIMIT {max_rows}"
    )
}

impl Writer {
    /// Loads applications and users that may be empty, for a sweep.
    pub(super) fn load_emptied(&mut self) -> Result<()> {
        let sql =
            "SELECT id, app, user FROM emptied CROSS JOIN scope ON id = emptied.scope LIMIT ?1";
        let found: Vec<(NodeId, String, String)> =
            self.tables.all(sql, [SWEPT_SESSIONS], |row| row.all())?;
        for (node, app, user) in found {
            // No session has an application for its user, and no change names the user ''.
            let used =
                "SELECT EXISTS (SELECT 1 FROM session WHERE user_scope = ?1 OR app_scope = ?1)
                OR ?3 = '' AND EXISTS (SELECT 1 FROM scope WHERE app = ?2 AND user > '')";
            let is_used = self.tables.value(used, (node, &app, &user))?;
            let named = format!("SELECT EXISTS ({})", naming(1));
            let is_named = self.tables.value(&named, (&app, &user))?;
            let app = AppName::from_stored(app);
            let key = match user.as_str() {
                "" => ScopeKey::Application(app),
                _ => ScopeKey::User(app, UserId::from_stored(user)),
            };
            self.load_scope(&key, &ReadSet::default())?;
            let (is_used, is_named) = (is_used.unwrap_or(true), is_named.unwrap_or(false));
            self.loaded.emptied.push(Emptied { key, is_used, is_named });
        }
        Ok(())
    }

    pub(super) fn apply_emptied(
        &self,
        emptied: &BTreeSet<ScopeKey>,
        looked_at: &[ScopeKey],
    ) -> Result<()> {
        let delete = "DELETE FROM emptied
            WHERE scope = (SELECT id FROM scope WHERE app = ?1 AND user = ?2)";
        looked_at.iter().try_for_each(|key| self.tables.run(delete, names(key)).map(drop))?;
        // Then, because the end of a user lists its application again.
        let put = "INSERT OR IGNORE INTO emptied SELECT id FROM scope WHERE app = ?1 AND user = ?2";
        emptied.iter().try_for_each(|key| self.tables.run(put, names(key)).map(drop))?;
        Ok(())
    }

    /// Removes the name of a user from some of the changes of its application. Returns their number.
    pub(super) fn remove_name(&self, user: &ScopeKey) -> Result<usize> {
        let (app, user) = names(user);
        let update = format!(
            "UPDATE scope_log SET author = '', source = NULL, source_user = NULL,
                 source_session = NULL, source_sequence = NULL, is_named = 0
             WHERE id IN ({})",
            naming(PURGED_ROWS)
        );
        self.tables.run(&update, (app, user))
    }

    /// Ends the life of an application or a user at a version. Its log is removed in pieces, as that of a session.
    pub(super) fn end_scope(&mut self, key: &ScopeKey, version: Version) -> Result<()> {
        let id = "SELECT id FROM scope WHERE app = ?1 AND user = ?2";
        let Some(node) = self.tables.value::<NodeId>(id, names(key))? else { return Ok(()) };
        self.index_rows(Log { node, kind: key.kind() }, version)?;
        self.unindexed.remove(&node);
        self.tables.run("DELETE FROM emptied WHERE scope = ?1", [node])?;
        self.tables.run("DELETE FROM scope WHERE id = ?1", [node])?;
        self.put_tombstone(Incarnation(node), PURGED)
    }
}
