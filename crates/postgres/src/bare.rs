//! Looking up what bare ids may mean, in pieces, because very many sessions may have one id.

use std::collections::HashMap;

use futures_util::future::try_join_all;

use super::{
    prelude::*,
    row::{address, optional_time},
};
use sessiond_core::{
    commit::{Loaded, Needs},
    read::bare::{FIRST_ROWS, MAX_ROWS},
};
use sessiond_store::bare::Callers;

/// The sessions that bare ids may mean.
pub(super) type Bare = HashMap<SessionId, Vec<SessionKey>>;

/// Seconds for which a session has to live to be as good as one that never expires: longer than a group takes.
const LIVES_SECS: i64 = 60;

/// The next addresses with an id.
const LOOK_UP: &str = "
SELECT app_name, user_id, session_id, expire_secs, expire_nanos FROM session
WHERE session_id = $1 AND (app_name, user_id) > ($2, $3) ORDER BY app_name, user_id LIMIT $4";

/// What the bare ids of a group may mean: a few sessions for each caller, which are locked next and read again. The second are those of
/// callers that may see more.
pub(super) async fn look_up(
    connection: &Connection,
    needs: &[Needs<'_>],
    about: Time,
) -> Result<(Bare, Bare)> {
    let by_id = Callers::of(needs, lives_until(about)).into_iter();
    let found = by_id.map(async |(id, mut callers)| {
        look_up_one(connection, id, &mut callers).await?;
        Ok::<_, Fault>((id.clone(), callers.addresses()))
    });
    let found = try_join_all(found).await?.into_iter();
    Ok(found.map(|(id, (few, of_many))| ((id.clone(), few), (id, of_many))).unzip())
}

async fn look_up_one(
    connection: &Connection,
    id: &SessionId,
    callers: &mut Callers<'_>,
) -> Result<()> {
    // No name is empty.
    let (mut app, mut user) = (AppName::from_stored(""), UserId::from_stored(""));
    let mut limit = FIRST_ROWS;
    loop {
        let select = Columns::new(LOOK_UP).text(id).text(&app).text(&user).number(limit as u64);
        let rows = select.all(connection).await?;
        drop(select);
        for row in &rows {
            callers.consider(&address(row)?, optional_time(row, 3)?);
        }
        match rows.last() {
            Some(last) if rows.len() == limit && !callers.have_enough() => {
                (app, user) = (last.try_get(0)?, last.try_get(1)?);
            }
            _ => return Ok(()),
        }
        limit = (limit * 4).min(MAX_ROWS);
    }
}

fn lives_until(about: Time) -> Time {
    about.plus(LIVES_SECS, 0).unwrap_or(Time::LAST)
}

/// Notes the callers that may see more sessions than were looked up. If one of those that live longest has expired, all others have.
pub(super) fn note_many(mut many: Bare, about: Time, loaded: &mut Loaded) {
    for keys in many.values_mut() {
        keys.retain(|key| {
            let incarnation = loaded.addresses.get(key).copied().flatten();
            let session = incarnation.and_then(|it| loaded.sessions.get(&it));
            let expires = session.and_then(|session| session.info.expire_time);
            expires.is_none_or(|at| at > loaded.now || at > lives_until(about))
        });
    }
    loaded.many.extend(many);
}
