//! Ingest: rows that come in key order become table files directly, and are seen all at once.
//!
//! Nothing goes through log and memtable: a row goes into the file being written. A second thread
//! helps to make its blocks, and ends it while the caller is at the next one. The files' rows bear
//! no timestamp: at the end the whole takes one place in the order of commits, and the manifest
//! says for each file which. One edit of the manifest adds them all.
//!
//! Promises: before `finish` returned nothing is seen; after a crash all of it is there or nothing;
//! commits that came before are in files by then, so what is there stays a prefix of the order.

use crate::blob::sink::{BlobFolder, Sink};
use crate::catalog::no_such_table;
use crate::checks::{check_key_part, check_value};
use crate::db::{Db, Inner};
use crate::errands::{Errand, Task};
use crate::error::{Error, Kind, Result};
use crate::event::{Doing, Event};
use crate::expiry;
use crate::ids::{CommitTs, FileNo, RowKind, TableId};
use crate::key::order;
use crate::names::FileKind;
use crate::options::Reach;
use crate::pool::Claim;
use crate::sstable::builder::TableBuilder;
use crate::sstable::press::PRESS_BYTES;
use crate::tree::base::Tree;
use crate::version::shelf::{NewFiles, Shelf};
use crate::vfs::api::Vfs;
use std::path::Path;
use std::sync::Arc;

/// Rows in key order on their way into table files.
///
/// Dropping it without [`Ingest::finish`] leaves nothing.
#[must_use = "nothing is seen before `finish`"]
pub struct Ingest {
    db: Db,
    table: TableId,
    file_bytes: usize, // Of rows, after which a file ends.
    _claim: Claim,
    partition: Vec<u8>, // PartitionKey of the last row.
    key: Vec<u8>,       // The last row's key; empty before the first.
    next_key: Vec<u8>,
    prefix_len: usize,
    expiring: Vec<u8>, // A value behind its expiry.
    open: Option<OpenFile>,
    full: Option<Arc<FullFile>>,
    done: Vec<NewFiles>,
    failed: Option<Error>,
}

/// A table file being written, and the blob files beside it.
struct OpenFile {
    no: FileNo,
    builder: TableBuilder,
    sink: Sink<TreeFolder>,
    bytes: usize, // Of its rows.
}

/// One that has all its rows, and ends.
struct FullFile {
    shelf: Arc<Shelf>, // Nothing that would keep the database open.
    task: Task<OpenFile, Result<NewFiles>>,
}

/// Where the blob files of an ingest are made.
struct TreeFolder(Arc<Tree>);

impl std::fmt::Debug for Ingest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ingest({:?}, {} files done)", self.table, self.done.len())
    }
}

impl Ingest {
    pub(crate) fn new(db: &Db, table: TableId) -> Result<Ingest> {
        let inner = &db.inner;
        inner.check_writable(inner.writer()?, table, Reach::Disk)?;
        // Values compress to about half: a file's worth of stored bytes.
        let file_bytes = inner.tree.options.advanced.file_bytes.saturating_mul(2);
        let pool = &inner.tree.shelf.pool;
        // One file is written while the one before ends.
        let bytes = 2 * pool.budget.builder(file_bytes) + PRESS_BYTES;
        let claim = pool.claim_for_ingest(bytes).ok_or_else(|| {
            let budget = pool.budget.bytes;
            let busy = "end another ingest first, or give the database more memory";
            let message = format!("an ingest takes {bytes} bytes of memory, of {budget}: {busy}");
            Error::new(Kind::Busy, message)
        })?;
        Ok(Ingest {
            db: db.clone(),
            table,
            file_bytes,
            _claim: claim,
            partition: Vec::new(),
            key: Vec::new(),
            next_key: Vec::new(),
            prefix_len: 0,
            expiring: Vec::new(),
            open: None,
            full: None,
            done: Vec::new(),
            failed: None,
        })
    }

    /// Adds a row, which replaces what is under its keys. Rows come in the order of (PartitionKey,
    /// RowKey), each once.
    ///
    /// Cost: the row's way into a block, and now and then the making of a block where the second
    /// thread has not; once per file its end and its sync. Memory: some MiB.
    ///
    /// Errors: `Invalid` for a row that is not after the one before, or that is too long; `Io`,
    /// `NoSpace` and, once the database is closed, `Closed`, which every later call repeats.
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
        if let Some(error) = &self.failed {
            return Err(error.duplicate());
        }
        let written = self.write_row(value, expires);
        written.inspect_err(|error| self.failed = Some(error.duplicate()))?;
        self.key.clone_from(&self.next_key);
        Ok(())
    }

    /// Writes the row of `next_key`.
    fn write_row(&mut self, value: &[u8], expires: Option<CommitTs>) -> Result<()> {
        let tree = &self.db.inner.tree;
        if tree.is_closing() {
            return Err(Error::closed());
        }
        // Those that may make a file.
        let is_large = value.len() >= tree.options.advanced.blob_bytes_min;
        let running = match self.open.is_none() || is_large {
            true => Some(self.db.inner.writer()?.work.enter()?),
            false => None,
        };
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(OpenFile::create(tree)?),
        };
        let (kind, value) = match expires {
            Some(expires) => {
                self.expiring.clear();
                expiry::put(expires, &mut self.expiring);
                self.expiring.extend_from_slice(value);
                (RowKind::PutUntil, self.expiring.as_slice())
            }
            None => (RowKind::Put, value),
        };
        open.add(&self.next_key, self.prefix_len, kind, value)?;
        let is_full = open.bytes >= self.file_bytes;
        drop(running);
        if is_full { self.end_file() } else { Ok(()) }
    }

    /// Has the open file ended, by the second thread where there is one.
    fn end_file(&mut self) -> Result<()> {
        self.wait_for_full()?;
        let Some(open) = self.open.take() else { return Ok(()) };
        let shelf = &self.db.inner.tree.shelf;
        let full = Arc::new(FullFile { shelf: Arc::clone(shelf), task: Task::new(open) });
        self.full = Some(Arc::clone(&full));
        if shelf.errands.give(full) { Ok(()) } else { self.wait_for_full() }
    }

    fn wait_for_full(&mut self) -> Result<()> {
        let Some(full) = self.full.take() else { return Ok(()) };
        full.end();
        // It is gone where the thread that ended it panicked.
        let lost = || Err(Error::new(Kind::Closed, "the thread that ended a table file is gone"));
        self.done.push(full.task.take().unwrap_or_else(lost)?);
        Ok(())
    }

    /// Ends the files and adds all rows at once, as one commit; returns its timestamp. They are
    /// durable then. Commits of other threads wait meanwhile: for the flush of what came before and
    /// for one edit of the manifest.
    ///
    /// Errors: `NotFound` where the table was dropped; `Io`, `NoSpace`. Nothing is seen then; after
    /// the last two the next open may find the rows all the same, unless anything was committed
    /// since.
    pub fn finish(mut self) -> Result<CommitTs> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.end_file()?;
        self.wait_for_full()?;
        let tree = &self.db.inner.tree;
        let _span = tree.events.span(Doing::Ingest);
        tree.shelf.sync_names()?;
        // Once the manifest was asked to name them they are the tree's, whatever it answers.
        let (files, mut given) = (std::mem::take(&mut self.done), false);
        let added = self.db.inner.add_files(self.table, &files, || given = true);
        if !given {
            files.iter().for_each(|file| file.discard(&tree.shelf));
        }
        let ts = added?;
        let bytes = files.iter().map(NewFiles::bytes).sum();
        tree.events.tell(Event::Ingested { files: files.len(), bytes, ts });
        Ok(ts)
    }
}

impl Drop for Ingest {
    fn drop(&mut self) {
        // An error was told already, or concerns nobody.
        let _ = self.wait_for_full();
        let shelf = &self.db.inner.tree.shelf;
        self.open.iter().for_each(|open| open.discard(shelf));
        self.done.iter().for_each(|file| file.discard(shelf));
    }
}

impl OpenFile {
    fn create(tree: &Arc<Tree>) -> Result<OpenFile> {
        let (shelf, options) = (&tree.shelf, &tree.options);
        let no = tree.next_file();
        let builder = shelf
            .create_table_file(no, &options.into())
            .inspect_err(|_| shelf.put_trash(FileKind::Table, no))?;
        let sink = Sink::new(TreeFolder(Arc::clone(tree)), options.into());
        Ok(OpenFile { no, builder: builder.helped_by(&shelf.errands), sink, bytes: 0 })
    }

    /// Adds a row that comes after every other one; a large value goes to a blob file.
    fn add(&mut self, key: &[u8], prefix_len: usize, kind: RowKind, value: &[u8]) -> Result<()> {
        let OpenFile { builder, sink, .. } = self;
        let (ts, given) = (CommitTs::ZERO, (kind, value));
        builder.add_stored(key, prefix_len, ts, given, || sink.place(key, kind, value))?;
        self.bytes += key.len() + value.len();
        Ok(())
    }

    /// Ends the files, whose bytes are durable then.
    fn finish(self, shelf: &Shelf) -> Result<NewFiles> {
        let OpenFile { no, builder, mut sink, .. } = self;
        let blobs = sink.finish();
        let finished = blobs.and_then(|blobs| Ok(NewFiles { blobs, table: builder.finish()? }));
        finished.inspect_err(|_| discard(shelf, no, &sink))
    }

    /// Gives them up.
    fn discard(&self, shelf: &Shelf) {
        discard(shelf, self.no, &self.sink);
    }
}

impl FullFile {
    fn end(&self) {
        self.task.run(|open| open.finish(&self.shelf));
    }
}

impl Errand for FullFile {
    fn run(&self, _scratch: &mut Vec<u8>) {
        self.end();
    }
}

fn discard(shelf: &Shelf, no: FileNo, sink: &Sink<TreeFolder>) {
    shelf.give_up([no], sink.numbers().iter().copied());
}

impl BlobFolder for TreeFolder {
    fn vfs(&self) -> &dyn Vfs {
        &*self.0.shelf.vfs
    }

    fn dir(&self) -> &Path {
        &self.0.shelf.dir
    }

    fn next_file(&self) -> FileNo {
        self.0.next_file()
    }
}

impl Inner {
    /// Adds finished files as one commit; calls `given` when they are out of the caller's hands.
    fn add_files(
        &self,
        table: TableId,
        files: &[NewFiles],
        given: impl FnOnce(),
    ) -> Result<CommitTs> {
        let writer = self.writer()?;
        let _running = writer.work.enter()?;
        if files.is_empty() {
            self.check_writable(writer, table, Reach::Disk)?;
            let ts = writer.pipeline.applied();
            writer.pipeline.wait(ts)?; // Somebody else's, which may not be safe yet.
            return Ok(ts);
        }
        writer.admit()?; // As a commit: it makes files of which reads look at every one.
        let flush = || writer.work.flush_sealed();
        // Most of the memtable goes while commits go on, what came since while they wait.
        self.tree.seal_now(&writer.pipeline);
        flush()?;
        // Flushes are waited for with all latches held: no thread that flushes takes one.
        let nobody_writes = self.latches.lock_all();
        if self.check_writable(writer, table, Reach::Memory).is_err() {
            drop(nobody_writes); // Nobody else waits for the sync of a drop.
            self.check_writable(writer, table, Reach::Disk)?;
            return Err(no_such_table(table));
        }
        let seal = |ts| self.tree.seal(ts, writer.pipeline.log_place());
        let place = writer.pipeline.reserve(seal)?;
        let ts = place.ts;
        // Older versions of these rows in a memtable would be found before the files: none stay.
        let added = flush().and_then(|()| {
            given();
            let added = self.tree.add_files(files, ts);
            added.inspect_err(|_| self.tree.doubt(files[0].table.no))
        });
        let settled = place.give_back();
        drop(nobody_writes);
        settled.run();
        writer.work.poke();
        added?;
        writer.pipeline.wait(ts)?; // For commits before it; and a log that failed shows nothing more.
        Ok(ts)
    }
}
