//! What the store holds: lists of applications and users.

use std::fmt::Display;

use super::{Engine, List, bad_page_token, place, prelude::*};
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
        query.after = name(token, request, AppName::new)?;
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
        query.after = name(token, request, UserId::new)?;
        Ok(names(self.store.list_users(context, query).await?, request))
    }
}

fn names<T: Display + 'static>(page: NamePage<T>, request: Digest) -> List<T> {
    List::behind(page.names, page.more, request, T::to_string)
}

fn name<T>(
    token: Option<NameToken>,
    request: Digest,
    new: fn(String) -> Result<T, NameFault>,
) -> Result<Option<T>, Error> {
    const SAME: &str = "of the same list";
    let name = place(token, request, SAME)?.map(new).transpose();
    name.map_err(|_| bad_page_token(SAME))
}
