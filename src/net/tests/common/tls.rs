//! Certificates made per test, and servers that use them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use steadycall_net::transport::Route;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, crypto::ring};
use tokio_rustls::server::TlsStream;

/// A certificate for `name` that only its own bundle trusts.
pub struct Identity {
    pub bundle: PathBuf,
    config: ServerConfig,
}

impl Identity {
    pub fn new(name: &str) -> Self {
        Self::signing_itself(name, |_| {})
    }

    /// Self-signed, with what `change` makes of it.
    pub fn signing_itself(name: &str, change: impl FnOnce(&mut CertificateParams)) -> Self {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        Self::of(&params.self_signed(&key).unwrap(), &key)
    }

    /// Signed by an authority that stands in no bundle.
    pub fn signed_by_a_stranger(name: &str) -> Self {
        let mut authority = CertificateParams::new([]).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "a stranger");
        let stranger = Issuer::new(authority, KeyPair::generate().unwrap());
        let key = KeyPair::generate().unwrap();
        Self::of(
            &CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &stranger).unwrap(),
            &key,
        )
    }

    fn of(certificate: &Certificate, key: &KeyPair) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let bundle = std::env::temp_dir().join(format!("steadycall-{}-{number}.pem", std::process::id()));
        std::fs::write(&bundle, certificate.pem()).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        Self { bundle, config }
    }

    pub fn acceptor(&self, protocol: &str) -> TlsAcceptor {
        let mut config = self.config.clone();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }

    pub fn route(&self) -> Route {
        Route { ca_bundle: Some(self.bundle.clone()), ..Route::default() }
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.bundle);
    }
}

pub async fn shake(acceptor: &TlsAcceptor, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
    acceptor.accept(stream).await.ok()
}
