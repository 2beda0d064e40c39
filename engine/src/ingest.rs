//! Ingest: rows that come in key order become table files directly, and are seen all at once.
//!
//! Nothing goes through log and memtable. The rows are gathered in chunks of a file's size; a
//! second thread makes one chunk a file while the caller fills the next, and where it has not
//! finished the caller makes the next file itself, so that two cores compress. The files' rows bear
//! no timestamp: at the end the whole takes one place in the order of commits, and the manifest
//! says for each file which. One edit of the manifest adds them all.
//!
//! Promises: before `finish` returned nothing is seen; after a crash all of it is there or nothing;
//! commits that came before are in files by then, so what is there stays a prefix of the order.

use crate::blob::sink::Sink;
use crate::db::{Db, Inner};
use crate::env::jobs::{Jobs, Priority};
use crate::error::{Error, Kind, Result};
use crate::event::{Doing, Event};
use crate::expiry;
use crate::flush::{Flushed, create_table, sync_names};
use crate::ids::{CommitTs, FileNo, RowKind, TableId};
use crate::key::order;
use crate::names::FileKind;
use crate::pool::Claim;
use crate::sstable::builder::TableBuilder;
use crate::storage::no_such_table;
use crate::sync::{Condvar, Mutex};
use crate::update::{check_key_part, check_value};
use std::sync::Arc;

/// Rows in key order on their way into table files.
///
/// Dropping it without [`Ingest::finish`] leaves nothing.
#[derive(Debug)]
#[must_use = "nothing is seen before `finish`"]
pub struct Ingest {
    db: Db,
    table: TableId,
    chunk: Chunk,
    chunk_bytes: usize,
    _claim: Claim,
    partition: Vec<u8>, // PartitionKey of the last row.
    key: Vec<u8>,       // The last row's key; empty before the first.
    next_key: Vec<u8>,
    prefix_len: usize,
    desk: Arc<Desk>,
    helper: Helper,
}

/// Whether a second thread makes files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Helper {
    NotAsked,
    Runs,
    Absent,
}

/// Rows as one string of bytes: each key, then what is stored of its row.
#[derive(Debug, Default)]
struct Chunk {
    bytes: Vec<u8>,
    rows: Vec<RowEnds>,
}

#[derive(Clone, Copy, Debug)]
struct RowEnds {
    key: usize,
    value: usize,
    prefix_len: usize,
    kind: RowKind,
}

/// Where the two threads meet.
#[derive(Debug)]
struct Desk {
    db: Db,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Option<Chunk>,
    /// One whose rows are in a file: its memory serves the next.
    used: Option<Chunk>,
    busy: bool,
    ended: bool,
    done: Vec<Flushed>,
    failed: Option<Error>,
}

impl Ingest {
    pub(crate) fn new(db: &Db, table: TableId) -> Result<Ingest> {
        let inner = &db.inner;
        inner.check_writable(inner.writer()?, table)?;
        let desk = Desk { db: db.clone(), state: Mutex::default(), changed: Condvar::new() };
        // Values compress to about half: a file's worth of stored bytes.
        let pool = &inner.tree.shelf.pool;
        let taken = pool.taken();
        let chunk_bytes = pool.budget.chunk(taken.pinned, taken.working);
        // Two chunks, one filled and one made a file, and what making two files takes.
        let claim = pool.claim(2 * (chunk_bytes + pool.budget.builder(chunk_bytes)));
        Ok(Ingest {
            db: db.clone(),
            table,
            chunk: Chunk::default(),
            chunk_bytes,
            _claim: claim,
            partition: Vec::new(),
            key: Vec::new(),
            next_key: Vec::new(),
            prefix_len: 0,
            desk: Arc::new(desk),
            helper: Helper::NotAsked,
        })
    }

    /// Adds a row, which replaces what is under its keys. Rows come in the order of (PartitionKey,
    /// RowKey), each once.
    ///
    /// Cost: a copy of the row, and once per chunk the making of a file where the second thread is
    /// still at work. Memory: two chunks of twice a table file, less where the budget is small.
    ///
    /// Errors: `Invalid` for a row that is not after the one before, or that is too long; `Io` and
    /// `NoSpace` of an earlier chunk. The ingest cannot go on after an error.
    pub fn add(
        &mut self,
        pk: impl AsRef<[u8]>,
        rk: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.add_row(pk.as_ref(), rk.as_ref(), value.as_ref(), None)
    }

    /// The same for a row that is gone from `expires` on, as with
    /// [`Batch::upsert_until`](crate::Batch::upsert_until).
    pub fn add_until(
        &mut self,
        pk: impl AsRef<[u8]>,
        rk: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires: CommitTs,
    ) -> Result<()> {
        self.add_row(pk.as_ref(), rk.as_ref(), value.as_ref(), Some(expires))
    }

    fn add_row(
        &mut self,
        pk: &[u8],
        rk: &[u8],
        value: &[u8],
        expires: Option<CommitTs>,
    ) -> Result<()> {
        check_key_part("RowKey", rk)?;
        check_value(value, expires.is_some())?;
        if self.key.is_empty() || pk != self.partition {
            check_key_part("PartitionKey", pk)?;
            self.partition.clear();
            self.partition.extend_from_slice(pk);
            self.next_key.clear();
            order::put_partition(&mut self.next_key, self.table, pk);
            self.prefix_len = self.next_key.len();
        }
        self.next_key.truncate(self.prefix_len);
        self.next_key.extend_from_slice(rk);
        if self.next_key <= self.key {
            let (pk, rk) = (pk.escape_ascii(), rk.escape_ascii());
            return Err(Error::invalid(format!(
                "row ({pk}, {rk}) does not come after the row before it"
            )));
        }
        self.chunk.push(&self.next_key, self.prefix_len, value, expires);
        self.key.clone_from(&self.next_key);
        if self.chunk.bytes.len() >= self.chunk_bytes {
            self.hand_over()?;
        }
        Ok(())
    }

    /// Ends the files and adds all rows at once, as one commit; returns its timestamp. They are
    /// durable then. Commits of other threads wait meanwhile: for the flush of what came before and
    /// for one edit of the manifest.
    ///
    /// Errors: `NotFound` where the table was dropped; `Io`, `NoSpace`. Nothing is seen then; after
    /// the last two the next open may find the rows all the same.
    pub fn finish(mut self) -> Result<CommitTs> {
        if !self.chunk.rows.is_empty() {
            let chunk = std::mem::take(&mut self.chunk);
            self.desk.make(&chunk);
        }
        let events = &self.db.inner.tree.events;
        let _span = events.span(Doing::Ingest);
        let files = self.desk.end()?;
        sync_names(&self.db.inner.tree.shelf)?;
        // Once the manifest was asked to name them they are the tree's, whatever it answers.
        let given = || self.desk.state.lock().done.clear();
        let ts = self.db.inner.add_files(self.table, &files, given)?;
        let bytes = files.iter().map(Flushed::bytes).sum();
        events.tell(Event::Ingested { files: files.len(), bytes, ts });
        Ok(ts)
    }

    /// Gives the chunk to the second thread; makes the file here where that one is at work.
    fn hand_over(&mut self) -> Result<()> {
        if self.helper == Helper::NotAsked {
            self.helper = self.start_helper()?;
        }
        let mut state = self.desk.state.lock();
        if self.helper == Helper::Runs && !state.busy && state.waiting.is_none() {
            let empty = state.used.take().unwrap_or_else(|| self.chunk.like());
            state.waiting = Some(std::mem::replace(&mut self.chunk, empty));
            self.desk.changed.notify_all();
        } else {
            drop(state);
            self.desk.make(&self.chunk);
            self.chunk.clear();
            state = self.desk.state.lock();
        }
        state.failed.as_ref().map_or(Ok(()), |error| Err(error.duplicate()))
    }

    fn start_helper(&self) -> Result<Helper> {
        let desk = Arc::clone(&self.desk);
        let jobs: &dyn Jobs = &*self.db.inner.writer()?.jobs;
        let started =
            jobs.start("tabulith-ingest", Priority::Behind, Box::new(move || desk.help()));
        match started {
            Ok(true) => Ok(Helper::Runs),
            Ok(false) | Err(_) => Ok(Helper::Absent),
        }
    }
}

impl Drop for Ingest {
    fn drop(&mut self) {
        // An error was reported by whoever met it first.
        let _ = self.desk.end();
        let shelf = &self.db.inner.tree.shelf;
        for file in self.desk.state.lock().done.drain(..) {
            file.discard(shelf);
        }
    }
}

impl Chunk {
    /// Adds a row that comes after every other one.
    fn push(&mut self, key: &[u8], prefix_len: usize, value: &[u8], expires: Option<CommitTs>) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        let kind = match expires {
            Some(expires) => {
                expiry::put(expires, &mut self.bytes);
                RowKind::PutUntil
            }
            None => RowKind::Put,
        };
        self.bytes.extend_from_slice(value);
        self.rows.push(RowEnds { key: key_end, value: self.bytes.len(), prefix_len, kind });
    }

    /// Takes the rows out; their memory stays.
    fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
    }

    /// An empty one with as much room as this one took.
    fn like(&self) -> Chunk {
        let bytes = Vec::with_capacity(self.bytes.len() + (self.bytes.len() >> 4));
        let rows = Vec::with_capacity(self.rows.len() + (self.rows.len() >> 4));
        Chunk { bytes, rows }
    }

    /// Writes the rows to table file `no`, large values to blob files; their bytes are durable then.
    fn write(&self, db: &Db, no: FileNo) -> Result<Flushed> {
        let tree = &db.inner.tree;
        let (shelf, options) = (&tree.shelf, &tree.options);
        let next_file = || tree.next_file().unwrap_or_default();
        let mut sink = Sink::new(&*shelf.vfs, &shelf.dir, &next_file, options.into());
        let written = self.write_to(&mut sink, create_table(shelf, no, &options.into())?);
        if written.is_err() {
            sink.numbers().iter().for_each(|no| shelf.put_trash(FileKind::Blob, *no));
        }
        written
    }

    fn write_to(&self, sink: &mut Sink<'_>, mut builder: TableBuilder) -> Result<Flushed> {
        let mut start = 0;
        for RowEnds { key, value, prefix_len, kind } in &self.rows {
            let (row_key, row_value) = (&self.bytes[start..*key], &self.bytes[*key..*value]);
            let given = expiry::given(*kind, row_value);
            let stored = sink.place(row_key, *kind, row_value)?;
            builder.add_placed(row_key, *prefix_len, CommitTs::ZERO, stored, given)?;
            start = *value;
        }
        Ok(Flushed { blobs: sink.finish()?, table: builder.finish()? })
    }
}

impl Desk {
    /// Makes a file of `chunk`.
    fn make(&self, chunk: &Chunk) {
        let tree = &self.db.inner.tree;
        let made = match tree.next_file() {
            Some(no) => {
                chunk.write(&self.db, no).inspect_err(|_| tree.shelf.put_trash(FileKind::Table, no))
            }
            None => Err(Error::new(Kind::ReadOnly, "the database was opened read-only")),
        };
        let mut state = self.state.lock();
        match made {
            Ok(meta) => state.done.push(meta),
            Err(error) => drop(state.failed.get_or_insert(error)),
        }
    }

    /// The second thread's life.
    fn help(&self) {
        let mut state = self.state.lock();
        while !state.ended {
            match state.waiting.take() {
                Some(mut chunk) => {
                    state.busy = true;
                    drop(state);
                    self.make(&chunk);
                    chunk.clear();
                    state = self.state.lock();
                    state.used = Some(chunk);
                    state.busy = false;
                    self.changed.notify_all();
                }
                None => self.changed.wait(&mut state),
            }
        }
    }

    /// Ends the second thread once it has made what it was given; the files in key order.
    fn end(&self) -> Result<Vec<Flushed>> {
        let mut state = self.state.lock();
        while state.busy || state.waiting.is_some() {
            self.changed.wait(&mut state);
        }
        state.ended = true;
        self.changed.notify_all();
        if let Some(error) = &state.failed {
            return Err(error.duplicate());
        }
        state.done.sort_by(|a, b| a.table.smallest.cmp(&b.table.smallest));
        Ok(state.done.clone())
    }
}

impl Inner {
    /// Adds finished files as one commit; calls `given` when they are out of the caller's hands.
    fn add_files(
        &self,
        table: TableId,
        files: &[Flushed],
        given: impl FnOnce(),
    ) -> Result<CommitTs> {
        let writer = self.writer()?;
        if files.is_empty() {
            return Ok(writer.pipeline.applied());
        }
        let flush = || writer.work.flush_sealed();
        // Most of the memtable goes while commits go on, what came since while they wait.
        writer.pipeline.between_commits(|ts| self.tree.seal(ts, writer.pipeline.segment()));
        flush()?;
        let _nobody_writes = self.latches.lock_all();
        if !self.tree.tables.load().is_live(table) {
            return Err(no_such_table());
        }
        let seal = |ts| self.tree.seal(ts, writer.pipeline.segment());
        let ts = writer.pipeline.reserve(seal)?;
        // Older versions of these rows in a memtable would be found before the files: none stay.
        let added = flush().and_then(|()| {
            given();
            self.tree.add_files(files, ts)
        });
        writer.pipeline.release();
        writer.work.poke();
        added.map(|()| ts)
    }
}
