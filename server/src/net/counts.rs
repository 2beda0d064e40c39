//! Counts of connections: how many came, how many are open, how many were not served and why.

use crate::observe::text::Text;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

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
        // Who reads this count has the coming of every connection in it.
        self.0.gone.fetch_add(1, Release);
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
        let gone = self.gone.load(Acquire);
        let came = self.came.load(Relaxed);
        let open = came.saturating_sub(gone);
        text.gauge("tabulith_connections", "Open connections of clients.").is(open);
        text.counter("tabulith_connections_total", "Connections accepted.").is(came);
        let help = "Connections that were not served, by reason.";
        let mut family = text.counter("tabulith_connections_refused_total", help);
        for (reason, name) in REASONS {
            family.of(&[("reason", name)], self.refused[reason as usize].load(Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(connections: &Connections) -> Vec<String> {
        let mut text = Text::default();
        connections.write(&mut text);
        let text = text.finish();
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[test]
    fn what_came_is_open_until_it_is_gone() {
        let connections = Arc::new(Connections::default());
        let (first, second) = (connections.open(), connections.open());
        connections.refuse(Reason::Address);
        drop(first);
        let expected = [
            "tabulith_connections 1",
            "tabulith_connections_total 2",
            "tabulith_connections_refused_total{reason=\"address\"} 1",
            "tabulith_connections_refused_total{reason=\"handshake\"} 0",
            "tabulith_connections_refused_total{reason=\"system\"} 0",
        ];
        assert_eq!(told(&connections), expected);
        drop(second);
        assert_eq!(told(&connections)[0], "tabulith_connections 0");
    }

    /// What no order of threads may show, and would have been a panic, or 18446744073709551615.
    #[test]
    fn never_fewer_than_none_are_open() {
        let connections = Connections { gone: AtomicU64::new(1), ..Connections::default() };
        assert_eq!(told(&connections)[0], "tabulith_connections 0");
    }

    /// Every connection that is counted as gone is counted as come, whoever looks.
    #[test]
    fn counts_while_they_come_and_go() {
        let connections = Arc::new(Connections::default());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..10_000).for_each(|_| drop(connections.open())));
            }
            for _ in 0..1_000 {
                let open = told(&connections)[0].rsplit(' ').next().map(str::parse::<u64>);
                assert!(matches!(open, Some(Ok(open)) if open <= 20_000), "{open:?}");
            }
        });
        assert_eq!(
            told(&connections)[..2],
            ["tabulith_connections 0", "tabulith_connections_total 20000"]
        );
    }
}
