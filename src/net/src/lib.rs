//! The doing half of steadycall: it sends one request and says what came of it.
//!
//! Nothing here decides whether to try again; `steadycall_core` does.
//! Modules are listed in import order: a file uses only files above it.

#![forbid(unsafe_code)]

pub mod transport;
pub mod url;
pub mod proxy;

pub mod clock;
pub mod dice;
mod progress;
mod trust;
mod tls;

mod connect;
mod client;
mod fault;
mod answer;
pub mod stream;

pub mod lane;
pub mod doorway;
pub mod driver;
pub mod bulk;
