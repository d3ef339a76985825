//! What a call of a client has beside: the gates it passes, and who is told of its way.

use std::borrow::Cow;
use std::sync::Arc;

use pyo3::prelude::*;
use steadycall_core::bucket::Ask;
use steadycall_core::call::Call;
use steadycall_core::passage::{Keys, Refusal};
use steadycall_core::time::seconds;
use steadycall_core::{estimate, model};
use steadycall_net::clock::Duration;
use steadycall_net::doorway::Pass;
use steadycall_net::transport::Request;

use crate::gates::{CREDENTIALS, Gates};
use crate::hooks::Entrance;
use crate::options::Options;
use crate::telling::Telling;

/// What a call of a client has beside.
pub struct Client {
    pub gates: Py<Gates>,
    pub entrance: Arc<Entrance>,
    /// Tokens the caller says it will cost.
    pub tokens: Option<u64>,
    /// What tells it apart beside host, model and credential.
    pub partition: String,
    /// From the payload, when it names one and the path does not.
    pub model: Option<String>,
    /// On its way through the gates, or through.
    pub pass: Option<Pass>,
    /// Whether it is through.
    pub inside: bool,
    /// A wait before a gate that the front does, in seconds.
    pub gate_wait: Option<f64>,
    /// Who is told.
    pub telling: Option<Telling>,
    /// Of the attempt under way.
    pub keys: Option<Keys>,
    /// Which gate refused it.
    pub barrier: Option<Refusal>,
}

impl Client {
    /// The model its attempt is for.
    pub fn model_of_keys(&self) -> Option<&str> {
        self.keys.as_ref().and_then(|keys| keys.circuit.split_once(' ')).map(|(_, model)| model)
    }

    /// Before its first attempt.
    pub fn new(
        (gates, entrance): (Py<Gates>, Arc<Entrance>),
        tokens: Option<u64>,
        partition: String,
        model: Option<String>,
        telling: Option<Telling>,
    ) -> Self {
        Self {
            gates,
            entrance,
            tokens,
            partition,
            model,
            pass: None,
            inside: false,
            gate_wait: None,
            telling,
            keys: None,
            barrier: None,
        }
    }

    /// What its next attempt asks of the gates.
    pub fn ask(&self, call: &Call, options: &Options) -> Ask {
        let tokens = match self.tokens {
            Some(tokens) => tokens,
            None if self.gates.get().counts_tokens() => estimate::tokens(&options.request.body),
            None => 0,
        };
        let max_pause = seconds(call.policy().max_wait).unwrap_or(Duration::MAX);
        Ask { tokens, deadline: call.deadline(), max_pause }
    }

    /// What its next attempt goes by.
    pub fn keys_for(&self, options: &Options) -> Keys {
        let request = &options.request;
        let named = model::in_path(request.uri.path()).or(self.model.as_deref());
        let model = named.map_or_else(|| model::in_body(&request.body).unwrap_or_default(), Cow::Borrowed);
        Keys::new(&options.target.host, &model, &credential(request), &self.partition)
    }
}

/// The credential of a request: its header, or the query of its URL, where Gemini takes a key.
fn credential(request: &Request) -> Cow<'_, [u8]> {
    let found = CREDENTIALS.iter().find_map(|name| request.headers.get(*name));
    match (found, request.uri.query()) {
        (Some(value), _) => Cow::Borrowed(value.as_bytes()),
        (None, Some(query)) => Cow::Borrowed(query.as_bytes()),
        (None, None) => Cow::Borrowed(b""),
    }
}
