//! A server under test: started in process on a port of its own, called over a real socket, stopped and drained in the end.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Parser;
use prost::Message;
use sessiond::{
    config::Config,
    proto::v1::{
        AppendEventRequest, AppendEventResponse, AppendEventsRequest, AppendEventsResponse,
        BatchGetEventsRequest, BatchGetEventsResponse, CreateSessionRequest, CreateSessionResponse,
        DeleteSessionRequest, DeleteSessionResponse, EndInvocationRequest, EndInvocationResponse,
        ForkSessionRequest, ForkSessionResponse, GetSessionRequest, GetSessionResponse,
        GetStateRequest, GetStateResponse, ListEventsRequest, ListEventsResponse,
        ListKeyChangesRequest, ListKeyChangesResponse, ListSessionsRequest, ListSessionsResponse,
        RenderTemplateRequest, RenderTemplateResponse, RewindSessionRequest, RewindSessionResponse,
        UpdateSessionRequest, UpdateSessionResponse, UpdateStateRequest, UpdateStateResponse,
        event_service_client::EventServiceClient, session_service_client::SessionServiceClient,
        state_service_client::StateServiceClient, watch_service_client::WatchServiceClient,
    },
    server,
};
use tempfile::TempDir;
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};
use tonic::{Status, transport::Channel};

use crate::judge;

/// The file of a store on SQLite.
const FILE: &str = "e2e.db";

/// Longer than anything that a test waits for takes on a slow and busy machine. It decides nothing but when to give up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes a test of each function, with a server of its own that is stopped in the end. In front, in brackets, flags for the server.
macro_rules! with_server {
    ($($name:ident)*) => { $crate::harness::with_server! { [] $($name)* } };
    ($flags:tt $($name:ident)*) => { $crate::harness::tests! {
        $($name: $flags async |service| {
            super::$name(&service).await;
            service.stop().await;
        };)*
    } };
}
pub(crate) use with_server;

/// As [`with_server`], for functions that take the server and stop it themselves.
macro_rules! owning_server {
    ($($name:ident)*) => { $crate::harness::tests! { $($name: [] super::$name;)* } };
}
pub(crate) use owning_server;

macro_rules! tests {
    ($($name:ident: $flags:tt $check:expr;)*) => { $(
        mod $name {
            use crate::harness::{Service, run};

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn served() {
                run(Service::on_sqlite(&$flags).await, $check).await;
            }
        }
    )* };
}
pub(crate) use tests;

/// Runs one test on a server.
pub async fn run(service: Service, check: impl AsyncFnOnce(Service)) {
    check(service).await;
}

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    config: Config,
}

/// A running server and a connection to it.
pub struct Service {
    /// Where its store's file is, if it has one; removed with the test.
    directory: TempDir,
    arguments: Vec<String>,
    address: String,
    http_address: Option<String>,
    channel: Channel,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<bool>,
}

impl Service {
    /// A server that forgets everything.
    pub async fn in_memory(flags: &[&str]) -> Self {
        Self::start(TempDir::new().unwrap(), "memory:".into(), flags).await
    }

    /// A server on a new SQLite file.
    pub async fn on_sqlite(flags: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let store = format!("sqlite:{}", directory.path().join(FILE).display());
        Self::start(directory, store, flags).await
    }

    async fn start(directory: TempDir, store: String, flags: &[&str]) -> Self {
        let own = ["serve", "--http-listen", "off", "--listen", "127.0.0.1:0", "--store", &store];
        let arguments = own.iter().chain(flags).map(|&argument| argument.to_owned()).collect();
        Self::run(directory, arguments).await
    }

    async fn run(directory: TempDir, arguments: Vec<String>) -> Self {
        let config = Program::parse_from(&arguments).config;
        let running = server::start(&config).await.unwrap();
        let address = running.address().to_owned();
        let http_address = running.http_address().map(str::to_owned);
        let (stop, stopped) = oneshot::channel();
        let ended = tokio::spawn(running.serve_until(async {
            // A test that panics drops the sender, which ends the server as well.
            let _ = stopped.await;
        }));
        let channel =
            Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
        Self { directory, arguments, address, http_address, channel, stop, ended }
    }

    /// Stops the server and sees that it drained.
    pub async fn stop(self) {
        self.halt().await;
    }

    async fn halt(self) -> (TempDir, Vec<String>) {
        let (directory, arguments, drained) = self.end().await;
        assert!(drained, "the server did not drain");
        (directory, arguments)
    }

    /// Stops the server. Whether it drained.
    async fn end(self) -> (TempDir, Vec<String>, bool) {
        let Self { directory, arguments, channel, stop, ended, .. } = self;
        drop(channel);
        let _ = stop.send(());
        let drained = within("the end of the server", ended).await.unwrap();
        (directory, arguments, drained)
    }

    /// Stops the server, which may do so in the middle of calls. Whether it did not.
    pub async fn stop_whatever_is_left(self) -> bool {
        self.end().await.2
    }

    /// Stops the server and starts another on the same store.
    pub async fn restart(self) -> Self {
        self.restart_after(|_| {}).await
    }

    /// As [`Service::restart`]; in between, something is done to the file of the store.
    pub async fn restart_after(self, change: impl FnOnce(&Path)) -> Self {
        let (directory, arguments) = self.halt().await;
        change(&directory.path().join(FILE));
        Self::run(directory, arguments).await
    }

    /// The file of its store, if that is SQLite.
    pub fn file(&self) -> PathBuf {
        self.directory.path().join(FILE)
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Where it serves HTTP.
    pub fn http_address(&self) -> Option<&str> {
        self.http_address.as_deref()
    }

    /// Another connection.
    pub async fn connect(&self) -> Channel {
        let uri = format!("http://{}", self.address);
        Channel::from_shared(uri).unwrap().connect().await.unwrap()
    }

    /// The connection that all calls of this harness share.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// The generated client, for what streams.
    pub fn events(&self) -> EventServiceClient<Channel> {
        EventServiceClient::new(self.channel())
    }

    /// The generated client, for what streams.
    pub fn watches(&self) -> WatchServiceClient<Channel> {
        WatchServiceClient::new(self.channel())
    }
}

/// A method of the harness for each unary call, which judges what comes back.
macro_rules! calls {
    ($($method:ident: $client:ident, $request:ident -> $response:ident;)*) => {
        impl Service { $(
            pub async fn $method(&self, request: $request) -> Result<$response, Status> {
                let mut client = $client::new(self.channel());
                match within(stringify!($method), client.$method(request)).await {
                    Ok(answer) => {
                        let answer = answer.into_inner();
                        judge::fits(answer.encoded_len());
                        Ok(answer)
                    }
                    Err(status) => {
                        judge::well_formed(&status);
                        Err(status)
                    }
                }
            }
        )* }
    };
}

calls! {
    create_session: SessionServiceClient, CreateSessionRequest -> CreateSessionResponse;
    get_session: SessionServiceClient, GetSessionRequest -> GetSessionResponse;
    list_sessions: SessionServiceClient, ListSessionsRequest -> ListSessionsResponse;
    update_session: SessionServiceClient, UpdateSessionRequest -> UpdateSessionResponse;
    delete_session: SessionServiceClient, DeleteSessionRequest -> DeleteSessionResponse;
    fork_session: SessionServiceClient, ForkSessionRequest -> ForkSessionResponse;
    rewind_session: SessionServiceClient, RewindSessionRequest -> RewindSessionResponse;
    append_event: EventServiceClient, AppendEventRequest -> AppendEventResponse;
    append_events: EventServiceClient, AppendEventsRequest -> AppendEventsResponse;
    batch_get_events: EventServiceClient, BatchGetEventsRequest -> BatchGetEventsResponse;
    list_events: EventServiceClient, ListEventsRequest -> ListEventsResponse;
    get_state: StateServiceClient, GetStateRequest -> GetStateResponse;
    update_state: StateServiceClient, UpdateStateRequest -> UpdateStateResponse;
    list_key_changes: StateServiceClient, ListKeyChangesRequest -> ListKeyChangesResponse;
    render_template: StateServiceClient, RenderTemplateRequest -> RenderTemplateResponse;
    end_invocation: StateServiceClient, EndInvocationRequest -> EndInvocationResponse;
}

/// What a future gives, or a failed test where it gives nothing for too long.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// Polls until there is an answer: for background work that sends no notification.
pub async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let polling = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            // Bounded poll: `within` ends it.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within(what, polling).await
}
