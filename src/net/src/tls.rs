//! Which certificates are trusted: one TLS configuration per setting for the whole process.
//!
//! Reading the system's roots takes longer than a call does; a client per runtime must not pay for it again.
//! The cache is never waited for: a child of `fork` may find its lock held for ever by a thread that no longer
//! exists, and then builds its own configuration. The process id in the key keeps a child from sharing locks
//! inside a configuration with its parent's past.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::transport::SetupError;

/// More settings than a process has; beyond it the oldest is forgotten.
const KEPT: usize = 8;

static CACHE: Mutex<Vec<(Source, ClientConfig)>> = Mutex::new(Vec::new());

/// Where the roots come from.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Source {
    process: u32,
    bundle: Option<PathBuf>,
    file: Option<OsString>,
    dir: Option<OsString>,
}

/// The configuration for https: the bundle's roots, or else the system's (and `SSL_CERT_FILE`'s).
pub fn trusting(bundle: Option<&Path>) -> Result<ClientConfig, SetupError> {
    let source = Source {
        process: std::process::id(),
        bundle: bundle.map(Path::to_path_buf),
        file: env::var_os("SSL_CERT_FILE"),
        dir: env::var_os("SSL_CERT_DIR"),
    };
    if let Ok(cache) = CACHE.try_lock()
        && let Some((_, config)) = cache.iter().find(|(known, _)| *known == source)
    {
        return Ok(config.clone());
    }
    let roots = match bundle {
        Some(path) => from_bundle(path)?,
        None => from_system()?,
    };
    let config = with_roots(roots)?;
    if let Ok(mut cache) = CACHE.try_lock() {
        if cache.len() >= KEPT {
            cache.remove(0);
        }
        cache.push((source, config.clone()));
    }
    Ok(config)
}

/// The configuration for clients that only speak http: it trusts nobody and costs nothing.
pub fn unused() -> Result<ClientConfig, SetupError> {
    with_roots(RootCertStore::empty())
}

fn with_roots(roots: RootCertStore) -> Result<ClientConfig, SetupError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong("ca_bundle", error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn from_bundle(path: &Path) -> Result<RootCertStore, SetupError> {
    let cannot_read = |error| wrong("ca_bundle", format!("{}: {error}", path.display()));
    let mut certificates = Vec::new();
    for certificate in CertificateDer::pem_file_iter(path).map_err(cannot_read)? {
        certificates.push(certificate.map_err(cannot_read)?);
    }
    let mut roots = RootCertStore::empty();
    let (added, ignored) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        let what = if ignored == 0 { "no certificate" } else { "no usable certificate" };
        return Err(wrong("ca_bundle", format!("{}: {what} in it", path.display())));
    }
    Ok(roots)
}

fn from_system() -> Result<RootCertStore, SetupError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added > 0 {
        return Ok(roots);
    }
    let field = if env::var_os("SSL_CERT_FILE").is_some() {
        "SSL_CERT_FILE"
    } else if env::var_os("SSL_CERT_DIR").is_some() {
        "SSL_CERT_DIR"
    } else {
        "ca_bundle"
    };
    let why = found
        .errors
        .first()
        .map_or_else(|| "the system has no root certificates".to_owned(), |error| error.to_string());
    Err(wrong(field, why))
}

fn wrong(field: &'static str, detail: String) -> SetupError {
    SetupError { field, detail }
}
