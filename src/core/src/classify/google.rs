//! Google: the Gemini API in both styles, Gemini Code Assist, Vertex AI.
//!
//! Google's "You exceeded your current quota, please check your plan and billing details" covers per-minute
//! quotas too; the quota's id tells (`limits`), the sentence does not.

use super::table::Line;
use super::table::Table;
use super::table::Verdict::{Always, Soft, SpentUnlessHinted};
use crate::failure::Reason;

pub(super) const GEMINI: Table = Table { words: WORDS, phrases: PHRASES, statuses: &[] };
pub(super) const VERTEX: Table = Table { words: WORDS, phrases: PHRASES, statuses: &[] };

const WORDS: &[Line] = &[
    // Code Assist calls a pause of two seconds QUOTA_EXHAUSTED and says how long it is.
    ("quotaexhausted", SpentUnlessHinted(Reason::QuotaSpent)),
    ("quotaexceeded", Always(Reason::QuotaSpent)),
    ("insufficientg1creditsbalance", Always(Reason::Billing)),
    ("apikeyserviceblocked", Always(Reason::Forbidden)),
    ("modelcapacityexhausted", Soft(Reason::Overloaded)),
    ("malformedfunctioncall", Always(Reason::BrokenToolCall)),
    ("unexpectedtoolcall", Always(Reason::BrokenToolCall)),
    ("toomanytoolcalls", Always(Reason::BrokenToolCall)),
];

const PHRASES: &[Line] = &[
    ("prepayment credits", Always(Reason::Billing)),
    ("spending cap", Always(Reason::Billing)),
    ("billing is not enabled", Always(Reason::Billing)),
    ("requires billing to be enabled", Always(Reason::Billing)),
    ("billing account for the owning project is disabled", Always(Reason::Billing)),
    // A rolling window of ten minutes.
    ("spend-based limit", Soft(Reason::RateLimited)),
    ("spend based limit", Soft(Reason::RateLimited)),
    ("exceeded your current quota", Soft(Reason::RateLimited)),
    ("exceeded the provisioned throughput", Soft(Reason::RateLimited)),
    ("no capacity available", Soft(Reason::Overloaded)),
];
