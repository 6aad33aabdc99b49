//! Two servers on copies of one file, of which only one has what another tenant has stored: they answer the same calls alike.

use fastrand::Rng;
use serde_json::Value as Json;

use crate::{
    calls::{Answer, Client, Refusal},
    cases::at,
    generate::Generator,
    harness::Server,
    setting::{Setting, caller},
    tenants::{APPLICATIONS, FOREIGN_IDS, OWN_IDS, Tenants, USERS, collect, fill, fill_own, seed},
};

/// About seventy of each RPC.
const CALLS: usize = 1500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_do_not_depend_on_other_tenants() {
    for tenants in [APPLICATIONS, USERS] {
        compare(&tenants).await;
    }
}

async fn compare(tenants: &Tenants) {
    let seed = seed();
    let setting = Setting::on_sqlite();
    setting.set_policy(&tenants.policy());
    setting.set_tokens(&["root", "a", "b"]);
    let server = setting.start_with_tokens(&[]);
    let a = caller(&server, "a").await;
    for id in OWN_IDS {
        fill(&a, &at(tenants.a.0, tenants.a.1, id), "plain").await;
    }
    let own = collect(&a, tenants.a, &OWN_IDS).await;
    drop(a);
    server.stop();

    // The store of both has the same identity, so that a cursor is of both.
    let twin = Setting::on_copy_of(&setting);
    let servers = [setting.start_with_tokens(&[]), twin.start_with_tokens(&[])];
    let b = caller(&servers[0], "b").await;
    for id in FOREIGN_IDS {
        fill_own(&b, &at(tenants.b.0, tenants.b.1, id), "foreign").await;
    }
    let foreign = collect(&b, tenants.b, &FOREIGN_IDS).await;
    // Sessions that take the same internal numbers.
    let root = caller(&servers[1], "root").await;
    for id in FOREIGN_IDS {
        fill_own(&root, &at("elsewhere", "carl", id), "other").await;
    }

    let [with, without] = [client(&servers[0]).await, client(&servers[1]).await];
    let mut generator = Generator::new(Rng::with_seed(seed), &own, &foreign);
    let mut reads_of_b = 0;
    for _ in 0..CALLS {
        let (method, request) = generator.next();
        let answers = [with.call(&method, &request).await, without.call(&method, &request).await];
        let [with, without] = answers.each_ref().map(comparable);
        assert_eq!(with, without, "{}: {request:?}", method.name());
        // Such as a read of a session that only one server has, asked by the other tenant.
        let is_read = ["GetSession", "ListEvents", "GetState"].contains(&method.name());
        reads_of_b += usize::from(is_read && b.call(&method, &request).await.code() == "OK");
    }
    assert!(reads_of_b > CALLS / 50, "the calls were about the other tenant: {reads_of_b}");
    for server in servers {
        server.stop();
    }
}

async fn client(server: &Server) -> Client {
    caller(server, "a").await
}

/// The part of an answer that two servers agree on: all but times, and the ids, tokens and cursors that they make.
fn comparable(answer: &Answer) -> (Vec<Json>, Option<Refusal>) {
    let messages = answer.messages.iter().map(|message| {
        let mut json = serde_json::to_value(message).unwrap();
        blank(&mut json);
        json
    });
    (messages.collect(), answer.refusal.clone())
}

fn blank(json: &mut Json) {
    match json {
        Json::Object(members) => {
            for (name, value) in members {
                let is_made =
                    name.ends_with("Time") || matches!(&**name, "cursor" | "nextPageToken" | "uid");
                match value {
                    Json::String(text) if is_made || uuid::Uuid::try_parse(text).is_ok() => {
                        *value = Json::from("made");
                    }
                    value => blank(value),
                }
            }
        }
        Json::Array(items) => items.iter_mut().for_each(blank),
        _ => {}
    }
}
