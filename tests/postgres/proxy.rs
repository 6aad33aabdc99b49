//! A proxy between a store and PostgreSQL that makes a test's faults: at a statement of the test's choice it cuts the connection,
//! fails the statement as the server would, loses the answer, or waits. It can also hide settings of the server.
//!
//! It reads the client's messages, because a fault is about one statement. Answers pass as they are, but for those of failed statements.

use std::{
    collections::HashMap,
    io,
    net::Ipv4Addr,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader, BufWriter},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{AbortHandle, JoinSet},
    time::timeout,
};

use crate::messages::{read_message, start_up, strings, write_message};

/// A statement that a client executes, by either protocol.
#[derive(Clone, Debug)]
pub struct Execution {
    /// Counted over all connections since the plan was made, from 1.
    pub number: u64,
    /// Counted from 1 as well.
    pub connection: u64,
    pub sql: String,
}

impl Execution {
    /// Whether it ends a transaction, perhaps behind other statements.
    pub fn is_commit(&self) -> bool {
        ends_with_commit(&self.sql)
    }
}

fn ends_with_commit(sql: &str) -> bool {
    sql.rsplit(';').next().is_some_and(|last| last.trim().eq_ignore_ascii_case("COMMIT"))
}

/// What happens to a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not sent, and the connection ends.
    CutBefore,
    /// The client's connection ends as soon as the statement is sent. The server executes it.
    CutAfter,
    /// The client's connection ends when the server has executed it and has answered.
    LoseAnswer,
    /// It fails with this SQLSTATE, and so does its transaction.
    Fail(&'static str),
    /// It is sent later.
    Delay(Duration),
}

type Plan = Box<dyn FnMut(&Execution) -> Option<Fault> + Send>;

/// The portal that a statement's execution is replaced with, before its SQLSTATE. The server knows no such portal and says so, which fails
/// the transaction. Then its answer gets the SQLSTATE.
const NO_PORTAL: &str = "fault_";

/// A proxy, as long as this value lives.
pub struct Proxy {
    /// As the server's, but with the proxy's address.
    pub url: String,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

struct Shared {
    server: String,
    plan: Mutex<Plan>,
    /// Settings that the server seems not to have.
    hidden: Mutex<Vec<&'static str>>,
    executions: Mutex<Vec<Execution>>,
    faults: AtomicU64,
    connections: AtomicU64,
    /// Changes when all connections are to end. `true`: no new ones either.
    down: watch::Sender<bool>,
    /// The same for connections that stay open, and pass nothing on any more.
    silent: watch::Sender<bool>,
}

impl Proxy {
    /// Starts one in front of the server of a URL.
    pub async fn start(url: &str) -> Self {
        let address = url.split_once('@').and_then(|(_, rest)| rest.split_once(['/', '?']));
        let server = address.expect("the URL has a user and a database").0.to_owned();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let own = listener.local_addr().unwrap().to_string();
        let url = url.replacen(&server, &own, 1);
        let shared = Arc::new(Shared {
            server,
            plan: Mutex::new(Box::new(|_| None)),
            hidden: Mutex::default(),
            executions: Mutex::default(),
            faults: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            down: watch::Sender::new(false),
            silent: watch::Sender::new(false),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared))).abort_handle();
        Self { url, shared, accepting }
    }

    /// Decides about the statements from now on, which are counted anew.
    pub fn plan(&self, plan: impl FnMut(&Execution) -> Option<Fault> + Send + 'static) {
        let mut current = self.shared.plan.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.executions.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.shared.faults.store(0, Relaxed);
        *current = Box::new(plan);
    }

    /// Plans one fault: for the first statement that this is true of.
    pub fn once(&self, fault: Fault, is_it: impl Fn(&Execution) -> bool + Send + 'static) {
        let mut left = Some(fault);
        self.plan(move |execution| if is_it(execution) { left.take() } else { None });
    }

    /// Hides settings of the server, as an engine that does not have them: their names get another last letter on their way.
    pub fn hide(&self, settings: &[&'static str]) {
        *self.shared.hidden.lock().unwrap_or_else(PoisonError::into_inner) = settings.to_vec();
    }

    /// The statements since the plan was made.
    pub fn executions(&self) -> Vec<Execution> {
        self.shared.executions.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The faults that the plan has made.
    pub fn faults(&self) -> u64 {
        self.shared.faults.load(Relaxed)
    }

    /// Ends all connections.
    pub fn cut(&self) {
        self.shared.down.send_modify(|_| ());
    }

    /// Ends all connections, and refuses new ones until told otherwise.
    pub fn set_down(&self, is_down: bool) {
        self.shared.down.send_replace(is_down);
    }

    /// Silences all connections for ever, and new ones until told otherwise.
    pub fn set_silent(&self, is_silent: bool) {
        self.shared.silent.send_replace(is_silent);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let mut down = shared.down.subscribe();
        if *down.borrow_and_update() {
            continue;
        }
        let shared = Arc::clone(&shared);
        let mut silent = shared.silent.subscribe();
        connections.spawn(async move {
            let mut forwarding = pin!(forward(client, &shared));
            let is_silent = *silent.borrow_and_update();
            let silenced = async { if is_silent { Ok(()) } else { silent.changed().await } };
            // Either side ends a connection with an error, and the other side gets to see its end.
            tokio::select! {
                biased;
                _ = down.changed() => {}
                _ = silenced => drop(down.changed().await),
                _ = &mut forwarding => {}
            }
        });
    }
}

/// How many answers a connection has been asked for.
#[derive(Default)]
struct Progress {
    asked: AtomicU64,
    /// The answer that is lost; 0: none.
    lost: AtomicU64,
}

async fn forward(mut client: TcpStream, shared: &Shared) -> io::Result<()> {
    let mut server = TcpStream::connect(&shared.server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    start_up(&mut client, &mut server).await?;
    let (client_read, client_write) = client.into_split();
    let (mut server_read, server_write) = server.into_split();
    // The start is answered as well.
    let progress = Progress { asked: AtomicU64::new(1), ..Progress::default() };
    let mut requests = Requests {
        from: BufReader::new(client_read),
        to: BufWriter::new(server_write),
        progress: &progress,
        shared,
        connection: shared.connections.fetch_add(1, Relaxed) + 1,
        statements: HashMap::new(),
        portals: HashMap::new(),
    };
    tokio::select! {
        ended = requests.forward() => ended?,
        ended = answer(&mut server_read, client_write, &progress) => return ended,
    }
    // The client has been cut off. The server executes what it got, and then the end of the session.
    let Requests { from, mut to, .. } = requests;
    drop(from);
    to.write_all(b"X\0\0\0\x04").await?;
    to.flush().await?;
    tokio::io::copy(&mut server_read, &mut tokio::io::sink()).await?;
    Ok(())
}

/// From the client to the server.
struct Requests<'s, R, W> {
    from: BufReader<R>,
    to: BufWriter<W>,
    progress: &'s Progress,
    shared: &'s Shared,
    connection: u64,
    /// SQL by the name of a statement.
    statements: HashMap<String, String>,
    /// SQL by the name of a portal.
    portals: HashMap<String, String>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Requests<'_, R, W> {
    /// Returns if the client is to be cut off after what was sent. An error ends both sides.
    async fn forward(&mut self) -> io::Result<()> {
        let mut is_last = false;
        loop {
            let (kind, mut body) = read_message(&mut self.from).await?;
            let sql = self.executed_sql(kind, &body);
            match sql.and_then(|sql| self.shared.decide(self.connection, sql)) {
                Some(Fault::CutBefore) => {
                    self.to.flush().await?;
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                Some(Fault::CutAfter) => is_last = true,
                Some(Fault::LoseAnswer) => {
                    self.progress.lost.store(self.progress.asked.load(Relaxed) + 1, Relaxed);
                }
                Some(Fault::Fail(sqlstate)) => body = failing(kind, &body, sqlstate),
                Some(Fault::Delay(delay)) => {
                    self.to.flush().await?;
                    let _ = timeout(delay, std::future::pending::<()>()).await;
                }
                None => {}
            }
            if kind == b'Q' {
                self.shared.hide(&mut body);
            }
            write_message(&mut self.to, kind, &body).await?;
            if matches!(kind, b'Q' | b'S') {
                self.progress.asked.fetch_add(1, Relaxed);
                if is_last {
                    return Ok(());
                }
            }
            if self.from.buffer().is_empty() {
                self.to.flush().await?;
            }
        }
    }
}

impl<R, W> Requests<'_, R, W> {
    /// The SQL that a message executes.
    fn executed_sql(&mut self, kind: u8, body: &[u8]) -> Option<String> {
        let mut strings = strings(body);
        let mut next = || strings.next().unwrap_or_default();
        match kind {
            b'P' => {
                self.statements.insert(next(), next());
                None
            }
            b'B' => {
                let (portal, statement) = (next(), next());
                let sql = self.statements.get(&statement).cloned().unwrap_or_default();
                self.portals.insert(portal, sql);
                None
            }
            b'E' => Some(self.portals.get(&next()).cloned().unwrap_or_default()),
            b'Q' => Some(next()),
            _ => None,
        }
    }
}

impl Shared {
    fn decide(&self, connection: u64, sql: String) -> Option<Fault> {
        let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        let mut executions = self.executions.lock().unwrap_or_else(PoisonError::into_inner);
        let number = executions.len() as u64 + 1;
        let execution = Execution { number, connection, sql };
        let fault = plan(&execution);
        executions.push(execution);
        self.faults.fetch_add(fault.is_some().into(), Relaxed);
        fault
    }

    /// Changes the names of hidden settings in a query.
    fn hide(&self, query: &mut [u8]) {
        for name in &*self.hidden.lock().unwrap_or_else(PoisonError::into_inner) {
            let found =
                |query: &[u8]| query.windows(name.len()).position(|part| part == name.as_bytes());
            while let Some(at) = found(query) {
                query[at + name.len() - 1] = b'_';
            }
        }
    }
}

/// The message that fails in the place of this one.
fn failing(kind: u8, body: &[u8], sqlstate: &str) -> Vec<u8> {
    if kind == b'E' {
        return format!("{NO_PORTAL}{sqlstate}\0\0\0\0\0").into_bytes();
    }
    // A transaction that fails to commit has ended.
    let sql = strings(body).next().unwrap_or_default();
    let first = if ends_with_commit(&sql) { "ROLLBACK; " } else { "" };
    format!("{first}DO 'BEGIN RAISE EXCEPTION USING ERRCODE = ''{sqlstate}''; END'\0").into_bytes()
}

/// From the server to the client. Returns when an answer is lost.
async fn answer(
    from: &mut (impl AsyncRead + Unpin),
    to: impl AsyncWrite + Unpin,
    progress: &Progress,
) -> io::Result<()> {
    let (mut from, mut to) = (BufReader::new(from), BufWriter::new(to));
    let mut answered = 0;
    loop {
        let (kind, mut body) = read_message(&mut from).await?;
        if kind == b'E' {
            body = with_sqlstate(body);
        }
        let is_lost = progress.lost.load(Relaxed) == answered + 1;
        if !is_lost {
            write_message(&mut to, kind, &body).await?;
        }
        if kind == b'Z' {
            answered += 1;
            if is_lost {
                return Ok(());
            }
        }
        if from.buffer().is_empty() {
            to.flush().await?;
        }
    }
}

/// The server's error, with the SQLSTATE of the plan if it is about [`NO_PORTAL`].
fn with_sqlstate(error: Vec<u8>) -> Vec<u8> {
    let message = strings(&error).find(|field| field.starts_with('M')).unwrap_or_default();
    let portal = message.strip_prefix(&format!("Mportal \"{NO_PORTAL}"));
    let Some(sqlstate) = portal.and_then(|rest| rest.get(..5)) else { return error };
    format!("SERROR\0VERROR\0C{sqlstate}\0Ma fault of the test's plan\0\0").into_bytes()
}
