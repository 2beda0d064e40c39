//! Counts of connections: how many came, how many are open, how many were not served and why.

use crate::observe::text::Text;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Why a connection was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Its address has as many as it may have.
    Address,
    /// It did not shake hands as TLS asks for, or not in time.
    Handshake,
    /// The system refused it: files may be short.
    System,
}

const REASONS: [(Reason, &str); 3] =
    [(Reason::Address, "address"), (Reason::Handshake, "handshake"), (Reason::System, "system")];

/// Counts since the start.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    came: AtomicU64,
    gone: AtomicU64,
    refused: [AtomicU64; REASONS.len()],
}

/// An open connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct Open(Arc<Connections>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.gone.fetch_add(1, Relaxed);
    }
}

impl Connections {
    /// One more.
    pub(crate) fn open(self: &Arc<Connections>) -> Open {
        self.came.fetch_add(1, Relaxed);
        Open(self.clone())
    }

    /// One more that is not served.
    pub(crate) fn refuse(&self, reason: Reason) {
        self.refused[reason as usize].fetch_add(1, Relaxed);
    }

    /// Writes all of it.
    pub(crate) fn write(&self, text: &mut Text) {
        // Those that are gone first: who comes in between counts as open.
        let gone = self.gone.load(Relaxed);
        let came = self.came.load(Relaxed);
        text.gauge("tabulith_connections", "Open connections of clients.").is(came - gone);
        text.counter("tabulith_connections_total", "Connections accepted.").is(came);
        let help = "Connections that were not served, by reason.";
        let mut family = text.counter("tabulith_connections_refused_total", help);
        for (reason, name) in REASONS {
            family.of(&[("reason", name)], self.refused[reason as usize].load(Relaxed));
        }
    }
}
