//! The deciding half of steadycall: what happened, and what to do next.
//!
//! Nothing here reads a clock, rolls dice, locks, sleeps or sends.
//! Callers hand in facts, `now` and draws in `[0, 1)`, and get data back, so every rule is
//! tested without a second passing.
//! Modules are listed in import order: a file uses only files above it.

#![forbid(unsafe_code)]

pub mod time;
pub mod hint;
pub mod failure;
pub mod classify;
pub mod places;
pub mod usage;
pub mod choices;
pub mod delta;
pub mod sse;
pub mod opening;
pub mod reading;
pub mod backoff;
pub mod policy;
pub mod plan;
pub mod estimate;
pub mod model;
pub mod window;
pub mod level;
pub mod line;
pub mod keys;
pub mod budget;
pub mod slots;
pub mod ceiling;
pub mod remaining;
pub mod bucket;
pub mod adaptive;
pub mod breaker;
pub mod passage;
pub mod gates;
pub mod event;
pub mod stop;
pub mod call;
