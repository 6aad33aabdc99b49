//! Every RPC with every set of rights: a caller that lacks one is refused, and learns nothing of the store.

use std::{collections::BTreeMap, iter};

use prost::Message as _;
use serde_json::json;
use sessiond::domain::permission::{
    Right::{self, Read, Write},
    Rights,
};

use crate::{
    calls::{Client, Refusal, method, request},
    cases::{Address, CASES, Case, Names, at},
    over_http::OverHttp,
    setting::{Setting, caller, on_each_store, rule},
};

/// A caller, and what it may do.
struct Caller {
    name: String,
    /// With what follows from it.
    rights: Rights,
    app: &'static str,
    user: &'static str,
}

/// One for each set of rights on the address of the calls, and two with all rights on others.
fn callers() -> Vec<Caller> {
    let sets = (0..16).map(|bits| Caller {
        name: format!("set-{bits}"),
        rights: Right::ALL.into_iter().filter(|right| bits & (1 << *right as u8) != 0).collect(),
        app: "shop",
        user: "alice",
    });
    let all: Rights = Right::ALL.into_iter().collect();
    let others = [("elsewhere", "mail", "alice"), ("neighbour", "shop", "bob")];
    let others =
        others.map(|(name, app, user)| Caller { name: name.into(), rights: all, app, user });
    sets.chain(others).collect()
}

impl Caller {
    fn rule(&self) -> String {
        let users = format!("[\"{}\"]", self.user);
        let rights: Vec<_> =
            Right::ALL.into_iter().filter(|right| self.rights.has(*right)).collect();
        rule(&format!("token:{}", self.name), self.app, &users, &rights)
    }

    /// Whether it has a right on what a request names.
    fn has(&self, right: Right, names: Names) -> bool {
        let covers = match names {
            Names::User | Names::BareId => self.app == "shop" && self.user == "alice",
            Names::Application => self.app == "shop",
            Names::Nothing => true,
        };
        covers && self.rights.has(right)
    }

    fn outcome(&self, case: &Case) -> Outcome {
        if case.needs.iter().all(|right| self.has(*right, case.names)) {
            Outcome::Allowed
        } else if case.names == Names::BareId && !self.has(Read, case.names) {
            Outcome::Invisible
        } else if case.names == Names::BareId {
            Outcome::VisibleAndDenied
        } else {
            Outcome::Denied
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Allowed,
    Denied,
    /// Refused as if it was not there.
    Invisible,
    VisibleAndDenied,
}

on_each_store! { every_rpc_needs_its_rights }

async fn every_rpc_needs_its_rights(setting: Setting) {
    let callers = callers();
    let mut policy = rule("token:root", "*", "\"*\"", &Right::ALL);
    policy.extend(callers.iter().map(Caller::rule));
    setting.set_policy(&policy);
    let mut names: Vec<_> = callers.iter().map(|caller| caller.name.as_str()).collect();
    names.push("root");
    setting.set_tokens(&names);
    let socket = setting.path("http.sock");
    let listen = format!("unix:{}", socket.display());
    let server = setting.start_with_tokens(&["--http-listen", &listen]);
    let root = caller(&server, "root").await;
    let mut counts = BTreeMap::new();
    for (place, case) in CASES.iter().enumerate() {
        let there = at("shop", "alice", &format!("there-{place}"));
        create(&root, &there).await;
        let before = content(&root, &there).await;
        for (number, it) in callers.iter().enumerate() {
            let outcome = it.outcome(case);
            *counts.entry(format!("{outcome:?}")).or_insert(0) += 1;
            let client = caller(&server, &it.name).await;
            // HTTP ends before the store: two of them are enough for it.
            let over_http =
                (!setting.is_on_postgres()).then(|| client.over_http(OverHttp::new(&socket)));
            for client in iter::once(client).chain(over_http) {
                let way = if client.is_over_http() { " over HTTP" } else { "" };
                let context = format!("{} ({}) by {}{way}", case.method, case.about, it.name);
                if client.is_over_http() && case.method == "AppendEventStream" {
                    let refusal = client.ask(case.method, &(case.request)(&there)).await.refusal;
                    assert_eq!(refusal.unwrap().reason, "NOT_OVER_HTTP", "{context}");
                    continue;
                }
                if outcome == Outcome::Allowed {
                    // It may be deleted by the call.
                    let own = at("shop", "alice", &format!("own-{place}-{number}{way}"));
                    create(&root, &own).await;
                    let answer = client.ask(case.method, &(case.request)(&own)).await;
                    assert_eq!(answer.refusal, None, "{context}");
                    continue;
                }
                let missing = at("shop", "alice", &format!("missing-{place}"));
                let of_there = refused(&client, case, &there, &context).await;
                let of_missing = refused(&client, case, &missing, &context).await;
                judge(outcome, [&of_there, &of_missing], it, case, &context);
                assert_eq!(content(&root, &there).await, before, "{context} has changed it");
            }
        }
    }
    assert_eq!(counts.len(), 4, "every outcome was there: {counts:?}");
    server.stop();
}

/// Holds the refusals of what is there, and of what is missing, to the outcome.
fn judge(
    outcome: Outcome,
    [of_there, of_missing]: [&Refusal; 2],
    caller: &Caller,
    case: &Case,
    context: &str,
) {
    match outcome {
        Outcome::VisibleAndDenied => {
            assert_eq!(of_there.code, "PERMISSION_DENIED", "{context}");
            assert_eq!(of_missing.code, "NOT_FOUND", "{context}");
        }
        Outcome::Invisible => {
            assert_eq!(of_there.reason, "SESSION_NOT_FOUND", "{context}");
            assert_eq!(of_there, of_missing, "{context}");
        }
        _ => {
            assert_eq!(of_there, of_missing, "{context}");
            assert_names_nothing_else(of_there, caller, case, context);
        }
    }
}

/// A refusal, with the id that was sent replaced.
async fn refused(client: &Client, case: &Case, at: &Address, context: &str) -> Refusal {
    let answer = client.ask(case.method, &(case.request)(at)).await;
    let own = |text: &str| text.replace(&at.session, "ID");
    let Refusal { code, reason, message, metadata, rest } =
        answer.refusal.unwrap_or_else(|| panic!("{context} was allowed"));
    Refusal {
        code,
        reason,
        message: own(&message),
        metadata: metadata.into_iter().map(|(name, value)| (name, own(&value))).collect(),
        rest: own(&rest),
    }
}

/// A denial repeats who asks, the right that is lacking, and what the request has named.
fn assert_names_nothing_else(refusal: &Refusal, caller: &Caller, case: &Case, context: &str) {
    assert_eq!((&*refusal.code, &*refusal.reason), ("PERMISSION_DENIED", "PERMISSION_DENIED"));
    for (name, value) in &refusal.metadata {
        let expected = match name.as_str() {
            "principal" => *value == format!("token:{}", caller.name),
            "right" => {
                let lacking = |right: &&Right| !caller.has(**right, case.names);
                case.needs.iter().filter(lacking).any(|right| right.as_str() == value)
            }
            "app_name" => value == "shop" && case.names != Names::Nothing,
            "user_id" => value == "alice" && case.names == Names::User,
            "retryable" => value == "no",
            _ => false,
        };
        assert!(expected, "{context} tells {name} = {value}");
    }
}

async fn create(root: &Client, at: &Address) {
    let answer = root.ask("CreateSession", &at.key()).await;
    assert_eq!(answer.refusal, None, "{at:?}");
}

/// All of a session but the keys that others share with it.
async fn content(root: &Client, at: &Address) -> Vec<u8> {
    let method = method("GetSession");
    let json = json!({"key": at.key(), "events": {"include_rewound": true}, "without_state": true});
    root.call(&method, &request(&method, &json)).await.message().encode_to_vec()
}

#[test]
fn the_sets_of_rights_differ() {
    let callers = callers();
    // `write` includes `read`.
    let distinct: std::collections::BTreeSet<_> =
        callers.iter().map(|it| format!("{:?}", it.rights)).collect();
    assert_eq!((callers.len(), distinct.len()), (18, 12));
    assert!(callers[2].rights.has(Write) && callers[2].rights.has(Read));
}
