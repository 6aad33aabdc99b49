//! Keys of real files, the examples of the standards, and what is left out or refused.

use serde_json::json;

use super::{
    super::tests::signer::{RSA_TOKEN, Signer, encode, rsa_jwk},
    *,
};

const PEM: &str = "\
-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAs2r0HQg8D1N6n2PlOrtN
w0Do5ErAjSORod84AmvMN36u4XCGMLyTltif5C9rqoDHfIekM4Oq2cASgEelrSzY
DwlT0JFZqu16Cjh9HAEXr7Oq9NBGbsVSPbGPYv3b4RHOpRdNh4ncHFLlpaZZzNkh
3Bypa+fId2tfSN7HrNWLi+Ktc0uZa7NNg9ib7OnWU2n9fWgDQU2Noi8BAIv9bXh2
BG5/6dMAi3jOoBsL0w+rn7BLMZfyuUVw4pAXGymNWoZOJ1Dn3sJfB5kPlvwNGxD7
OqkKajg1rzDrbyfX4crxbvIVBM/oHC4CV93/QDtQy1RZSsgflHgpbRJGheC46+DM
xQIDAQAB
-----END PUBLIC KEY-----
-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEeSPx1/AknSDjw9zAO5+IWysDai8C
/euI3uqR5Ot0LhVF7Im7p1XOg1ogmObO11iChFZPH23QAoNW8hFtyhQheQ==
-----END PUBLIC KEY-----
-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAiR732wOJlG3RHi9U6cQnK2FvpeTn2qHKqjiy8Kyq01E=
-----END PUBLIC KEY-----
";

/// A key of P-384, and one of RSA with 1024 bits.
const UNUSABLE: [&str; 2] = [
    "-----BEGIN PUBLIC KEY-----
MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEXlnTEupIfH5QLaFV/j1UEdbMnk5L9nTw
gq6A6x9ChbOyyoHbQ4eB8PJZKF1Ehc60QMmb9fz9qRQCKNM/Cjx2JbckIS0nezS/
kMvEhCUXbprdLYq5AX/GeRxMN3CHF111
-----END PUBLIC KEY-----
",
    "-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQC/25FcM3+cU9WSdrrnl9ELH+BV
QFEY+rhacdY10wvn3oJbPMSXtBGcR3paEY2zvGUADjbNixe0WnqpqTd2M03wce4h
Hvnwbvu+dsci646LVFec4p0AV84Zp+rU9hKHLMzxcTY5Pw5Yzx715z6U4OsNsq0t
ZoWpSu3hj1hW4d+a7wIDAQAB
-----END PUBLIC KEY-----
",
];

fn parse_jwks(keys: &[serde_json::Value]) -> Result<Vec<Key>, &'static str> {
    parse(json!({ "keys": keys }).to_string().as_bytes())
}

fn has_signed(key: &Key, token: &str) -> bool {
    let (message, signature) = token.rsplit_once('.').unwrap();
    key.has_signed(message.as_bytes(), &BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap())
}

#[test]
fn the_examples_of_the_standards_are_verified() {
    // RFC 7515, appendix A.3, and RFC 8037, appendix A.4.
    let es256 = json!({
        "kty": "EC", "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    });
    let ed25519 = json!({
        "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
    });
    let es256_token = concat!(
        "eyJhbGciOiJFUzI1NiJ9.",
        "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.",
        "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
    );
    let ed25519_token = concat!(
        "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.",
        "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
    );
    let keys = parse_jwks(&[es256, ed25519, rsa_jwk("rsa")]).unwrap();
    let tokens = [es256_token, ed25519_token, RSA_TOKEN];
    for (at, key) in keys.iter().enumerate() {
        for (other, token) in tokens.iter().enumerate() {
            assert_eq!(has_signed(key, token), at == other, "{at} {other}");
        }
        let changed = tokens[at].replacen("e", "f", 1);
        assert!(!has_signed(key, &changed));
    }
}

#[test]
fn keys_in_pem_are_those_of_a_jwks() {
    let pem = parse(PEM.as_bytes()).unwrap();
    assert_eq!(pem[0].public, parse_jwks(&[rsa_jwk("rsa")]).unwrap()[0].public);
    assert!(has_signed(&pem[0], RSA_TOKEN));
    let algorithms: Vec<_> = pem.iter().map(Key::algorithm).collect();
    assert_eq!(algorithms, [Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa]);
    assert!(pem.iter().all(|key| key.id.is_none()));
}

#[test]
fn keys_for_something_else_are_left_out_of_a_jwks() {
    let (key, rsa) = (Signer::p256().jwk("own"), rsa_jwk("rsa"));
    let with = |key: &serde_json::Value, name: &str, value: serde_json::Value| {
        let mut key = key.clone();
        key[name] = value;
        key
    };
    let others = [
        with(&key, "use", json!("enc")),
        with(&key, "alg", json!("ES384")),
        with(&key, "key_ops", json!(["sign"])),
        with(&key, "crv", json!("P-384")),
        with(&key, "x", json!("AQAB")),
        with(&key, "y", json!("")),
        with(&key, "x", json!("not base64!")),
        with(&rsa, "alg", json!("RS512")),
        with(&rsa, "n", json!("AQAB")),
        with(&rsa, "n", json!(encode([0xff; 128]))),
        with(&rsa, "e", json!("")),
        with(&rsa, "kty", json!("oct")),
        json!({"kty": "oct", "k": "c2VjcmV0", "kid": "own"}),
        json!({"kty": "quantum"}),
    ];
    for other in &others {
        assert!(parse_jwks(std::slice::from_ref(other)).is_err(), "{other}");
    }
    let used = with(&with(&key, "use", json!("sig")), "key_ops", json!(["verify"]));
    let keys = parse_jwks(&[&others[..], &[used, with(&rsa, "n", rsa["n"].clone())]].concat());
    let ids: Vec<_> = keys.unwrap().into_iter().map(|key| key.id.unwrap()).collect();
    assert_eq!(ids, ["own", "rsa"]);
}

#[test]
fn a_file_without_a_key_that_can_be_used_is_refused() {
    let many: Vec<_> = (0..33).map(|_| rsa_jwk("rsa")).collect();
    assert!(parse_jwks(&many[1..]).is_ok());
    assert!(parse_jwks(&many).unwrap_err().contains("32"));
    for content in ["", "{}", "{\"keys\": []}", "{\"keys\": {}}", "[]", "text"] {
        assert!(parse(content.as_bytes()).is_err(), "{content}");
    }
    for unusable in UNUSABLE {
        let error = parse((PEM.to_owned() + unusable).as_bytes()).unwrap_err();
        assert!(error.contains("another algorithm"), "{error}");
    }
    let private = rcgen::KeyPair::generate().unwrap().serialize_pem();
    assert!(parse(private.as_bytes()).unwrap_err().contains("no public key"));
}
