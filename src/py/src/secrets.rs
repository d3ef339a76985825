//! Which parts of a request may be credentials, so that nothing a server echoes puts them into a text of ours.
//!
//! An error code is a field that providers fill, and some fill it with what they were sent.
//! Looked at after failures only, and when an observer is to be told.

use pyo3::prelude::*;
use steadycall_net::transport::{Request, Url};

/// Shorter values are compared whole only: "json" or "true" stands in many a code by chance.
const LEAST_WITHIN: usize = 6;
/// A code is cut to 100 characters, so this much of a longer credential is the credential.
const LEAST_PIECE: usize = 16;
/// Words in the names of headers that carry credentials.
const NAMES: [&str; 8] = ["auth", "key", "token", "secret", "cookie", "password", "credential", "signature"];

/// The credentials of a request, in lower case.
pub struct Secrets(Vec<String>);

impl Secrets {
    /// Those in headers that are named like one, and in every value of the query.
    pub fn of(request: &Request) -> Self {
        let headers = request.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        Self::within(headers, &request.uri.to_string())
    }

    /// The same of a request in parts; header names in lower case.
    pub fn within<'a>(headers: impl Iterator<Item = (&'a str, &'a [u8])>, url: &str) -> Self {
        let mut held = Vec::new();
        for (name, value) in headers {
            if is_named_like_one(name) {
                hold(&mut held, &String::from_utf8_lossy(value));
            }
        }
        // What is sent came from such a URL; reading it again is for failures only.
        let url: Option<Url> = url.parse().ok();
        for (name, value) in url.iter().flat_map(Url::query_pairs) {
            hold(&mut held, if value.is_empty() { &name } else { &value });
        }
        Self(held)
    }

    /// Whether a text gives one of them away.
    pub fn are_in(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        self.0.iter().any(|secret| {
            text == *secret
                || (secret.len() >= LEAST_WITHIN && text.contains(secret))
                || (text.len() >= LEAST_PIECE && secret.contains(&text))
        })
    }
}

/// Whether a text gives a credential away of a request with these headers and this URL. Runs with the GIL held.
#[pyfunction]
pub fn gives_away(text: &str, headers: Vec<(Vec<u8>, Vec<u8>)>, url: &str) -> bool {
    let headers: Vec<(String, Vec<u8>)> = headers
        .into_iter()
        .map(|(name, value)| (String::from_utf8_lossy(&name).to_ascii_lowercase(), value))
        .collect();
    let parts = headers.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
    Secrets::within(parts, url).are_in(text)
}

fn is_named_like_one(name: &str) -> bool {
    name != "idempotency-key" && NAMES.iter().any(|word| name.contains(word))
}

/// Takes the value apart: `Bearer KEY` is echoed without its scheme, `session=KEY` without its name.
fn hold(held: &mut Vec<String>, value: &str) {
    let value = value.trim().to_lowercase();
    let bare = value.split_once(' ').map_or(value.as_str(), |(_scheme, rest)| rest);
    for piece in bare.split([' ', ',', ';']) {
        let named = piece.split_once('=').map(|(_name, content)| content);
        held.extend(
            [Some(piece), named].into_iter().flatten().map(|part| part.trim_matches(['"', '=']).to_owned()),
        );
    }
    held.push(value);
    held.retain(|secret| !secret.is_empty());
}
