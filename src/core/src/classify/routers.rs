//! Those who pass requests on: OpenRouter, LiteLLM, Portkey. The cause is mostly in what they wrap.

use super::table::Table;
use super::table::Verdict::{Alone, Always, Soft};
use crate::failure::Reason;

/// OpenRouter names the account's limit in `limit_source` and its own cause in `error_type`.
pub(super) const OPENROUTER: Table = Table {
    words: &[
        // A 402 that a short wait clears: earlier requests are still in flight.
        ("inflightbudgetexhausted", Always(Reason::RateLimited)),
        ("weightexceedsbudget", Always(Reason::RequestTooLarge)),
        ("openrouterinflightbudget", Always(Reason::RateLimited)),
        ("openroutercredits", Always(Reason::Billing)),
        ("openrouterkeylimit", Always(Reason::Billing)),
        ("openrouterguardrailbudget", Always(Reason::Billing)),
        ("openrouterworkspacebudget", Always(Reason::Billing)),
        ("openrouterfreetierdaily", Always(Reason::QuotaSpent)),
        ("upstreamprovidersharedpool", Soft(Reason::RateLimited)),
        ("provideroverloaded", Soft(Reason::Overloaded)),
        ("maxtokensexceeded", Always(Reason::PromptTooLong)),
        ("tokenlimitexceeded", Always(Reason::PromptTooLong)),
        ("server", Alone(Reason::ServerError)),
        ("networkerror", Alone(Reason::UpstreamFailed)),
    ],
    phrases: &[
        ("in-flight budget exhausted", Always(Reason::RateLimited)),
        ("free-models-per-day", Always(Reason::QuotaSpent)),
        ("free-models-per-min", Soft(Reason::RateLimited)),
        ("error code: 1015", Soft(Reason::RateLimited)),
        ("moderation and your input was flagged", Always(Reason::ContentBlocked)),
        ("provider returned error", Alone(Reason::UpstreamFailed)),
    ],
    statuses: &[],
};

pub(super) const LITELLM: Table = Table {
    words: &[("budgetexceeded", Always(Reason::Billing)), ("none", Alone(Reason::ServerError))],
    phrases: &[
        ("budget has been exceeded", Always(Reason::Billing)),
        ("exceededbudget", Always(Reason::Billing)),
        ("contextwindowexceedederror", Always(Reason::PromptTooLong)),
        ("contentpolicyviolationerror", Always(Reason::ContentBlocked)),
        ("litellm.authenticationerror", Alone(Reason::Unauthorized)),
        ("litellm.badrequesterror", Alone(Reason::BadRequest)),
        ("no deployments available", Soft(Reason::Overloaded)),
    ],
    statuses: &[],
};

/// Portkey's guardrails answer 446 when they deny; its budgets 412.
pub(super) const PORTKEY: Table =
    Table { words: &[], phrases: &[], statuses: &[(412, Reason::Billing), (446, Reason::ContentBlocked)] };
