//! Lists of sessions, of which a caller may see those of some users.

use std::{
    cmp::Ordering,
    collections::{BTreeSet, VecDeque},
};

use super::{Gate, in_time};
use crate::{RequestContext, SessionPage, SessionsQuery, Store};
use sessiond_core::{
    domain::{
        permission::{Right, Users},
        prelude::*,
    },
    read::{Budget, ListKey, behind_all, compare, list_key},
};

/// Sessions of one user that are read at once.
const PIECE_ITEMS: usize = 16;

type Listed = (SessionInfo, Option<State>);

impl Gate {
    /// As [`Store::list_sessions`], of the users whom the caller may read.
    pub async fn list_sessions(
        &self,
        context: &RequestContext,
        query: SessionsQuery,
    ) -> Result<SessionPage, Error> {
        let permissions = self.permissions(context)?;
        if let Some(user) = &query.user_id {
            permissions.require(Right::Read, &query.app_name, Some(user))?;
            return in_time(context, self.store.list_sessions(query)).await;
        }
        match permissions.users(Right::Read, &query.app_name)? {
            Users::All => in_time(context, self.store.list_sessions(query)).await,
            Users::Only(users) => in_time(context, merged(&*self.store, &query, &users)).await,
        }
    }
}

/// The lists of some users as one, from the store's list of each.
async fn merged(
    store: &dyn Store,
    query: &SessionsQuery,
    users: &BTreeSet<UserId>,
) -> Result<SessionPage, Error> {
    let piece_bytes = query.max_bytes / users.len().max(1);
    let mut lists: Vec<_> =
        users.iter().map(|user| UserList::behind(query.after.as_ref(), user.clone())).collect();
    let mut page = SessionPage { sessions: Vec::new(), rest: None };
    let mut budget = Budget::new(query.max_items, query.max_bytes);
    loop {
        for list in &mut lists {
            list.fill(store, query, piece_bytes).await?;
        }
        let ready = lists.iter().enumerate();
        let ready = ready.filter_map(|(at, list)| Some((at, list_key(&list.ready.front()?.0))));
        let next = ready.min_by(|(_, a), (_, b)| compare(query.order, a, b)).map(|(at, _)| at);
        let Some((info, state)) = next.and_then(|at| lists[at].ready.pop_front()) else {
            page.rest = None;
            return Ok(page);
        };
        if !budget.take(state.as_ref().map_or(0, State::text_len)) {
            return Ok(page);
        }
        page.rest = Some(list_key(&info));
        page.sessions.push((info, state));
    }
}

/// The list of one user, on its way.
struct UserList {
    user: UserId,
    ready: VecDeque<Listed>,
    after: Option<ListKey>,
    is_end: bool,
}

impl UserList {
    /// Of what comes behind a place of the whole list. Ties are in the order of users first.
    fn behind(place: Option<&ListKey>, user: UserId) -> Self {
        let after = place.map(|(time, other, session)| {
            let session = match user.cmp(other) {
                Ordering::Less => SessionId::from_stored(behind_all()),
                Ordering::Equal => session.clone(),
                // No id is empty.
                Ordering::Greater => SessionId::from_stored(""),
            };
            (*time, user.clone(), session)
        });
        Self { user, ready: VecDeque::new(), after, is_end: false }
    }

    /// Reads on, until a session is ready or the list ends.
    async fn fill(
        &mut self,
        store: &dyn Store,
        query: &SessionsQuery,
        max_bytes: usize,
    ) -> Result<(), Error> {
        while self.ready.is_empty() && !self.is_end {
            let piece = SessionsQuery {
                user_id: Some(self.user.clone()),
                after: self.after.take(),
                max_items: PIECE_ITEMS.min(query.max_items),
                max_bytes,
                ..query.clone()
            };
            let page = store.list_sessions(piece).await?;
            self.ready.extend(page.sessions);
            self.is_end = page.rest.is_none();
            self.after = page.rest;
        }
        Ok(())
    }
}
