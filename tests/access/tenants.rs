//! Thousands of random calls of one tenant, with the ids, page tokens and cursors of another: nothing that the other has written comes
//! back. The other makes the same calls, and gets it.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use fastrand::Rng;
use prost_reflect::{DynamicMessage, Value};
use serde_json::{Value as Json, json};
use sessiond::domain::permission::Right;
use tokio::task::JoinHandle;

use crate::{
    calls::{Client, method, methods, request},
    cases::{Address, at},
    generate::{Generator, Pool},
    harness::Ended,
    markers::{Marker, strings},
    setting::{Setting, caller, on_each_store, rule},
};

/// About a hundred of each RPC.
const CALLS: usize = 2500;

/// The RPCs whose answers do not have what a tenant has written.
const SILENT: [&str; 5] =
    ["DeleteSession", "EndInvocation", "ListApplications", "ListUsers", "AppendEventStream"];

/// The sessions of the tenant that calls, and of the other one.
pub const OWN_IDS: [&str; 4] = ["a0", "a1", "a2", "same"];
pub const FOREIGN_IDS: [&str; 4] = ["b0", "b1", "b2", "same"];

/// Two tenants of one server.
pub struct Tenants {
    /// An application, and a user of it.
    pub a: (&'static str, &'static str),
    pub b: (&'static str, &'static str),
    /// The users that the rules of each give.
    users: [&'static str; 2],
}

/// Each has an application.
pub const APPLICATIONS: Tenants =
    Tenants { a: ("alpha", "ann"), b: ("beta", "bob"), users: ["\"*\"", "\"*\""] };

/// They are users of one application, and share its keys.
pub const USERS: Tenants =
    Tenants { a: ("common", "ann"), b: ("common", "bob"), users: ["[\"ann\"]", "[\"bob\"]"] };

on_each_store! { applications_do_not_interfere users_do_not_interfere }

async fn applications_do_not_interfere(setting: Setting) {
    APPLICATIONS.do_not_interfere(&setting).await;
}

async fn users_do_not_interfere(setting: Setting) {
    USERS.do_not_interfere(&setting).await;
}

/// Of the environment, to repeat a run that has shown it.
pub fn seed() -> u64 {
    let named = env::var("SESSIOND_TEST_SEED").ok().and_then(|text| text.parse().ok());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = named.unwrap_or_else(|| u64::from(now.subsec_nanos()));
    say(&format!("SESSIOND_TEST_SEED={seed}"));
    seed
}

#[expect(clippy::disallowed_macros, reason = "the test runner shows it if the test fails")]
fn say(text: &str) {
    println!("{text}");
}

impl Tenants {
    pub fn policy(&self) -> String {
        [
            rule("token:root", "*", "\"*\"", &Right::ALL),
            rule("token:a", self.a.0, self.users[0], &Right::ALL),
            rule("token:b", self.b.0, self.users[1], &Right::ALL),
        ]
        .concat()
    }

    async fn do_not_interfere(&self, setting: &Setting) {
        let seed = seed();
        let mut rng = Rng::with_seed(seed);
        let marker = Marker(format!("qz{:016x}zq", rng.u64(..)));
        setting.set_policy(&self.policy());
        setting.set_tokens(&["root", "a", "b"]);
        let socket = setting.path("admin.sock");
        let listen = format!("unix:{}", socket.display());
        let flags =
            ["--log-calls", "--log", "debug,h2=debug,hyper=debug", "--admin-listen", &listen];
        let server = setting.start_with_tokens(&flags);
        let [root, a, b] =
            [caller(&server, "root").await, caller(&server, "a").await, caller(&server, "b").await];
        // Names that no other tenant was given.
        for (app, user) in [(&*marker.0, "u"), (self.b.0, &*marker.0)] {
            fill(&root, &at(app, user, &marker.0), &marker.0).await;
        }
        for (client, (app, user), text, ids) in
            [(&a, self.a, "plain", OWN_IDS), (&b, self.b, &*marker.0, FOREIGN_IDS)]
        {
            for id in ids {
                fill(client, &at(app, user, id), text).await;
            }
        }
        let own = collect(&a, self.a, &OWN_IDS).await;
        let mut foreign = collect(&b, self.b, &FOREIGN_IDS).await;
        fill(&b, &at(self.b.0, self.b.1, &format!("s-{}", marker.0)), &marker.0).await;
        for texts in foreign.texts.values_mut() {
            texts.retain(|text| !marker.is_in(text));
        }
        for field in ["page_token", "cursor", "event_id", "invocation_id"] {
            assert!(!foreign.texts[field].is_empty(), "nothing to send as {field}");
        }
        let watched = at(self.a.0, self.a.1, "watched");
        fill(&a, &watched, "plain").await;
        let watches = watch(&a, &watched, &marker);

        let mut counts = Counts::default();
        let mut generator = Generator::new(rng, &own, &foreign);
        for _ in 0..CALLS {
            let (method, request) = generator.next();
            let answer = a.call(&method, &request).await;
            let context = || format!("{}: {request:?}", method.name());
            assert!(!marker.is_in_answer(&answer), "{} got {:?}", context(), answer.messages);
            counts.of_a(method.name(), answer.code());
            if answer.refusal.is_none() {
                fill_again(&a, method.name(), &request, "plain").await;
            }
            let answer = b.call(&method, &request).await;
            if answer.refusal.is_none() {
                counts.of_b(method.name(), marker.is_in_answer(&answer));
                fill_again(&b, method.name(), &request, &marker.0).await;
            }
        }
        counts.judge();

        let end = json!({"scope": {"app_name": self.a.0}, "delta": {"set_json": "{\"app:end\":1}"}, "author": "a"});
        assert_eq!(a.ask("UpdateState", &end).await.refusal, None);
        for watch in watches {
            let seen = watch.await.unwrap();
            assert!(seen > 1, "the watch has seen changes");
        }
        for path in ["/livez", "/readyz", "/version", "/metrics"] {
            let answer = http_get(&socket, path);
            assert!(answer.starts_with("HTTP/1.1 ") && !marker.is_in(&answer), "{path}: {answer}");
        }
        let Ended { log, .. } = server.stop();
        assert!(log.contains("sessiond::calls") && log.contains("DEBUG"), "{log}");
        let line = log.lines().find(|line| marker.is_in(line));
        assert_eq!(line, None, "the log has content");
    }
}

#[derive(Default)]
struct Counts {
    /// Calls by code, and RPCs that succeeded.
    codes: BTreeMap<String, usize>,
    own: BTreeSet<String>,
    /// Of the other tenant: the RPCs that succeeded, and those that answered with its marker.
    others: BTreeSet<String>,
    marked: BTreeMap<String, usize>,
}

impl Counts {
    fn of_a(&mut self, method: &str, code: &str) {
        *self.codes.entry(code.to_owned()).or_default() += 1;
        if code == "OK" {
            self.own.insert(method.to_owned());
        }
    }

    fn of_b(&mut self, method: &str, is_marked: bool) {
        self.others.insert(method.to_owned());
        if is_marked {
            *self.marked.entry(method.to_owned()).or_default() += 1;
        }
    }

    /// Whether the calls were worth something: each RPC succeeded for both tenants on their own, and each that answers with content
    /// did so for the one that had written it.
    fn judge(&self) {
        let all: BTreeSet<_> = methods().iter().map(|it| it.name().to_owned()).collect();
        assert_eq!(self.own, all, "{:?}", self.codes);
        assert_eq!(self.others, all);
        for method in all.iter().filter(|method| !SILENT.contains(&method.as_str())) {
            assert!(self.marked.contains_key(method), "{method}: {:?}", self.marked);
        }
        let denied = self.codes["PERMISSION_DENIED"];
        let marked: usize = self.marked.values().sum();
        say(&format!("{:?}, {marked} answers with markers", self.codes));
        assert!(denied > CALLS / 4 && marked > CALLS / 8, "{:?} {marked}", self.codes);
    }
}

/// A session full of a text: in its state, labels, name, events, and `temp:` keys.
pub async fn fill(client: &Client, at: &Address, text: &str) {
    fill_own(client, at, text).await;
    let shared = json!({"author": text, "state_delta": {"set_json": "{\"app:shared\":1}"}});
    let request = json!({"key": at.key(), "event": shared});
    assert_eq!(client.ask("AppendEvent", &request).await.refusal, None, "{at:?}");
}

/// The same without a change of the application's keys.
pub async fn fill_own(client: &Client, at: &Address, text: &str) {
    let mut create = at.key();
    create["state_json"] = json!({"k0": text, "user:k0": text}).to_string().into();
    create["session"] = json!({"display_name": text, "labels": {"l": text, text: "v"}});
    create["allow_existing"] = json!(true);
    let event = |set: Json| {
        json!({
            "author": text, "branch": text, "invocation_id": "turn",
            "body_json": json!({"text": text}).to_string(), "state_delta": {"set_json": set.to_string()},
        })
    };
    let events = json!([
        event(json!({"k1": text, "user:k1": text})),
        event(json!({"k1": [text], "temp:t": text})),
    ]);
    for (method, request) in
        [("CreateSession", create), ("AppendEvents", json!({"key": at.key(), "events": events}))]
    {
        assert_eq!(client.ask(method, &request).await.refusal, None, "{method} {at:?}");
    }
}

/// Fills a session after a call that has taken content away.
async fn fill_again(client: &Client, method: &str, request: &DynamicMessage, text: &str) {
    let is_less = ["DeleteSession", "RewindSession", "EndInvocation", "UpdateSession"];
    let key = request.get_field_by_name("key");
    let (true, Some(Value::Message(key))) = (is_less.contains(&method), key.as_deref()) else {
        return;
    };
    let part = |name| match key.get_field_by_name(name).as_deref() {
        Some(Value::String(text)) => text.clone(),
        _ => String::new(),
    };
    let session = at(&part("app_name"), &part("user_id"), &part("session_id"));
    fill(client, &session, text).await;
}

/// The addresses of a tenant that has these sessions, and what answers about them name.
pub async fn collect(client: &Client, (app, user): (&str, &str), ids: &[&str]) -> Pool {
    let mut pool = Pool::default();
    pool.addresses.extend(ids.iter().map(|id| at(app, user, id)));
    let scopes = [
        json!({"app_name": app}),
        json!({"app_name": app, "user_id": user}),
        json!({"app_name": app, "user_id": user, "session_id": ids[0]}),
    ];
    let key = &scopes[2];
    let mut asked = vec![
        ("GetSession", json!({"key": key, "events": {}})),
        ("ListEvents", json!({"key": key, "page_size": 1})),
        ("ListEvents", json!({"key": key, "page_size": 2, "descending": true})),
        ("BatchGetEvents", json!({"key": key, "refs": [{"sequence": 1}, {"event_id": "none"}]})),
        ("ListSessions", json!({"app_name": app, "page_size": 2})),
        ("ListSessions", json!({"app_name": app, "user_id": user, "page_size": 1})),
        ("ListKeyChanges", json!({"scope": key, "key": "k1", "page_size": 1})),
        ("ListKeyChanges", json!({"scope": key, "key": "app:shared", "page_size": 1})),
        ("ListUsers", json!({"app_name": app, "page_size": 1})),
    ];
    asked.extend(scopes.iter().map(|scope| ("Watch", json!({ "scope": scope }))));
    for (method, request) in asked {
        let answer = client.ask(method, &request).await;
        assert_eq!(answer.refusal, None, "{method}");
        for message in &answer.messages {
            strings(message, &mut |field, text| {
                let field = if field == "next_page_token" { "page_token" } else { field };
                let is_sent =
                    ["page_token", "cursor", "event_id", "invocation_id", "session_id", "user_id"];
                if is_sent.contains(&field) {
                    pool.add(field, text);
                }
            });
        }
    }
    pool
}

/// Watches of a session, its user and its application, until the key `app:end` is there. Each returns the number of its messages.
fn watch(client: &Client, session: &Address, marker: &Marker) -> Vec<JoinHandle<usize>> {
    let Address { app, user, .. } = session;
    let scopes =
        [json!({"app_name": app}), json!({"app_name": app, "user_id": user}), session.key()];
    let watches = scopes.map(|scope| {
        let (client, marker) = (client.clone(), marker.clone());
        tokio::spawn(async move {
            let method = method("Watch");
            let request = request(&method, &json!({ "scope": scope }));
            let mut seen = 0;
            let (_, ended) = client
                .follow(&method, &request, |message| {
                    assert!(!marker.is_in_message(&message), "{message:?}");
                    let mut is_end = false;
                    strings(&message, &mut |_, text| is_end |= text.contains("app:end"));
                    seen += 1;
                    is_end
                })
                .await;
            assert!(ended.is_none(), "{ended:?}");
            seen
        })
    });
    watches.into()
}

fn http_get(socket: &Path, path: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
