//! What the lanes, the reads and the listener of one store share.

use std::{
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
    time::Duration,
};

use futures_util::future::try_join;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, timeout},
};

use super::{
    connect::{
        address::{Address, AddressError},
        clock::DatabaseClock,
    },
    fence::Fence,
    notify::{heard::Heard, outbox::Outbox},
    options::{PostgresOptions, PostgresSettings},
    prelude::*,
};
use sessiond_store::{Condition, Notifier, instant};

/// Time that the network may take, beyond the database's limit of a statement.
const NETWORK: Duration = Duration::from_secs(2);

/// An outage is logged once in this time, however many groups fail in it.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

pub(super) struct Shared {
    pub(super) options: PostgresOptions,
    pub(super) address: Address,
    /// Of the connection that listens, if it has one of its own.
    listen_address: Option<Address>,
    pub(super) fence: Fence,
    pub(super) heard: Heard,
    /// Tells this process from others that use the same database.
    pub(super) replica: u64,
    pub(super) notifier: Notifier,
    /// What other replicas have to hear of.
    pub(super) outbox: Outbox,
    pub(super) clock: Arc<DatabaseClock>,
    pub(super) condition: watch::Sender<Condition>,
    /// Writes refused because the disk is full, since the log last told it.
    pub(super) refused: AtomicU64,
    outage_logged: Mutex<Option<Instant>>,
}

impl Shared {
    pub(super) fn new(options: PostgresOptions) -> Result<Self, AddressError> {
        let PostgresSettings { password_file, listen_url, .. } = &options.settings;
        let parse = |url: &String| Address::parse(url, password_file.as_deref());
        let of_listener = |error| AddressError::Listen(Box::new(error));
        let clock = Arc::new(DatabaseClock::new(options.clock.clone(), Time::default()));
        Ok(Self {
            replica: fastrand::u64(..),
            address: parse(&options.url)?,
            listen_address: listen_url.as_ref().map(parse).transpose().map_err(of_listener)?,
            fence: Fence::new(Arc::clone(&clock)),
            heard: Heard::default(),
            notifier: Notifier::default(),
            outbox: Outbox::default(),
            clock,
            condition: watch::Sender::new(Condition::Ready),
            refused: AtomicU64::new(0),
            outage_logged: Mutex::default(),
            options,
        })
    }

    /// Time that a round trip may take.
    pub(super) fn limit(&self) -> Duration {
        self.options.settings.statement_timeout.saturating_add(NETWORK)
    }

    /// Connects to the database, in no more time than its address gives.
    pub(super) async fn connect(&self) -> Result<Connection> {
        self.connect_to(&self.address, None).await
    }

    /// The fence's look for a transaction that has begun, before it writes: behind a pooler, which may lead to another server each time.
    pub(super) fn look_in_transaction(&self) -> Columns<'static> {
        match self.options.settings.unnamed_statements {
            true => self.fence.look_at_newest(),
            false => Columns::nothing(),
        }
    }

    /// Begins a transaction that writes, on a database that went not back.
    pub(super) async fn begin(&self, connection: &Connection) -> Result<()> {
        let look = self.look_in_transaction();
        let ((), looked) = try_join(connection.begin(), look.all(connection)).await?;
        self.fence.judge(connection, &looked)
    }

    /// Whether a failure is to be logged now. Health tells of an outage, and metrics count what fails in it.
    pub(super) fn logs_outage(&self) -> bool {
        let mut logged = self.outage_logged.lock().unwrap_or_else(PoisonError::into_inner);
        let now = instant();
        let is_due = logged.is_none_or(|logged| now - logged >= LOG_INTERVAL);
        if is_due {
            *logged = Some(now);
        }
        is_due
    }

    /// A connection that listens. The payloads of notifications go to `notifications`, which is dropped when it is full, and when the
    /// connection ends.
    pub(super) async fn connect_to_listen(
        &self,
        notifications: mpsc::Sender<String>,
    ) -> Result<Connection> {
        let address = self.listen_address.as_ref().unwrap_or(&self.address);
        self.connect_to(address, Some(notifications)).await
    }

    async fn connect_to(
        &self,
        address: &Address,
        notifications: Option<mpsc::Sender<String>>,
    ) -> Result<Connection> {
        let PostgresSettings { statement_timeout, unnamed_statements, .. } = &self.options.settings;
        let metrics = self.options.metrics.postgres().clone();
        let connected = async {
            let (host, client, driver) = address.connect(notifications).await?;
            let (millis, metrics) = (statement_timeout.as_millis(), metrics.clone());
            let connection = Connection::new(client, driver, millis, *unnamed_statements, metrics);
            Ok((host, connection.await?))
        };
        let connected = timeout(address.connecting(), connected).await;
        let connected: Result<_> = connected.unwrap_or_else(|elapsed| Err(elapsed.into()));
        if connected.is_ok() { &metrics.connects } else { &metrics.failed_connects }.inc();
        let (host, connection) = connected?;
        let checked = connection.within(self.limit(), self.fence.check(&connection)).await;
        if matches!(checked, Err(Fault::Behind { .. })) {
            address.leave(host);
        }
        checked.map(|()| connection)
    }
}
