//! The names in a client's certificate by which it may be a user (`tls-auth-clients-user`).
//!
//! ```text
//!   CN    subject: O=..., CN=alice               the first common name
//!   URI   alternative names: URI:a, DNS:b, URI:c  a, c
//! ```
//! The certificate was checked by the handshake: an authority of ours vouches for it. Names are bytes to be compared, whatever
//! they hold. Not here: whether there is such a user (worker/users.rs).

use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::config::CertificateUser;

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
