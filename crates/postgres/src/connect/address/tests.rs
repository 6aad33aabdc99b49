//! URLs, without a server.

use std::pin::pin;

use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_postgres::config::TargetSessionAttrs;

use super::*;

fn parse(url: &str) -> Result<Address, AddressError> {
    Address::parse_in(url, None, None)
}

fn config(url: &str) -> Config {
    parse(url).unwrap().hosts[0].clone()
}

#[test]
fn an_address_has_a_user_hosts_and_a_database() {
    let address =
        parse("postgresql://me:hidden@a,b:1,[::1]:2/d%20b?target_session_attrs=read-write");
    let address = address.unwrap();
    assert_eq!(address.to_string(), "postgresql://me@a,b:1,[::1]:2/d%20b");
    let hosts = address.hosts.iter();
    let hosts: Vec<_> = hosts.map(|it| (it.get_hosts().to_vec(), it.get_ports())).collect();
    let host = |name: &str| vec![Host::Tcp(name.to_owned())];
    assert_eq!(hosts, [(host("a"), &[5432][..]), (host("b"), &[1]), (host("::1"), &[2])]);
    for config in &address.hosts {
        assert_eq!(config.get_password(), Some(&b"hidden"[..]));
        assert_eq!((config.get_user(), config.get_dbname()), (Some("me"), Some("d b")));
        assert_eq!(config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
    }
}

#[test]
fn one_that_writes_is_wanted() {
    let wanted = |url: &str| config(url).get_target_session_attrs();
    assert_eq!(wanted("postgres://a,b/x"), TargetSessionAttrs::ReadWrite);
    assert_eq!(wanted("postgres://a/x"), TargetSessionAttrs::ReadWrite);
    let numbers = parse("postgres://a:7,b/x?hostaddr=127.0.0.1,127.0.0.2").unwrap();
    let hosts = numbers.hosts.iter().map(|it| (it.get_hostaddrs().len(), it.get_ports().to_vec()));
    assert_eq!(hosts.collect::<Vec<_>>(), [(1, vec![7]), (1, vec![5432])]);
    let odd = parse("postgres://a,b/x?hostaddr=127.0.0.1").unwrap_err();
    assert!(odd.to_string().contains("another number of ports or addresses"), "{odd}");
}

#[tokio::test]
async fn the_next_host_is_tried_while_one_says_nothing() {
    let frozen = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refusing = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (first, second) = (frozen.local_addr().unwrap(), refusing.local_addr().unwrap());
    let address = parse(&format!("postgres://me@{first},{second}/x?connect_timeout=1")).unwrap();
    let mut connecting = pin!(address.connect(None));
    tokio::select! {
        _ = &mut connecting => panic!("the first has its time"),
        accepted = refusing.accept() => drop(accepted.unwrap()),
    }
    let error = connecting.await.unwrap_err();
    assert!(matches!(error, Fault::Elapsed(_)), "that of the first: {error}");
}

#[tokio::test]
async fn after_a_host_that_refuses_the_next_is_tried_at_once() {
    let last = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let many = "127.0.0.1:1,".repeat(200);
    let address = parse(&format!("postgres://me@{many}{}/x", last.local_addr().unwrap())).unwrap();
    let connecting = async { address.connect(None).await.unwrap_err() };
    let reached = timeout(STAGGER * 100, async {
        tokio::select! {
            error = connecting => panic!("{error}"),
            accepted = last.accept() => accepted.unwrap(),
        }
    });
    reached.await.expect("no pause between two attempts");
}

#[test]
fn a_host_that_went_back_is_left_once() {
    let address = parse("postgres://a,b/x").unwrap();
    let last = || address.last.load(Relaxed);
    address.leave(1);
    assert_eq!(last(), 0, "another one was found meanwhile");
    address.leave(0);
    address.leave(0);
    assert_eq!(last(), 1);
    address.leave(1);
    assert_eq!(last(), 0);
}

#[test]
fn one_host_keeps_all_that_a_url_sets() {
    let url = "postgresql://me:p@h:7/db?options=-cx%3Dy&application_name=a&sslnegotiation=direct\
        &sslmode=require&connect_timeout=8&tcp_user_timeout=9&keepalives=0&keepalives_idle=10\
        &keepalives_interval=11&keepalives_retries=12&target_session_attrs=read-write\
        &channel_binding=require&load_balance_hosts=random&hostaddr=127.0.0.1";
    let mut config: Config = url.parse().unwrap();
    let host = hosts(&config).unwrap().remove(0);
    assert_ne!(host, config);
    config.connect_timeout(Duration::from_secs(4));
    assert_eq!(host, config);
    config.target_session_attrs(TargetSessionAttrs::Any);
    assert_eq!(
        hosts(&config).unwrap()[0].get_target_session_attrs(),
        TargetSessionAttrs::ReadWrite
    );
}

#[test]
fn a_socket_is_named_in_either_way_and_has_no_tls() {
    for (url, shown) in [
        ("postgres:///db?host=/run/pg&sslmode=verify-full", "postgres:///db?host=/run/pg"),
        ("postgres://%2Frun%2Fpg/db", "postgres://%2Frun%2Fpg/db"),
    ] {
        let address = parse(url).unwrap();
        assert_eq!(address.hosts[0].get_hosts(), [Host::Unix("/run/pg".into())]);
        assert_eq!(address.hosts[0].get_ssl_mode(), SslMode::Disable);
        assert_eq!(address.to_string(), shown);
    }
}

#[test]
fn connecting_takes_no_longer_for_many_hosts() {
    let connecting = |url| parse(url).unwrap().connecting();
    assert_eq!(connecting("postgres://me@a,b,c/x"), Duration::from_millis(2 * 3000 + 2 * 100));
    assert_eq!(connecting("postgres://me@a/x?connect_timeout=7"), Duration::from_secs(2 * 7));
}

#[test]
fn defaults_can_be_changed() {
    let limit = |url| parse(url).unwrap().limit;
    assert_eq!(limit("postgres://h"), Duration::from_secs(3));
    assert_eq!(limit("postgres://h?connect_timeout=1"), Duration::from_secs(1));
    let given = config("postgres://h");
    assert_eq!(given.get_application_name(), Some("sessiond"));
    let first_address = Some(&Duration::from_millis(1500));
    assert_eq!(given.get_connect_timeout(), first_address, "the second has its time as well");
    assert_eq!(given.get_tcp_user_timeout(), Some(&Duration::from_secs(30)));
    assert_eq!(given.get_keepalives_idle(), Duration::from_secs(15));
    assert_eq!(given.get_keepalives_retries(), Some(3));
    let changed = config(
        "postgres://h?application_name=a%40%26b&connect_timeout=1&tcp_user_timeout=3\
         &keepalives_idle=4&keepalives_retries=9&options=-csearch_path%3Dx",
    );
    assert_eq!(changed.get_application_name(), Some("a@&b"));
    assert_eq!(changed.get_connect_timeout(), Some(&Duration::from_millis(500)));
    assert_eq!(changed.get_tcp_user_timeout(), Some(&Duration::from_secs(3)));
    assert_eq!(changed.get_keepalives_idle(), Duration::from_secs(4));
    assert_eq!(changed.get_keepalives_retries(), Some(9));
    assert_eq!(changed.get_options(), Some("-csearch_path=x"));
}

#[test]
fn the_password_comes_from_the_url_a_file_or_the_environment() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("password");
    fs::write(&file, "of the file\r\n").unwrap();
    let missing = folder.path().join("missing");
    let password = |url: &str, file: Option<&Path>| {
        let address = Address::parse_in(url, file, Some("of the environment".into()))?;
        Ok(String::from_utf8(address.hosts[0].get_password().unwrap().to_vec()).unwrap())
    };
    assert_eq!(password("postgres://u:of%20the%20url@h", None).unwrap(), "of the url");
    assert_eq!(password("postgres://u@h?password=p", None).unwrap(), "p");
    assert_eq!(password("postgres://u@h", Some(&file)).unwrap(), "of the file");
    assert_eq!(password("postgres://u@h", None).unwrap(), "of the environment");
    assert_eq!(password("postgres://u:p@h", Some(&file)), Err(AddressError::TwoPasswords));
    let error = password("postgres://u@h", Some(&missing)).unwrap_err();
    assert!(error.to_string().contains("missing' cannot be read"), "{error}");
}

#[test]
fn a_password_file_is_read_for_each_connection() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("password");
    fs::write(&file, "first\n").unwrap();
    let address = Address::parse_in("postgres://u@h", Some(&file), None).unwrap();
    assert_eq!(address.current(0).get_password(), Some(&b"first"[..]));
    fs::write(&file, "second\n").unwrap();
    assert_eq!(address.current(0).get_password(), Some(&b"second"[..]));
    fs::remove_file(&file).unwrap();
    assert_eq!(address.current(0).get_password(), Some(&b"first"[..]));
}

#[test]
fn a_network_is_not_trusted_unasked() {
    let mode = |url: &str| config(url).get_ssl_mode();
    for local in ["127.0.0.1", "127.0.0.2:5433", "[::1]", "localhost", "localhost,%2Frun%2Fpg"] {
        assert_eq!(mode(&format!("postgres://{local}")), SslMode::Disable, "{local}");
        let asked = format!("postgres://{local}?sslmode=require");
        assert_eq!(mode(&asked), SslMode::Require, "{local}");
        let root = format!("postgres://{local}?sslrootcert=system");
        assert_eq!(mode(&root), SslMode::Require, "{local}");
    }
    let hosts = ["h", "localhost,h", "10.0.0.1", "localhost?hostaddr=10.0.0.1"];
    for distant in hosts {
        assert_eq!(mode(&format!("postgres://{distant}")), SslMode::Require, "{distant}");
    }
    assert_eq!(mode("postgres://h?sslmode=disable"), SslMode::Disable);
    assert_eq!(mode("postgres://h?hostaddr=127.0.0.1"), SslMode::Disable);
    let parameters = Parameters::default();
    assert_eq!(parameters.mode(Reach::Network), Mode::VerifyFull);
}

#[test]
fn what_tls_cannot_be_had_with_is_told() {
    let tls = |query: &str| match parse(&format!("postgres://h?{query}")) {
        Err(AddressError::Tls(error)) => error,
        other => panic!("{query}: {other:?}"),
    };
    for unknown in ["allow", "prefer", "x"] {
        let error = tls(&format!("sslmode={unknown}"));
        assert_eq!(error, TlsError::UnknownMode(unknown.into()));
        let says = "Use disable, require, verify-ca or verify-full.";
        assert!(error.to_string().ends_with(says), "{error}");
    }
    assert_eq!(tls("sslmode=verify-ca"), TlsError::NoRoot);
    assert_eq!(tls("sslmode=require&sslrootcert=system"), TlsError::WeakSystem);
    assert_eq!(tls("sslmode=verify-ca&sslrootcert=system"), TlsError::WeakSystem);
    assert_eq!(tls("sslmode=require&sslcert=a.pem"), TlsError::HalfIdentity);
    assert_eq!(tls("sslmode=require&sslkey=a.pem"), TlsError::HalfIdentity);
    for parameter in ["sslrootcert", "sslcert"] {
        let query = format!("sslmode=require&{parameter}=%2Fnowhere.pem&sslkey=%2Fnowhere.key");
        let error = tls(&query);
        assert!(matches!(&error, TlsError::File { parameter: of, .. } if *of == parameter));
    }
}

#[test]
fn what_is_wrong_is_said_without_the_password() {
    for (url, says) in [
        ("", "Write postgres://"),
        ("postgres:me:hidden@host", "Write postgres://"),
        ("mysql://me:hidden@host", "Write postgres://"),
        ("postgres://me:hid@den@host/db", "as %40"),
        ("postgres://me:hid?den@host/db", "as %40"),
        ("postgres://me:hidden@host?a@b", "as %40"),
        ("postgres://me:hidden@host?connect_timeout", "NAME=VALUE"),
        ("postgres://me:hidden@host?color=red", "unknown option `color`"),
        ("postgres://me:hidden@host:x/db", "invalid value for option `port`"),
        ("postgres://me:hidden@host?connect_timeout=soon", "`connect_timeout`"),
        ("postgres://me:hidden@host?tcp_user_timeout=soon", "`tcp_user_timeout`"),
        ("postgres://me:hidden@host?options=%ff", "invalid utf-8"),
        ("postgres://me:hidden@/db", "names no host"),
        ("postgres:///db", "names no host"),
    ] {
        let error = parse(url).unwrap_err();
        let texts = [error.to_string(), format!("{error:?}")];
        assert!(texts[0].contains(says), "{url}: {error}");
        assert!(
            texts.iter().all(|text| !text.contains("hid") && !text.contains("den")),
            "{url}: {error}"
        );
    }
    let address = parse("postgres://me:hidden@host/db?password=hidden").unwrap();
    assert!(!format!("{address} {address:?}").contains("hidden"));
}
