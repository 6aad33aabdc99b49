//! Looking up what bare ids may mean, in pieces, because very many sessions may have one id.

use std::collections::HashMap;

use super::{
    columns::Columns,
    connect::connection::Connection,
    prelude::*,
    row::{address, time},
};
use sessiond_core::commit::{Loaded, Needs};
use sessiond_store::bare::Callers;

/// The sessions that bare ids may mean.
pub(super) type Bare = HashMap<SessionId, Vec<SessionKey>>;

/// Seconds for which a session has to live to be as good as one that never expires: longer than a group takes.
const LIVES_SECS: i64 = 60;

/// Rows of the first piece of an id: a few more than sessions that are enough.
pub(super) const FIRST_ROWS: u64 = 16;

/// Rows of the longest piece, which is a few hundred KiB.
const MAX_ROWS: u64 = 1024;

/// The rows of the piece that follows one.
pub(super) fn next_rows(rows: u64) -> u64 {
    (rows * 4).min(MAX_ROWS)
}

/// The next addresses of each id.
const LOOK_UP: &str = "
SELECT f.app_name, f.user_id, k_session, f.expire_secs, f.expire_nanos
FROM unnest($1, $2, $3) AS k (k_app, k_user, k_session)
CROSS JOIN LATERAL (
    SELECT s.app_name, s.user_id, s.expire_secs, s.expire_nanos FROM session s
    WHERE s.session_id = k_session AND (s.app_name, s.user_id) > (k_app, k_user)
    ORDER BY s.app_name, s.user_id LIMIT $4
) AS f";

/// What the bare ids of a group may mean: a few sessions for each caller, which are locked next and read again. The second are those of
/// callers that may see more.
pub(super) async fn look_up(
    connection: &Connection,
    needs: &[Needs<'_>],
    about: Time,
) -> Result<(Bare, Bare)> {
    let mut by_id = Callers::of(needs, lives_until(about));
    // Behind no name, which is never empty.
    let start = |id: &&SessionId| SessionKey {
        app_name: AppName::from_stored(""),
        user_id: UserId::from_stored(""),
        session_id: (*id).clone(),
    };
    let mut after: Vec<SessionKey> = by_id.keys().map(start).collect();
    let mut limit = FIRST_ROWS;
    while !after.is_empty() {
        let look_up = Columns::new(LOOK_UP).addresses(after.iter()).number(limit);
        let mut pieces: HashMap<SessionId, (u64, SessionKey)> = HashMap::new();
        let rows = look_up.all(connection).await?;
        drop(look_up);
        for row in rows {
            let key = address(&row)?;
            let expires = match row.try_get::<Option<i64>>(3)? {
                Some(_) => Some(time(&row, 3)?),
                None => None,
            };
            if let Some(callers) = by_id.get_mut(&key.session_id) {
                callers.consider(&key, expires);
            }
            let new = || (0, key.clone());
            let (rows, last) = pieces.entry(key.session_id.clone()).or_insert_with(new);
            *rows += 1;
            if *last < key {
                *last = key;
            }
        }
        let goes_on = |(rows, last): (u64, SessionKey)| {
            let callers = by_id.get(&last.session_id).filter(|callers| !callers.have_enough());
            callers.filter(|_| rows == limit).map(|_| last)
        };
        after = pieces.into_values().filter_map(goes_on).collect();
        limit = next_rows(limit);
    }
    let (mut bare, mut many) = (Bare::default(), Bare::default());
    for (id, callers) in by_id {
        let (addresses, of_many) = callers.addresses();
        bare.insert(id.clone(), addresses);
        many.insert(id.clone(), of_many);
    }
    Ok((bare, many))
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
