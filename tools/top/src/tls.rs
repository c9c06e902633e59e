//! TLS of the connection: which authorities are trusted, and the certificate that is shown.

use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme, StreamOwned};

use crate::options::Options;

/// Where Linux systems keep the authorities that the machine trusts.
const MACHINES_AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// A connection by TLS over this socket. The handshake is made by the first write.
///
/// # Errors
/// A file that cannot be read, or a name that cannot stand in a certificate.
pub(crate) fn over(stream: TcpStream, options: &Options) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let host = options.sni.as_ref().unwrap_or(&options.host).clone();
    let name = ServerName::try_from(host).map_err(io::Error::other)?;
    let session = ClientConnection::new(Arc::new(config(options)?), name).map_err(io::Error::other)?;
    Ok(StreamOwned::new(session, stream))
}

fn config(options: &Options) -> io::Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    let builder = if options.insecure {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider)))
    } else {
        let file = options.cacert.as_deref().unwrap_or(Path::new(MACHINES_AUTHORITIES));
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(authorities(file)?), provider).build();
        builder.with_webpki_verifier(verifier.map_err(io::Error::other)?)
    };
    match (&options.cert, &options.key) {
        (Some(certificate), Some(key)) => {
            let key = PrivateKeyDer::from_pem_file(key).map_err(|error| named(key, error))?;
            builder.with_client_auth_cert(certificates(certificate)?, key).map_err(io::Error::other)
        }
        _ => Ok(builder.with_no_client_auth()),
    }
}

fn authorities(file: &Path) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates(file)?);
    Ok(roots)
}

fn certificates(file: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let all = CertificateDer::pem_file_iter(file).map_err(|error| named(file, error))?;
    all.collect::<Result<_, _>>().map_err(|error| named(file, error))
}

fn named(file: &Path, error: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {error}", file.display()))
}

/// Believes any certificate (`--insecure`). The server still has to have the certificate's key.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
