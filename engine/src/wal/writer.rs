//! Append side of the log. Used by `commit` and `recovery`.
//!
//! Promise: once a sync returns `Ok`, every frame written before it began survives power loss;
//! after any failure the log takes nothing more. The log goes on in another segment without a wait
//! for the disk: neither what stands in the segments before is durable then nor its first frame.
//! [`LogWriter::floor`] tells what that is to follow. The next sync covers them all, unless a
//! manifest with a higher floor came first.
//!
//! Absent: locks (one owner), threads (slow work is handed out as jobs), knowledge of commits.

use crate::error::{Error, Result};
use crate::folder;
use crate::ids::{CommitTs, SegmentId};
use crate::names::{self, FileKind};
use crate::vfs::api::{File, Vfs};
use crate::wal::buffer::FrameBuffer;
use crate::wal::format::{
    self, FRAME_ALIGN_BYTES, FrameHeader, FrameKind, FramePlace, Link, LogFloor, PAYLOAD_BYTES_MAX,
    SegmentHeader, frame_bytes,
};
use crate::wal::replay::Replay;
use crate::wal::room::LogRoom;
use crate::wal::segment::{Spare, SpareJob};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The first segment of a log is at most this long, the next ones double: a small database keeps
/// a small log, and opening one does not wait for 64 MiB of zeros.
const FIRST_SEGMENT_BYTES: usize = 1 << 20;

/// Blocks before the first group of a segment: the header.
const HEAD_BLOCKS: usize = 1;

/// Blocks that groups leave free at the end of a segment: for a seal, and for the name of the next
/// one.
const TAIL_BLOCKS: usize = 2;

/// Segments made ahead once the log has grown, where commits wait for no sync: those who make them
/// also write memtables to files, and meanwhile it may come to the end of more than one.
const SPARES_MAX: usize = 2;

/// Released segments kept for reuse; more are deleted. One becomes the spare while the next is
/// being released.
const FREE_SEGMENTS_MAX: usize = 2;

/// Zeros that are worth writing for a sync, which takes longer where nothing was written before: a
/// segment with more bytes for each sync is followed by one without.
const ZEROS_FOR_A_SYNC_BYTES: u64 = 128 << 10;

/// The same of a small segment, as a part of it.
const ZEROS_FOR_A_SYNC_PART: u64 = 3;

/// Commits that share one frame, and so live or die together.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    pub(crate) first_ts: CommitTs,
    pub(crate) last_ts: CommitTs,
    /// The commits one after the other, opaque to the log; not empty. Left as it was.
    pub(crate) frame: &'a mut FrameBuffer,
    /// Whether it is to be durable; [`LogWriter::append`] says whether it is.
    pub(crate) sync: bool,
}

/// The open log.
#[derive(Debug)]
pub(crate) struct LogWriter {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    segment_bytes: usize,
    block_bytes: usize,
    origin: SegmentId,
    segment: Spare,
    /// The last frame before this segment.
    begun_after: Link,
    /// Full segments, oldest first, with frames that are not durable.
    behind: Vec<Full>,
    /// Where the last frame ends; the next one goes there or on the next block boundary.
    at: u64,
    /// What was written to the segments before this one.
    left_bytes: u64,
    /// The last frame written, and the newest commit.
    last: Link,
    /// Every frame up to this number is on the disk.
    durable: u64,
    /// Every frame up to this number is covered by a sync, ended or not: its block is not written
    /// again.
    covered: u64,
    /// What the last frame says is durable.
    told: u64,
    /// Whether the last frame is a synced seal.
    sealed: bool,
    /// Syncs that were begun since this segment was, a durable write among them.
    syncs_wanted: u64,
    next_id: SegmentId,
    /// Segments to go on in, in the order of their ids.
    spares: VecDeque<Spare>,
    spare_is_underway: bool,
    /// Files below the manifest's floor, to be overwritten.
    free: Vec<SegmentId>,
    /// Files that may still be needed, or whose names recovery would still look at.
    held: Vec<SegmentId>,
    closed: Option<Error>,
    /// For the frames that carry no commits.
    buffer: FrameBuffer,
}

/// A segment that takes no more frames.
#[derive(Debug)]
struct Full {
    file: Spare,
    /// The last frame before it.
    begun_after: Link,
    /// Its last frame.
    number: u64,
}

/// A sync that runs without the writer; its outcome goes to [`LogWriter::finish_sync`].
#[derive(Debug)]
pub(crate) struct SyncJob {
    /// Full segments that are to be synced as well.
    behind: Vec<(Arc<dyn File>, PathBuf)>,
    lane: Arc<dyn File>,
    path: PathBuf,
    segment: SegmentId,
    upto: u64,
}

impl SyncJob {
    /// Returns once all frames appended before [`LogWriter::begin_sync`] survive power loss.
    pub(crate) fn run(&self) -> Result<()> {
        let behind = self.behind.iter().map(|(lane, path)| (lane, path));
        for (lane, path) in behind.chain([(&self.lane, &self.path)]) {
            let mut synced = lane.sync();
            if crate::planted!("B18") && synced.is_err() {
                // Planted (`planted.rs`): the kernel may have dropped the pages by now.
                synced = lane.sync();
            }
            synced.map_err(|error| Error::io("syncing the log", path, error))?;
        }
        Ok(())
    }
}

/// Files of the log that nobody needs; removing them is slow and needs no writer.
#[must_use = "the files stay until `remove`"]
#[derive(Debug)]
pub(crate) struct Surplus {
    vfs: Arc<dyn Vfs>,
    files: Vec<PathBuf>,
}

impl Surplus {
    /// Removes the files. What stays after an error is removed by the next start.
    pub(crate) fn remove(self) -> Result<()> {
        for file in &self.files {
            self.vfs
                .remove(file)
                .map_err(|error| Error::io("removing a log segment", file, error))?;
        }
        Ok(())
    }
}

impl LogWriter {
    /// Starts a fresh log after `found`, in a new segment with one durable frame. No file that
    /// `found` still needs is touched. The log counts only once a manifest whose floor is
    /// [`LogWriter::current`] is durable; until then recovery reads the old one.
    pub(crate) fn create(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        segment_bytes: usize,
        found: &Replay,
    ) -> Result<LogWriter> {
        remove_leftovers(&*vfs, dir, found)?;
        let block_bytes = format::block_bytes(segment_bytes);
        let least = (HEAD_BLOCKS + 2 + TAIL_BLOCKS) * block_bytes; // With its first frame and a group.
        let segment_bytes = segment_bytes.max(least).next_multiple_of(block_bytes);
        let origin = found.next_segment;
        let mut free = found.free.clone();
        let header = SegmentHeader {
            block_bytes,
            salt: salt(&*vfs),
            segment: origin,
            origin,
            file_bytes: segment_bytes.min(FIRST_SEGMENT_BYTES) as u64,
        };
        let job = SpareJob {
            vfs: vfs.clone(),
            dir: dir.to_owned(),
            header,
            file_bytes_max: segment_bytes as u64,
            zeroed: true,
            is_ahead: false,
            reuse: free.pop(),
        };
        let mut writer = LogWriter {
            segment: job.run()?,
            begun_after: Link::default(),
            vfs,
            dir: dir.to_owned(),
            segment_bytes,
            block_bytes,
            origin,
            behind: Vec::new(),
            at: block_bytes as u64,
            left_bytes: 0,
            last: Link::default(),
            durable: 0,
            covered: 0,
            told: 0,
            sealed: true,
            syncs_wanted: 0,
            next_id: SegmentId(origin.0 + 1),
            spares: VecDeque::new(),
            spare_is_underway: false,
            free,
            held: found.held.clone(),
            closed: None,
            buffer: FrameBuffer::default(),
        };
        let begun = writer.write_own(FrameKind::Group, &[]).and_then(|_| writer.sync());
        if let Err(error) = begun {
            let _ = writer.vfs.remove(&writer.segment.path); // No manifest names it.
            return Err(error);
        }
        writer.sealed = true;
        Ok(writer)
    }

    /// Writes the group behind all others, in one write. Returns whether it is durable: where
    /// that was asked for, all before it is durable and the disk takes direct writes. Otherwise it
    /// is after a sync. Goes on in the next segment when this one is full, which without a spare
    /// takes making the file.
    ///
    /// Errors: `Invalid` for a group that is empty, too large or not after the last one, and
    /// whatever making a segment gives; both leave the log usable. Any other failure closes it.
    pub(crate) fn append(&mut self, group: Group<'_>) -> Result<bool> {
        self.check_open()?;
        let Group { first_ts, last_ts, frame, sync } = group;
        let payload_bytes = frame.len();
        if payload_bytes == 0 || payload_bytes > PAYLOAD_BYTES_MAX {
            return Err(Error::invalid(format!("a group of {payload_bytes} bytes")));
        }
        if first_ts <= self.last.ts || last_ts < first_ts {
            return Err(Error::invalid(format!(
                "commits {first_ts} to {last_ts} cannot follow commit {}",
                self.last.ts
            )));
        }
        let fits = self.fits(payload_bytes);
        if !fits {
            self.change_segment(self.needed_bytes(payload_bytes))?;
        }
        self.write_frame(FrameKind::Group, (first_ts, last_ts), frame, sync)?;
        let is_durable = self.is_durable();
        self.syncs_wanted += u64::from(sync && is_durable); // Otherwise whoever syncs it is counted.
        Ok(is_durable)
    }

    /// What is certain to be taken without another file. Only [`LogWriter::renew`] makes it less,
    /// beside what is written.
    pub(crate) fn room(&self) -> LogRoom {
        let block_bytes = self.block_bytes;
        let left = |file_bytes: u64, at: u64| {
            let tail = (TAIL_BLOCKS * block_bytes) as u64;
            file_bytes.saturating_sub(at.next_multiple_of(block_bytes as u64) + tail) as usize
        };
        let head = (HEAD_BLOCKS * block_bytes) as u64;
        let ahead = self.spares.front().map_or(0, |spare| left(spare.header.file_bytes, head));
        LogRoom::new(left(self.segment.header.file_bytes, self.at), ahead, block_bytes)
    }

    /// Sees to it that a group of this many bytes will be taken, by making another segment if need
    /// be.
    ///
    /// Errors: whatever making a file gives; then everything is as it was.
    pub(crate) fn ensure_room(&mut self, payload_bytes: usize) -> Result<()> {
        self.check_open()?;
        if payload_bytes <= self.room().group_bytes_max() {
            return Ok(());
        }
        let needed = self.needed_bytes(payload_bytes) + HEAD_BLOCKS * self.block_bytes;
        let spare = self.spare_job(needed).run()?;
        self.put_first(spare); // Others count as long as there is no larger one.
        Ok(())
    }

    /// Bytes from a block boundary on that a group takes with what must follow it.
    fn needed_bytes(&self, payload_bytes: usize) -> usize {
        frame_bytes(payload_bytes, self.block_bytes) + TAIL_BLOCKS * self.block_bytes
    }

    /// Whether this segment has room for a group of this many bytes.
    pub(crate) fn fits(&self, payload_bytes: usize) -> bool {
        let (at, unit) = self.next_place();
        let end = (at + frame_bytes(payload_bytes, unit) as u64)
            .next_multiple_of(self.block_bytes as u64);
        end + (TAIL_BLOCKS * self.block_bytes) as u64 <= self.segment.header.file_bytes
    }

    /// Where the next frame begins, and the unit of its length: in the block of the one before
    /// where no sync covers that, and where it has nothing new to say of what is durable.
    fn next_place(&self) -> (u64, usize) {
        let may_share = self.last.number > self.covered && self.told == self.durable;
        let may_share = may_share && !self.opens_segment();
        // Planted: a frame follows another at once, whatever a sync covers.
        match may_share || crate::planted!("B09b") {
            true => (self.at, FRAME_ALIGN_BYTES),
            false => (self.at.next_multiple_of(self.block_bytes as u64), self.block_bytes),
        }
    }

    /// Whether the next frame is the first of its segment.
    fn opens_segment(&self) -> bool {
        self.at == self.block_bytes as u64
    }

    /// Returns once every frame so far survives power loss.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.check_open()?;
        if self.is_durable() {
            return Ok(());
        }
        for full in &self.behind {
            if let Err(error) = full.file.file.sync() {
                let path = full.file.path.clone();
                return Err(self.close("syncing the log", &path, error));
            }
        }
        if let Err(error) = self.segment.file.sync() {
            let path = self.segment.path.clone();
            return Err(self.close("syncing the log", &path, error));
        }
        self.behind.clear();
        (self.covered, self.durable) = (self.last.number, self.last.number);
        Ok(())
    }

    /// Whether every frame is.
    fn is_durable(&self) -> bool {
        self.durable == self.last.number
    }

    /// A sync of everything appended so far, to be run while others append. `None` when there is
    /// nothing to sync or when as many syncs as there are lanes are under way.
    pub(crate) fn begin_sync(&mut self) -> Result<Option<SyncJob>> {
        self.check_open()?;
        if self.is_durable() {
            return Ok(None);
        }
        self.syncs_wanted += 1;
        let lane_of = |file: &mut Spare| Some((file.lanes.pop()?, file.path.clone()));
        let behind = self.behind.iter_mut().map(|full| lane_of(&mut full.file));
        let Some(behind) = behind.collect::<Option<Vec<_>>>() else { return Ok(None) };
        let Some((lane, path)) = lane_of(&mut self.segment) else { return Ok(None) };
        self.covered = self.last.number;
        let (segment, upto) = (self.segment.header.segment, self.last.number);
        Ok(Some(SyncJob { behind, lane, path, segment, upto }))
    }

    /// Takes note of a sync's outcome and raises the watermark that later frames carry. `Ok` means
    /// that everything up to the job's last frame may be acknowledged.
    pub(crate) fn finish_sync(&mut self, job: SyncJob, outcome: Result<()>) -> Result<()> {
        if let Err(error) = outcome {
            self.closed.get_or_insert_with(|| error.duplicate());
            return Err(error);
        }
        self.check_open()?;
        self.durable = self.durable.max(job.upto);
        self.behind.retain(|full| full.number > job.upto);
        if job.segment == self.segment.header.segment {
            self.segment.lanes.push(job.lane);
        }
        Ok(())
    }

    /// Makes everything durable and says so in the log, so that damage to the last group cannot be
    /// taken for a torn tail. When the log falls idle; does nothing when repeated.
    pub(crate) fn seal(&mut self) -> Result<()> {
        self.check_open()?;
        if self.sealed { Ok(()) } else { self.seal_by(FrameKind::Group) }
    }

    /// The same at close: no commit was given a place that is not in the log, and whoever opens it
    /// next goes on above `upto`.
    pub(crate) fn end(&mut self, upto: CommitTs) -> Result<()> {
        self.check_open()?;
        self.last.ts = self.last.ts.max(upto);
        self.seal_by(FrameKind::End)
    }

    fn seal_by(&mut self, kind: FrameKind) -> Result<()> {
        self.sync()?;
        self.write_own(kind, &[])?;
        self.sync()?;
        self.sealed = true;
        Ok(())
    }

    /// Work that prepares another segment, once this one is half full; to be run without the
    /// writer. Its result goes to [`LogWriter::add_spare`] or [`LogWriter::spare_failed`].
    pub(crate) fn wants_spare(&mut self) -> Option<SpareJob> {
        if !self.spare_is_due() {
            return None;
        }
        self.spare_is_underway = true;
        Some(self.spare_job(0))
    }

    /// Whether [`LogWriter::wants_spare`] has work to give.
    pub(crate) fn spare_is_due(&self) -> bool {
        let file_bytes = self.segment.header.file_bytes;
        let has_grown = file_bytes >= self.segment_bytes.min(2 * FIRST_SEGMENT_BYTES) as u64;
        let is_fast = has_grown && !self.syncs_pay_for_zeros();
        self.closed.is_none()
            && self.spares.len() < if is_fast { SPARES_MAX } else { 1 }
            && !self.spare_is_underway
            && self.at * 2 >= file_bytes
    }

    /// Takes a prepared segment.
    pub(crate) fn add_spare(&mut self, spare: Spare) {
        self.spare_is_underway = false;
        // One that comes too late has an id below those that are there and cannot join the log.
        let newest = self.spares.back().unwrap_or(&self.segment);
        if spare.header.segment < newest.header.segment {
            self.held.push(spare.header.segment);
        } else {
            self.spares.push_back(spare);
        }
    }

    /// Takes a prepared segment in place of all that there are, whose ids are below its own.
    fn put_first(&mut self, spare: Spare) {
        self.give_up_spares();
        self.spares.push_back(spare);
    }

    fn give_up_spares(&mut self) {
        self.held.extend(self.spares.drain(..).map(|spare| spare.header.segment));
    }

    /// Takes note that preparing a segment failed; [`LogWriter::wants_spare`] will ask again.
    pub(crate) fn spare_failed(&mut self) {
        self.spare_is_underway = false;
    }

    /// Gives up all segments below `below`, which must be the floor of a durable manifest. A few
    /// are kept for reuse, the others are returned.
    pub(crate) fn release(&mut self, below: SegmentId) -> Surplus {
        let below = below.min(self.segment.header.segment);
        let (mut released, held) = self.held.iter().partition(|id| **id < below);
        self.held = held;
        // Their commits are in table files, and replay begins behind their frames.
        self.behind.retain(|full| full.file.header.segment >= below);
        self.free.append(&mut released);
        let mut surplus = self.free.len().saturating_sub(FREE_SEGMENTS_MAX);
        if crate::planted!("B11") {
            surplus = self.free.len(); // Planted with a release that comes too early: gone at once.
        }
        // The newest stay: where segments still double, they are the largest.
        self.free.sort_unstable();
        let gone = self.free.drain(..surplus);
        let files = gone.map(|id| names::segment_path(&self.dir, id)).collect();
        Surplus { vfs: self.vfs.clone(), files }
    }

    /// Whether more than one small segment is there to be given up.
    pub(crate) fn is_large(&self) -> bool {
        let one = self.held.is_empty() && self.free.is_empty();
        !one || self.segment.header.file_bytes > self.small_bytes()
    }

    /// Goes on in a small segment of its own, from where they double again. What is behind it is
    /// given up by [`LogWriter::release`] as ever.
    ///
    /// Errors: as those of [`LogWriter::append`].
    pub(crate) fn renew(&mut self) -> Result<()> {
        self.check_open()?;
        let mut job = self.spare_job(0);
        self.free.extend(job.reuse.take());
        job.header.file_bytes = self.small_bytes();
        let small = job.run()?;
        self.put_first(small); // Others are room for commits as long as it is not there.
        self.change_segment(0)
    }

    /// Gives up the files that are kept for reuse.
    pub(crate) fn give_up_free(&mut self) -> Surplus {
        let files = self.free.drain(..).map(|id| names::segment_path(&self.dir, id)).collect();
        Surplus { vfs: self.vfs.clone(), files }
    }

    fn small_bytes(&self) -> u64 {
        self.segment_bytes.min(FIRST_SEGMENT_BYTES) as u64
    }

    /// Bytes that it has written so far, of segments that are gone too.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.left_bytes + self.at
    }

    /// The segment that the next frame goes to, if it fits.
    pub(crate) fn current(&self) -> SegmentId {
        self.segment.header.segment
    }

    /// What a manifest is to say that does without the segments before `segment`, which is one of
    /// those that were not released.
    pub(crate) fn floor(&self, segment: SegmentId) -> LogFloor {
        let behind = self.behind.iter().find(|full| full.file.header.segment == segment);
        let begun_after = match behind {
            Some(full) => Some(full.begun_after),
            None => Some(self.begun_after).filter(|_| segment == self.current()),
        };
        // Where its first frame is durable, that it has one is worth more. Planted: none is told.
        let after =
            begun_after.filter(|link| self.durable <= link.number && !crate::planted!("B02b"));
        LogFloor { segment, after }
    }

    /// The number of the last frame written, and of the last that is durable.
    #[cfg(test)]
    pub(crate) fn frames(&self) -> (u64, u64) {
        (self.last.number, self.durable)
    }

    /// Why the log takes nothing more, if so.
    pub(crate) fn closed(&self) -> Option<&Error> {
        self.closed.as_ref()
    }

    fn check_open(&self) -> Result<()> {
        match &self.closed {
            None => Ok(()),
            // Planted, with the order's part: it may go well now.
            Some(_) if crate::planted!("B34") => Ok(()),
            Some(cause) => Err(Error::closed_by("log", cause)),
        }
    }

    /// After a failed write or sync nothing is known about the pages: a retry could succeed
    /// without the data, so there is none.
    fn close(&mut self, doing: &str, path: &Path, cause: std::io::Error) -> Error {
        let error = Error::io(doing, path, cause);
        self.closed = Some(error.duplicate());
        error
    }

    /// Writes a frame without commits, where a block is kept free for it. Returns whether it was
    /// synced.
    fn write_own(&mut self, kind: FrameKind, payload: &[u8]) -> Result<bool> {
        let mut frame = std::mem::take(&mut self.buffer);
        frame.clear();
        frame.reserve(payload.len()).extend_from_slice(payload);
        let written = self.write_frame(kind, (self.last.ts, self.last.ts), &mut frame, true);
        self.buffer = frame;
        written
    }

    /// Writes a frame. With `sync` it is made durable by the same call, where the disk has one for
    /// that and all before it is durable. Returns whether it was.
    fn write_frame(
        &mut self,
        kind: FrameKind,
        (first_ts, last_ts): (CommitTs, CommitTs),
        frame: &mut FrameBuffer,
        sync: bool,
    ) -> Result<bool> {
        let header = FrameHeader {
            prev_crc: self.last.crc,
            segment: self.segment.header.segment,
            number: self.last.number + 1,
            durable: self.durable,
            first_ts,
            last_ts,
        };
        let payload_bytes = frame.len();
        let (at, unit) = self.next_place();
        // A frame behind durable ones begins a block, as a direct write must.
        let direct = match sync && self.is_durable() && !crate::planted!("B09b") {
            true => self.segment.direct.as_deref(),
            false => None,
        };
        if direct.is_some() {
            frame.join();
        }
        let SegmentHeader { segment, salt, .. } = self.segment.header;
        let place = FramePlace { segment, salt, offset: at };
        let crc = frame.seal(&header, kind, &place, frame_bytes(payload_bytes, unit));
        let parts = frame.parts();
        let (written, synced) = match (direct, parts.as_slice()) {
            (Some(file), [whole]) => (file.write_synced_at(whole, at), true),
            (_, parts) => (self.segment.file.write_parts_at(parts, at), false),
        };
        frame.unpad(payload_bytes);
        if let Err(error) = written {
            let path = self.segment.path.clone();
            if crate::planted!("B16") {
                return Err(Error::io("writing the log", &path, error)); // Planted: not closed.
            }
            return Err(self.close("writing the log", &path, error));
        }
        self.at = at + frame_bytes(payload_bytes, FRAME_ALIGN_BYTES) as u64;
        self.last = Link { number: header.number, crc, ts: last_ts };
        self.told = header.durable;
        if synced {
            (self.covered, self.durable) = (header.number, header.number);
        }
        self.sealed = false;
        Ok(synced)
    }

    /// Goes on in a segment with room for `needed` bytes behind its head. The old one names it, so
    /// that a segment that is lost is missed. It is not synced: should the power fail, replay ends
    /// where it is torn and takes the frames of later segments for what they are, never promised.
    fn change_segment(&mut self, needed: usize) -> Result<()> {
        let needed = needed + HEAD_BLOCKS * self.block_bytes;
        if self.spares.front().is_some_and(|spare| spare.header.file_bytes < needed as u64) {
            self.give_up_spares();
        }
        let spare = match self.spares.pop_front() {
            Some(spare) => spare,
            None => self.spare_job(needed).run()?,
        };
        self.write_own(FrameKind::Next, &spare.header.segment.0.to_le_bytes())?;
        let full = std::mem::replace(&mut self.segment, spare);
        let begun_after = std::mem::replace(&mut self.begun_after, self.last);
        self.left_bytes += self.at;
        self.held.push(full.header.segment);
        self.at = self.block_bytes as u64;
        self.syncs_wanted = 0;
        if !self.is_durable() {
            // Those before it are synced once more, and nothing is written to them: one handle
            // does. Whoever never syncs has many of them.
            self.behind.iter_mut().for_each(|before| before.file.lanes.truncate(1));
            let file = Spare { direct: None, ..full };
            self.behind.push(Full { file, begun_after, number: self.last.number });
        }
        Ok(())
    }

    /// Whether what this segment's syncs would gain by zeros in the next one is worth writing them.
    fn syncs_pay_for_zeros(&self) -> bool {
        let part = self.segment_bytes as u64 / ZEROS_FOR_A_SYNC_PART;
        self.at <= self.syncs_wanted.saturating_mul(part.min(ZEROS_FOR_A_SYNC_BYTES))
    }

    /// Segments double, as long as the disk has room for that.
    fn spare_job(&mut self, needed: usize) -> SpareJob {
        let doubled = 2 * self.segment.header.file_bytes as usize;
        let mut bytes = doubled.min(self.segment_bytes).max(needed);
        let (reuse, is_ahead) = (self.free.pop(), needed == 0);
        // Where the disk does not say how full it is, writing the file will.
        let available = || self.vfs.bytes_available(&self.dir).unwrap_or(u64::MAX);
        if reuse.is_none() && available() < bytes as u64 {
            bytes = bytes.min(needed.max(self.small_bytes() as usize));
        }
        let header = SegmentHeader {
            block_bytes: self.block_bytes,
            salt: salt(&*self.vfs),
            segment: self.next_id,
            origin: self.origin,
            file_bytes: bytes as u64,
        };
        self.next_id = SegmentId(self.next_id.0 + 1);
        SpareJob {
            vfs: self.vfs.clone(),
            dir: self.dir.clone(),
            header,
            file_bytes_max: bytes.max(self.segment_bytes) as u64,
            zeroed: is_ahead && self.syncs_pay_for_zeros(),
            is_ahead,
            reuse,
        }
    }

    /// Planted: the old log goes before the manifest that does without it is durable.
    pub(crate) fn plant_b10(&mut self) {
        for id in self.held.drain(..) {
            let _ = self.vfs.remove(&names::segment_path(&self.dir, id));
        }
    }
}

/// What tells this use of a segment's file from others.
fn salt(vfs: &dyn Vfs) -> u32 {
    // Planted, with the reader's part: nothing does.
    if crate::planted!("B03") { 0 } else { vfs.chance() as u32 }
}

/// Names that a crash left: segments that were not whole yet, second names of others.
fn remove_leftovers(vfs: &dyn Vfs, dir: &Path, found: &Replay) -> Result<()> {
    let files = folder::files(vfs, dir)?.into_iter();
    let unfinished = files.filter(|(kind, _)| *kind == FileKind::Spare);
    let unfinished = unfinished.map(|(kind, no)| names::path(dir, kind, no));
    let stray = found.stray.iter().map(|id| names::segment_path(dir, *id));
    for file in unfinished.chain(stray) {
        vfs.remove(&file)
            .map_err(|error| Error::io("removing what a crash left of the log", &file, error))?;
    }
    Ok(())
}
