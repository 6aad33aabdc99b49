//! Finds sessions among those that the caller may list: by a bare id that the server does not look up, and by an id that is nearly right.

use tonic::Code;

use super::{
    args::{AnyKeyArgs, MAX_PAGE},
    calls::{all_pages, get_request, sessions_page, sessions_request, users_page},
    connect::{ConnectArgs, Server},
    failure::Failure,
};
use crate::proto::v1;

/// Pages of 1000 sessions that a search reads.
const PAGES: usize = 20;
/// Ids that an error names.
const CLOSE_IDS: usize = 3;
/// Similarity (Jaro-Winkler) of two ids of which one may be a slip of the other. Random UUIDs are at about 0.6.
const CLOSE: f64 = 0.88;

pub async fn connect_to(
    connect: &ConnectArgs,
    key: &AnyKeyArgs,
) -> Result<(Server, v1::SessionKey), Failure> {
    let key = key.key()?;
    let server = Server::connect(connect).await?;
    let key = whole_key(&server, key).await?;
    Ok((server, key))
}

/// The whole key of a session that was named by its bare id: by the server if it takes bare ids, otherwise by lists.
pub async fn whole_key(server: &Server, bare: v1::SessionKey) -> Result<v1::SessionKey, Failure> {
    if !bare.app_name.is_empty() {
        return Ok(bare);
    }
    let request = v1::GetSessionRequest { without_state: true, ..get_request(&bare) };
    match server.sessions().get_session(request).await.map_err(Failure::from) {
        Ok(answer) => {
            return Ok(answer.into_inner().session.unwrap_or_default().key.unwrap_or_default());
        }
        Err(failure) if !failure.names_field("key.app_name") => return Err(failure),
        Err(_) => {}
    }
    // The last one is read only if it is wanted.
    let (mut pages, id) = (PAGES + 1, &bare.session_id);
    let mut found = listed(server, "", "", &mut pages).await?;
    found.retain(|key| key.session_id == *id);
    Err(Failure::Failed(match found.as_slice() {
        [one, other, ..] => format!(
            "several sessions have the id `{id}`, such as {} and {}. Pass --app and --user",
            address(one),
            address(other)
        ),
        _ if pages == 0 => {
            format!("too many sessions to look for the id `{id}`. Pass --app and --user")
        }
        [key] => return Ok(key.clone()),
        [] => format!("no session that you may list has the id `{id}`"),
    }))
}

/// The failure with close ids, if it is that of a session that does not exist.
pub async fn with_close_ids(connect: &ConnectArgs, failure: Failure) -> Failure {
    let wanted = |name: &str| failure.metadata(name).unwrap_or_default();
    let [app_name, user_id, session_id] = ["app_name", "user_id", "session_id"].map(wanted);
    if !failure.has_reason("SESSION_NOT_FOUND") || session_id.is_empty() {
        return failure;
    }
    let Ok(server) = Server::connect(connect).await else { return failure };
    let similarity = |key: &v1::SessionKey| strsim::jaro_winkler(&key.session_id, &session_id);
    let mut pages = PAGES;
    // What cannot be listed is not named; the failure stays what it is.
    let mut close = async |user_id: &str| {
        let found = listed(&server, &app_name, user_id, &mut pages).await.unwrap_or_default();
        found.into_iter().filter(|key| similarity(key) >= CLOSE).collect::<Vec<_>>()
    };
    let mut found = close(&user_id).await;
    if found.is_empty() && !user_id.is_empty() {
        found = close("").await;
    }
    found.sort_by(|one, other| similarity(other).total_cmp(&similarity(one)));
    let shown = found.iter().take(CLOSE_IDS).map(|key| match key.user_id == user_id {
        true => format!("`{}`", key.session_id),
        false => address(key),
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    if shown.is_empty() {
        return failure;
    }
    Failure::Failed(format!("{}\n  close ids: {shown}", failure.text()))
}

fn address(key: &v1::SessionKey) -> String {
    format!("`{}` of {} / {}", key.session_id, key.app_name, key.user_id)
}

/// The sessions of one user, of all users or in all applications that the caller may list. `pages` is 0 if there may be more.
async fn listed(
    server: &Server,
    app_name: &str,
    user_id: &str,
    pages: &mut usize,
) -> Result<Vec<v1::SessionKey>, Failure> {
    let (mut found, mut names) = (Vec::new(), PAGES);
    if app_name.is_empty() {
        let applications = bounded_pages(&mut names, async |page_token| {
            let request = v1::ListApplicationsRequest { page_size: MAX_PAGE, page_token };
            let page = server.admin().list_applications(request).await?.into_inner();
            Ok((page.applications, page.next_page_token))
        });
        for application in applications.await? {
            found.extend(Box::pin(self::listed(server, &application.app_name, "", pages)).await?);
        }
        if names == 0 {
            *pages = 0;
        }
        return Ok(found);
    }
    match sessions(server, app_name, user_id, pages).await {
        Err(Failure::Refused(status))
            if status.code() == Code::PermissionDenied && user_id.is_empty() => {}
        outcome => return outcome,
    }
    let users = bounded_pages(&mut names, async |token| users_page(server, app_name, token).await);
    for user_id in users.await? {
        found.extend(sessions(server, app_name, &user_id, pages).await?);
    }
    if names == 0 {
        *pages = 0;
    }
    Ok(found)
}

async fn sessions(
    server: &Server,
    app_name: &str,
    user_id: &str,
    pages: &mut usize,
) -> Result<Vec<v1::SessionKey>, Failure> {
    let request = sessions_request(app_name, user_id);
    bounded_pages(pages, async |page_token| {
        let request = v1::ListSessionsRequest { page_token, ..request.clone() };
        Ok(sessions_page(server, request).await?)
    })
    .await
}

/// As [`all_pages`], of no more than these pages.
async fn bounded_pages<T>(
    pages: &mut usize,
    mut fetch: impl AsyncFnMut(String) -> Result<(Vec<T>, String), Failure>,
) -> Result<Vec<T>, Failure> {
    all_pages(async |token| {
        if *pages == 0 {
            return Ok((Vec::new(), String::new()));
        }
        *pages -= 1;
        fetch(token).await
    })
    .await
}
