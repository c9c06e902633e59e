//! The contexts of new TLS connections: the certificate, its key, whom to trust, versions and suites, made of the settings and
//! of the files that they name.
//!
//! ```text
//!   accepted connections   tls-cert-file, tls-key-file                clients' certificates as tls-auth-clients says
//!   links to other servers tls-client-cert-file, tls-client-key-file  the other's certificate must be of our authorities,
//!                          or those above                             whatever name is in it
//! ```
//! Errors are for the log and are worded as redis-server's, which says no more to the client than where to look. Not here:
//! when this is done (process/start.rs, features/config.rs), reading files (files.rs).

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, InconsistentKeys, ServerConfig, SignatureScheme,
    SupportedProtocolVersion, version,
};
use varve_base::shared::SharedRwLock;

use super::files::{authorities, certificates, private_key};
use super::{ciphers, tickets};
use crate::config::{ClientCertificates, Identity, TlsSettings};

/// How TLS is spoken.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    /// By connections that are accepted.
    server: Arc<ServerConfig>,
    /// By links to other servers; None if the settings want none by TLS.
    client: Option<Arc<ClientConfig>>,
}

/// The context that new connections get. A connection keeps the one that it began with, so that a change closes none.
#[derive(Debug, Default)]
pub(crate) struct Contexts(SharedRwLock<Option<Context>>);

impl Contexts {
    /// The context of accepted connections; None while TLS is not spoken.
    pub(crate) fn server(&self) -> Option<Arc<ServerConfig>> {
        self.0.read().as_ref().map(|context| Arc::clone(&context.server))
    }

    /// The context of links to other servers; None while they are not by TLS.
    pub(crate) fn client(&self) -> Option<Arc<ClientConfig>> {
        self.0.read().as_ref().and_then(|context| context.client.clone())
    }

    /// New connections get this context from now on. Returns the one before.
    pub(crate) fn exchange(&self, context: Option<Context>) -> Option<Context> {
        std::mem::replace(&mut *self.0.write(), context)
    }
}

/// Makes a context; None if TLS is not spoken, whatever the other settings say.
///
/// # Errors
/// A file is missing or holds something else, or a list leaves nothing.
pub(crate) fn context(settings: &TlsSettings) -> Result<Option<Context>, String> {
    if !settings.is_on() {
        return Ok(None);
    }
    let mut provider = ring::default_provider();
    let failed = |error: String| format!("Failed to configure ciphers: {error}");
    provider.cipher_suites = ciphers::tls13(&settings.suites).map_err(failed)?;
    provider.cipher_suites.extend(ciphers::tls12(&settings.ciphers).map_err(failed)?);
    let idle = ciphers::without_effect(&settings.ciphers);
    if !idle.is_empty() {
        tracing::warn!("No cipher suite of this server fits these words of tls-ciphers: {}", idle.join(" "));
    }
    let provider = Arc::new(provider);
    let versions = versions(&settings.protocols)?;
    let server = Arc::new(server_config(settings, &provider, &versions)?);
    Ok(Some(Context { server, client: client_config(settings, &provider, &versions)?.map(Arc::new) }))
}

fn server_config(
    settings: &TlsSettings,
    provider: &Arc<CryptoProvider>,
    versions: &[&'static SupportedProtocolVersion],
) -> Result<ServerConfig, String> {
    let identity = settings.identity.as_ref().map_err(|missing| format!("No {missing} configured!"))?;
    let certified = certified(identity, provider)?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(versions)
        .map_err(|error| format!("Failed to configure protocols: {error}"))?;
    let builder = match verifier(settings, provider)? {
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
    Ok(config)
}

/// The context of links; None if none is wanted. A certificate for them that is configured is looked at in any case.
fn client_config(
    settings: &TlsSettings,
    provider: &Arc<CryptoProvider>,
    versions: &[&'static SupportedProtocolVersion],
) -> Result<Option<ClientConfig>, String> {
    let own = settings.client_identity.as_ref().map(|identity| certified(identity, provider)).transpose()?;
    if !settings.links_by_tls() {
        return Ok(None);
    }
    let certified = match (own, &settings.identity) {
        (Some(own), _) => own,
        (None, Ok(identity)) => certified(identity, provider)?,
        (None, Err(missing)) => return Err(format!("No {missing} configured!")),
    };
    let failed = |error: String| format!("Failed to configure CA certificate(s) file/directory: {error}");
    let roots = Arc::new(authorities(settings)?);
    let chain = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider)).build();
    let verifier = AnyName { chain: chain.map_err(|error| failed(error.to_string()))? };
    let builder = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(versions)
        .map_err(|error| format!("Failed to configure protocols: {error}"))?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok(Some(builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified)))))
}

/// Checks that a server's certificate is of our authorities, and not the name in it: other servers are named by address, and
/// redis-server does not look at it either.
#[derive(Debug)]
struct AnyName {
    chain: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name is the last thing that is looked at.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
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

/// A certificate and its key.
fn certified(identity: &Identity, provider: &CryptoProvider) -> Result<CertifiedKey, String> {
    let Identity { certificate, key, pass } = identity;
    let failed =
        |path: &Path, what: &str, reason: String| format!("Failed to load {what}: {}: {reason}", path.display());
    let chain = certificates(certificate).map_err(|reason| failed(certificate, "certificate", reason))?;
    let failed = |reason: String| failed(key, "private key", reason);
    let key_der = private_key(key, pass).map_err(failed)?;
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
