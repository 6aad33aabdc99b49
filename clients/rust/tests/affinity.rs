//! Calls and watches carry a hint, by which load balancers can keep those of a user on one replica.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use adk_session::{ListRequest, SessionService};
use futures_util::StreamExt;
use prost::Message;
use sessiond_adk::{
    Scope, Since,
    proto::v1::{SessionDeleted, WatchResponse, watch_response::Kind},
};
use sessiond_adk_testing::{ScriptedServer, builder};

#[tokio::test]
async fn calls_and_watches_carry_the_hint() {
    let deleted = Kind::SessionDeleted(SessionDeleted::default());
    let deleted = WatchResponse { kind: Some(deleted), cursor: "c".into() }.encode_to_vec();
    let server = ScriptedServer::start(move |path| {
        Ok(if path.ends_with("/Watch") { deleted.clone() } else { Vec::new() })
    })
    .await;
    let service = builder(server.address()).connect_lazy().unwrap();
    let (app_name, user_id) = ("a".to_owned(), "u".to_owned());
    let request = ListRequest { app_name, user_id, limit: None, offset: None };
    service.list(request).await.unwrap();
    let user = Scope::User("a".try_into().unwrap(), "u".try_into().unwrap());
    for scope in [user, Scope::App("a".try_into().unwrap())] {
        service.watch(&scope, Since::Now).next().await.unwrap().unwrap();
    }
    let (of_user, of_app) = ("5bdd9aa445874270", "ffe9aaeaa2a2d504");
    assert_eq!(server.headers("sessiond-affinity"), [of_user, of_user, of_app]);
}
