//! A `sessiond serve` of its own for a test: on a free port, in a folder that goes with it, killed when the test ends.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{LazyLock, mpsc},
    thread,
    time::Duration,
};

use sessiond::proto::v1::{
    AppendEventRequest, AppendEventResponse, CreateSessionRequest, Event, GetSessionRequest,
    GetSessionResponse, Increment, JsonForm, ListSessionsRequest, Session, SessionKey, StateDelta,
    StateOperation, create_session_request::StateForm, event::BodyForm,
    event_service_client::EventServiceClient, increment::Amount,
    session::StateForm as SessionState, session_service_client::SessionServiceClient,
    state_delta::SetForm, state_operation::Operation,
};
use tonic::{
    Code, Request, Status,
    transport::{self, Certificate, Channel, ClientTlsConfig, Identity},
};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

/// The status of a service in the health service, by its current value or as soon as it is `wanted`.
pub async fn wait_for_health(channel: &Channel, service: &str, wanted: ServingStatus) {
    let request = HealthCheckRequest { service: service.into() };
    let stream = HealthClient::new(channel.clone()).watch(request).await.unwrap();
    let mut stream = stream.into_inner();
    let waiting = async {
        while stream.message().await.unwrap().expect("health goes on").status() != wanted {}
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| {
        panic!("`{service}` did not become {wanted:?}");
    });
}

/// The reason of a refusal.
pub fn reason(status: &Status) -> String {
    use tonic_types::StatusExt as _;
    status.get_details_error_info().map(|info| info.reason).unwrap_or_default()
}

/// A request, with a bearer token if one is given.
pub fn with_token<T>(token: Option<&str>, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(token) = token {
        let value = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", value);
    }
    request
}

/// Longer than anything here takes on a slow and busy machine. It decides nothing but when to give up.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The program under test, which cargo has built for it.
pub fn program() -> &'static str {
    static PROGRAM: LazyLock<String> = LazyLock::new(|| {
        let program = env::var("CARGO_BIN_EXE_sessiond");
        program.expect("run by `cargo test`, or set CARGO_BIN_EXE_sessiond")
    });
    &PROGRAM
}

/// A process that ends with its test, also if that fails.
pub struct Guarded(pub Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running server.
pub struct Server {
    child: Guarded,
    address: String,
    log: thread::JoinHandle<String>,
}

/// How a server ended.
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard error.
    pub log: String,
}

impl Server {
    /// Starts a server on a SQLite file in `folder`.
    pub fn start(folder: &Path) -> Self {
        Self::start_with(folder, &[])
    }

    /// The same, with more arguments.
    pub fn start_with(folder: &Path, arguments: &[&str]) -> Self {
        Self::run(serve(folder).args(arguments)).unwrap_or_else(|ended| panic!("{}", ended.log))
    }

    /// Starts a server on a store, with more arguments.
    pub fn start_on(store: &str, arguments: &[&str]) -> Self {
        Self::run(serve_on(store).args(arguments)).unwrap_or_else(|ended| panic!("{}", ended.log))
    }

    /// Runs a command that should become a server. How it ended, where it did not.
    pub fn run(command: &mut Command) -> Result<Self, Ended> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = mpsc::channel();
        let ready = sender.clone();
        let log = thread::spawn(move || {
            let mut text = String::new();
            // Whatever came until the pipe broke is what there is to tell.
            for line in stderr.lines().map_while(Result::ok) {
                // A log of JSON has the address, and standard output does not.
                let record = serde_json::from_str::<serde_json::Value>(&line);
                if let Ok(record) = record
                    && record["message"] == "ready"
                {
                    // The test may have what it waits for.
                    let _ = ready.send(record["listen"].as_str().unwrap().to_owned());
                }
                text += &line;
                text.push('\n');
            }
            text
        });
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let place = line.strip_prefix("sessiond listens on ").expect("where it listens");
                let address = place.split(' ').next().unwrap().to_owned();
                if sender.send(address).is_err() {
                    return;
                }
            }
        });
        let first = lines.recv_timeout(PATIENCE);
        let server = |address: &str| {
            let (child, address) = (Guarded(child), address.to_owned());
            Self { child, address, log }
        };
        match first {
            Ok(address) => Ok(server(&address)),
            // Both were closed: it has ended.
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(server("").wait()),
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("the server said nothing"),
        }
    }

    /// The address on which it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Kills it as a power cut would.
    pub fn kill(mut self) {
        self.child.0.kill().unwrap();
        self.wait();
    }

    /// Asks it to stop, and waits.
    pub fn stop(self) -> Ended {
        self.signal("TERM");
        self.wait()
    }

    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        signal(&self.child.0, name);
    }

    /// Waits for its end.
    pub fn wait(self) -> Ended {
        let Self { mut child, address: _, log } = self;
        // Standard error closes with the process, so this waits as long as that lives.
        let log = log.join().unwrap();
        Ended { status: child.0.wait().unwrap(), log }
    }

    /// A connection to it.
    pub async fn channel(&self) -> Channel {
        Channel::from_shared(format!("http://{}", self.address)).unwrap().connect().await.unwrap()
    }

    /// A connection of its own with a client certificate and its key, as PEM. `authority` is the file of the server's authority. The
    /// certificate is known to be accepted once a call on the connection was answered.
    pub async fn channel_as(
        &self,
        authority: &Path,
        (certificate, key): &(String, String),
    ) -> Result<Channel, transport::Error> {
        let config = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(fs::read_to_string(authority).unwrap()))
            .identity(Identity::from_pem(certificate, key));
        let endpoint = Channel::from_shared(self.address.clone()).unwrap().tls_config(config)?;
        endpoint.connect().await
    }
}

/// Sends a signal to a process.
pub fn signal(process: &Child, name: &str) {
    let id = process.id().to_string();
    let status = Command::new("kill").args(["-s", name, &id]).status().unwrap();
    assert!(status.success());
}

/// Replaces a file whole: a server that reads it again meanwhile sees the old one or the new one.
pub fn replace(file: &Path, text: &str) {
    let new = file.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(&new, file).unwrap();
}

/// The command for a server on a SQLite file in `folder`.
pub fn serve(folder: &Path) -> Command {
    serve_on(&file_in(folder))
}

/// The URL of a SQLite file in `folder`.
pub fn file_in(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("test.db").display())
}

/// The command for a server on a store.
pub fn serve_on(store: &str) -> Command {
    let mut command = Command::new(program());
    command
        .args(["serve", "--http-listen", "off", "--listen", "127.0.0.1:0", "--store", store])
        .env_remove("SESSIOND_SERVER");
    command
}

/// Address of a session of the user `alice` in the application `app`.
pub fn key(session: &str) -> SessionKey {
    SessionKey { app_name: "app".into(), user_id: "alice".into(), session_id: session.into() }
}

/// Creates a session; one that is there is fine.
pub async fn create(channel: &Channel, session: &str, state: &str) {
    let SessionKey { app_name, user_id, session_id } = key(session);
    let request = CreateSessionRequest {
        app_name,
        user_id,
        session_id,
        state_form: Some(StateForm::StateJson(state.into())),
        allow_existing: true,
        json_form: JsonForm::Text.into(),
        ..CreateSessionRequest::default()
    };
    SessionServiceClient::new(channel.clone()).create_session(request).await.unwrap();
}

/// An event that sets own keys to `set` (a JSON object) and adds one to `app:total`.
pub fn event(id: &str, set: &str, body: &str) -> Event {
    let total = StateOperation {
        key: "app:total".into(),
        operation: Some(Operation::Increment(Increment { amount: Some(Amount::By(1)) })),
    };
    Event {
        event_id: id.into(),
        author: "writer".into(),
        state_delta: Some(StateDelta {
            set_form: Some(SetForm::SetJson(set.into())),
            operations: vec![total],
            ..StateDelta::default()
        }),
        body_form: Some(BodyForm::BodyJson(body.into())),
        ..Event::default()
    }
}

/// Appends an event.
pub async fn append(
    channel: &Channel,
    session: &str,
    event: Event,
) -> Result<AppendEventResponse, Status> {
    let request = AppendEventRequest {
        key: Some(key(session)),
        event: Some(event),
        json_form: JsonForm::Text.into(),
        ..AppendEventRequest::default()
    };
    Ok(EventServiceClient::new(channel.clone()).append_event(request).await?.into_inner())
}

/// Reads a session, its state and all of its events, which have to fit into one answer.
pub async fn read(channel: &Channel, session: &str) -> GetSessionResponse {
    let request = GetSessionRequest {
        key: Some(key(session)),
        events: Some(Default::default()),
        json_form: JsonForm::Text.into(),
        ..GetSessionRequest::default()
    };
    let mut client = SessionServiceClient::new(channel.clone());
    let answer = client.get_session(request).await.unwrap().into_inner();
    assert_eq!(answer.next_page_token, "", "more events than one answer holds");
    answer
}

/// The number of events of a session, however many they are.
pub async fn last_sequence(channel: &Channel, session: &str) -> i64 {
    let request = GetSessionRequest { key: Some(key(session)), ..GetSessionRequest::default() };
    let mut client = SessionServiceClient::new(channel.clone());
    client.get_session(request).await.unwrap().into_inner().session.unwrap().last_sequence
}

/// The ids of all sessions, the least recently used first.
pub async fn list(channel: &Channel) -> Vec<String> {
    let request = ListSessionsRequest { app_name: "app".into(), ..ListSessionsRequest::default() };
    let mut client = SessionServiceClient::new(channel.clone());
    let answer = client.list_sessions(request).await.unwrap().into_inner();
    assert_eq!(answer.next_page_token, "", "more sessions than one answer holds");
    let keys = answer.sessions.into_iter().map(|session| session.key.unwrap().session_id);
    keys.collect()
}

/// A session's state.
pub fn state(session: Option<Session>) -> serde_json::Value {
    match session.unwrap().state_form.unwrap() {
        SessionState::StateJson(text) => serde_json::from_str(&text).unwrap(),
        SessionState::State(_) => panic!("text was asked for"),
    }
}

/// Whether a call failed because its server was gone, and not by a word of the server.
pub fn is_broken(status: &Status) -> bool {
    use tonic_types::StatusExt as _;
    status.get_error_details().error_info().is_none()
        && matches!(
            status.code(),
            Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Internal
        )
}
