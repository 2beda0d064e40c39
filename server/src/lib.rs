//! The Azure Table REST protocol on top of the [`tabulith`] engine: what the Azure SDKs talk to.
//!
//! [`Server::start`] serves a [`TableStore`](tabulith::table::store::TableStore) on a socket;
//! [`App::answer`] answers one request as a plain value, for tests and for other transports.
//!
//! # Layout
//!
//! The `mod` lines of this file stand in dependency order: a file uses only what is listed before
//! it.

// Floor 0: words.
pub mod limits;
pub mod source;
pub mod texts;
pub mod tokens;
pub mod operations;
pub mod faults;
pub mod config;
pub mod error;

// Floor 1: wire. Bytes and values, no sockets, no store.
pub mod xml;
pub mod http;
pub mod odata;
pub mod batch;

// Floor 2: gates.
pub mod properties;
pub mod context;
pub mod trace;
pub mod auth;
pub mod throttle;

// Floor 3: routes.
pub mod route;
pub mod observe;
pub mod lab;
pub mod sparing;
pub mod refusal;
pub(crate) mod remembered;
pub mod stored;
pub mod services;
pub mod handle;

// Floor 4: house.
pub mod app;
pub mod testing;
pub mod net;
mod compiled;

pub use app::App;
pub use config::{Accounts, Config};
pub use net::server::{Parts, Pulse, Running, Server};
