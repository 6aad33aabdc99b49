//! `sessiond policy check`: what is allowed, and which rule says so.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

use crate::harness::program;

const POLICY: &str = r#"
[[rule]]
name = "agents of the shop"
principals = ["spiffe://example.org/shop/*"]
applications = ["shop", "shop-*"]
users = "*"
rights = ["read", "write"]

[[rule]]
principals = ["jwt:*"]
applications = ["shop"]
users = "self"
rights = ["read"]

[[rule]]
name = "operators"
principals = ["gid:100"]
applications = ["*"]
users = "*"
rights = ["admin", "write_app_state"]
"#;

/// The exit code, what is printed, and what is said on standard error.
fn check(file: &Path, arguments: &[&str]) -> (Option<i32>, Vec<Value>, String) {
    let mut command = Command::new(program());
    let output = command.args(["policy", "check"]).arg(file).args(arguments).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let lines = printed.lines().map(|line| serde_json::from_str(line).unwrap());
    let says = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), lines.collect(), says)
}

#[test]
fn a_policy_says_what_it_allows_and_by_which_rule() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.toml");
    fs::write(&file, POLICY).unwrap();
    assert_eq!(check(&file, &[]), (Some(0), vec![json!({"rules": 3})], String::new()));
    let rules = |arguments: &[&str]| -> Vec<Value> {
        let (code, printed, says) = check(&file, arguments);
        assert_eq!((code, says.as_str()), (Some(0), ""));
        let rights: Vec<_> = printed.iter().map(|line| line["right"].clone()).collect();
        assert_eq!(rights, ["read", "write", "write_app_state", "admin"]);
        for line in &printed {
            assert_eq!(line["allowed"], json!(!line["rule"].is_null()));
        }
        printed.into_iter().map(|line| line["rule"].clone()).collect()
    };
    let agent = "spiffe://example.org/shop/7";
    let agents = json!("agents of the shop");
    let none = Value::Null;
    assert_eq!(
        rules(&["--as", agent, "--app", "shop-2", "--user", "bob"]),
        [agents.clone(), agents, none.clone(), none.clone()]
    );
    assert_eq!(
        rules(&["--as", "jwt:alice", "--app", "shop", "--user", "alice"]),
        [json!("rule 2"), none.clone(), none.clone(), none.clone()]
    );
    let claimed = ["--as", "jwt:alice", "--claim", "sub=bob", "--app", "shop", "--user", "alice"];
    assert_eq!(rules(&claimed), [none.clone(), none.clone(), none.clone(), none.clone()]);
    let operators = json!("operators");
    assert_eq!(
        rules(&["--as", "uid:1000", "--alias", "gid:100", "--app", "any"]),
        [none.clone(), none, operators.clone(), operators]
    );
    let one = ["--as", agent, "--app", "shop", "--user", "bob", "--right"];
    let of = |right| check(&file, &[&one[..], &[right]].concat()).0;
    assert_eq!((of("write"), of("admin"), of("own")), (Some(0), Some(1), Some(2)));
}

#[test]
fn a_caller_without_a_kind_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.toml");
    fs::write(&file, POLICY).unwrap();
    for name in ["ci", "token", "token:", "user:ci"] {
        let (code, _, says) = check(&file, &["--as", name, "--app", "shop"]);
        assert!(code == Some(2) && says.contains("token:"), "{says}");
    }
}

#[test]
fn a_name_that_no_caller_can_have_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.toml");
    for (name, warns) in [
        ("tokn:shop", true),
        ("shop", true),
        ("token:", true),
        ("Token:shop", true),
        ("tokn:*", true),
        ("local", true),
        ("token:shop", false),
        ("spiffe://example.org/*", false),
        ("spiffe:*", false),
        ("tok*", false),
        ("*", false),
    ] {
        fs::write(&file, POLICY.replace("jwt:*", name)).unwrap();
        let (code, printed, says) = check(&file, &[]);
        assert_eq!((code, printed), (Some(0), vec![json!({"rules": 3})]));
        assert_eq!(says.contains(&format!("'rule 2' names '{name}'")), warns, "{name}: {says}");
        assert_eq!(says.is_empty(), !warns, "{says}");
    }
}

#[test]
fn a_faulty_policy_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.toml");
    let (code, _, says) = check(&file, &[]);
    assert!(code == Some(1) && says.contains("cannot be read"), "{says}");
    fs::write(&file, POLICY.replace("rights = [\"read\"]", "right = [\"read\"]")).unwrap();
    let (code, _, says) = check(&file, &["--as", "jwt:a", "--app", "shop"]);
    assert!(code == Some(1) && says.contains("in line 13: unknown field `right`"), "{says}");
}
