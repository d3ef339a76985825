//! Certificates made per test, and servers that use them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let bundle = std::env::temp_dir().join(format!("steadycall-{}-{number}.pem", std::process::id()));
        std::fs::write(&bundle, made.cert.pem()).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
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
