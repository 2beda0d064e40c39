//! What the engine tells whoever listens: flushes, merges, stalls, errors of background work, as
//! they happen. Counters of the same are in [`Stats`](crate::stats::Stats).
//!
//! A listener is set with [`Builder::on_event`](crate::Builder::on_event). With the feature
//! `tracing` every event is an event of that crate as well, and the work behind it a span, target
//! `tabulith`.
//!
//! Absent: an event per commit or per read; those are too many to be told one by one.

use crate::env::clock::Clock;
use crate::ids::CommitTs;
use crate::panics;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Something that happened in a database. More kinds and more fields may come.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The database is open.
    #[non_exhaustive]
    Opened {
        /// Groups of commits replayed from the log.
        log_groups: u64,
        /// Damage that the second copy of the metadata made up for.
        repairs: Vec<String>,
        /// How long opening took.
        took: Duration,
    },
    /// A full memtable begins to be written to a file. [`Event::FlushEnd`] follows, unless it
    /// fails.
    #[non_exhaustive]
    FlushBegin {
        /// Bytes of the memtable.
        memtable_bytes: usize,
    },
    /// It is on the disk.
    #[non_exhaustive]
    FlushEnd {
        /// Bytes of the files that it became; 0 where nothing was left to write.
        written_bytes: u64,
        /// How long it took.
        took: Duration,
    },
    /// Files were merged into the next level, moved there as they were, or dropped unread.
    #[non_exhaustive]
    CompactionEnd {
        /// What was done.
        what: Compaction,
        /// Bytes of the files read; 0 where none was.
        read_bytes: u64,
        /// Bytes of the files written; 0 where none was.
        written_bytes: u64,
        /// How long it took.
        took: Duration,
    },
    /// Ingested rows became visible.
    #[non_exhaustive]
    Ingested {
        /// Table files added.
        files: usize,
        /// Bytes of them and of their blob files.
        bytes: u64,
        /// Their commit.
        ts: CommitTs,
    },
    /// Commits begin to pause or to wait, as background work is behind.
    #[non_exhaustive]
    StallBegin {
        /// Which work.
        reason: StallReason,
        /// Whether they wait until it has caught up; otherwise they pause a little each.
        stopped: bool,
    },
    /// They go on.
    #[non_exhaustive]
    StallEnd {
        /// As it began.
        reason: StallReason,
        /// As it began.
        stopped: bool,
    },
    /// A background job failed. It is tried again, or gone round where it could not read a file.
    #[non_exhaustive]
    BackgroundError {
        /// What it said.
        error: String,
    },
    /// The scrub or a merge found damage. A damaged copy of the metadata has been written anew by
    /// now; where a table file or a blob file is damaged, reads that need that place fail.
    #[non_exhaustive]
    DamageFound {
        /// The file.
        file: PathBuf,
        /// Where in it, if that is known.
        offset: Option<u64>,
        /// What it is.
        error: String,
    },
    /// A checkpoint is complete.
    #[non_exhaustive]
    Checkpoint {
        /// Its folder.
        dir: PathBuf,
        /// How long it took.
        took: Duration,
    },
    /// The log goes on in another segment.
    #[non_exhaustive]
    LogRolled {
        /// Its number.
        segment: u64,
    },
}

/// What a compaction did with its files.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compaction {
    /// Read some and wrote others.
    Merged,
    /// Put one a level deeper as it was.
    Moved,
    /// Dropped them: none of their rows is alive.
    Dropped,
}

/// Which background work commits wait for.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallReason {
    /// Compaction of the newest files.
    L0Files,
    /// Flushes of full memtables.
    Memtables,
}

type Listener = Arc<dyn Fn(&Event) + Send + Sync>;

/// Where events go.
#[derive(Clone, Default)]
pub(crate) struct Events {
    listener: Option<Listener>,
    clock: Option<Arc<dyn Clock>>,
}

/// Work that is a span.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Doing {
    Open,
    Recovery,
    Flush,
    Merge,
    Ingest,
    Stall,
    Checkpoint,
}

/// The span of some work, and when it began.
pub(crate) struct Span {
    began: Duration,
    clock: Option<Arc<dyn Clock>>,
    _entered: Entered,
}

impl Span {
    /// Since it began.
    pub(crate) fn took(&self) -> Duration {
        self.clock.as_ref().map_or(Duration::ZERO, |c| c.steady().saturating_sub(self.began))
    }
}

impl Events {
    /// Events that are timed by `clock`.
    pub(crate) fn timed(mut self, clock: &Arc<dyn Clock>) -> Events {
        self.clock = Some(Arc::clone(clock));
        self
    }

    pub(crate) fn listen(&mut self, listener: impl Fn(&Event) + Send + Sync + 'static) {
        self.listener = Some(Arc::new(listener));
    }

    /// Tells what happened. Locks of background work may be held.
    pub(crate) fn tell(&self, event: Event) {
        #[cfg(feature = "tracing")]
        panics::contain(|| trace(&event));
        if let Some(listener) = &self.listener {
            panics::contain(|| listener(&event));
        }
    }

    /// Begins some work of this thread.
    pub(crate) fn span(&self, doing: Doing) -> Span {
        let began = self.clock.as_ref().map_or(Duration::ZERO, |clock| clock.steady());
        Span { began, clock: self.clock.clone(), _entered: enter(doing) }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Events(listener: {})", self.listener.is_some())
    }
}

#[cfg(feature = "tracing")]
type Entered = tracing::span::EnteredSpan;

#[cfg(not(feature = "tracing"))]
type Entered = ();

#[cfg(feature = "tracing")]
fn enter(doing: Doing) -> Entered {
    use tracing::info_span;
    let span = match doing {
        Doing::Open => info_span!(target: "tabulith", "open"),
        Doing::Recovery => info_span!(target: "tabulith", "recovery"),
        Doing::Flush => info_span!(target: "tabulith", "flush"),
        Doing::Merge => info_span!(target: "tabulith", "merge"),
        Doing::Ingest => info_span!(target: "tabulith", "ingest"),
        Doing::Stall => info_span!(target: "tabulith", "stall"),
        Doing::Checkpoint => info_span!(target: "tabulith", "checkpoint"),
    };
    span.entered()
}

#[cfg(not(feature = "tracing"))]
fn enter(_: Doing) -> Entered {}

/// The event for `tracing`: what an operator must see is a warning, what happens all the time a
/// detail for debugging.
#[cfg(feature = "tracing")]
fn trace(event: &Event) {
    use tracing::{debug, info, warn};
    match event {
        Event::BackgroundError { error } => {
            warn!(target: "tabulith", error, "background error");
        }
        Event::DamageFound { error, .. } => warn!(target: "tabulith", error, "damage found"),
        Event::StallBegin { stopped: true, .. } => warn!(target: "tabulith", ?event),
        Event::Opened { repairs, .. } if !repairs.is_empty() => warn!(target: "tabulith", ?event),
        Event::Opened { .. } | Event::Checkpoint { .. } | Event::Ingested { .. } => {
            info!(target: "tabulith", ?event);
        }
        _ => debug!(target: "tabulith", ?event),
    }
}
