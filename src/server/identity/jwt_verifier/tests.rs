//! Which tokens are refused, and with what fault.

use serde_json::{Value, json};
use tokio::sync::watch;

use super::{
    super::tests::signer::{AUDIENCE, ISSUER, RSA_TOKEN, Signer, encode, rsa_jwk, unsigned},
    *,
};
use crate::access::{Policy, parse};

const NOW: i64 = 1_800_000_000;

fn now() -> Time {
    Time::new(NOW, 0).unwrap()
}

fn verifier(keys: &[Value]) -> JwtVerifier {
    verifier_by(keys, Policies::open())
}

fn verifier_by(keys: &[Value], policies: Policies) -> JwtVerifier {
    let keys = jwt_keys::parse(json!({ "keys": keys }).to_string().as_bytes()).unwrap();
    JwtVerifier::new(keys, Expected { issuer: ISSUER.into(), audience: AUDIENCE.into() }, policies)
}

fn verify(verifier: &JwtVerifier, token: &str) -> Result<Arc<Identity>, Error> {
    verifier.verify(token, TokenHash::of(token), now())
}

fn fault(verifier: &JwtVerifier, token: &str) -> CredentialFault {
    match verify(verifier, token) {
        Err(Error::CredentialInvalid(fault)) => fault,
        other => panic!("{token}: {other:?}"),
    }
}

fn claims() -> Value {
    json!({"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": NOW + 600})
}

/// The claims with another value of one, or without it.
fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn without(name: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove(name);
    claims
}

#[test]
fn a_valid_token_names_its_subject_whatever_signs_it() {
    let (p256, ed25519) = (Signer::p256(), Signer::ed25519());
    let verifier = verifier(&[p256.jwk("a"), ed25519.jwk("b"), rsa_jwk("rsa")]);
    let sign = |signer: &Signer, id: Value| {
        signer.sign(&json!({"alg": signer.algorithm(), "kid": id, "typ": "JWT"}), &claims())
    };
    let tokens = [sign(&p256, json!("a")), sign(&p256, json!(null)), sign(&ed25519, json!("b"))];
    for token in tokens.iter().map(String::as_str).chain([RSA_TOKEN]) {
        let identity = verify(&verifier, token).unwrap();
        assert_eq!(identity.name, "jwt:alice");
        assert_eq!(identity.claims["sub"], "alice");
    }
    // The id of another key, and of none.
    for id in ["b", "c"] {
        assert_eq!(fault(&verifier, &sign(&p256, json!(id))), CredentialFault::UnknownKey);
    }
}

#[test]
fn an_algorithm_is_never_the_choice_of_the_token() {
    let own = Signer::p256();
    let verifier = verifier(&[own.jwk("a"), rsa_jwk("rsa")]);
    let algorithm = |header: &Value, signature: &str| {
        fault(&verifier, &format!("{}.{signature}", unsigned(header, &claims())))
    };
    for name in ["none", "None", "HS256", "HS512", "RS384", "PS256", "ES384", "es256", ""] {
        for signature in ["", "AAAA"] {
            let fault = algorithm(&json!({"alg": name}), signature);
            assert_eq!(fault, CredentialFault::Algorithm, "{name}");
        }
    }
    // The public key as a secret that both sides share.
    let header = json!({"alg": "HS256", "kid": "rsa"});
    let message = unsigned(&header, &claims());
    let secret = ring::hmac::Key::new(
        ring::hmac::HMAC_SHA256,
        rsa_jwk("rsa")["n"].as_str().unwrap().as_bytes(),
    );
    let signature = encode(ring::hmac::sign(&secret, message.as_bytes()));
    assert_eq!(algorithm(&header, &signature), CredentialFault::Algorithm);
    // A key for another algorithm, by its id and without one.
    let ed25519 = json!({"alg": "EdDSA", "kid": "a"});
    assert_eq!(fault(&verifier, &own.sign(&ed25519, &claims())), CredentialFault::UnknownKey);
    let rs256 = json!({"alg": "RS256", "kid": "a"});
    assert_eq!(fault(&verifier, &own.sign(&rs256, &claims())), CredentialFault::UnknownKey);
    assert_eq!(
        fault(&verifier, &own.sign(&json!({"alg": "RS256"}), &claims())),
        CredentialFault::Signature
    );
    // A key that the token brings along.
    let stranger = Signer::p256();
    let header = json!({"alg": "ES256", "jwk": stranger.jwk("a")});
    assert_eq!(fault(&verifier, &stranger.sign(&header, &claims())), CredentialFault::Signature);
    let header = json!({"alg": "ES256", "crit": ["b64"], "b64": false});
    assert_eq!(fault(&verifier, &own.sign(&header, &claims())), CredentialFault::Malformed);
}

#[test]
fn a_change_anywhere_breaks_the_signature() {
    let signer = Signer::ed25519();
    let verifier = verifier(&[signer.jwk("a")]);
    let token = signer.sign(&json!({"alg": "EdDSA"}), &claims());
    let (message, signature) = token.rsplit_once('.').unwrap();
    let (header, _) = message.split_once('.').unwrap();
    let admin = encode(with("sub", json!("admin")).to_string());
    let other = encode(json!({"alg": "EdDSA", "kid": null}).to_string());
    let (_, own) = message.split_once('.').unwrap();
    for changed in [
        format!("{header}.{admin}.{signature}"),
        format!("{other}.{own}.{signature}"),
        format!("{message}.{}", encode([0; 64])),
        format!("{message}."),
    ] {
        assert_eq!(fault(&verifier, &changed), CredentialFault::Signature, "{changed}");
    }
    let huge = "A".repeat(16 * 1024);
    for malformed in [
        "",
        ".",
        "..",
        "a.b",
        "a.b.c",
        &huge,
        message,
        &format!("{token}."),
        &format!("{token}="),
        &format!(".{message}.{signature}"),
        &format!("{}.{own}.{signature}", encode("[]")),
        &format!("{}.{own}.{signature}", encode("{\"alg\":5}")),
        &format!("{}.{own}.{signature}", encode("[".repeat(8000))),
    ] {
        assert_eq!(fault(&verifier, malformed), CredentialFault::Malformed, "{malformed}");
    }
    assert!(verify(&verifier, &token).is_ok());
}

#[test]
fn claims_have_to_be_those_of_this_server_and_of_now() {
    let signer = Signer::ed25519();
    let verifier = verifier(&[signer.jwk("a")]);
    let sign = |claims: &Value| signer.sign(&json!({"alg": "EdDSA"}), claims);
    for (claims, expected) in [
        (without("iss"), CredentialFault::Issuer),
        (with("iss", json!("https://issuer.example/")), CredentialFault::Issuer),
        (with("iss", json!([ISSUER])), CredentialFault::Issuer),
        (without("aud"), CredentialFault::Audience),
        (with("aud", json!("other")), CredentialFault::Audience),
        (with("aud", json!([])), CredentialFault::Audience),
        (with("aud", json!(["other", ["sessiond"]])), CredentialFault::Audience),
        (without("sub"), CredentialFault::Claims),
        (with("sub", json!("")), CredentialFault::Claims),
        (with("sub", json!(7)), CredentialFault::Claims),
        (with("sub", json!("a".repeat(513))), CredentialFault::Claims),
        (without("exp"), CredentialFault::Claims),
        (with("exp", json!("1900000000")), CredentialFault::Claims),
        (with("exp", json!(null)), CredentialFault::Claims),
        (with("nbf", json!("soon")), CredentialFault::Claims),
        (with("nbf", json!(NOW + 61)), CredentialFault::NotYetValid),
        (with("nbf", json!(1e300)), CredentialFault::NotYetValid),
        (json!([]), CredentialFault::Malformed),
    ] {
        assert_eq!(fault(&verifier, &sign(&claims)), expected, "{claims}");
    }
    for claims in [
        with("aud", json!(["other", AUDIENCE])),
        with("nbf", json!(NOW + 60)),
        with("nbf", json!(NOW)),
        with("exp", json!(NOW - 59)),
        with("exp", json!(1.9e9)),
        with("exp", json!(1e300)),
        with("iat", json!("whenever")),
    ] {
        assert!(verify(&verifier, &sign(&claims)).is_ok(), "{claims}");
    }
    for expired in [json!(NOW - 60), json!(0), json!(-1e300), json!(i64::MIN)] {
        let token = sign(&with("exp", expired));
        assert_eq!(verify(&verifier, &token).err(), Some(Error::CredentialExpired));
    }
    // The skew counts for the whole life, so that a stream does not end before its call would be refused.
    let identity = verify(&verifier, &sign(&claims())).unwrap();
    assert_eq!(identity.expire_time, Time::new(NOW + 660, 0));
}

#[test]
fn short_texts_at_the_top_level_are_claims_of_the_principal() {
    let signer = Signer::ed25519();
    let verifier = verifier(&[signer.jwk("a")]);
    let sign = |claims: &Value| signer.sign(&json!({"alg": "EdDSA"}), claims);
    let mut some = with("tenant", json!("acme"));
    some["long"] = json!("a".repeat(513));
    some["a".repeat(513)] = json!("name");
    some["roles"] = json!(["admin"]);
    let kept = verify(&verifier, &sign(&some)).unwrap();
    let kept: Vec<_> = kept.claims.iter().map(|(name, value)| (&**name, &**value)).collect();
    let expected = [("aud", AUDIENCE), ("iss", ISSUER), ("sub", "alice"), ("tenant", "acme")];
    assert_eq!(kept, expected);
    let mut many = claims();
    for at in 0..100 {
        many[format!("a{at:03}")] = json!("x");
    }
    let kept = verify(&verifier, &sign(&many)).unwrap();
    assert_eq!((kept.claims.len(), &*kept.claims["sub"]), (32, "alice"));
}

/// A policy with a rule about each of these claims.
fn policy_about(claims: &[&str]) -> Arc<Policy> {
    let rule = |claim: &&str| {
        format!(
            "[[rule]]\nprincipals = [\"*\"]\napplications = [\"*\"]\nusers = {{ claim = \"{claim}\" }}\nrights = [\"read\"]\n"
        )
    };
    Arc::new(parse(&claims.iter().map(rule).collect::<String>()).unwrap())
}

#[test]
fn the_claims_that_the_policy_names_are_kept_whatever_others_there_are() {
    let policy = watch::Sender::new(policy_about(&["tenant"]));
    let signer = Signer::ed25519();
    let verifier = verifier_by(&[signer.jwk("a")], Policies::of(policy.subscribe()));
    let mut many = claims();
    for at in 0..100 {
        many[format!("a{at:03}")] = json!("x");
    }
    for name in ["tenant", "zone"] {
        many[name] = json!("acme");
    }
    let token = signer.sign(&json!({"alg": "EdDSA"}), &many);
    let has = |name: &str| verify(&verifier, &token).unwrap().claims.contains_key(name);
    assert!(has("tenant") && has("sub") && !has("zone"));
    assert_eq!(verify(&verifier, &token).unwrap().claims.len(), 32);
    // A token that was verified before has what another policy names as well.
    policy.send_replace(policy_about(&["zone"]));
    assert!(has("zone") && has("sub") && !has("tenant"));
    // All that a policy names, also of more than there is place for.
    let names: Vec<_> = (0..40).map(|at| format!("a{at:03}")).collect();
    policy.send_replace(policy_about(&names.iter().map(String::as_str).collect::<Vec<_>>()));
    assert!(names.iter().all(|name| has(name)) && has("sub") && !has("a040"));
}

#[test]
fn two_members_of_one_name_are_refused() {
    let signer = Signer::ed25519();
    let verifier = verifier(&[signer.jwk("a")]);
    let own = claims().to_string();
    let sign = |header: &str, claims: &str| {
        let message = format!("{}.{}", encode(header), encode(claims));
        let Signer::Ed25519(key) = &signer else { panic!("another key") };
        format!("{message}.{}", encode(key.sign(message.as_bytes())))
    };
    let (header, begin) = (r#"{"alg":"EdDSA"}"#, &own[..own.len() - 1]);
    assert!(verify(&verifier, &sign(header, &own)).is_ok());
    for again in [
        r#""sub":"admin""#,
        r#""sub":"alice""#,
        r#""s\u0075b":"admin""#,
        r#""exp":1"#,
        r#""aud":["sessiond"]"#,
        r#""x":1,"x":1"#,
        r#""x":null,"y":2,"x":{}"#,
    ] {
        let token = sign(header, &format!("{begin},{again}}}"));
        assert_eq!(fault(&verifier, &token), CredentialFault::Malformed, "{again}");
    }
    for header in [r#"{"alg":"EdDSA","alg":"EdDSA"}"#, r#"{"alg":"EdDSA","x":1,"x":1}"#] {
        assert_eq!(fault(&verifier, &sign(header, &own)), CredentialFault::Malformed, "{header}");
    }
    // Within a claim the issuer may write what it likes.
    assert!(verify(&verifier, &sign(header, &format!(r#"{begin},"x":{{"a":1,"a":2}}}}"#))).is_ok());
}

#[test]
fn a_verified_token_is_kept_within_a_bound() {
    let signer = Signer::ed25519();
    let verifier = verifier(&[signer.jwk("a")]);
    let token = signer.sign(&json!({"alg": "EdDSA"}), &claims());
    let first = verify(&verifier, &token).unwrap();
    assert!(Arc::ptr_eq(&first, &verify(&verifier, &token).unwrap()));
    let hash = |number: usize| TokenHash::of(&number.to_string());
    let ended = Arc::new(Identity { expire_time: Some(now()), ..(*first).clone() });
    for number in 1..KEPT {
        verifier.keep(hash(number), Arc::clone(&ended), now());
    }
    assert_eq!(verifier.kept().identities.len(), KEPT);
    verifier.keep(hash(0), Arc::clone(&first), now());
    assert_eq!(verifier.kept().identities.len(), 2, "what has expired makes place");
    for number in 1..KEPT {
        verifier.keep(hash(number), Arc::clone(&first), now());
    }
    assert!(verifier.kept().identities.len() <= KEPT);
    assert!(verifier.kept().identities.contains_key(&hash(KEPT - 1)));
    // A token that is not valid is not kept.
    let before = verifier.kept().identities.len();
    assert!(verify(&verifier, &format!("{token}A")).is_err());
    assert_eq!(verifier.kept().identities.len(), before);
}
