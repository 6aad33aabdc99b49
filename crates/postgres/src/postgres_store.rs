//! Opening a database, and the store over it.

use std::{io, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use tokio::{
    sync::watch,
    task::spawn_blocking,
    time::{sleep, timeout},
};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::warn;

use super::{
    connect::{
        address::Address,
        clock::{DATABASE_TIME, database_time},
    },
    migrate::{self, try_out},
    notify::replicas,
    open_error::OpenError,
    options::PostgresOptions,
    prelude::*,
    probes,
    read::pool::Pool,
    schema::{MIGRATIONS, Migration},
    shared::Shared,
    write::{disk, lanes::Lanes},
};
use sessiond_core::{
    commit::{Answer, Request},
    read::Read as _,
};
use sessiond_store::{
    ApplicationsQuery, Clock, Condition, EventsQuery, EventsView, KeyChangePage, KeyChangeQuery,
    NamePage, Notifier, RequestContext, SessionPage, SessionQuery, SessionView, SessionsQuery,
    StateQuery, StateView, Store, UsersQuery, WatchPage, WatchQuery, instant,
};

/// Time for which a start tries to connect, for a database that starts at the same moment.
const START: Duration = Duration::from_secs(10);

/// Milliseconds between two attempts.
const START_AGAIN_MILLIS: u64 = 200;

/// Time in which a store that closes tells its end to other replicas.
const FAREWELL: Duration = Duration::from_secs(2);

/// A store in a database that other processes use as well.
pub struct PostgresStore {
    id: StoreId,
    pub(super) shared: Arc<Shared>,
    lanes: Lanes,
    reads: Arc<Pool>,
    announcing: TaskTracker,
    /// They announce, listen, look at the database, and look for space.
    _watchers: Vec<AbortOnDropHandle<()>>,
}

/// Opens a store. The first replica makes the tables.
pub async fn open(options: PostgresOptions) -> Result<PostgresStore, OpenError> {
    open_with(options, MIGRATIONS).await
}

pub(super) async fn open_with(
    options: PostgresOptions,
    migrations: &'static [Migration],
) -> Result<PostgresStore, OpenError> {
    let new_id = options.new_id;
    let shared = Arc::new(Shared::new(options)?);
    let connection = connect(&shared).await?;
    let partitions = shared.options.settings.partitions;
    let id = migrate::migrate(&connection, migrations, new_id, partitions).await?;
    shared.clock.observe(database_time(connection.one(DATABASE_TIME).await?.as_ref())?);
    drop(connection);
    let of_lanes = Arc::clone(&shared);
    let lanes = spawn_blocking(move || Lanes::start(&of_lanes)).await;
    let lanes = lanes.map_err(io::Error::other).flatten();
    let lanes = lanes.map_err(|error| OpenError::Threads(error.to_string()))?;
    let reads = Pool::new(Arc::clone(&shared));
    let reads = Arc::new(reads.map_err(|error| OpenError::Failed(error.to_string()))?);
    probes::start(&shared.options.metrics, &lanes, &reads);
    let announcing = TaskTracker::new();
    let mut watchers = vec![
        announcing.spawn(replicas::announce(Arc::clone(&shared), id)),
        tokio::spawn(replicas::look(Arc::clone(&shared))),
        tokio::spawn(disk::find_space(Arc::clone(&shared))),
    ];
    // Behind a pooler the notifications would reach whatever connection is assigned then.
    let settings = &shared.options.settings;
    if !settings.unnamed_statements || settings.listen_url.is_some() {
        watchers.push(tokio::spawn(replicas::listen(Arc::clone(&shared), id)));
    }
    let watchers = watchers.into_iter().map(AbortOnDropHandle::new).collect();
    announcing.close();
    Ok(PostgresStore { id, shared, lanes, reads, announcing, _watchers: watchers })
}

/// Brings a database to the newest version, or only tries that out. Returns the steps, as titles.
pub async fn migrate(
    options: PostgresOptions,
    is_dry_run: bool,
) -> Result<Vec<&'static str>, OpenError> {
    let new_id = options.new_id;
    let shared = Shared::new(options)?;
    let connection = connect(&shared).await?;
    let partitions = shared.options.settings.partitions;
    let pending = try_out(&connection, MIGRATIONS, partitions).await?;
    if !is_dry_run {
        migrate::migrate(&connection, MIGRATIONS, new_id, partitions).await?;
    }
    Ok(pending)
}

/// Gives a database that lost acknowledged commits the identity `new_id`, so that no uid, cursor or page token of the lost history is
/// taken for one of this history.
pub async fn accept_loss(options: PostgresOptions) -> Result<(), OpenError> {
    let new_id = options.new_id;
    let shared = Shared::new(options)?;
    migrate::change_id(&connect(&shared).await?, new_id).await
}

/// A URL as people may see it: without a password.
pub fn public_url(url: &str) -> String {
    Address::parse(url, None).map_or_else(|_| "postgres://…".to_owned(), |it| it.to_string())
}

/// The first connection, to a database that keeps text as it comes.
async fn connect(shared: &Shared) -> Result<Connection, OpenError> {
    let until = instant() + START;
    let mut is_first = true;
    let connection = loop {
        match shared.connect().await {
            Err(error) if instant() < until && error.is_lost() => {
                if is_first {
                    warn!(%error, "the database cannot be reached, trying again");
                }
                is_first = false;
                sleep(Duration::from_millis(START_AGAIN_MILLIS)).await;
            }
            connected => break connected?,
        }
    };
    let encoding = connection.one("SHOW server_encoding").await?;
    match encoding.map(|row| row.try_get::<String>(0)).transpose()? {
        Some(encoding) if encoding != "UTF8" => Err(OpenError::Encoding(encoding)),
        _ => Ok(connection),
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn id(&self) -> StoreId {
        self.id
    }

    fn notifier(&self) -> &Notifier {
        &self.shared.notifier
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.shared.clock) as Arc<dyn Clock>
    }

    fn condition(&self) -> watch::Receiver<Condition> {
        self.shared.condition.subscribe()
    }

    fn concurrent_reads(&self) -> Option<usize> {
        Some(self.shared.options.readers.max(1))
    }

    async fn commit(&self, context: &RequestContext, request: Request) -> Result<Answer, Error> {
        self.lanes.commit(context, request).await
    }

    async fn read_session(&self, query: SessionQuery) -> Result<SessionView, Error> {
        self.reads.read(query, |rows, query: &SessionQuery| query.read(rows).boxed()).await
    }

    async fn read_events(&self, query: EventsQuery) -> Result<EventsView, Error> {
        self.reads.read(query, |rows, query: &EventsQuery| query.read(rows).boxed()).await
    }

    async fn list_sessions(&self, query: SessionsQuery) -> Result<SessionPage, Error> {
        self.reads.read(query, |rows, query: &SessionsQuery| query.read(rows).boxed()).await
    }

    async fn list_applications(
        &self,
        query: ApplicationsQuery,
    ) -> Result<NamePage<AppName>, Error> {
        self.reads.read(query, |rows, query: &ApplicationsQuery| query.read(rows).boxed()).await
    }

    async fn list_users(&self, query: UsersQuery) -> Result<NamePage<UserId>, Error> {
        self.reads.read(query, |rows, query: &UsersQuery| query.read(rows).boxed()).await
    }

    async fn read_state(&self, query: StateQuery) -> Result<StateView, Error> {
        self.reads.read(query, |rows, query: &StateQuery| query.read(rows).boxed()).await
    }

    async fn list_key_changes(&self, query: KeyChangeQuery) -> Result<KeyChangePage, Error> {
        self.reads.read(query, |rows, query: &KeyChangeQuery| query.read(rows).boxed()).await
    }

    async fn read_changes(&self, query: WatchQuery) -> Result<WatchPage, Error> {
        self.reads.read(query, |rows, query: &WatchQuery| query.read(rows).boxed()).await
    }

    async fn close(&self) {
        self.reads.refuse();
        self.lanes.close().await;
        self.shared.outbox.end();
        // Without it others notice the end later.
        let _ = timeout(FAREWELL, self.announcing.wait()).await;
        self.reads.close().await;
    }
}
