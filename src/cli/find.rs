//! Finds sessions among those that the caller may list: by a bare id that the server does not look up, and by an id that is nearly right.

use tonic::Code;

use super::{
    args::{JSON_FORM, MAX_PAGE},
    calls::get_request,
    connect::{ConnectArgs, Server},
    failure::Failure,
};
use crate::proto::v1;

/// Pages that a search reads, of 1000 items each.
const PAGES: usize = 20;
/// Ids that an error names.
const CLOSE_IDS: usize = 3;
/// Similarity (Jaro-Winkler) of two ids of which one may be a slip of the other. Random UUIDs are at about 0.6.
const CLOSE: f64 = 0.88;

/// The whole key of a session that was named by its bare id: by the server if it takes bare ids, otherwise by lists.
pub async fn whole_key(
    server: &Server,
    key: Option<v1::SessionKey>,
) -> Result<Option<v1::SessionKey>, Failure> {
    let bare = match key {
        Some(key) if key.app_name.is_empty() => key,
        key => return Ok(key),
    };
    let request = v1::GetSessionRequest { without_state: true, ..get_request(&bare) };
    let answer = server.sessions().get_session(request).await.map_err(Failure::from);
    let refused = match answer {
        Ok(answer) => return Ok(answer.into_inner().session.unwrap_or_default().key),
        Err(failure) => failure,
    };
    if !(refused.has_reason("MISSING_FIELD") && refused.names_field("key.app_name")) {
        return Err(refused);
    }
    let mut search = Search::new(server, |key| key.session_id == bare.session_id);
    search.everywhere().await?;
    let (found, complete) = (search.found, !search.is_cut);
    match found.as_slice() {
        [key] if complete => Ok(Some(key.clone())),
        [] if complete => Err(Failure::Failed(format!(
            "no session that you may list has the id `{}`",
            bare.session_id
        ))),
        [] | [_] => Err(Failure::Failed(format!(
            "too many sessions to look for the id `{}`. Pass --app and --user",
            bare.session_id
        ))),
        [one, other, ..] => Err(Failure::Failed(format!(
            "several sessions have the id `{}`, such as {} and {}. Pass --app and --user",
            bare.session_id,
            address(one),
            address(other)
        ))),
    }
}

/// The failure with close ids, if it is that of a session that does not exist.
pub async fn with_close_ids(connect: &ConnectArgs, failure: Failure) -> Failure {
    let wanted = |name: &str| failure.metadata(name).unwrap_or_default();
    let (app_name, user_id) = (wanted("app_name"), wanted("user_id"));
    let session_id = wanted("session_id");
    if !failure.has_reason("SESSION_NOT_FOUND") || session_id.is_empty() {
        return failure;
    }
    let Ok(server) = Server::connect(connect).await else { return failure };
    let similarity = |key: &v1::SessionKey| strsim::jaro_winkler(&key.session_id, &session_id);
    let mut search = Search::new(&server, |key| similarity(key) >= CLOSE);
    // What cannot be listed is not named; the failure stays what it is.
    let _ = match app_name.as_str() {
        "" => search.everywhere().await,
        app_name => search.application(app_name, &user_id).await,
    };
    if search.found.is_empty() && !app_name.is_empty() {
        let _ = search.application(&app_name, "").await;
    }
    let mut found = search.found;
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

/// A search of a bounded number of pages.
struct Search<'a, F> {
    server: &'a Server,
    picks: F,
    /// Pages that are left.
    pages: usize,
    /// There was more than these pages.
    is_cut: bool,
    found: Vec<v1::SessionKey>,
}

impl<'a, F: Fn(&v1::SessionKey) -> bool> Search<'a, F> {
    fn new(server: &'a Server, picks: F) -> Self {
        Self { server, picks, pages: PAGES, is_cut: false, found: Vec::new() }
    }

    /// In all applications.
    async fn everywhere(&mut self) -> Result<(), Failure> {
        let mut request = v1::ListApplicationsRequest { page_size: MAX_PAGE, ..Default::default() };
        while self.takes_page() {
            let page = self.server.admin().list_applications(request.clone()).await?.into_inner();
            for application in page.applications {
                self.application(&application.app_name, "").await?;
            }
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// In an application, of one user or of all whose sessions the caller may list.
    async fn application(&mut self, app_name: &str, user_id: &str) -> Result<(), Failure> {
        match self.sessions(app_name, user_id).await {
            Err(Failure::Refused(status))
                if status.code() == Code::PermissionDenied && user_id.is_empty() => {}
            outcome => return outcome,
        }
        let mut request = v1::ListUsersRequest {
            app_name: app_name.to_owned(),
            page_size: MAX_PAGE,
            ..Default::default()
        };
        while self.takes_page() {
            let page = self.server.admin().list_users(request.clone()).await?.into_inner();
            for user in page.users {
                self.sessions(app_name, &user.user_id).await?;
            }
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                break;
            }
        }
        Ok(())
    }

    async fn sessions(&mut self, app_name: &str, user_id: &str) -> Result<(), Failure> {
        let mut request = v1::ListSessionsRequest {
            app_name: app_name.to_owned(),
            user_id: user_id.to_owned(),
            order: v1::SessionOrder::LastEventTimeDesc as i32,
            page_size: MAX_PAGE,
            json_form: JSON_FORM,
            ..Default::default()
        };
        while self.takes_page() {
            let page = self.server.sessions().list_sessions(request.clone()).await?.into_inner();
            for key in page.sessions.into_iter().filter_map(|session| session.key) {
                // A session that is used meanwhile may be listed twice.
                if (self.picks)(&key) && !self.found.contains(&key) {
                    self.found.push(key);
                }
            }
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Whether another page may be read.
    fn takes_page(&mut self) -> bool {
        self.is_cut = self.pages == 0;
        self.pages = self.pages.saturating_sub(1);
        !self.is_cut
    }
}
