//! The files of TLS: certificates, authorities and private keys, all as PEM.
//!
//! ```text
//!   file --> text --> DER --> what rustls takes
//!             |        |
//!             +--------+--> overwritten once a key was in it
//! ```
//! A key may be encrypted with a passphrase in the form of PKCS #8, as OpenSSL writes it since version 3; the older form, with
//! `Proc-Type` in front, is refused. Not here: whose certificate is good (rustls), which settings name the files (settings.rs).

use std::path::Path;

use pkcs8::{EncryptedPrivateKeyInfoRef, SecretDocument};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem};
use zeroize::Zeroizing;

use crate::config::{Password, TlsSettings};
use crate::system::error_text;

/// The begin of a key that is encrypted in the form of PKCS #8.
const ENCRYPTED: &[u8] = b"-----BEGIN ENCRYPTED PRIVATE KEY-----";
/// A line that only the older form of an encrypted key has.
const OLDER_FORM: &[u8] = b"Proc-Type: 4,ENCRYPTED";

/// The certificates of a file, in their order.
///
/// # Errors
/// The file cannot be read, or has none.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = std::fs::read(path).map_err(|error| error_text(&error))?;
    let all: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&text).collect();
    match all {
        Ok(all) if all.is_empty() => Err("no certificate in it".to_owned()),
        Ok(all) => Ok(all),
        Err(error) => Err(error.to_string()),
    }
}

/// The private key of a file; `pass` is the passphrase of one that is encrypted.
///
/// # Errors
/// The file cannot be read, has no key, or one that the passphrase does not open.
pub(super) fn private_key(path: &Path, pass: &Password) -> Result<PrivateKeyDer<'static>, String> {
    let text = Zeroizing::new(std::fs::read(path).map_err(|error| error_text(&error))?);
    let has = |part: &[u8]| text.windows(part.len()).any(|window| window == part);
    if has(OLDER_FORM) {
        return Err("the key is encrypted in an older form: 'openssl pkcs8 -topk8' writes it anew".to_owned());
    }
    if has(ENCRYPTED) {
        return decrypted(&text, pass);
    }
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| error.to_string())
}

fn decrypted(text: &[u8], pass: &Password) -> Result<PrivateKeyDer<'static>, String> {
    if pass.0.is_empty() {
        return Err("the key is encrypted, and no passphrase is configured".to_owned());
    }
    let text = std::str::from_utf8(text).map_err(|_| "no text")?;
    let begin = text.find("-----BEGIN ENCRYPTED").unwrap_or_default();
    let (_, sealed) = SecretDocument::from_pem(text[begin..].trim_end()).map_err(|error| error.to_string())?;
    let info = EncryptedPrivateKeyInfoRef::try_from(sealed.as_bytes()).map_err(|error| error.to_string())?;
    let key = info.decrypt(&pass.0).map_err(|error| error.to_string())?;
    Ok(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec()).into())
}

/// The authorities of a file, or of all files of a folder, or of both.
///
/// # Errors
/// There is neither, or a file has none.
pub(super) fn authorities(settings: &TlsSettings) -> Result<RootCertStore, String> {
    if settings.authorities.is_none() && settings.authorities_dir.is_none() {
        return Err(
            "Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-cluster, tls-replication or \
                    tls-auth-clients are enabled!"
                .to_owned(),
        );
    }
    let failed = |path: &Path, reason: String| {
        format!("Failed to configure CA certificate(s) file/directory: {}: {reason}", path.display())
    };
    let mut roots = RootCertStore::empty();
    if let Some(file) = &settings.authorities {
        let found = certificates(file).map_err(|reason| failed(file, reason))?;
        let (taken, _) = roots.add_parsable_certificates(found);
        if taken == 0 {
            return Err(failed(file, "no certificate of an authority".to_owned()));
        }
    }
    if let Some(dir) = &settings.authorities_dir {
        for entry in std::fs::read_dir(dir).map_err(|error| failed(dir, error_text(&error)))? {
            let path = entry.map_err(|error| failed(dir, error_text(&error)))?.path();
            // The folder may hold other things as well.
            if let Ok(found) = certificates(&path) {
                roots.add_parsable_certificates(found);
            }
        }
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key that nothing else uses, encrypted with the passphrase 1234.
    const SEALED: &str = "\
-----BEGIN ENCRYPTED PRIVATE KEY-----\n\
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAiElhNbQ748PQICCAAw\n\
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEC8dyb11UMomVJb5NKoPTC0EgZA3\n\
BW9YV3BUxa7cjAvZqsoPRn1rigxLIapehPqQGddrfCml1xqOZh3FJraU/IXMQMbT\n\
F5SDCtw5T3DKYU21cxkoWS+ZQNgnF4re/ZgS+EmmYJ5g1hkT8XKzUyHUsVNb6oHh\n\
R6SCkRtqe68DYh6+mtNZaACY0WfLKmppLoUjb5FUWnwBn+2hmvHPc1T3QuNtdoQ=\n\
-----END ENCRYPTED PRIVATE KEY-----\n\
";

    fn read(name: &str, text: &str, pass: &str) -> Result<PrivateKeyDer<'static>, String> {
        let path = std::env::temp_dir().join(format!("varve-key-{name}-{}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let read = private_key(&path, &Password(pass.into()));
        std::fs::remove_file(path).unwrap();
        read
    }

    #[test]
    fn a_key_that_is_encrypted_is_opened_by_its_passphrase_alone() {
        let open = |pass| read("sealed", &format!("some words before\n{SEALED}"), pass);
        let key = open("1234").unwrap();
        assert!(rustls::crypto::ring::sign::any_supported_type(&key).is_ok());
        assert!(open("12345").is_err());
        assert!(open("").is_err_and(|reason| reason.contains("no passphrase")));
        let older = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA\n";
        assert!(read("older", older, "1234").is_err_and(|reason| reason.contains("older form")));
        assert!(read("cut", &SEALED[..SEALED.len() / 2], "1234").is_err());
    }
}
