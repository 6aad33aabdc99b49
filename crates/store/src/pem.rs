//! Reads certificates and private keys. What is wrong with a file is told without anything of its content, which may be a key.

use rustls::pki_types::{
    CertificateDer, PrivateKeyDer,
    pem::{Error, PemObject},
};

/// All certificates of a file, at least one.
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|error| fault(&error))?;
    if read.is_empty() { Err("it has no certificate") } else { Ok(read) }
}

pub fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, &'static str> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        Error::NoItemsFound => "it has no private key, or an encrypted one",
        error => fault(&error),
    })
}

/// The text of the error itself has the line at fault.
fn fault(error: &Error) -> &'static str {
    match error {
        Error::MissingSectionEnd { .. } => "a section has no end, or its lines are joined",
        Error::IllegalSectionStart { .. } => "a section does not begin on a line of its own",
        Error::Base64Decode(_) => "a section is not base64",
        _ => "it is not PEM",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_has_nothing_of_the_key() {
        let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = pair.signing_key.serialize_pem();
        assert!(private_key(key.as_bytes()).is_ok());
        assert_eq!(certificates(key.as_bytes()), Err("it has no certificate"));
        for (from, to) in [("\n", " "), ("\n", "\\n"), ("-----END", ""), ("M", "!")] {
            let broken = key.replace(from, to);
            let (of_key, of_certificate) =
                (private_key(broken.as_bytes()), certificates(broken.as_bytes()));
            assert!(of_key.is_err() && of_certificate.is_err(), "{broken}");
        }
        assert!(private_key(b"").unwrap_err().contains("encrypted"));
    }
}
