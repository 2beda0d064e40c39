//! What the log says of what happens in the engine: damage, work that failed, commits that wait,
//! and what the start put right. The daily work is in the metrics.

use std::sync::LazyLock;
use tabulith::Event;
use tabulith::env::clock::{Clock, SystemClock};
use tabulith_server::sparing::Sparing;

/// Work is tried again twice a second, and each commit of a full engine waits by itself: both are
/// told once a second.
static FAILURES: Sparing = Sparing::new();
static WAITS: Sparing = Sparing::new();
static CLOCK: LazyLock<SystemClock> = LazyLock::new(SystemClock::new);

/// Tells the log, where an operator is to see it.
pub(crate) fn tell(event: &Event) {
    match event {
        Event::DamageFound { error, .. } => tracing::warn!("damage found: {error}"),
        Event::BackgroundError { error, .. } => {
            if let Some(unsaid) = FAILURES.one_more(CLOCK.steady()) {
                tracing::warn!(error, unsaid, "background work failed");
            }
        }
        Event::StallBegin { reason, stopped: true, .. } => {
            if let Some(unsaid) = WAITS.one_more(CLOCK.steady()) {
                tracing::warn!(reason = ?reason, unsaid, "commits wait for background work");
            }
        }
        Event::Opened { repairs, .. } => {
            for repair in repairs {
                tracing::warn!(repair, "the start put damage right");
            }
        }
        _ => {}
    }
}
