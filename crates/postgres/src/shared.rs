//! What the lanes, the reads and the listener of one store share.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};

use super::{
    connect::{
        address::{Address, AddressError},
        clock::DatabaseClock,
    },
    notify::outbox::Outbox,
    options::{PostgresOptions, PostgresSettings},
    prelude::*,
};
use sessiond_store::{Condition, Notifier};

/// Time that the network may take, beyond the database's limit of a statement.
const NETWORK: Duration = Duration::from_secs(5);

pub(super) struct Shared {
    pub(super) options: PostgresOptions,
    address: Address,
    /// Tells this process from others that use the same database.
    pub(super) replica: u64,
    pub(super) notifier: Notifier,
    /// What other replicas have to hear of.
    pub(super) outbox: Outbox,
    pub(super) clock: Arc<DatabaseClock>,
    pub(super) condition: watch::Sender<Condition>,
    /// Writes refused because the disk is full, since the log last told it.
    pub(super) refused: AtomicU64,
}

impl Shared {
    pub(super) fn new(options: PostgresOptions) -> Result<Self, AddressError> {
        Ok(Self {
            replica: fastrand::u64(..),
            address: Address::parse(&options.url, options.settings.password_file.as_deref())?,
            notifier: Notifier::default(),
            outbox: Outbox::default(),
            clock: Arc::new(DatabaseClock::new(options.clock.clone(), Time::default())),
            condition: watch::Sender::new(Condition::Ready),
            refused: AtomicU64::new(0),
            options,
        })
    }

    /// Time that a round trip may take.
    pub(super) fn limit(&self) -> Duration {
        self.options.settings.statement_timeout.saturating_add(NETWORK)
    }

    /// Connects to the database, in no more time than its address gives.
    pub(super) async fn connect(&self) -> Result<Connection> {
        self.connect_with(None).await
    }

    /// As [`Shared::connect`]. The payloads of notifications go to `notifications`, which is dropped when the connection ends. What does
    /// not fit is found by the look at versions.
    pub(super) async fn connect_with(
        &self,
        notifications: Option<mpsc::Sender<String>>,
    ) -> Result<Connection> {
        let PostgresSettings { statement_timeout, unnamed_statements, .. } = &self.options.settings;
        let metrics = self.options.metrics.postgres().clone();
        let connected = async {
            let client = self.address.connect(notifications).await?;
            let millis = statement_timeout.as_millis();
            Connection::new(client, millis, *unnamed_statements, metrics.clone()).await
        };
        let connected = timeout(self.address.connecting(), connected).await;
        let connected = connected.unwrap_or_else(|elapsed| Err(elapsed.into()));
        if connected.is_ok() { &metrics.connects } else { &metrics.failed_connects }.inc();
        connected
    }
}
