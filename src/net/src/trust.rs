//! Whether a server's certificate is trusted: by its chain, or because it is itself one of the trusted ones.
//!
//! A self-signed server certificate that says it is a CA (what `openssl req -x509` makes by default) is refused by
//! webpki wherever it stands, and one whose issuer is not among the roots has no chain. curl and Python's `ssl` take
//! both from a bundle that names them, so we do. Name, validity and possession of the key are checked all the same.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// Takes what webpki takes, and the trusted certificates themselves.
#[derive(Debug)]
pub struct OrTrustedItself {
    /// Follows chains to the trusted certificates.
    pub chains: Arc<WebPkiServerVerifier>,
    /// The trusted certificates as they were read.
    pub trusted: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for OrTrustedItself {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let chain =
            self.chains.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        // What webpki says of a certificate that parses only after it found it valid at this time. "Other" is where
        // rustls puts "a CA where a server belongs".
        let in_time = matches!(
            &chain,
            Err(Error::InvalidCertificate(CertificateError::Other(_) | CertificateError::UnknownIssuer))
        );
        if in_time && self.trusted.contains(end_entity) {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
            return Ok(ServerCertVerified::assertion());
        }
        chain
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}
