//! The context of new TLS connections: the certificate, its key, whom to trust, versions and suites, made of the settings and
//! of the files that they name.
//!
//! Errors are for the log and are worded as redis-server's, which says no more to the client than where to look. Not here:
//! when this is done (process/start.rs, features/config.rs).

use std::path::Path;
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{InconsistentKeys, RootCertStore, ServerConfig, SupportedProtocolVersion, version};

use super::{ciphers, tickets};
use crate::config::{ClientCertificates, TlsSettings};
use crate::system::error_text;

/// The context that new connections get. A connection keeps the one that it began with, so that a change closes none.
#[derive(Debug, Default)]
pub(crate) struct Contexts(RwLock<Option<Arc<ServerConfig>>>);

impl Contexts {
    /// The context of the moment; None while TLS is not spoken.
    pub(crate) fn current(&self) -> Option<Arc<ServerConfig>> {
        self.0.read().clone()
    }

    /// New connections get this context from now on. Returns the one before.
    pub(crate) fn exchange(&self, context: Option<Arc<ServerConfig>>) -> Option<Arc<ServerConfig>> {
        std::mem::replace(&mut *self.0.write(), context)
    }
}

/// Makes a context; None if TLS is not spoken, whatever the other settings say.
///
/// # Errors
/// A file is missing or holds something else, or a list leaves nothing.
pub(crate) fn context(settings: &TlsSettings) -> Result<Option<Arc<ServerConfig>>, String> {
    if !settings.is_on() {
        return Ok(None);
    }
    let mut provider = ring::default_provider();
    let failed = |error: String| format!("Failed to configure ciphers: {error}");
    provider.cipher_suites = ciphers::tls13(&settings.suites).map_err(failed)?;
    provider.cipher_suites.extend(ciphers::tls12(&settings.ciphers).map_err(failed)?);
    let provider = Arc::new(provider);
    let certified = certified(settings, &provider)?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions(&settings.protocols)?)
        .map_err(|error| format!("Failed to configure protocols: {error}"))?;
    let builder = match verifier(settings, &provider)? {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.ignore_client_order = settings.own_order;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    if settings.resumption_s > 0 {
        let keys = tickets::changing_every(settings.resumption_s);
        config.ticketer = keys.map_err(|error| format!("Failed to configure session caching: {error}"))?;
        config.send_tls13_tickets = 1;
    }
    Ok(Some(Arc::new(config)))
}

/// The versions of a list of OpenSSL's names; those without gaps that are known are not offered.
fn versions(list: &str) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let mut versions: Vec<&'static SupportedProtocolVersion> = Vec::new();
    for word in list.split_ascii_whitespace() {
        match word.to_ascii_lowercase().as_str() {
            "tlsv1.2" => versions.push(&version::TLS12),
            "tlsv1.3" => versions.push(&version::TLS13),
            "tlsv1" | "tlsv1.1" => tracing::warn!("tls-protocols: {word} is not safe, and not offered"),
            _ => {
                return Err("Invalid tls-protocols specified. Use a combination of 'TLSv1', 'TLSv1.1', 'TLSv1.2' and \
                            'TLSv1.3'."
                    .to_owned());
            }
        }
    }
    match (versions.is_empty(), list.trim().is_empty()) {
        (false, _) => Ok(versions),
        (true, true) => Ok(vec![&version::TLS13, &version::TLS12]),
        (true, false) => Err(format!("tls-protocols: no version of '{list}' is offered")),
    }
}

/// The certificate and its key.
fn certified(settings: &TlsSettings, provider: &CryptoProvider) -> Result<CertifiedKey, String> {
    let certificate = settings.certificate.as_deref().ok_or("No tls-cert-file configured!")?;
    let key = settings.key.as_deref().ok_or("No tls-key-file configured!")?;
    let failed = |reason: String| format!("Failed to load certificate: {}: {reason}", certificate.display());
    let chain = certificates(certificate).map_err(failed)?;
    let failed = |reason: String| format!("Failed to load private key: {}: {reason}", key.display());
    let key_der = private_key(key).map_err(failed)?;
    let signing = provider.key_provider.load_private_key(key_der).map_err(|error| failed(error.to_string()))?;
    let certified = CertifiedKey::new(chain, signing);
    match certified.keys_match() {
        Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err(failed("key values mismatch".into()))
        }
        // A certificate of version 1 is not taken apart here, and is good enough to be shown.
        _ => Ok(certified),
    }
}

/// The check of clients' certificates; None: they show none.
fn verifier(
    settings: &TlsSettings,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, String> {
    if settings.clients == ClientCertificates::No {
        return Ok(None);
    }
    let roots = authorities(settings)?;
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let builder = match settings.clients {
        ClientCertificates::Optional => builder.allow_unauthenticated(),
        _ => builder,
    };
    builder.build().map(Some).map_err(|error| format!("Failed to configure CA certificate(s) file/directory: {error}"))
}

/// The authorities of a file, or of all files of a folder, or of both.
fn authorities(settings: &TlsSettings) -> Result<RootCertStore, String> {
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

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = std::fs::read(path).map_err(|error| error_text(&error))?;
    let all: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&text).collect();
    match all {
        Ok(all) if all.is_empty() => Err("no certificate in it".to_owned()),
        Ok(all) => Ok(all),
        Err(error) => Err(error.to_string()),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let text = std::fs::read(path).map_err(|error| error_text(&error))?;
    if text.windows(9).any(|part| part == b"ENCRYPTED") {
        return Err("the key is encrypted, which is not supported: 'openssl pkey' writes it without".to_owned());
    }
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| error.to_string())
}
