//! What the store holds: lists of applications and users. And what a write drops.

use sessiond::{
    domain::error::Reason,
    proto::v1::{
        CreateSessionRequest, Event, ListApplicationsRequest, ListUsersRequest,
        admin_service_client::AdminServiceClient, append_event_stream_response::Outcome,
    },
};

use crate::{
    harness::{Service, with_server},
    judge::faulty,
    make::{
        append, append_all, create, increment, operations, scope, set, setting, setting_in, update,
    },
    streams::Appends,
};

with_server! {
    applications_and_users_are_listed_page_by_page
    a_page_token_of_names_belongs_to_its_list
    dropped_temp_keys_are_named_by_every_write
}

async fn create_for(service: &Service, app: &str, user: &str) {
    let request =
        CreateSessionRequest { app_name: app.into(), user_id: user.into(), ..create("s", "{}") };
    service.create_session(request).await.unwrap();
}

async fn applications_and_users_are_listed_page_by_page(service: &Service) {
    for (app, user) in [("shop", "bob"), ("desk", "eve"), ("shop", "alice")] {
        create_for(service, app, user).await;
    }
    service.update_state(update(scope("state", "", ""), set(r#"{"app:k":1}"#))).await.unwrap();
    service.update_state(update(scope("shop", "carol", ""), set(r#"{"user:k":1}"#))).await.unwrap();
    let mut admin = AdminServiceClient::new(service.channel());
    for page_size in [0, 1, 2] {
        let (mut apps, mut users, mut pages) = (Vec::new(), Vec::new(), 0);
        let mut request = ListApplicationsRequest { page_size, ..Default::default() };
        loop {
            let page = admin.list_applications(request.clone()).await.unwrap().into_inner();
            apps.extend(page.applications.into_iter().map(|app| app.app_name));
            pages += 1;
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                break;
            }
        }
        assert_eq!(apps, ["desk", "shop", "state"]);
        assert_eq!(pages, [1, 3, 2][page_size as usize]);
        let mut request =
            ListUsersRequest { app_name: "shop".into(), page_size, ..Default::default() };
        loop {
            let page = admin.list_users(request.clone()).await.unwrap().into_inner();
            users.extend(page.users.into_iter().map(|user| (user.app_name, user.user_id)));
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                break;
            }
        }
        let of_shop = ["alice", "bob", "carol"].map(|user| ("shop".to_owned(), user.to_owned()));
        assert_eq!(users, of_shop);
    }
    let nobody = ListUsersRequest { app_name: "state".into(), ..Default::default() };
    assert!(admin.list_users(nobody).await.unwrap().into_inner().users.is_empty());
}

async fn a_page_token_of_names_belongs_to_its_list(service: &Service) {
    for (app, user) in [("a", "u"), ("a", "v"), ("b", "u"), ("b", "v")] {
        create_for(service, app, user).await;
    }
    let mut admin = AdminServiceClient::new(service.channel());
    let apps = ListApplicationsRequest { page_size: 1, ..Default::default() };
    let of_apps = admin.list_applications(apps).await.unwrap().into_inner().next_page_token;
    let users = |app: &str, page_token: &str| ListUsersRequest {
        app_name: app.into(),
        page_size: 1,
        page_token: page_token.into(),
    };
    let of_users = admin.list_users(users("a", "")).await.unwrap().into_inner().next_page_token;
    let second = admin.list_users(users("a", &of_users)).await.unwrap().into_inner();
    assert_eq!((second.users[0].user_id.as_str(), &*second.next_page_token), ("v", ""));
    for token in [&*of_apps, "nonsense"] {
        let result = admin.list_users(users("a", token)).await;
        faulty(result, Reason::BadPageToken, "page_token");
    }
    let result = admin.list_users(users("b", &of_users)).await;
    faulty(result, Reason::BadPageToken, "page_token");
    let apps = ListApplicationsRequest { page_size: 1, page_token: of_users };
    faulty(admin.list_applications(apps).await, Reason::BadPageToken, "page_token");
    faulty(admin.list_users(users("", "")).await, Reason::MissingField, "app_name");
}

async fn dropped_temp_keys_are_named_by_every_write(service: &Service) {
    let state = r#"{"temp:b":1,"own":1,"temp:a":1}"#;
    let created = service.create_session(create("s1", state)).await.unwrap();
    assert_eq!(created.dropped_temp_keys, ["temp:a", "temp:b"]);

    let request = append("s1", setting(r#"{"temp:x":1,"own":2}"#));
    let answer = service.append_event(request).await.unwrap();
    assert_eq!(answer.dropped_temp_keys, ["temp:x"]);
    let operation =
        Event { state_delta: Some(operations([increment("temp:n", 1)])), ..Default::default() };
    let batch = append_all("s1", vec![setting(r#"{"temp:x":1}"#), operation]);
    let answer = service.append_events(batch).await.unwrap();
    assert_eq!(answer.dropped_temp_keys, ["temp:n", "temp:x"]);

    // An invocation holds them, and a fragment changes nothing anyway.
    let held = append("s1", setting_in("turn", r#"{"temp:x":1}"#));
    let answer = service.append_event(held).await.unwrap();
    assert!(answer.dropped_temp_keys.is_empty());
    let fragment = Event { partial: true, ..setting(r#"{"temp:x":1}"#) };
    let answer = service.append_event(append("s1", fragment)).await.unwrap();
    assert!(answer.dropped_temp_keys.is_empty());

    let mut appends = Appends::open(service).await;
    appends.send(append("s1", setting(r#"{"temp:y":1}"#)));
    let Outcome::Appended(answer) = appends.next().await else { panic!("refused") };
    assert_eq!(answer.dropped_temp_keys, ["temp:y"]);
}
