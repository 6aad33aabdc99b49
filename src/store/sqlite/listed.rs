//! Sessions in the order of the lists' indexes, read a few at a time.

use std::{cmp::Ordering, collections::VecDeque};

use rusqlite::{OptionalExtension, Row, ToSql, types::ToSqlOutput};

use super::{list::Place, row, schema::NodeId, statements::Reads};
use crate::{
    domain::{
        id::{SessionId, UserId},
        time::Time,
    },
    store::SessionOrder,
};

/// Index entries that are read at once.
const CHUNK: i64 = 128;

/// A position in an index, and what was read behind it.
pub(super) struct Listed {
    app: NodeId,
    user: Option<(NodeId, UserId)>,
    order: SessionOrder,
    /// The last session read.
    after: Option<Place>,
    ready: VecDeque<Place>,
    ended: bool,
}

impl Listed {
    pub(super) fn new(
        app: NodeId,
        user: Option<NodeId>,
        user_id: Option<UserId>,
        order: SessionOrder,
        after: Option<Place>,
    ) -> Self {
        let user = user.zip(user_id);
        Self { app, user, order, after, ready: VecDeque::new(), ended: false }
    }

    /// The next session, whatever has become of it since it was listed.
    pub(super) fn peek(&mut self, reads: &mut Reads<'_>) -> rusqlite::Result<Option<&Place>> {
        if self.ready.is_empty() && !self.ended {
            match self.order {
                SessionOrder::LeastRecent => self.read_up(reads)?,
                SessionOrder::MostRecent => self.read_down(reads)?,
            }
            self.ended = self.ready.is_empty();
            if let Some(last) = self.ready.back() {
                self.after = Some(last.clone());
            }
        }
        Ok(self.ready.front())
    }

    /// Steps over the session that [`Self::peek`] gave.
    pub(super) fn advance(&mut self) {
        self.ready.pop_front();
    }

    fn read_up(&mut self, reads: &mut Reads<'_>) -> rusqlite::Result<()> {
        let start = self.after.clone().unwrap_or_else(|| before(Time::from_stored(i64::MIN, 0)));
        let (secs, nanos) = (start.time.secs(), start.time.nanos());
        let session = start.session.as_str();
        match &self.user {
            None => {
                let user = start.user.as_str();
                let parameters: [&dyn ToSql; 6] =
                    [&self.app, &secs, &nanos, &user, &session, &CHUNK];
                collect(reads.of_app_up.query(parameters)?, None, &mut self.ready)
            }
            Some((scope, user)) => {
                let session = session_behind(&start, user);
                let parameters: [&dyn ToSql; 5] = [scope, &secs, &nanos, &session, &CHUNK];
                collect(reads.of_user_up.query(parameters)?, Some(user), &mut self.ready)
            }
        }
    }

    /// Times go down and ties go up, which no index does at once: tie after tie, then the next time below.
    fn read_down(&mut self, reads: &mut Reads<'_>) -> rusqlite::Result<()> {
        while self.ready.is_empty() {
            if let Some(after) = self.after.clone() {
                self.read_ties(reads, &after)?;
                if !self.ready.is_empty() {
                    return Ok(());
                }
            }
            let time = self.after.as_ref().map(|place| place.time);
            let Some(below) = self.next_time(reads, time)? else {
                return Ok(());
            };
            self.after = Some(before(below));
        }
        Ok(())
    }

    fn read_ties(&mut self, reads: &mut Reads<'_>, after: &Place) -> rusqlite::Result<()> {
        let (secs, nanos) = (after.time.secs(), after.time.nanos());
        let session = after.session.as_str();
        match &self.user {
            None => {
                let user = after.user.as_str();
                let parameters: [&dyn ToSql; 6] =
                    [&self.app, &secs, &nanos, &user, &session, &CHUNK];
                collect(reads.of_app_ties.query(parameters)?, None, &mut self.ready)
            }
            Some((scope, user)) => {
                let session = session_behind(after, user);
                let parameters: [&dyn ToSql; 5] = [scope, &secs, &nanos, &session, &CHUNK];
                collect(reads.of_user_ties.query(parameters)?, Some(user), &mut self.ready)
            }
        }
    }

    fn next_time(
        &self,
        reads: &mut Reads<'_>,
        below: Option<Time>,
    ) -> rusqlite::Result<Option<Time>> {
        let (secs, nanos) = below.map_or((i64::MAX, 0), |time| (time.secs(), time.nanos()));
        let (statement, node) = match &self.user {
            None => (&mut reads.of_app_below, self.app),
            Some((scope, _)) => (&mut reads.of_user_below, *scope),
        };
        statement.query_row((node, secs, nanos), |row| row::time(row, 0)).optional()
    }
}

/// A place before every session of a time: no id is empty.
fn before(time: Time) -> Place {
    Place { time, user: UserId::from_stored(""), session: SessionId::from_stored(""), id: 0 }
}

/// Behind which session of `user` a list goes on after a place, which may be another user's: behind none of those of the same time
/// where that user comes later, since no text is greater than bytes.
fn session_behind<'p>(place: &'p Place, user: &UserId) -> ToSqlOutput<'p> {
    match place.user.cmp(user) {
        Ordering::Less => ToSqlOutput::from(""),
        Ordering::Equal => ToSqlOutput::from(place.session.as_str()),
        Ordering::Greater => ToSqlOutput::from(&[][..]),
    }
}

fn collect(
    mut rows: rusqlite::Rows<'_>,
    user: Option<&UserId>,
    ready: &mut VecDeque<Place>,
) -> rusqlite::Result<()> {
    let place = |row: &Row<'_>| -> rusqlite::Result<Place> {
        Ok(Place {
            id: row.get(0)?,
            time: row::time(row, 1)?,
            session: SessionId::from_stored(row::text(row, 3)?),
            user: match user {
                Some(user) => user.clone(),
                None => UserId::from_stored(row::text(row, 4)?),
            },
        })
    };
    while let Some(row) = rows.next()? {
        ready.push_back(place(row)?);
    }
    Ok(())
}
