//! A client's certificate: the names in it by which it may be a user (`tls-auth-clients-user`), and the time at which it ends.
//!
//! ```text
//!   CN    subject: O=..., CN=alice               the first common name
//!   URI   alternative names: URI:a, DNS:b, URI:c  a, c
//! ```
//! The certificate was checked by the handshake: an authority of ours vouches for it. Names are bytes to be compared, whatever
//! they hold. Not here: whether there is such a user (worker/users.rs).

use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::config::CertificateUser;

/// True if the certificate has ended at this Unix time, in seconds. The handshake looks at it when it is shown, and not when a
/// session is resumed, which goes on with the certificate of its beginning.
pub(super) fn has_ended(certificate: &[u8], now_s: i64) -> bool {
    X509Certificate::from_der(certificate).is_ok_and(|(_, known)| known.validity().not_after.timestamp() < now_s)
}

/// The names of this kind in a certificate, in their order.
pub(super) fn names(certificate: &[u8], kind: CertificateUser) -> Vec<Vec<u8>> {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return Vec::new() };
    match kind {
        CertificateUser::CommonName => {
            let first = certificate.subject().iter_common_name().next();
            first.and_then(|name| name.as_str().ok()).map(|name| name.as_bytes().to_vec()).into_iter().collect()
        }
        CertificateUser::Uri => {
            let Ok(Some(names)) = certificate.subject_alternative_name() else { return Vec::new() };
            let uri = |name: &GeneralName<'_>| match name {
                GeneralName::URI(uri) => Some(uri.as_bytes().to_vec()),
                _ => None,
            };
            names.value.general_names.iter().filter_map(uri).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    use varve_testkit::tls::Certificates;

    #[test]
    fn issue_16_a_certificate_ends() {
        let files = Certificates::make("ends");
        let certificate = CertificateDer::from_pem_file(files.path("client.crt")).unwrap();
        let (_, known) = X509Certificate::from_der(&certificate).unwrap();
        let end_s = known.validity().not_after.timestamp();
        assert!(!has_ended(&certificate, end_s) && has_ended(&certificate, end_s + 1));
    }
}
