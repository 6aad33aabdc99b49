//! Which credential of a call counts.

pub mod signer;

use std::path::PathBuf;

use rustls::pki_types::CertificateDer;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use signer::{AUDIENCE, ISSUER, Signer};

const STATIC: &str = "sessiond_abcdefghijklmnopqrstuvwxyz";
const ENDED: &str = "sessiond_zyxwvutsrqponmlkjihgfedcba";

struct Files {
    folder: TempDir,
    signer: Signer,
}

impl Files {
    fn new() -> Self {
        let (folder, signer) = (TempDir::new().unwrap(), Signer::ed25519());
        let tokens = format!(
            "[[token]]\nname = \"ci\"\nsha256 = \"{}\"\n[[token]]\nname = \"old\"\nsha256 = \"{}\"\nexpires = 2001-01-01T00:00:00Z\n",
            TokenHash::of(STATIC),
            TokenHash::of(ENDED)
        );
        std::fs::write(folder.path().join("tokens.toml"), tokens).unwrap();
        let keys = json!({"keys": [signer.jwk("a")]}).to_string();
        std::fs::write(folder.path().join("keys.json"), keys).unwrap();
        Self { folder, signer }
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        Some(self.folder.path().join(name))
    }

    fn with_tokens(&self) -> IdentityArgs {
        IdentityArgs { token_hashes: self.path("tokens.toml"), ..IdentityArgs::default() }
    }

    fn with_jwt(&self) -> IdentityArgs {
        IdentityArgs {
            jwt_keys: self.path("keys.json"),
            jwt_issuer: Some(ISSUER.into()),
            jwt_audience: Some(AUDIENCE.into()),
            ..IdentityArgs::default()
        }
    }

    fn jwt(&self) -> String {
        let claims =
            json!({"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": 4_102_444_800_i64});
        self.signer.sign(&json!({"alg": "EdDSA"}), &claims)
    }
}

fn load(args: &IdentityArgs) -> Arc<Authenticator> {
    Arc::new(Authenticator::load(args, &Policies::open()).unwrap())
}

fn certificate(year: i32) -> CertificateDer<'static> {
    let mut params = rcgen::CertificateParams::new(["agent.example".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(year, 1, 1);
    params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().into()
}

fn headers(values: &[&str]) -> HeaderMap {
    let values = values.iter().map(|value| (AUTHORIZATION, value.parse().unwrap()));
    values.collect()
}

/// The name of a call's principal.
fn name(caller: &Caller, authorization: &[&str]) -> Result<String, Error> {
    caller.principal(&headers(authorization)).map(|principal| principal.name().to_owned())
}

fn invalid(fault: CredentialFault) -> Result<String, Error> {
    Err(Error::CredentialInvalid(fault))
}

#[test]
fn without_settings_nobody_is_asked() {
    let authenticator = load(&IdentityArgs::default());
    assert!(authenticator.of_tcp(None).is_none());
    assert!(authenticator.of_unix(Err(std::io::Error::other("gone"))).is_none());
    assert!(authenticator.files().is_empty());
}

#[test]
fn a_bearer_token_counts_before_the_certificate_and_has_to_be_valid() {
    let files = Files::new();
    let args = IdentityArgs { token_hashes: files.path("tokens.toml"), ..files.with_jwt() };
    let authenticator = load(&args);
    assert_eq!(authenticator.files().len(), 2);
    let (plain, certified) =
        (authenticator.of_tcp(None).unwrap(), authenticator.of_tcp(Some(&certificate(2100))));
    let certified = certified.unwrap();
    assert_eq!(name(&plain, &[]), Err(Error::CredentialMissing));
    assert_eq!(name(&certified, &[]).unwrap(), "dns:agent.example");
    let jwt = files.jwt();
    for caller in [&plain, &certified] {
        let with = |token: &str| name(caller, &[&format!("Bearer {token}")]);
        assert_eq!(with(STATIC).unwrap(), "token:ci");
        assert_eq!(with(&jwt).unwrap(), "jwt:alice");
        assert_eq!(name(caller, &[&format!("bearer  {STATIC}")]).unwrap(), "token:ci");
        assert_eq!(with(ENDED), Err(Error::CredentialExpired));
        assert_eq!(with("sessiond_other"), invalid(CredentialFault::UnknownToken));
        assert_eq!(with("a.b.c"), invalid(CredentialFault::Malformed));
        assert_eq!(with(&"a".repeat(TOKEN_BYTES)), invalid(CredentialFault::UnknownToken));
        assert_eq!(with(&"a".repeat(TOKEN_BYTES + 1)), invalid(CredentialFault::TooLong));
        let good = format!("Bearer {STATIC}");
        for wrong in [
            &[""][..],
            &["Bearer"],
            &["Bearer "],
            &[STATIC],
            &["Basic Y2k6c2VjcmV0"],
            &["Bearer a b"],
            &[&format!("Bearer {STATIC}, Bearer {STATIC}")],
            &[&good, &good],
            &["Bearer \u{e9}"],
        ] {
            assert_eq!(name(caller, wrong), invalid(CredentialFault::NotBearer), "{wrong:?}");
        }
    }
}

#[test]
fn each_kind_of_token_is_taken_only_if_it_is_configured() {
    let files = Files::new();
    let jwt = format!("Bearer {}", files.jwt());
    let opaque = format!("Bearer {STATIC}");
    let only_static = load(&files.with_tokens()).of_tcp(None).unwrap();
    assert_eq!(name(&only_static, &[&opaque]).unwrap(), "token:ci");
    assert_eq!(name(&only_static, &[&jwt]), invalid(CredentialFault::UnknownToken));
    let only_jwt = load(&files.with_jwt()).of_tcp(None).unwrap();
    assert_eq!(name(&only_jwt, &[&jwt]).unwrap(), "jwt:alice");
    assert_eq!(name(&only_jwt, &[&opaque]), invalid(CredentialFault::Malformed));
    // A server that takes no tokens ignores them, as proxies may send some.
    let certified = load(&IdentityArgs::default()).of_tcp(Some(&certificate(2100))).unwrap();
    assert_eq!(name(&certified, &[&opaque]).unwrap(), "dns:agent.example");
}

#[test]
fn a_certificate_that_expires_during_its_connection_counts_no_more() {
    let expired = load(&IdentityArgs::default()).of_tcp(Some(&certificate(2001))).unwrap();
    assert_eq!(name(&expired, &[]), Err(Error::CredentialExpired));
    let nameless = load(&IdentityArgs::default()).of_tcp(Some(&vec![1].into())).unwrap();
    assert_eq!(name(&nameless, &[]), invalid(CredentialFault::CertificateName));
}

#[tokio::test]
async fn a_process_at_a_unix_socket_is_its_user() {
    let args = IdentityArgs { unix_peers: true, ..IdentityArgs::default() };
    let (socket, _other) = tokio::net::UnixStream::pair().unwrap();
    let caller = load(&args).of_unix(socket.peer_cred()).unwrap();
    let principal = caller.principal(&HeaderMap::new()).unwrap();
    let identity = principal.identity().unwrap();
    let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
    assert_eq!(identity.name, format!("uid:{uid}"));
    assert_eq!(identity.aliases, [format!("gid:{gid}")]);
    assert_eq!(identity.expire_time, None);
    let unknown = load(&args).of_unix(Err(std::io::Error::other("gone"))).unwrap();
    assert_eq!(name(&unknown, &[]), Err(Error::CredentialMissing));
}

#[test]
fn a_reload_replaces_the_tokens() {
    let files = Files::new();
    let authenticator = load(&files.with_tokens());
    let caller = authenticator.of_tcp(None).unwrap();
    let good = format!("Bearer {STATIC}");
    let path = files.path("tokens.toml").unwrap();
    std::fs::write(&path, "[[token]]\nbroken").unwrap();
    let reload = || authenticator.files().iter().all(|files| files.reload());
    assert!(!reload());
    assert_eq!(name(&caller, &[&good]).unwrap(), "token:ci", "the old content is kept");
    std::fs::write(&path, "").unwrap();
    assert!(reload());
    assert_eq!(name(&caller, &[&good]), invalid(CredentialFault::UnknownToken), "at once");
}
