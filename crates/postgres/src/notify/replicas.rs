//! Watches across replicas. A commit of one replica wakes watchers of the others.
//!
//! * After a commit its replica sends the digests of the scopes that changed with NOTIFY, by a connection that does nothing else: a
//!   notification inside of the commit would take a lock that all commits share.
//! * It sends a heartbeat every few seconds, with its marks for the fence of the others, and tells its end. One that dies is noticed after
//!   15 seconds: what it committed and did not announce wakes watchers then.
//! * Every replica listens. As long as heartbeats come from all, nothing else is needed. Otherwise it looks every second
//!   (`PostgresOptions::look_every`) whether a watched scope has another version: a pooler, an engine or a lost connection that swallows
//!   notifications delays a wake until then.
//! * Each second it looks whether the database can be reached, and has every commit that is known.
//! * Every wait for the database ends by [`Shared::limit`], because a connection can go silent and stay open: then it is replaced.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval, sleep, timeout, timeout_at},
};
use tracing::{debug, error, info, warn};

use super::super::{
    fence::Told,
    prelude::*,
    row::{asked, number},
    shared::Shared,
};
use sessiond_core::domain::token::Digest;
use sessiond_store::{Condition, instant};

/// Milliseconds between two notifications: a burst of commits costs a few of them.
const NOTIFY_MILLIS: u64 = 10;

/// Numbers of one notification. Each is 16 hexadecimal digits, behind those of the replica, and PostgreSQL takes less than 8,000 bytes.
const NUMBERS: usize = 480;

/// Notifications that wait for the listener, each of less than 8,000 bytes.
const INBOX: usize = 1_000;

/// Time after which a connection is replaced that was lost or that refused to notify or to listen. An engine without notifications
/// refuses each time.
const AGAIN: Duration = Duration::from_secs(1);

/// Time between two heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Time without a notification after which the connection has to show that it is there: more than between two heartbeats. From then on
/// the look at versions wakes watchers.
const QUIET: Duration = Duration::from_secs(7);

/// Scopes of one statement of such a look: a few milliseconds of the database.
const LOOK_SCOPES: usize = 1_000;

/// The channel of a store: others in the same database have channels of their own.
fn channel(id: StoreId) -> String {
    format!("sessiond_{:032x}", u128::from_be_bytes(id.0))
}

/// The news of a replica for the others.
#[derive(Debug, PartialEq, Eq)]
enum News {
    /// Scopes that changed.
    Changed(Vec<Digest>),
    /// Scopes changed that are not told. Every watched scope is looked at.
    Gap,
    /// It is there, and has acknowledged these commits.
    Marks(Vec<Told>),
    /// It ends, and nothing comes behind this.
    End,
}

impl News {
    /// As notifications, each of which begins with the replica and a letter.
    fn payloads(&self, replica: u64) -> Vec<String> {
        let (kind, numbers): (char, Vec<u64>) = match self {
            Self::Changed(digests) => ('d', digests.iter().map(|digest| digest.0).collect()),
            Self::Gap => ('g', Vec::new()),
            Self::Marks(marks) => ('m', marks.iter().flat_map(to_numbers).collect()),
            Self::End => ('e', Vec::new()),
        };
        let payload = |numbers: &[u64]| {
            let digits: String = numbers.iter().map(|number| format!("{number:016x}")).collect();
            format!("{replica:016x}{kind}{digits}")
        };
        match numbers.is_empty() {
            true => vec![payload(&[])],
            false => numbers.chunks(NUMBERS).map(payload).collect(),
        }
    }

    /// The replica that sent a notification, and what it tells. `None`: sessiond did not write it.
    fn read(payload: &str) -> Option<(u64, Self)> {
        let (replica, said) = payload.split_at_checked(16)?;
        let digits = said.as_bytes().get(1..).unwrap_or_default().chunks_exact(16);
        let number = |digits| u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
        let numbers: Vec<u64> = digits.filter_map(number).collect();
        let news = match said.as_bytes().first() {
            Some(b'd') => Self::Changed(numbers.into_iter().map(Digest).collect()),
            Some(b'g') => Self::Gap,
            Some(b'e') => Self::End,
            Some(b'm') => Self::Marks(numbers.as_chunks().0.iter().map(from_numbers).collect()),
            // Of what a later version tells, that it is there.
            _ => Self::Marks(Vec::new()),
        };
        Some((u64::from_str_radix(replica, 16).ok()?, news))
    }
}

fn to_numbers((id, commits): &Told) -> [u64; 3] {
    let id = u128::from_be_bytes(*id);
    [(id >> 64) as u64, id as u64, commits.cast_unsigned()]
}

fn from_numbers([high, low, commits]: &[u64; 3]) -> Told {
    let id = u128::from(*high) << 64 | u128::from(*low);
    (id.to_be_bytes(), commits.cast_signed())
}

/// Announces what this replica's commits changed, until it ends.
pub(in super::super) async fn announce(shared: Arc<Shared>, id: StoreId) {
    let channel = channel(id);
    let mut connection: Option<Connection> = None;
    // An engine without notifications is asked once a connection.
    let mut is_refused = false;
    let mut heartbeat = instant() + HEARTBEAT;
    loop {
        let taken = timeout_at(heartbeat, shared.outbox.take()).await;
        let (scopes, is_last) = taken.unwrap_or_default();
        let mut news = Vec::new();
        if instant() >= heartbeat {
            heartbeat = instant() + HEARTBEAT;
            news.push(News::Marks(shared.fence.told()));
        }
        if !scopes.is_empty() {
            news.push(News::Changed(scopes));
        }
        if is_last {
            news.push(News::End);
        }
        if connection.as_ref().is_none_or(Connection::is_closed) {
            (connection, is_refused) = (None, false);
        }
        if !is_refused && let Err(error) = send(&shared, &mut connection, &channel, news).await {
            debug!(%error, "a notification was not sent");
            shared.outbox.lost();
            // The gap is told with the next heartbeat.
            heartbeat = instant();
            is_refused = error.is_unsupported();
            if is_refused && let Some(connection) = &connection {
                // The end of the transaction that was refused.
                let _ = connection.within(shared.limit(), connection.roll_back()).await;
            } else {
                connection = None;
            }
            sleep(AGAIN).await;
        }
        if is_last {
            return;
        }
        sleep(Duration::from_millis(NOTIFY_MILLIS)).await;
    }
}

async fn send(
    shared: &Shared,
    connection: &mut Option<Connection>,
    channel: &str,
    mut news: Vec<News>,
) -> Result<()> {
    let sender = match connection {
        Some(sender) => sender,
        None => connection.insert(shared.connect().await?),
    };
    if shared.outbox.take_lost() {
        news.insert(0, News::Gap);
    }
    let payloads = news.iter().flat_map(|news| news.payloads(shared.replica));
    let notify: String = payloads.map(|it| format!("NOTIFY {channel}, '{it}'; ")).collect();
    // A notification need not survive a crash. Set for the transaction alone: a pooler gives its connection to others.
    let all = format!("BEGIN; SET LOCAL synchronous_commit = off; {notify}COMMIT");
    sender.within(shared.limit(), sender.batch(&all)).await
}

/// Wakes watchers by the notifications of all replicas, for ever.
pub(in super::super) async fn listen(shared: Arc<Shared>, id: StoreId) {
    loop {
        if let Err(error) = listen_once(&shared, id).await {
            debug!(%error, "listening to other replicas failed");
        }
        shared.heard.ended(shared.replica);
        shared.options.metrics.postgres().listener_reconnects.inc();
        sleep(AGAIN).await;
    }
}

/// Listens until the connection ends.
async fn listen_once(shared: &Shared, id: StoreId) -> Result<()> {
    let (sender, mut received) = mpsc::channel(INBOX);
    let connection = shared.connect_to_listen(sender).await?;
    let mut listen = format!("LISTEN {}", channel(id));
    // Notifications that were sent while nothing listened are lost.
    let mut is_new = true;
    loop {
        // LISTEN changes nothing the second time. Its answer shows that the connection is alive.
        match connection.within(shared.limit(), connection.batch(&listen)).await {
            // An engine without notifications is asked once a connection.
            Err(error) if error.is_unsupported() => listen = "SELECT".to_owned(),
            answer => answer?,
        }
        if std::mem::take(&mut is_new) {
            shared.heard.gap();
        }
        while let Ok(payload) = timeout(QUIET, received.recv()).await {
            let Some(payload) = payload else { return Ok(()) };
            let Some((replica, news)) = News::read(&payload) else { continue };
            shared.heard.hear(replica);
            match news {
                // Its own commits have woken everybody here.
                _ if replica == shared.replica => {}
                News::Changed(digests) => shared.notifier.wake_all(digests),
                News::Gap => shared.heard.gap(),
                News::Marks(marks) => shared.fence.hear(&marks),
                News::End => shared.heard.ended(replica),
            }
        }
        // Until its own heartbeat arrives again, nothing shows that those of others would.
        shared.heard.ended(shared.replica);
    }
}

/// Looks for changes of watched scopes, and whether the database can be reached, for ever.
pub(in super::super) async fn look(shared: Arc<Shared>) {
    let mut rounds = interval(shared.options.look_every);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first one is at once: the store has just been opened.
    rounds.tick().await;
    let mut connection = None;
    let (mut known, mut last) = (HashMap::new(), None);
    loop {
        rounds.tick().await;
        let wants_versions = shared.heard.wants_look(shared.replica, last);
        let looked = look_once(&shared, &mut connection, wants_versions, &mut known).await;
        if looked.is_err() {
            (connection, last) = (None, None);
        } else if wants_versions {
            last = Some(instant());
        }
        report(&shared, looked);
    }
}

/// Tells the condition of the database when it changes.
fn report(shared: &Shared, looked: Result<()>) {
    let changed = shared.condition.send_if_modified(|condition| {
        let now = match &looked {
            Err(Fault::Behind { .. }) => Condition::Behind,
            Err(_) => Condition::Unreachable,
            Ok(()) if [Condition::Behind, Condition::Unreachable].contains(condition) => {
                Condition::Ready
            }
            Ok(()) => *condition,
        };
        std::mem::replace(condition, now) != now
    });
    match looked {
        Err(error @ Fault::Behind { .. }) if changed => error!(
            %error,
            "the database went back: it is not used. Promote the server that has the commits, or see `sessiond store accept-loss`"
        ),
        Err(error) if changed => warn!(%error, "the database cannot be reached, trying again"),
        Ok(()) if changed => info!("the database can be reached again"),
        _ => {}
    }
}

/// The version of a watched scope: other numbers mean that something changed.
type Seen = [u64; 3];

/// Of the watched scopes that are there, each with its number.
const VERSIONS: &str = "
WITH w AS (SELECT * FROM unnest($1, $2, $3, $4)
    WITH ORDINALITY AS w (place, app_name, user_id, session_id, at))
SELECT w.at, s.incarnation, s.last_sequence, s.update_secs, s.update_nanos
FROM w JOIN session s USING (place, app_name, user_id, session_id)
UNION ALL
SELECT w.at, s.version, 0, 0, 0 FROM w JOIN scope s USING (place, app_name, user_id)
WHERE w.session_id = ''";

async fn look_once(
    shared: &Shared,
    connection: &mut Option<Connection>,
    wants_versions: bool,
    known: &mut HashMap<Digest, Seen>,
) -> Result<()> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(shared.connect().await?),
    };
    // A standby answers as well, but nothing can be written to it.
    let writes = connection.one("UPDATE writer SET used_secs = used_secs WHERE false");
    connection.within(shared.limit(), writes).await?;
    connection.within(shared.limit(), shared.fence.check(connection)).await?;
    if !wants_versions {
        return Ok(());
    }
    let watched = shared.notifier.watched();
    let mut now: HashMap<Digest, Seen> = HashMap::with_capacity(watched.len());
    for scopes in watched.chunks(LOOK_SCOPES) {
        let answers = connection.within(shared.limit(), versions(connection, scopes));
        for (scope, seen) in answers.await? {
            now.insert(Digest::of_scope(scope), seen);
        }
    }
    let changed = now.iter().filter(|(digest, seen)| known.get(*digest) != Some(*seen));
    shared.notifier.wake_all(changed.map(|(digest, _)| *digest));
    *known = now;
    Ok(())
}

/// Each scope with its version. What is not there has version 0.
async fn versions<'s>(
    connection: &Connection,
    scopes: &'s [Scope],
) -> Result<Vec<(&'s Scope, Seen)>> {
    let session = |scope: &'s Scope| match scope {
        Scope::Session(key) => key.session_id.as_str(),
        Scope::Application(_) | Scope::User(..) => "",
    };
    let user = |scope: &'s Scope| scope.user_id().map_or("", UserId::as_str);
    let versions = Columns::new(VERSIONS)
        .placed(scopes.iter().map(|scope| [scope.app_name().as_str(), user(scope)]))
        .texts(scopes.iter().map(session));
    let mut seen: Vec<_> = scopes.iter().map(|scope| (scope, Seen::default())).collect();
    for row in versions.all(connection).await? {
        let nanos = row.try_get::<i32>(4)?.cast_unsigned();
        let update = number(&row, 3)?.wrapping_mul(1_000_000_000).wrapping_add(nanos.into());
        seen[asked(&row, scopes.len())?].1 = [number(&row, 1)?, number(&row, 2)?, update];
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_holds_digests_and_fits() {
        let sent = (0..NUMBERS as u64).map(|at| Digest(at * 0x0123_4567_89ab));
        let sent = News::Changed(sent.collect());
        let texts = sent.payloads(7);
        assert!(texts.len() == 1 && texts[0].len() < 8000);
        assert_eq!(News::read(&texts[0]), Some((7, sent)));
        assert_eq!(News::read("nonsense"), None);
        let unknown = format!("00000000000000ffx{}", "0000000000000001".repeat(3));
        for text in ["00000000000000ffé", "00000000000000ff", &unknown] {
            assert_eq!(News::read(text), Some((255, News::Marks(vec![]))));
        }
    }

    #[test]
    fn what_is_sent_is_read() {
        let marks = |count: u64| {
            let mark = |at: u64| (u128::from(at).wrapping_mul(u128::MAX / 7).to_be_bytes(), -1);
            News::Marks((0..count).map(mark).collect())
        };
        for news in [News::Gap, News::End, marks(0), marks(NUMBERS as u64 / 3)] {
            let texts = news.payloads(u64::MAX);
            assert_eq!(texts.len(), 1);
            assert_eq!(News::read(&texts[0]), Some((u64::MAX, news)));
        }
        // None is divided.
        let parts = marks(NUMBERS as u64).payloads(7);
        let read = parts.iter().flat_map(|text| match News::read(text) {
            Some((7, News::Marks(marks))) => marks,
            other => panic!("{other:?}"),
        });
        assert_eq!(News::Marks(read.collect()), marks(NUMBERS as u64));
    }
}
