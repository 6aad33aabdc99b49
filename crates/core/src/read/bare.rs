//! What a session id means by itself.

use super::Rows;
use crate::domain::prelude::*;

/// Sessions with one id that are read at first: a few more than are enough.
const FIRST_ROWS: usize = 16;

/// Sessions with one id that are read at once: a few hundred KiB.
const MAX_ROWS: usize = 1024;

/// The live session with an id, of those that a caller sees. Errors: [`Error::SessionNotFound`], [`Error::AmbiguousSessionId`].
pub async fn only<R: Rows>(
    rows: &R,
    id: &SessionId,
    visible: &Visibility,
) -> Result<SessionInfo, Error> {
    // Of a caller without rights not all sessions with an id are read.
    if visible.sees_nothing() {
        return Err(Error::not_found_bare(id));
    }
    let mut max_rows = FIRST_ROWS;
    let (mut found, mut after): (Option<SessionInfo>, Option<SessionInfo>) = (None, None);
    loop {
        let sessions = rows.of_id(id, after.as_ref(), max_rows).await?;
        let now = rows.now().await;
        let is_end = sessions.len() < max_rows;
        after = sessions.last().cloned();
        for info in sessions {
            if !info.expired(now) && info.key.is_seen(visible) && found.replace(info).is_some() {
                return Err(Error::AmbiguousSessionId(id.clone()));
            }
        }
        if is_end {
            return found.ok_or_else(|| Error::not_found_bare(id));
        }
        max_rows = (max_rows * 4).min(MAX_ROWS);
    }
}
