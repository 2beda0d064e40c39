//! Restoring: what the log holds beyond the files becomes L0 files, while it is still being read.
//!
//! One thread reads the log; whenever it has gathered enough, other threads sort and write that,
//! and it helps them when it is done. Where there are no threads it writes each lot itself before
//! it goes on, so that a simulation has one order of effects.
//!
//! Promise: the files are durable when [`Restore::finish`] returns. Nothing writes any more once a
//! `Restore` is gone, however it went.
//! Absent: the manifest. Until it names them, the files are orphans.

use crate::batch::LentCommit;
use crate::cursor::Cursor as _;
use crate::env::jobs::{Jobs, Priority};
use crate::erasure::set::Erasures;
use crate::error::{Error, Kind, Result};
use crate::flush::{self, FlushEnv};
use crate::ids::{CommitTs, FileNo};
use crate::manifest::state::State;
use crate::moment;
use crate::options::Options;
use crate::replayed::Replayed;
use crate::snapshot::{Boundaries, Snapshots};
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::version::shelf::{NewFiles, Shelf};
use bytes::Bytes;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

/// Threads beside the one that reads: while one waits for the disk, another sorts and compresses.
const THREADS: usize = 2;

/// The first lots are a memtable's share of this each, the others a memtable each: a log of one
/// memtable keeps all threads busy, and one of several does not become more L0 files than reads and
/// merges like.
const SMALL_LOTS: usize = 3;

/// Lots that may wait. When more do, whoever reads writes one: memory is bounded by so many
/// memtables.
const WAITING_MAX: usize = 2;

/// Files in the making out of a log that is being read.
pub(crate) struct Restore<'a> {
    shared: Arc<Shared>,
    jobs: &'a dyn Jobs,
    snapshots: Snapshots,
    /// The wall clock, as far as it is not behind what the database has seen.
    now: CommitTs,
    rows: Replayed,
    given: usize,
    threads: usize,
    by_hand: bool,
}

/// What the threads share.
struct Shared {
    shelf: Arc<Shelf>,
    options: Options,
    next_file: AtomicU64,
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// The lots: those that wait, how many are being written, and what came of the others.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<Lot>,
    running: usize,
    closing: bool,
    done: Vec<Result<Done>>,
}

/// Rows to be written to one table file. Its number is given with the lot, so that L0 is in the
/// order of the log.
struct Lot {
    no: FileNo,
    rows: Replayed,
    boundaries: Boundaries,
}

struct Done {
    flushed: Option<NewFiles>,
    erased: Erasures,
    floor: CommitTs,
}

impl<'a> Restore<'a> {
    /// Begins for a database whose files `state` names. `now`: the wall clock.
    pub(crate) fn new(
        shelf: &Arc<Shelf>,
        options: &Options,
        state: &State,
        now: CommitTs,
        jobs: &'a dyn Jobs,
    ) -> Restore<'a> {
        let shared = Shared {
            shelf: Arc::clone(shelf),
            options: options.clone(),
            next_file: AtomicU64::new(state.next_file.0),
            queue: Mutex::default(),
            changed: Condvar::new(),
        };
        Restore {
            shared: Arc::new(shared),
            jobs,
            snapshots: Snapshots::new(state.history_floor),
            now: now.max(state.history_floor),
            rows: Replayed::default(),
            given: 0,
            threads: 0,
            by_hand: false,
        }
    }

    /// Adds a commit, newer than those before it; `None` where its bytes are not what
    /// [`Batch`](crate::batch::Batch) writes.
    pub(crate) fn add(&mut self, commit: &LentCommit<'_>, window: &Bytes) -> Option<()> {
        if self.rows.bytes() >= self.lot_bytes() {
            self.give();
            self.start_thread();
            self.help();
        }
        self.rows.add(commit, window).then_some(())
    }

    /// Hands out what was gathered last.
    pub(crate) fn give(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        if rows.is_empty() {
            return;
        }
        self.given += 1;
        // A floor that is lower than that of the lots to come keeps more than they do.
        let window = moment::ticks(self.shared.options.history.unwrap_or_default());
        let mut floor = CommitTs(self.now.max(rows.last_ts).0.saturating_sub(window));
        if crate::planted!("B23") {
            floor = self.now.max(rows.last_ts); // Planted: a restart forgets what was to be kept.
        }
        let boundaries = self.snapshots.boundaries(|| rows.last_ts, floor);
        let no = self.shared.next_file();
        self.shared.queue.lock().waiting.push_back(Lot { no, rows, boundaries });
        self.shared.changed.notify_all();
    }

    /// Writes what nobody has taken, waits for the others, and adds all files to `state`.
    pub(crate) fn finish(mut self, state: &mut State) -> Result<()> {
        self.give();
        self.shared.write_down_to(0);
        for done in self.stop() {
            let Done { flushed, erased, floor } = done?;
            if let Some(NewFiles { table, blobs }) = flushed {
                state.levels[0].push(Arc::new(table));
                state.blobs.extend(blobs.into_iter().map(|blob| (blob.no, Arc::new(blob))));
            }
            if !erased.is_empty() {
                let erased: Vec<_> = erased.iter().cloned().collect();
                state.erasures = Arc::new(state.erasures.changed(&[], &erased));
            }
            state.history_floor = state.history_floor.max(floor);
        }
        state.levels[0].sort_unstable_by_key(|table| table.no);
        state.next_file = FileNo(self.shared.next_file.load(Relaxed));
        if self.given > 0 {
            self.shared.shelf.sync_names()?;
        }
        Ok(())
    }

    fn lot_bytes(&self) -> usize {
        let memtable = self.shared.options.advanced.memtable();
        if self.given < SMALL_LOTS { memtable / SMALL_LOTS } else { memtable }
    }

    fn start_thread(&mut self) {
        if self.by_hand || self.threads == THREADS {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let work = Box::new(move || shared.work());
        // One that cannot be had is done without.
        self.by_hand =
            !matches!(self.jobs.start("tabulith-restore", Priority::Normal, work), Ok(true));
        self.threads += usize::from(!self.by_hand);
    }

    fn help(&self) {
        self.shared.write_down_to(if self.threads == 0 { 0 } else { WAITING_MAX });
    }

    /// Ends the threads; gives what all have done.
    fn stop(&self) -> Vec<Result<Done>> {
        let mut queue = self.shared.queue.lock();
        queue.waiting.clear();
        queue.closing = true;
        self.shared.changed.notify_all();
        while queue.running > 0 {
            self.shared.changed.wait(&mut queue);
        }
        std::mem::take(&mut queue.done)
    }
}

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A lot while it is written. However that ends, nobody waits for it any longer, and what came of
/// it is in the queue: an error, where the thread panicked.
struct Running<'a> {
    shared: &'a Shared,
    done: Option<Result<Done>>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let panicked = || Err(Error::new(Kind::Closed, "a thread that wrote files panicked"));
        let done = self.done.take().unwrap_or_else(panicked);
        let mut queue = self.shared.queue.lock();
        if done.is_err() {
            queue.waiting.clear();
        }
        queue.done.push(done);
        queue.running -= 1;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn next_file(&self) -> FileNo {
        FileNo(self.next_file.fetch_add(1, Relaxed))
    }

    /// One thread's life: writes lots until the end.
    fn work(&self) {
        let mut queue = self.queue.lock();
        while !queue.closing {
            match queue.waiting.pop_front() {
                Some(lot) => {
                    self.write_apart(queue, lot);
                    queue = self.queue.lock();
                }
                None => self.changed.wait(&mut queue),
            }
        }
    }

    /// Writes the oldest lots until as many wait, or fewer.
    fn write_down_to(&self, most: usize) {
        loop {
            let mut queue = self.queue.lock();
            let next = if queue.waiting.len() > most { queue.waiting.pop_front() } else { None };
            let Some(lot) = next else { return };
            self.write_apart(queue, lot);
        }
    }

    /// Writes a lot while others have the queue.
    fn write_apart(&self, mut queue: MutexGuard<'_, Queue>, lot: Lot) {
        queue.running += 1;
        drop(queue);
        let mut running = Running { shared: self, done: None };
        running.done = Some(self.write(lot));
    }

    fn write(&self, lot: Lot) -> Result<Done> {
        let Lot { no, mut rows, boundaries } = lot;
        rows.sort();
        let own = Cell::new(Some(no));
        let next_file = || own.take().unwrap_or_else(|| self.next_file());
        let (shelf, options) = (&self.shelf, &self.options);
        let env = FlushEnv { shelf, options, boundaries: &boundaries, next_file: &next_file };
        let mut cursor = rows.cursor();
        cursor.seek(&[], CommitTs::MAX)?;
        let flushed = flush::write_rows(&mut cursor, &rows.erased, &env)?;
        Ok(Done { flushed, erased: rows.erased, floor: boundaries.floor() })
    }
}
