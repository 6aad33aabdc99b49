//! The policy's file: TOML.

use std::{collections::BTreeSet, sync::Arc};

use serde::Deserialize;

use super::policy::{Policy, Rule, SUBJECT, UserRule};
use sessiond_core::domain::{
    id::UserId,
    permission::{Pattern, Right, Users},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Option<String>,
    principals: Vec<String>,
    applications: Vec<String>,
    users: Selector,
    rights: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "users are \"*\", a list of ids, \"self\", or { claim = \"NAME\" }")]
enum Selector {
    Word(String),
    List(Vec<String>),
    Claim(Claim),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    claim: String,
}

/// Users that a rule may list: lists of sessions read those of each of them.
const MAX_USERS: usize = 100;

/// Reads a policy. The error is one or two sentences: what is wrong where, and what to do.
pub fn parse(text: &str) -> Result<Policy, String> {
    let file: File = toml::from_str(text).map_err(|error| unreadable(text, &error))?;
    let rules = file.rule.into_iter().enumerate();
    let rules = rules.map(|(at, entry)| {
        let name = entry.name.clone().unwrap_or_else(|| format!("rule {}", at + 1));
        rule(entry, name.clone()).map_err(|fault| format!("In '{name}': {fault}"))
    });
    Ok(Policy { rules: rules.collect::<Result<_, _>>()? })
}

fn unreadable(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().map(|span| text[..span.start].matches('\n').count() + 1);
    let line = line.map(|line| format!(" in line {line}")).unwrap_or_default();
    format!("The policy has a fault{line}: {}.", error.message().trim_end_matches('.'))
}

fn rule(entry: Entry, name: String) -> Result<Rule, String> {
    let Entry { name: _, principals, applications, users, rights } = entry;
    if rights.is_empty() {
        return Err("rights is empty. Write at least one.".to_owned());
    }
    Ok(Rule {
        name,
        principals: patterns("principals", principals)?,
        applications: patterns("applications", applications)?.into(),
        users: self::users(users)?,
        rights: rights.iter().map(|right| self::right(right)).collect::<Result<_, _>>()?,
    })
}

fn users(selector: Selector) -> Result<UserRule, String> {
    let ids = match selector {
        Selector::Claim(Claim { claim }) => return Ok(UserRule::Claim(claim)),
        Selector::Word(word) if word == "*" => return Ok(UserRule::Fixed(Users::All)),
        Selector::Word(word) if word == "self" => return Ok(UserRule::Claim(SUBJECT.to_owned())),
        Selector::Word(word) => {
            return Err(format!(
                "users = \"{word}\" is neither \"*\" nor \"self\". Write a list for single users."
            ));
        }
        Selector::List(ids) => ids,
    };
    match ids.len() {
        0 => return Err("users is empty. Write ids, or \"*\" for all.".to_owned()),
        1..=MAX_USERS => {}
        many => {
            return Err(format!(
                "users lists {many} ids, and may list {MAX_USERS}. Split the rule."
            ));
        }
    }
    let id = |id: String| match &*id {
        "*" | "self" => {
            Err(format!("'{id}' in a list of users would be an id. Write users = \"{id}\"."))
        }
        _ => UserId::new(&*id)
            .map_err(|_| format!("Invalid user id '{id}': must be 1 to 512 bytes.")),
    };
    let ids: BTreeSet<_> = ids.into_iter().map(id).collect::<Result<_, _>>()?;
    Ok(UserRule::Fixed(Users::Only(Arc::new(ids))))
}

fn patterns(field: &str, texts: Vec<String>) -> Result<Vec<Pattern>, String> {
    if texts.is_empty() {
        return Err(format!("{field} is empty. Write names, or \"*\" for all."));
    }
    let pattern = |text: String| match text.trim_end_matches('*').len() + 1 < text.len()
        || text.strip_suffix('*').unwrap_or(&text).contains('*')
    {
        true => Err(format!(
            "'{text}' of {field} has a * that is not the last character. Write a name, or the beginning of names and one *."
        )),
        false if text.is_empty() => Err(format!("{field} has an empty name. Write \"*\" for all.")),
        false => Ok(Pattern::new(&text)),
    };
    texts.into_iter().map(pattern).collect()
}

fn right(text: &str) -> Result<Right, String> {
    let all = Right::ALL.into_iter().find(|right| right.as_str() == text);
    let names = || Right::ALL.map(Right::as_str).join(", ");
    all.ok_or_else(|| format!("Unknown right '{text}'. Use {}.", names()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{Identity, Principal};
    use sessiond_core::domain::{id::AppName, permission::Permissions};

    const POLICY: &str = r#"
        [[rule]]
        name = "agents"
        principals = ["spiffe://example.org/shop/*"]
        applications = ["shop", "shop-*"]
        users = "*"
        rights = ["write"]

        [[rule]]
        principals = ["jwt:*"]
        applications = ["shop"]
        users = "self"
        rights = ["read"]

        [[rule]]
        principals = ["gid:7"]
        applications = ["*"]
        users = ["alice", "bob"]
        rights = ["write_app_state", "admin"]

        [[rule]]
        principals = ["jwt:*"]
        applications = ["mail"]
        users = { claim = "email" }
        rights = ["write"]
    "#;

    fn principal(name: &str, aliases: &[&str], claims: &[(&str, &str)]) -> Principal {
        let claims = claims.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        Principal::Identified(Arc::new(Identity {
            aliases: aliases.iter().map(|alias| (*alias).to_owned()).collect(),
            claims: claims.collect::<BTreeMap<_, _>>(),
            ..Identity::new(name)
        }))
    }

    /// The rights on a user of an application.
    fn rights(permissions: &Permissions, app: &str, user: &str) -> Vec<&'static str> {
        let (app, user) = (AppName::new(app).unwrap(), UserId::new(user).unwrap());
        let has = |right: &Right| permissions.allow(*right, &app, Some(&user));
        Right::ALL.into_iter().filter(has).map(Right::as_str).collect()
    }

    #[test]
    fn a_caller_has_the_rights_of_the_rules_that_name_it() {
        let policy = parse(POLICY).unwrap();
        let agent = policy.permissions(&principal("spiffe://example.org/shop/a", &[], &[]));
        assert_eq!(rights(&agent, "shop", "alice"), ["read", "write"]);
        assert_eq!(rights(&agent, "shop-2", "bob"), ["read", "write"]);
        assert!(rights(&agent, "shopping", "bob").is_empty());
        let other = policy.permissions(&principal("spiffe://example.org/shop", &[], &[]));
        assert!(rights(&other, "shop", "alice").is_empty());

        let claims = [("sub", "alice"), ("email", "a@x")];
        let alice = policy.permissions(&principal("jwt:alice", &["gid:7"], &claims));
        assert_eq!(rights(&alice, "shop", "alice"), ["read", "write_app_state", "admin"]);
        assert_eq!(rights(&alice, "shop", "bob"), ["write_app_state", "admin"]);
        assert_eq!(rights(&alice, "mail", "a@x"), ["read", "write"]);
        assert!(rights(&alice, "mail", "b@x").is_empty());

        // Without a subject, or with one that is no user id, the rule gives no rights.
        for claims in [&[][..], &[("sub", "")]] {
            let nobody = policy.permissions(&principal("jwt:x", &[], claims));
            assert!(rights(&nobody, "shop", "alice").is_empty());
        }
        let local = policy.permissions(&Principal::Local);
        assert!(rights(&local, "shop", "alice").is_empty());
        let denied = local.require(Right::Read, &AppName::new("shop").unwrap(), None);
        assert_eq!(denied.unwrap_err().right, Right::Read);
    }

    #[test]
    fn a_faulty_policy_says_what_is_wrong_and_what_to_do() {
        let rule = |replaced: &str, by: &str| {
            let text = "[[rule]]\nprincipals = [\"a\"]\napplications = [\"b\"]\nusers = \"*\"\nrights = [\"read\"]\n";
            assert!(text.contains(replaced));
            parse(&text.replace(replaced, by))
        };
        assert!(rule("read", "write").is_ok());
        for (replaced, by, fault) in [
            ("principals", "principal", "in line 2: unknown field `principal`"),
            ("users = \"*\"\n", "", "in line 1: missing field `users`"),
            ("\"read\"", "\"rights\"", "In 'rule 1': Unknown right 'rights'. Use read,"),
            ("\"read\"", "", "rights is empty"),
            ("[\"a\"]", "[]", "principals is empty"),
            ("[\"b\"]", "[\"\"]", "applications has an empty name"),
            ("[\"b\"]", "[\"b*c\"]", "'b*c' of applications has a * that is not the last"),
            ("[\"b\"]", "[\"b**\"]", "'b**' of applications"),
            ("\"*\"", "\"alice\"", "Write a list"),
            ("\"*\"", "[\"\"]", "Invalid user id ''"),
            ("\"*\"", "[]", "users is empty"),
            ("\"*\"", "[\"a\", \"*\"]", "Write users = \"*\""),
            ("\"*\"", "[\"self\"]", "Write users = \"self\""),
            ("\"*\"", "7", "users are \"*\", a list of ids, \"self\", or"),
            ("[[rule]]", "[[rules]]", "unknown field `rules`"),
            ("\"read\"]", "\"read\"", "in line"),
        ] {
            let error = rule(replaced, by).unwrap_err();
            assert!(error.contains(fault), "{error}");
            assert!(error.ends_with('.'), "{error}");
        }
    }
}
