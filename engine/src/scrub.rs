//! The scrub: reads every byte of every live file within a period, a piece at a time, and tells of
//! what is damaged before somebody needs it.
//!
//! A pass takes half of the period, so that a file that comes up during one is read within a period
//! all the same. Table files are held against the digest of the manifest, blob files value by
//! value, the log and both copies of manifest and root as an open would read them. A damaged copy
//! of manifest or root is written anew; a damaged log is told to whoever can write its commits
//! elsewhere.
//!
//! Absent: what the system's cache hides. A byte that is in memory is not read from the disk.

use crate::blob::format::BlobMeta;
use crate::blob::reader::{BlobFile, Walked};
use crate::env::clock::Clock;
use crate::error::{Error, Kind, Result};
use crate::event::Event;
use crate::ids::FileNo;
use crate::manifest::load;
use crate::options::Options;
use crate::sstable::format::FileMeta;
use crate::sstable::reader::{BlockCache, TableFile};
use crate::sync::Mutex;
use crate::tree::base::Tree;
use crate::vfs::api::{Access, File};
use crate::vfs::os;
use crate::wal::format::LogFloor;
use crate::wal::replay;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use xxhash_rust::xxh3::Xxh3Default;

/// Bytes read at once. At 64 MiB/s a piece takes 4 ms of the disk.
const PIECE_BYTES: u64 = 256 << 10;

/// Never faster than this, even where the period is too short for it.
const BYTES_PER_SECOND_MAX: u64 = 64 << 20;

/// An open database has better things to do at first.
const FIRST_AFTER: Duration = Duration::from_secs(60);

/// A pass over few bytes looks at its files no further apart than this.
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// What a step asks of whoever took it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Nothing,
    /// The log is damaged while its commits are in memory: they are to be written to files, and the
    /// log is to begin anew.
    RenewLog,
}

/// The scrub of one database.
#[derive(Debug)]
pub(crate) struct Scrub {
    period: Duration,
    clock: Arc<dyn Clock>,
    pass: Mutex<Pass>,
}

/// How far a pass is.
#[derive(Debug, Default)]
struct Pass {
    /// When the next piece is due.
    due: Duration,
    began: Duration,
    /// What the pass reads in all, about.
    bytes: u64,
    /// None between two passes.
    rest: Option<VecDeque<Item>>,
    open: Option<Reading>,
    /// Where the log was found damaged the last time. What is being written looks damaged too,
    /// once.
    log_suspect: Option<Place>,
}

type Place = (PathBuf, Option<u64>);

/// Something that a pass reads. Files by number: they may be gone when their turn comes.
#[derive(Clone, Copy, Debug)]
enum Item {
    Metadata,
    Log,
    Table(FileNo),
    Blob(FileNo),
}

/// A file that is partly read. By number, too: what is dropped during a pause, which may take an
/// hour, leaves the disk meanwhile; and a file that has lost its name is found, which one that is
/// kept open would hide. An open takes some microseconds, of the 4 ms of a piece.
enum Reading {
    Table { no: FileNo, at: u64, digest: Box<Xxh3Default> },
    Blob { no: FileNo, walked: Walked },
}

impl std::fmt::Debug for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Reading::Table { no, .. } | Reading::Blob { no, .. }) = self;
        write!(f, "file {no}")
    }
}

impl Scrub {
    /// A scrub as `options` ask for it; `None` where they ask for none.
    pub(crate) fn new(options: &Options, clock: Arc<dyn Clock>) -> Option<Scrub> {
        let period = Duration::from_secs(options.advanced.scrub_period_s);
        if period.is_zero() || options.read_only {
            return None;
        }
        let due = clock.steady() + FIRST_AFTER.min(period / 4);
        Some(Scrub { period, clock, pass: Mutex::new(Pass { due, ..Pass::default() }) })
    }

    /// Reads a piece if one is due; gives how long until the next one is, and what is to be done
    /// about what it found.
    pub(crate) fn step(&self, tree: &Tree) -> (Duration, Ask) {
        let mut pass = self.pass.lock();
        let now = self.clock.steady();
        if now < pass.due {
            return (pass.due - now, Ask::Nothing);
        }
        if pass.rest.is_none() {
            pass.begin(tree, now);
        }
        let (read, ask) = pass.piece(tree);
        tree.counters.scrub_bytes.add(read);
        let ended = pass.open.is_none() && pass.rest.as_ref().is_none_or(VecDeque::is_empty);
        pass.due = match ended {
            false => now + pause(self.period / 2, read, pass.bytes),
            true => {
                pass.rest = None;
                tree.counters.scrub_passes.add(1);
                tree.counters.scrub_ended.store(self.clock.wall_ticks());
                (pass.began + self.period / 2).max(now + Duration::from_millis(1))
            }
        };
        (pass.due.saturating_sub(self.clock.steady()), ask)
    }
}

/// How long after a piece of `read` bytes the next one is due, where `bytes` are to take `time`.
fn pause(time: Duration, read: u64, bytes: u64) -> Duration {
    let share = read.max(1) as f64 / bytes.max(read).max(1) as f64;
    let least = Duration::from_secs_f64(read as f64 / BYTES_PER_SECOND_MAX as f64);
    // A quarter faster than must be: files that come and go make a pass longer than it was thought.
    time.mul_f64(share * 0.75).min(PAUSE_MAX).max(least)
}

impl Pass {
    fn begin(&mut self, tree: &Tree, now: Duration) {
        let view = tree.view_full();
        let tables =
            view.version.files().map(|(_, file)| (Item::Table(file.meta.no), file.meta.bytes));
        let blobs = view.version.blobs.iter();
        let blobs = blobs.map(|(blob, _)| (Item::Blob(blob.meta.no), blob.meta.bytes));
        let log = tree.options.advanced.wal_segment_bytes as u64;
        let mut all: Vec<_> = tables.chain(blobs).collect();
        // Anywhere: a process that never runs for as long as a pass takes reads all of them in
        // time.
        let first = tree.shelf.vfs.chance() as usize % all.len().max(1);
        all.rotate_left(first);
        all.extend([(Item::Metadata, PIECE_BYTES), (Item::Log, log)]);
        all.rotate_right(2);
        self.began = now;
        self.bytes = all.iter().map(|(_, bytes)| bytes).sum();
        self.rest = Some(all.into_iter().map(|(item, _)| item).collect());
    }

    /// Reads a piece of what is open, or opens the next file. Gives the bytes read.
    fn piece(&mut self, tree: &Tree) -> (u64, Ask) {
        if let Some(reading) = self.open.take() {
            return (self.go_on(tree, reading), Ask::Nothing);
        }
        let Some(item) = self.rest.as_mut().and_then(VecDeque::pop_front) else {
            return (0, Ask::Nothing);
        };
        match item {
            Item::Metadata => (metadata(tree), Ask::Nothing),
            Item::Log => self.log(tree),
            Item::Table(no) => {
                let digest = Box::default();
                (self.go_on(tree, Reading::Table { no, at: 0, digest }), Ask::Nothing)
            }
            Item::Blob(no) => {
                let walked = Walked::default();
                (self.go_on(tree, Reading::Blob { no, walked }), Ask::Nothing)
            }
        }
    }

    /// Reads a piece of a file, unless it has gone since the pass began.
    fn go_on(&mut self, tree: &Tree, reading: Reading) -> u64 {
        let view = tree.view_full(); // Holds the file while the piece is read.
        let done = match reading {
            Reading::Table { no, at, digest } => {
                let live = view.version.files().find(|(_, file)| file.meta.no == no);
                live.map(|(_, live)| table_piece(tree, &live.meta, at, digest))
            }
            Reading::Blob { no, walked } => {
                let live = view.version.blobs.iter().find(|(blob, _)| blob.meta.no == no);
                live.map(|(live, _)| blob_piece(tree, &live.meta, walked))
            }
        };
        let Some(done) = done else { return 0 };
        match done {
            Ok((read, open)) => {
                tree.counters.scrub_files.add(u64::from(open.is_none()));
                self.open = open;
                read
            }
            Err(error) if is_shortage(&error) => {
                // It says nothing about the file, which the next pass reads.
                tree.tell_error(&error);
                PIECE_BYTES
            }
            Err(error) => {
                tree.counters.scrub_files.add(1);
                tell(tree, &error);
                PIECE_BYTES
            }
        }
    }

    /// Reads the log as an open would. What is being written meanwhile may look like damage, but
    /// not at the same place twice.
    fn log(&mut self, tree: &Tree) -> (u64, Ask) {
        let floor = || tree.with_set(|set| set.state().log_floor).unwrap_or_default();
        let (vfs, dir) = (&tree.shelf.vfs, &tree.shelf.dir);
        let before = floor();
        let look = || {
            let mut bytes = 0;
            let found = replay::check(&**vfs, dir, before, &mut |_, _, group| {
                bytes += group.bytes.len() as u64;
                Ok(())
            });
            (found, bytes)
        };
        let (found, bytes) = look();
        let place = |found: &Result<replay::LogReport>| {
            let error = found.as_ref().ok()?.damage.iter().find(|error| !is_shortage(error))?;
            error.place().map(|(file, offset)| (file.to_owned(), offset))
        };
        if before == LogFloor::default() || place(&found).is_none() {
            self.log_suspect = None;
            return (bytes, Ask::Nothing);
        }
        let first = place(&found);
        let (again, more) = look();
        // Where the floor has risen, segments were taken away under the look.
        if floor() != before || place(&again) != first {
            return (bytes + more, Ask::Nothing);
        }
        if self.log_suspect != first {
            // Told once, and asked for until there is a new log: the first try may find no room.
            let damage = again.into_iter().flat_map(|report| report.damage);
            damage.filter(|error| !is_shortage(error)).take(1).for_each(|e| tell(tree, &e));
            self.log_suspect = first;
        }
        (bytes + more, Ask::RenewLog)
    }
}

/// Whether the process or the machine lacked handles or memory for it.
fn is_shortage(error: &Error) -> bool {
    error.io_cause().is_some_and(os::is_shortage)
}

/// Counts a find and tells of it.
fn tell(tree: &Tree, error: &Error) {
    tree.counters.scrub_finds.add(1);
    let (file, offset) = error.place().map_or((tree.shelf.dir.as_path(), None), |place| place);
    let (file, offset, error) = (file.to_owned(), offset, error.to_string());
    tree.events.tell(Event::DamageFound { file, offset, error });
}

/// Reads both copies of root and manifest, between two edits; a damaged copy is written anew.
fn metadata(tree: &Tree) -> u64 {
    let (vfs, dir) = (&tree.shelf.vfs, &tree.shelf.dir);
    // Flushes need the set: of a large folder this takes a while. What is amiss may be an edit that
    // is just being written, and is looked at again.
    if load::check(&**vfs, dir).damage.is_empty() {
        return PIECE_BYTES;
    }
    let damage = tree.with_set_mut(|set| {
        if set.is_closed() {
            return Vec::new(); // The next edit writes all of it anew.
        }
        let mut found = load::check(&**vfs, dir).damage;
        found.retain(|error| !is_shortage(error));
        match found.is_empty() {
            true => found,
            false => {
                let failed = set.rewrite().err();
                found.into_iter().chain(failed).collect()
            }
        }
    });
    damage.into_iter().flatten().for_each(|error| tell(tree, &error));
    PIECE_BYTES
}

type Piece = Result<(u64, Option<Reading>)>;

fn table_piece(tree: &Tree, meta: &FileMeta, at: u64, mut digest: Box<Xxh3Default>) -> Piece {
    let path = tree.shelf.table_path(meta.no);
    let file = tree.shelf.vfs.open(&path, Access::Read);
    let file = file.map_err(|e| Error::io("opening a table file", &path, e))?;
    let whole = file.len().map_err(|e| Error::io("asking a table file's length", &path, e))?;
    if whole != meta.bytes {
        let what = format!("table file has {whole} bytes; the manifest says {}", meta.bytes);
        return Err(Error::corrupt(&path, whole.min(meta.bytes), what));
    }
    let len = PIECE_BYTES.min(meta.bytes.saturating_sub(at));
    let bytes = file.read_vec_at(len as usize, at);
    digest.update(&bytes.map_err(|e| Error::io("reading a table file", &path, e))?);
    let at = at + len;
    if at < meta.bytes {
        return Ok((len, Some(Reading::Table { no: meta.no, at, digest })));
    }
    if digest.digest() != meta.checksum {
        return Err(place_of_damage(file, path, meta));
    }
    Ok((len, None))
}

/// Where in a table file the damage is that its digest tells of.
fn place_of_damage(file: Arc<dyn File>, path: PathBuf, meta: &FileMeta) -> Error {
    let cache = Arc::new(BlockCache::new(0));
    let table = TableFile::open(file, path.clone(), meta, cache);
    let found = table.and_then(|table| table.verify(meta).map(|_| ()));
    let vague = || Error::corrupt(&path, 0, "table file's digest is not the manifest's");
    found.err().filter(|error| error.kind() != Kind::Unsupported).unwrap_or_else(vague)
}

fn blob_piece(tree: &Tree, meta: &BlobMeta, mut walked: Walked) -> Piece {
    let path = tree.shelf.blob_path(meta.no);
    let file = tree.shelf.vfs.open(&path, Access::Read);
    let file = file.map_err(|e| Error::io("opening a blob file", &path, e))?;
    let file = BlobFile::open(file, path, meta)?;
    let before = walked.offset();
    let done = file.walk_on(&mut walked, PIECE_BYTES, &mut |_| Ok(()))?;
    let read = walked.offset() - before;
    Ok((read, (!done).then_some(Reading::Blob { no: meta.no, walked })))
}
