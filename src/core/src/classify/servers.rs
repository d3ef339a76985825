//! Those who serve open models, hosted or at home: Groq, Together, Fireworks, Hugging Face, Cerebras, Ollama,
//! llama.cpp, vLLM.

use super::table::Table;
use super::table::Verdict::{Alone, Always, Soft};
use crate::failure::Reason;

/// Groq's 498 is a full flex tier, its 424 mostly another server's credentials.
pub(super) const GROQ: Table = Table {
    words: &[
        ("capacityexceeded", Soft(Reason::Overloaded)),
        ("blockedapiaccess", Always(Reason::Billing)),
        ("spendlimitreached", Always(Reason::Billing)),
        ("spendalert", Always(Reason::Billing)),
        // Another sampling of the same request often succeeds.
        ("toolusefailed", Always(Reason::ToolCallFailed)),
        ("organizationrestricted", Always(Reason::AccountBlocked)),
    ],
    phrases: &[],
    statuses: &[(498, Reason::Overloaded)],
};

/// Together's 403 is a request longer than the model takes.
pub(super) const TOGETHER: Table =
    Table { words: &[], phrases: &[], statuses: &[(403, Reason::PromptTooLong)] };

pub(super) const FIREWORKS: Table =
    Table { words: &[], phrases: &[], statuses: &[(412, Reason::AccountBlocked)] };

/// The text-generation server names the failed step in `error_type`.
pub(super) const HUGGING_FACE: Table = Table {
    words: &[
        ("generation", Soft(Reason::UpstreamFailed)),
        ("requestfailedduringgeneration", Soft(Reason::UpstreamFailed)),
        ("incompletegeneration", Soft(Reason::UpstreamFailed)),
        ("overloaded", Soft(Reason::Overloaded)),
        ("validation", Always(Reason::BadRequest)),
        ("templateerror", Always(Reason::BadRequest)),
        ("toolerror", Always(Reason::BadRequest)),
        ("unhealthy", Soft(Reason::ServerError)),
    ],
    phrases: &[
        ("request failed during generation", Soft(Reason::UpstreamFailed)),
        ("exceeded your monthly included credits", Always(Reason::Billing)),
    ],
    statuses: &[],
};

/// Cerebras writes "quota" for minutes and days alike; the message names the window.
pub(super) const CEREBRAS: Table = Table {
    words: &[
        ("requestquotaexceeded", Soft(Reason::RateLimited)),
        ("tokenquotaexceeded", Soft(Reason::RateLimited)),
        ("queueexceeded", Soft(Reason::Overloaded)),
        ("wrongapikey", Always(Reason::Unauthorized)),
    ],
    phrases: &[],
    statuses: &[],
};

pub(super) const OLLAMA: Table = Table {
    words: &[],
    phrases: &[
        ("server busy, please try again", Soft(Reason::Overloaded)),
        ("maximum pending requests exceeded", Soft(Reason::Overloaded)),
    ],
    statuses: &[],
};

pub(super) const LLAMA_CPP: Table = Table {
    words: &[
        ("unavailableerror", Alone(Reason::ModelLoading)),
        ("notsupportederror", Always(Reason::NotSupported)),
    ],
    phrases: &[
        ("too large to process", Always(Reason::RequestTooLarge)),
        ("loading model", Soft(Reason::ModelLoading)),
    ],
    statuses: &[],
};

pub(super) const VLLM: Table =
    Table { words: &[("notimplementederror", Always(Reason::NotSupported))], phrases: &[], statuses: &[] };
