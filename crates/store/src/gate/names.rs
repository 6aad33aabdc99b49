//! Lists of applications and users, of which a caller may see some ranges of names.

use crate::{ApplicationsQuery, NamePage, RequestContext, UsersQuery};
use sessiond_core::{
    domain::{
        permission::{Pattern, Right, Users},
        prelude::*,
    },
    read::behind_all,
};

use super::{Gate, in_time};

impl Gate {
    /// As [`Store::list_applications`](crate::Store::list_applications), of those on which the caller is an administrator.
    pub async fn list_applications(
        &self,
        context: &RequestContext,
        query: ApplicationsQuery,
    ) -> Result<NamePage<AppName>, Error> {
        let Some(seen) = self.permissions(context)?.applications(Right::Admin)? else {
            return in_time(context, self.store.list_applications(query)).await;
        };
        let ApplicationsQuery { after, max_items } = query;
        let list = |after: String, max_items| {
            let after = Some(AppName::from_stored(after));
            self.store.list_applications(ApplicationsQuery { after, max_items })
        };
        let after = after.map(|app| app.to_string());
        let names = in_ranges(ranges(seen), after, max_items, AppName::as_str, list);
        in_time(context, names).await
    }

    /// As [`Store::list_users`](crate::Store::list_users), of those on whom the caller is an administrator.
    pub async fn list_users(
        &self,
        context: &RequestContext,
        query: UsersQuery,
    ) -> Result<NamePage<UserId>, Error> {
        let Users::Only(seen) = self.permissions(context)?.users(Right::Admin, &query.app_name)?
        else {
            return in_time(context, self.store.list_users(query)).await;
        };
        let UsersQuery { app_name, after, max_items } = query;
        let list = |after: String, max_items| {
            let (app_name, after) = (app_name.clone(), Some(UserId::from_stored(after)));
            self.store.list_users(UsersQuery { app_name, after, max_items })
        };
        let after = after.map(|user| user.to_string());
        let seen = seen.iter().map(|user| Pattern::Exact(user.to_string())).collect();
        let names = in_ranges(ranges(seen), after, max_items, UserId::as_str, list);
        in_time(context, names).await
    }
}

/// Patterns of which none covers another, in the order of their names.
fn ranges(mut patterns: Vec<Pattern>) -> Vec<Pattern> {
    let text = |pattern: &Pattern| match pattern {
        Pattern::Exact(text) | Pattern::Prefix(text) => text.clone(),
    };
    // Of the same text the prefix comes first, and covers the name.
    patterns.sort_by_key(|pattern| (text(pattern), matches!(pattern, Pattern::Exact(_))));
    patterns.dedup_by(|next, kept| *next == *kept || kept.matches(&text(next)));
    patterns
}

/// The names of a list that are in one of these ranges, in their order.
async fn in_ranges<T, F: Future<Output = Result<NamePage<T>, Error>>>(
    ranges: Vec<Pattern>,
    after: Option<String>,
    max_items: usize,
    text: fn(&T) -> &str,
    list: impl Fn(String, usize) -> F,
) -> Result<NamePage<T>, Error> {
    let mut names = Vec::new();
    let after = after.unwrap_or_default();
    for range in ranges {
        let (first, whole) = match &range {
            Pattern::Exact(name) => (name, 1),
            Pattern::Prefix(prefix) => (prefix, usize::MAX),
        };
        let mut behind = after.clone().max(before(first));
        loop {
            // One more than the page tells whether others follow.
            let wanted = whole.min(max_items + 1 - names.len());
            let page = list(behind, wanted).await?;
            let (before, read) = (names.len(), page.names.len());
            names.extend(page.names.into_iter().take_while(|name| range.matches(text(name))));
            if names.len() > max_items {
                return Ok(NamePage::first(names.into_iter(), max_items));
            }
            let is_end = !page.more || names.len() < before + read;
            match names.last().filter(|_| !is_end && whole > 1) {
                Some(last) => behind = text(last).to_owned(),
                None => break,
            }
        }
    }
    Ok(NamePage::first(names.into_iter(), max_items))
}

/// A text right before a name in the order of lists: no name lies between the two.
fn before(name: &str) -> String {
    let mut text = name.to_owned();
    let Some(last) = text.pop() else { return text };
    // The end of the range is exclusive. It has no character if the last one is the first there is.
    if let Some(previous) = ('\u{1}'..last).next_back() {
        text.push(previous);
        text.push_str(&behind_all());
    }
    text
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;
    use sessiond_core::domain::limits::ID_BYTES;

    #[test]
    fn nothing_lies_between_a_name_and_the_text_before_it() {
        for name in ["a", "shop", "sho\u{1}", "\u{1}", "\u{e000}", "é", "a\u{10ffff}"] {
            let before = before(name);
            assert!(*before < *name, "{name:?}");
            // The greatest name below it that could be.
            let mut chars: Vec<char> = name.chars().collect();
            let last = chars.pop().unwrap();
            let below: String = chars.iter().collect();
            assert!(below <= before);
            if let Some(previous) = ('\u{1}'..last).next_back() {
                let mut greatest = below;
                greatest.push(previous);
                while greatest.len() + 4 <= ID_BYTES {
                    greatest.push('\u{10ffff}');
                }
                assert!(greatest <= before, "{name:?}");
            }
        }
    }

    #[test]
    fn ranges_do_not_overlap() {
        for (texts, expected) in [
            (&["shop", "a", "sho*", "shop*", "shop2", "b", "a"][..], &["a", "b", "sho*"][..]),
            (&["*", "a"], &["*"]),
            (&["ab", "a"], &["a", "ab"]),
        ] {
            let [given, left] = [texts, expected]
                .map(|texts| texts.iter().map(|text| Pattern::new(text)).collect::<Vec<_>>());
            assert_eq!(ranges(given), left);
        }
    }

    #[tokio::test]
    async fn pages_are_as_full_as_the_ranges_allow() {
        let all = ["a", "b1", "b2", "b3", "b4", "c", "d1", "d2", "e"];
        for max_items in 1..=6 {
            let list = |after: String, max_items| {
                let behind = all.iter().filter(|name| ***name > *after);
                ready(Ok(NamePage::first(behind.map(|name| (*name).to_owned()), max_items)))
            };
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let ranges = ranges(["b*", "d2", "c0", "e"].map(Pattern::new).to_vec());
                let page = in_ranges(ranges, after, max_items, |name: &String| name, list).await;
                let page = page.unwrap();
                assert!(page.names.len() == max_items || !page.more);
                seen.extend(page.names);
                after = seen.last().cloned();
                if !page.more {
                    break;
                }
            }
            assert_eq!(seen, ["b1", "b2", "b3", "b4", "d2", "e"], "{max_items}");
        }
    }
}
