//! What the store holds: lists of applications and users.

use std::fmt::Display;

use super::{Engine, List, bad_page_token, prelude::*};
use crate::{
    domain::id::NameFault,
    store::{ApplicationsQuery, NamePage, UsersQuery},
};

impl Engine {
    /// Lists applications; `token` is from the previous page.
    pub async fn list_applications(
        &self,
        context: &RequestContext,
        mut query: ApplicationsQuery,
        token: Option<NameToken>,
    ) -> Result<List<AppName>, Error> {
        let request = Digest::of_texts(&["applications"]);
        query.after = after(token, request, AppName::new)?;
        Ok(names(self.store.list_applications(context, query).await?, request))
    }

    /// Lists users; `token` is from the previous page.
    pub async fn list_users(
        &self,
        context: &RequestContext,
        mut query: UsersQuery,
        token: Option<NameToken>,
    ) -> Result<List<UserId>, Error> {
        let request = Digest::of_texts(&["users", query.app_name.as_str()]);
        query.after = after(token, request, UserId::new)?;
        Ok(names(self.store.list_users(context, query).await?, request))
    }
}

/// The name behind which a list continues.
fn after<T>(
    token: Option<NameToken>,
    request: Digest,
    name: fn(String) -> Result<T, NameFault>,
) -> Result<Option<T>, Error> {
    let Some(token) = token else { return Ok(None) };
    let after = name(token.after).ok().filter(|_| token.request == request);
    after.map(Some).ok_or_else(|| bad_page_token("of the same list"))
}

fn names<T: Display + 'static>(page: NamePage<T>, request: Digest) -> List<T> {
    let NamePage { names, more } = page;
    List::new(names, move |names, taken| {
        let after = names.get(taken.checked_sub(1)?)?.to_string();
        (more || taken < names.len()).then(|| NameToken { request, after }.encode())
    })
}
