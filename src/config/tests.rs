//! Flags, their defaults and their variables.

use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    config: Config,
}

#[test]
fn the_defaults_are_loopback_and_an_embedded_file() {
    let config = Program::parse_from(["serve"]).config;
    assert_eq!(config.listen, Listen::Tcp("127.0.0.1:50051".into()));
    assert_eq!(config.store.url, "sqlite:sessiond.db");
    assert!(!config.insecure);
}

#[test]
fn certificates_are_asked_for_on_tcp_alone() {
    let tls = ["--tls-cert", "a", "--tls-key", "b", "--tls-client-ca", "c"];
    let asks = |listen| {
        let flags = ["serve", "--listen", listen].into_iter().chain(tls);
        Program::parse_from(flags).config.asks_certificates()
    };
    assert!(asks("127.0.0.1:0"));
    assert!(!asks("unix:a"), "the authorities are for the admin listener");
}

#[test]
fn a_policy_requires_full_keys_unless_the_flag_says_otherwise() {
    for (flags, requires) in [
        (&[][..], false),
        (&["--policy", "p"], true),
        (&["--require-full-keys"], true),
        (&["--require-full-keys=true"], true),
        (&["--require-full-keys=false"], false),
        (&["--policy", "p", "--require-full-keys"], true),
        (&["--policy", "p", "--require-full-keys=true"], true),
        (&["--policy", "p", "--require-full-keys=false"], false),
        (&["--require-full-keys=false", "--require-full-keys"], true),
    ] {
        let config = Program::parse_from(["serve"].iter().chain(flags)).config;
        assert_eq!(config.requires_full_keys(), requires, "{flags:?}");
    }
    for wrong in ["--require-full-keys=maybe", "--require-full-keys="] {
        assert!(Program::try_parse_from(["serve", wrong]).is_err(), "{wrong}");
    }
    // The next argument is no value of it.
    assert!(Program::try_parse_from(["serve", "--require-full-keys", "false"]).is_err());
}

#[test]
fn a_limit_of_nothing_is_refused_with_what_to_do() {
    for text in ["0", "-1", "many"] {
        let flag = format!("--max-appends-per-principal={text}");
        let error = Program::try_parse_from(["serve", &flag]).unwrap_err().to_string();
        assert!(error.contains("without the flag nothing is limited"), "{error}");
    }
}

#[test]
fn an_address_that_is_none_is_refused_with_an_example() {
    for text in ["", "localhost", ":50051", "localhost:http", "unix:"] {
        let error = text.parse::<Listen>().unwrap_err();
        assert!(error.contains("as in"), "{text}: {error}");
    }
    assert_eq!("[::1]:0".parse(), Ok(Listen::Tcp("[::1]:0".into())));
    assert_eq!("unix:a b".parse(), Ok(Listen::Unix("a b".into())));
}

#[test]
fn every_flag_has_an_environment_variable() {
    use clap::CommandFactory as _;
    for argument in Program::command().get_arguments() {
        let long = argument.get_long().unwrap_or_default();
        if long == "help" {
            continue;
        }
        let variable = format!("SESSIOND_{}", long.to_uppercase().replace('-', "_"));
        assert_eq!(argument.get_env().and_then(|name| name.to_str()), Some(&*variable));
    }
}
