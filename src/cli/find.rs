//! Finds sessions among those that the caller may list: by a bare id that the server does not look up, and by an id that is nearly right.

use indexmap::IndexSet;
use tonic::Code;

use super::{
    args::{AnyKeyArgs, MAX_PAGE},
    calls::{get_request, sessions_page, sessions_request, users_page},
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

/// Connects to the server, and finds the session there that the arguments name.
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
    let refused = match server.sessions().get_session(request).await.map_err(Failure::from) {
        Ok(answer) => {
            return Ok(answer.into_inner().session.unwrap_or_default().key.unwrap_or_default());
        }
        Err(failure) => failure,
    };
    if !(refused.has_reason("MISSING_FIELD") && refused.names_field("key.app_name")) {
        return Err(refused);
    }
    let mut search = Search::new(server, |key| key.session_id == bare.session_id);
    search.everywhere().await?;
    let (is_cut, id) = (search.is_cut, &bare.session_id);
    let found: Vec<_> = search.found.into_iter().collect();
    Err(Failure::Failed(match found.as_slice() {
        [key] if !is_cut => return Ok(key.clone()),
        [] if !is_cut => format!("no session that you may list has the id `{id}`"),
        [] | [_] => format!("too many sessions to look for the id `{id}`. Pass --app and --user"),
        [one, other, ..] => format!(
            "several sessions have the id `{id}`, such as {} and {}. Pass --app and --user",
            address(one),
            address(other)
        ),
    }))
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
    found: IndexSet<v1::SessionKey>,
}

impl<'a, F: Fn(&v1::SessionKey) -> bool> Search<'a, F> {
    fn new(server: &'a Server, picks: F) -> Self {
        Self { server, picks, pages: PAGES, is_cut: false, found: IndexSet::new() }
    }

    /// The items of page after page, as long as there are pages left.
    async fn all<T>(
        &mut self,
        fetch: impl AsyncFn(&'a Server, String) -> Result<(Vec<T>, String), Failure>,
    ) -> Result<Vec<T>, Failure> {
        let (mut items, mut token) = (Vec::new(), String::new());
        loop {
            self.is_cut = self.pages == 0;
            if self.is_cut {
                return Ok(items);
            }
            self.pages -= 1;
            let (page, next) = fetch(self.server, token).await?;
            items.extend(page);
            if next.is_empty() {
                return Ok(items);
            }
            token = next;
        }
    }

    /// In all applications.
    async fn everywhere(&mut self) -> Result<(), Failure> {
        let applications = self.all(async |server, page_token| {
            let request = v1::ListApplicationsRequest { page_size: MAX_PAGE, page_token };
            let page = server.admin().list_applications(request).await?.into_inner();
            Ok((page.applications, page.next_page_token))
        });
        for application in applications.await? {
            self.application(&application.app_name, "").await?;
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
        let users = self.all(async |server, token| users_page(server, app_name, token).await);
        for user_id in users.await? {
            self.sessions(app_name, &user_id).await?;
        }
        Ok(())
    }

    async fn sessions(&mut self, app_name: &str, user_id: &str) -> Result<(), Failure> {
        let request = sessions_request(app_name, user_id);
        let keys = self.all(async |server, page_token| {
            let request = v1::ListSessionsRequest { page_token, ..request.clone() };
            Ok(sessions_page(server, request).await?)
        });
        let keys = keys.await?;
        self.found.extend(keys.into_iter().filter(|key| (self.picks)(key)));
        Ok(())
    }
}
