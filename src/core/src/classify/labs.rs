//! Those who serve their own models: OpenAI, Anthropic, Mistral, Cohere, xAI, Moonshot, Z.ai; and GitHub Models.

use super::table::Table;
use super::table::Verdict::{Alone, Always, Soft, SpentUnlessHinted};
use crate::failure::Reason;

pub(super) const OPENAI: Table = Table {
    words: &[
        ("insufficientquota", Always(Reason::Billing)),
        // The batch queue: it empties as batches finish.
        ("tokenlimitexceeded", Soft(Reason::RateLimited)),
    ],
    phrases: &[("exceeded your current quota", Always(Reason::Billing))],
    statuses: &[],
};

pub(super) const ANTHROPIC: Table = Table {
    words: &[
        ("enforcedspendlimitreached", Always(Reason::Billing)),
        // Its own name for a wait of the whole service, on any status.
        ("overloadederror", Soft(Reason::Overloaded)),
    ],
    phrases: &[
        ("extra usage is required", Always(Reason::Forbidden)),
        ("long context beta is not yet available", Always(Reason::Forbidden)),
        ("acceleration limit", Soft(Reason::RateLimited)),
        ("output blocked by content filtering policy", Always(Reason::ContentBlocked)),
    ],
    statuses: &[],
};

pub(super) const MISTRAL: Table = Table {
    words: &[
        ("1300", Soft(Reason::RateLimited)),
        ("3505", Soft(Reason::Overloaded)),
        ("servicetiercapacityexceeded", Soft(Reason::Overloaded)),
    ],
    phrases: &[("service tier capacity exceeded", Soft(Reason::Overloaded))],
    statuses: &[],
};

/// Cohere sends no codes: statuses and texts decide. Its 498 is a refused token of the output.
pub(super) const COHERE: Table = Table {
    words: &[("errortoxic", Always(Reason::ContentBlocked)), ("errorlimit", Always(Reason::PromptTooLong))],
    phrases: &[
        ("deny-listed token", Always(Reason::ContentBlocked)),
        ("blocked output", Always(Reason::ContentBlocked)),
        ("blocked input", Always(Reason::ContentBlocked)),
        ("too many tokens", Always(Reason::PromptTooLong)),
    ],
    statuses: &[(498, Reason::ContentBlocked)],
};

pub(super) const XAI: Table = Table {
    words: &[
        ("someresourcehasbeenexhausted", Soft(Reason::RateLimited)),
        ("theserviceiscurrentlyunavailable", Alone(Reason::Overloaded)),
    ],
    phrases: &[
        ("used all available credits", Always(Reason::Billing)),
        ("doesn't have any credits", Always(Reason::Billing)),
    ],
    statuses: &[],
};

pub(super) const MOONSHOT: Table = Table {
    words: &[
        ("exceededcurrentquotaerror", Always(Reason::Billing)),
        ("accessterminatederror", Always(Reason::QuotaSpent)),
        ("engineoverloadederror", Soft(Reason::Overloaded)),
        ("ratelimitreachederror", Soft(Reason::RateLimited)),
        ("contentfilter", Always(Reason::ContentBlocked)),
        ("resourcenotfounderror", Alone(Reason::NotFound)),
    ],
    phrases: &[
        ("max organization concurrency", Soft(Reason::RateLimited)),
        ("max organization rpm", Soft(Reason::RateLimited)),
    ],
    statuses: &[],
};

/// Z.ai answers 429 for balances and locked accounts too; its inner code tells.
pub(super) const ZAI: Table = Table {
    words: &[
        ("1000", Always(Reason::Unauthorized)),
        ("1001", Always(Reason::Unauthorized)),
        ("1002", Always(Reason::Unauthorized)),
        ("1003", Always(Reason::Unauthorized)),
        ("1004", Always(Reason::Unauthorized)),
        ("1110", Always(Reason::AccountBlocked)),
        ("1111", Always(Reason::AccountBlocked)),
        ("1112", Always(Reason::AccountBlocked)),
        ("1113", Always(Reason::Billing)),
        ("1120", Soft(Reason::ServerError)),
        ("1121", Always(Reason::AccountBlocked)),
        ("1210", Always(Reason::BadRequest)),
        ("1211", Always(Reason::NotFound)),
        ("1212", Always(Reason::BadRequest)),
        ("1213", Always(Reason::BadRequest)),
        ("1214", Always(Reason::BadRequest)),
        ("1215", Always(Reason::BadRequest)),
        ("1220", Always(Reason::Forbidden)),
        ("1221", Always(Reason::NotFound)),
        ("1222", Always(Reason::NotFound)),
        ("1230", Soft(Reason::ServerError)),
        ("1234", Soft(Reason::UpstreamFailed)),
        ("1261", Always(Reason::PromptTooLong)),
        ("1300", Always(Reason::ContentBlocked)),
        ("1301", Always(Reason::ContentBlocked)),
        ("1302", Soft(Reason::RateLimited)),
        ("1303", Soft(Reason::RateLimited)),
        ("1304", Always(Reason::QuotaSpent)),
        ("1305", Soft(Reason::RateLimited)),
        ("1308", SpentUnlessHinted(Reason::QuotaSpent)),
        ("1309", Always(Reason::Billing)),
        ("1310", Always(Reason::QuotaSpent)),
        ("1311", Always(Reason::Forbidden)),
        ("1312", Soft(Reason::Overloaded)),
        ("1313", Always(Reason::AccountBlocked)),
    ],
    phrases: &[],
    statuses: &[(434, Reason::Forbidden), (435, Reason::RequestTooLarge)],
};

pub(super) const GITHUB_MODELS: Table = Table {
    words: &[
        ("ratelimitreached", Soft(Reason::RateLimited)),
        ("tokenslimitreached", Always(Reason::RequestTooLarge)),
    ],
    phrases: &[],
    statuses: &[],
};
