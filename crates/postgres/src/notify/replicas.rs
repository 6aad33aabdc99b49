//! Watches across replicas. A commit of one replica wakes watchers of the others.
//!
//! * After a commit its replica sends the digests of the scopes that changed with NOTIFY, by a connection that does nothing else: a
//!   notification inside of the commit would take a lock that all commits share.
//! * Every replica listens, and looks every now and then (`PostgresOptions::look_every`) whether a watched scope has another version. So nothing depends on a notification:
//!   a pooler, an engine or a lost connection that swallows it delays a wake until then.
//! * The same look tells whether the database can be reached.
//! * Every wait for the database ends by [`Shared::limit`], because a connection can go silent and stay open: then it is replaced.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval, sleep, timeout},
};
use tracing::{debug, info, warn};

use super::super::{
    prelude::*,
    row::{asked, number},
    shared::Shared,
};
use sessiond_core::domain::token::Digest;
use sessiond_store::Condition;

/// Milliseconds between two notifications: a burst of commits costs a few of them.
const NOTIFY_MILLIS: u64 = 10;

/// Digests of one notification. Each is 16 hexadecimal digits, behind those of the replica, and PostgreSQL takes less than 8,000 bytes.
const DIGESTS: usize = 480;

/// Notifications that wait for the listener, each of less than 8,000 bytes.
const INBOX: usize = 1_000;

/// Time after which a connection is replaced that was lost or that refused to notify or to listen. An engine without notifications
/// refuses each time.
const AGAIN: Duration = Duration::from_secs(1);

/// Seconds without a notification after which the connection has to show that it is there. The look at versions wakes watchers meanwhile.
const QUIET_SECS: u64 = 5;

/// Scopes of one statement of such a look: a few milliseconds of the database.
const LOOK_SCOPES: usize = 1_000;

/// The channel of a store: others in the same database have channels of their own.
fn channel(id: StoreId) -> String {
    format!("sessiond_{:032x}", u128::from_be_bytes(id.0))
}

fn payload(replica: u64, digests: &[Digest]) -> String {
    let words = [replica].into_iter().chain(digests.iter().map(|digest| digest.0));
    words.map(|word| format!("{word:016x}")).collect()
}

/// The replica that sent a notification, and its digests. What sessiond did not write is passed over.
fn read_payload(payload: &str) -> (Option<u64>, impl Iterator<Item = Digest>) {
    let words = payload.as_bytes().chunks(16).filter_map(|word| std::str::from_utf8(word).ok());
    let mut words = words.filter_map(|word| u64::from_str_radix(word, 16).ok());
    (words.next(), words.map(Digest))
}

/// Announces what this replica's commits changed, for ever.
pub(in super::super) async fn announce(shared: Arc<Shared>, id: StoreId) {
    let channel = channel(id);
    let mut connection = None;
    loop {
        let scopes = shared.outbox.take().await;
        if let Err(error) = send(&shared, &mut connection, &channel, &scopes).await {
            debug!(%error, "a notification was not sent");
            connection = None;
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
) -> Result<()> {
    let sender = match connection {
        Some(sender) => sender,
        None => connection.insert(shared.connect().await?),
    };
    for digests in scopes.chunks(DIGESTS) {
        let payload = payload(shared.replica, digests);
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
    let connection = shared.connect_with(Some(sender)).await?;
    let listen = format!("LISTEN {}", channel(id));
    loop {
        // LISTEN changes nothing the second time. Its answer shows that the connection is alive.
        connection.within(shared.limit(), connection.batch(&listen)).await?;
        while let Ok(payload) = timeout(Duration::from_secs(QUIET_SECS), received.recv()).await {
            let Some(payload) = payload else { return Ok(()) };
            let (replica, digests) = read_payload(&payload);
            // Its own commits have woken everybody here.
            if replica != Some(shared.replica) {
                shared.notifier.wake_all(digests);
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
    let mut known = HashMap::new();
    loop {
        rounds.tick().await;
        let looked = look_once(&shared, &mut connection, &mut known).await;
        if looked.is_err() {
            connection = None;
        }
        report(&shared, looked);
    }
}

/// Tells the condition of the database when it changes.
fn report(shared: &Shared, looked: Result<()>) {
    let unreachable = looked.is_err();
    let changed = shared.condition.send_if_modified(|condition| {
        let was = *condition == Condition::Unreachable;
        if unreachable != was {
            *condition = if unreachable { Condition::Unreachable } else { Condition::Ready };
        }
        unreachable != was
    });
    match looked {
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
    known: &mut HashMap<Digest, Seen>,
) -> Result<()> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(shared.connect().await?),
    };
    // A standby answers as well, but nothing can be written to it.
    let writes = connection.one("UPDATE writer SET used_secs = used_secs WHERE false");
    connection.within(shared.limit(), writes).await?;
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
            let (replica, digests) = read_payload(text);
            (replica, digests.collect::<Vec<_>>())
        };
        assert_eq!(read(&text), (Some(7), sent));
        assert_eq!(read("nonsense"), (None, vec![]));
        assert_eq!(read("00000000000000ffé"), (Some(255), vec![]));
    }
}
