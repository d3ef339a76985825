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

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::transport::SetupError;
use crate::trust::OrTrustedItself;

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
    let certificates = match bundle {
        Some(path) => from_file(path, "ca_bundle")?,
        None => from_system(&source)?,
    };
    let config = with_roots(certificates)?;
    if let Ok(mut cache) = CACHE.try_lock() {
        if cache.len() >= KEPT {
            cache.remove(0);
        }
        cache.push((source, config.clone()));
    }
    Ok(config)
}

/// Whether the environment names roots in place of the system's.
pub fn environment_names_roots() -> bool {
    ["SSL_CERT_FILE", "SSL_CERT_DIR"].iter().any(|name| env::var_os(name).is_some())
}

/// The configuration for clients that only speak http: it trusts nobody and costs nothing.
pub fn unused() -> Result<ClientConfig, SetupError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong("ca_bundle", error.to_string()))?;
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

fn with_roots(trusted: Vec<CertificateDer<'static>>) -> Result<ClientConfig, SetupError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(trusted.iter().cloned());
    let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
        .build()
        .map_err(|error| wrong("ca_bundle", error.to_string()))?;
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong("ca_bundle", error.to_string()))?
        .dangerous() // is what any verifier but the plain one is called
        .with_custom_certificate_verifier(Arc::new(OrTrustedItself { chains, trusted }))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The certificates of a PEM file that a setting names; all of them, or the setting is wrong.
fn from_file(path: &Path, field: &'static str) -> Result<Vec<CertificateDer<'static>>, SetupError> {
    let cannot_read = |error| wrong(field, format!("{}: {error}", path.display()));
    let mut certificates = Vec::new();
    for certificate in CertificateDer::pem_file_iter(path).map_err(cannot_read)? {
        certificates.push(certificate.map_err(cannot_read)?);
    }
    let what = if certificates.is_empty() { "no certificate" } else { "no usable certificate" };
    if usable(&certificates) {
        Ok(certificates)
    } else {
        Err(wrong(field, format!("{}: {what} in it", path.display())))
    }
}

fn from_system(source: &Source) -> Result<Vec<CertificateDer<'static>>, SetupError> {
    let mut certificates = match &source.file {
        // On our own, because a directory's certificates would hide that the file brought none.
        Some(file) => from_file(Path::new(file), "SSL_CERT_FILE")?,
        None => Vec::new(),
    };
    let dirs: Vec<PathBuf> = source.dir.iter().flat_map(env::split_paths).collect();
    let dirs: Vec<&Path> =
        dirs.iter().map(PathBuf::as_path).filter(|dir| !dir.as_os_str().is_empty()).collect();
    let mut errors = Vec::new();
    for dir in &dirs {
        let found = rustls_native_certs::load_certs_from_paths(None, Some(dir));
        certificates.extend(found.certs);
        errors.extend(found.errors);
    }
    let mut field = "SSL_CERT_DIR";
    if source.file.is_none() && dirs.is_empty() {
        let found = rustls_native_certs::load_native_certs();
        (field, certificates, errors) = ("ca_bundle", found.certs, found.errors);
    }
    if usable(&certificates) {
        return Ok(certificates);
    }
    let nothing =
        if dirs.is_empty() { "the system has no root certificates" } else { "no usable certificate in it" };
    Err(wrong(field, errors.first().map_or_else(|| nothing.to_owned(), ToString::to_string)))
}

fn usable(certificates: &[CertificateDer<'static>]) -> bool {
    RootCertStore::empty().add_parsable_certificates(certificates.iter().cloned()).0 > 0
}

fn wrong(field: &'static str, detail: String) -> SetupError {
    SetupError { field, detail }
}
