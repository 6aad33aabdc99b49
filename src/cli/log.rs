//! Reads the log of a session page by page.

use super::{
    args::{JSON_FORM, MAX_PAGE},
    connect::Server,
    failure::Failure,
    retry::retry,
};
use crate::proto::v1;

/// Calls `each` with every event from the page of `page_token` on. An empty token is that of the first page.
pub async fn for_each_event(
    server: &Server,
    key: &v1::SessionKey,
    selection: v1::EventSelection,
    page_token: String,
    mut each: impl FnMut(v1::Event) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut request = v1::ListEventsRequest {
        key: Some(key.clone()),
        page_size: MAX_PAGE,
        page_token,
        selection: Some(selection),
        json_form: JSON_FORM,
        ..Default::default()
    };
    loop {
        let page = retry(async || server.events().list_events(request.clone()).await).await?;
        page.events.into_iter().try_for_each(&mut each)?;
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return Ok(());
        }
    }
}
