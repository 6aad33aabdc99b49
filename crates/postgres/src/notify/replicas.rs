//! Watches across replicas. A commit of one replica wakes watchers of the others.
//!
//! * After a commit its replica sends the digests of the scopes that changed with NOTIFY, by a connection that does nothing else: a
//!   notification inside of the commit would take a lock that all commits share.
//! * It sends a heartbeat every few seconds, with the numbers of its commits for the fence of the others.
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
    prelude::*,
    row::{asked, number},
    shared::Shared,
};
use sessiond_core::domain::token::Digest;
use sessiond_store::{Condition, instant};

/// Milliseconds between two notifications: a burst of commits costs a few of them.
const NOTIFY_MILLIS: u64 = 10;

/// Digests of one notification. Each is 16 hexadecimal digits, behind those of the replica, and PostgreSQL takes less than 8,000 bytes.
const DIGESTS: usize = 480;

/// Notifications that wait for the listener, each of less than 8,000 bytes.
const INBOX: usize = 1_000;

/// Time after which a connection is replaced that was lost or that refused to notify or to listen. An engine without notifications
/// refuses each time.
const AGAIN: Duration = Duration::from_secs(1);

/// Time between two heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Seconds without a notification after which the connection has to show that it is there. The look at versions wakes watchers meanwhile.
const QUIET_SECS: u64 = 5;

/// Scopes of one statement of such a look: a few milliseconds of the database.
const LOOK_SCOPES: usize = 1_000;

/// The channel of a store: others in the same database have channels of their own.
fn channel(id: StoreId) -> String {
    format!("sessiond_{:032x}", u128::from_be_bytes(id.0))
}

/// Behind the replica: scopes were not announced. Whoever watches looks at the versions.
const GAP: &str = "g";

fn payload(replica: u64, digests: &[Digest]) -> String {
    let words = [replica].into_iter().chain(digests.iter().map(|digest| digest.0));
    words.map(|word| format!("{word:016x}")).collect()
}

/// The replica that sent a notification, and what it says. `None`: sessiond did not write it.
fn read_payload(payload: &str) -> Option<(u64, &str)> {
    let (replica, said) = payload.split_at_checked(16)?;
    Some((u64::from_str_radix(replica, 16).ok()?, said))
}

fn read_digests(words: &str) -> impl Iterator<Item = Digest> {
    let words = words.as_bytes().chunks(16).filter_map(|word| std::str::from_utf8(word).ok());
    words.filter_map(|word| u64::from_str_radix(word, 16).ok()).map(Digest)
}

/// Announces what this replica's commits changed, for ever.
pub(in super::super) async fn announce(shared: Arc<Shared>, id: StoreId) {
    let channel = channel(id);
    let mut connection: Option<Connection> = None;
    // An engine without notifications is asked once a connection.
    let mut is_refused = false;
    let mut heartbeat = instant() + HEARTBEAT;
    loop {
        let scopes = timeout_at(heartbeat, shared.outbox.take()).await.unwrap_or_default();
        let beats = instant() >= heartbeat;
        if beats {
            heartbeat = instant() + HEARTBEAT;
        }
        if connection.as_ref().is_none_or(Connection::is_closed) {
            (connection, is_refused) = (None, false);
        }
        if !is_refused
            && let Err(error) = send(&shared, &mut connection, &channel, &scopes, beats).await
        {
            debug!(%error, "a notification was not sent");
            shared.outbox.lost();
            is_refused = error.is_unsupported();
            if is_refused && let Some(connection) = &connection {
                // The end of the transaction that was refused.
                let _ = connection.within(shared.limit(), connection.roll_back()).await;
            } else {
                connection = None;
            }
            sleep(AGAIN).await;
        }
        sleep(Duration::from_millis(NOTIFY_MILLIS)).await;
    }
}

async fn send(
    shared: &Shared,
    connection: &mut Option<Connection>,
    channel: &str,
    scopes: &[Digest],
    beats: bool,
) -> Result<()> {
    let sender = match connection {
        Some(sender) => sender,
        None => connection.insert(shared.connect().await?),
    };
    let mut payloads: Vec<_> =
        scopes.chunks(DIGESTS).map(|digests| payload(shared.replica, digests)).collect();
    if shared.outbox.take_lost() {
        payloads.push(payload(shared.replica, &[]) + GAP);
    }
    if beats {
        payloads.push(payload(shared.replica, &[]) + &shared.fence.told());
    }
    for payload in payloads {
        // A notification need not survive a crash. Set for the transaction alone: a pooler gives its connection to others.
        let notify = format!(
            "BEGIN; SET LOCAL synchronous_commit = off; NOTIFY {channel}, '{payload}'; COMMIT"
        );
        sender.within(shared.limit(), sender.batch(&notify)).await?;
    }
    Ok(())
}

/// Wakes watchers by the notifications of all replicas, for ever.
pub(in super::super) async fn listen(shared: Arc<Shared>, id: StoreId) {
    loop {
        if let Err(error) = listen_once(&shared, id).await {
            debug!(%error, "listening to other replicas failed");
        }
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
        while let Ok(payload) = timeout(Duration::from_secs(QUIET_SECS), received.recv()).await {
            let Some(payload) = payload else { return Ok(()) };
            let Some((replica, said)) = read_payload(&payload) else { continue };
            shared.heard.hear(replica);
            match said {
                // Its own commits have woken everybody here.
                _ if replica == shared.replica => {}
                GAP => shared.heard.gap(),
                marks if shared.fence.hear(marks) => {}
                digests => shared.notifier.wake_all(read_digests(digests)),
            }
        }
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
        .places(scopes.iter().map(|scope| [scope.app_name().as_str(), user(scope)]))
        .texts(scopes.iter().map(Scope::app_name))
        .texts(scopes.iter().map(user))
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
        let sent: Vec<Digest> =
            (0..DIGESTS as u64).map(|at| Digest(at * 0x0123_4567_89ab)).collect();
        let text = payload(7, &sent);
        assert!(text.len() < 8000);
        let read = |text| {
            read_payload(text).map(|(replica, said)| (replica, read_digests(said).collect()))
        };
        assert_eq!(read(&text), Some((7, sent)));
        assert_eq!(read("nonsense"), None);
        assert_eq!(read("00000000000000ffé"), Some((255, vec![])));
    }
}
