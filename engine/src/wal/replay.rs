//! Decides what the log holds, and tells a torn tail from damage.
//!
//! Frames form a chain: each names its number and the checksum of the one before. Replay follows
//! the chain to the first place where it does not go on. What stands behind that place decides:
//!
//! - a later frame of the same log that says a missing one had been synced: damage. The log is
//!   refused; nothing acknowledged is ever dropped silently.
//! - nothing, stale bytes, or frames that promise nothing of the kind: a torn tail. They were
//!   never acknowledged as durable and are cut off.
//!
//! Behind a frame that ends inside a block the next one stands right there or on the next block
//! boundary; its number and `prev_crc` tell. Behind a place without a frame the search goes on at
//! block boundaries: a frame that is the first to say of others that they were synced begins a
//! block, so whatever was lost before it, it is found.
//!
//! The last frame of a full segment names the next one, whose file had its name by then: where that
//! is missing, damage.
//!
//! A segment's header was synced before the file had its name. So a bad header, a file shorter than
//! its header says and a floor segment that is missing are damage without further proof. So is a
//! floor segment that does not begin with a frame, unless the manifest says which frame came before
//! it: then its first one was not durable, and is missed like any other.
//!
//! Segments that begin a log of their own (another `origin`) come from a recovery that did not get
//! as far as its manifest; nothing in them was acknowledged that is not also in the older log.
//!
//! Absent: writing. Replay may run any number of times.

use crate::error::{Error, Kind, Result};
use crate::folder;
use crate::ids::{CommitTs, SegmentId};
use crate::names::{self, FileKind};
use crate::vfs::api::Vfs;
use crate::wal::format::{
    FRAME_ALIGN_BYTES, Frame, FrameHeader, Link, LogFloor, SegmentHeader, frame_bytes, next_block,
};
use crate::wal::reader::{Seen, SegmentReader};
use bytes::Bytes;
use std::path::{Path, PathBuf};

/// The commits of a group, as they lie in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payload<'a> {
    pub(crate) bytes: &'a [u8],
    /// What they were read with: to keep this is to keep them. The same for many groups.
    pub(crate) window: &'a Bytes,
    /// Where they are.
    pub(crate) path: &'a Path,
    pub(crate) at: u64,
}

/// What replay found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Replay {
    /// The id for a fresh log: above every segment there is.
    pub(crate) next_segment: SegmentId,
    /// The last commit replayed.
    pub(crate) last_ts: CommitTs,
    /// The last commit in any frame, those of the torn tail included, and not below the one that
    /// the floor names: none of these timestamps may be given out again.
    pub(crate) seen_ts: CommitTs,
    pub(crate) groups: u64,
    pub(crate) frames: u64,
    /// Bytes of frames that were cut off.
    pub(crate) tail_discarded_bytes: u64,
    /// Whether the last frame is a seal: then no commit stood behind it.
    pub(crate) sealed: bool,
    /// Whether it says that the database was closed: no commit was given a place that is not in the
    /// log.
    pub(crate) ended: bool,
    /// Segments below the floor: their files may be overwritten.
    pub(crate) free: Vec<SegmentId>,
    /// Names below the floor whose file says that it is something else: where a crash undid half
    /// of a rename, one file has two names. To be removed, never overwritten.
    pub(crate) stray: Vec<SegmentId>,
    /// The other segments: needed until a manifest with a higher floor is durable.
    pub(crate) held: Vec<SegmentId>,
}

/// What a complete walk found; [`check`].
#[derive(Debug, Default)]
pub(crate) struct LogReport {
    pub(crate) replay: Replay,
    /// Every damaged place, in the order of the log.
    pub(crate) damage: Vec<Error>,
}

/// Shows every group from `floor` on, in commit order.
///
/// Errors: `Corrupt` with file and offset where acknowledged commits may be missing; groups shown
/// before that are to be forgotten. `Io` if the disk refuses; whatever `show` returns.
pub(crate) fn replay(
    vfs: &dyn Vfs,
    dir: &Path,
    floor: LogFloor,
    show: &mut Show<'_>,
) -> Result<Replay> {
    walk(vfs, dir, floor, show, &mut Err)
}

/// Walks the whole log without stopping at the first damage, showing every group.
pub(crate) fn check(
    vfs: &dyn Vfs,
    dir: &Path,
    floor: LogFloor,
    show: &mut Show<'_>,
) -> Result<LogReport> {
    let mut damage = Vec::new();
    let replay = survey(vfs, dir, floor, show, &mut |error| damage.push(error))?;
    Ok(LogReport { replay, damage })
}

/// The same, telling damage as it is met: what is shown after it stands behind it in the log.
pub(crate) fn survey(
    vfs: &dyn Vfs,
    dir: &Path,
    floor: LogFloor,
    show: &mut Show<'_>,
    damaged: &mut dyn FnMut(Error),
) -> Result<Replay> {
    walk(vfs, dir, floor, show, &mut |error| {
        damaged(error);
        Ok(())
    })
}

/// What a frame holds: first and last commit, the group's bytes.
type Show<'a> = dyn FnMut(CommitTs, CommitTs, Payload<'_>) -> Result<()> + 'a;
type ShowBytes<'a> = dyn FnMut(CommitTs, CommitTs, &[u8]) -> Result<()> + 'a;
type Damage<'a> = dyn FnMut(Error) -> Result<()> + 'a;

fn walk(
    vfs: &dyn Vfs,
    dir: &Path,
    floor: LogFloor,
    show: &mut Show<'_>,
    damaged: &mut Damage<'_>,
) -> Result<Replay> {
    let LogFloor { segment: first, after } = floor;
    let (below, held): (Vec<_>, Vec<_>) =
        segments(vfs, dir)?.into_iter().partition(|id| *id < first);
    if first.0 > 0 && held.first() != Some(&first) {
        let file = names::segment_path(dir, first);
        damaged(Error::corrupt(&file, 0, "the log's first segment is missing"))?;
    }
    let linked = after.map(|link| Last { link, is_seal: false, is_end: false });
    let seen_ts = after.map_or(CommitTs::ZERO, |link| link.ts);
    let mut chain = Chain { begun: first.0 > 0, last: linked, seen_ts, ..Chain::default() };
    let mut origin = None;
    for id in &held {
        match walk_segment(vfs, dir, *id, &mut origin, &mut chain, show, damaged) {
            Err(error) if matches!(error.kind(), Kind::Corrupt | Kind::Io) => {
                damaged(error)?;
                chain.restart();
            }
            outcome => outcome?,
        }
    }
    if let Some(named) = chain.next.take().filter(|named| !held.contains(&named.segment)) {
        let what = format!(
            "a segment of the log is missing; the frame at offset {} of {} names it",
            named.at,
            named.path.display()
        );
        damaged(Error::corrupt(&names::segment_path(dir, named.segment), 0, what))?;
    }
    let last = below.iter().chain(&held).max().map_or(0, |id| id.0);
    let is_itself =
        |id| SegmentReader::open(vfs, dir, id).and_then(|mut file| file.header()).is_ok();
    let (free, stray) = below.into_iter().partition(|id| is_itself(*id));
    Ok(Replay {
        next_segment: SegmentId(last.max(first.0) + 1),
        last_ts: chain.last.map_or(CommitTs::ZERO, |last| last.link.ts),
        seen_ts: chain.seen_ts,
        groups: chain.groups,
        frames: chain.frames,
        sealed: chain.last.is_some_and(|last| last.is_seal),
        ended: chain.last.is_some_and(|last| last.is_end),
        tail_discarded_bytes: chain.cut.map_or(0, |cut| cut.end - cut.at),
        free,
        stray,
        held,
    })
}

/// The segments in the folder, by id.
pub(crate) fn segments(vfs: &dyn Vfs, dir: &Path) -> Result<Vec<SegmentId>> {
    let files = folder::files(vfs, dir)?.into_iter();
    let segments = files.filter(|(kind, _)| *kind == FileKind::Wal);
    let mut found: Vec<_> = segments.map(|(_, no)| SegmentId(no.0)).collect();
    found.sort_unstable();
    Ok(found)
}

fn walk_segment(
    vfs: &dyn Vfs,
    dir: &Path,
    id: SegmentId,
    origin: &mut Option<SegmentId>,
    chain: &mut Chain,
    show: &mut Show<'_>,
    damaged: &mut Damage<'_>,
) -> Result<()> {
    let mut reader = SegmentReader::open(vfs, dir, id)?;
    let header = reader.header()?;
    let SegmentHeader { block_bytes, origin: log, .. } = header;
    if chain.begun && *origin.get_or_insert(log) != log {
        return Ok(());
    }
    let first_at = block_bytes as u64;
    reader.scan(&header, &mut |path, at, seen| match seen {
        // Planted (`planted.rs`), with the reader's part: what an earlier use of the file left is
        // taken for ours.
        Seen::Frame(frame, _) if crate::planted!("B03") && frame.header.segment != id => {
            let place = Place { path, segment: id, at, end: at, opens_segment: false, block_bytes };
            chain.accept(&place, &frame, &mut |_, _, _| Ok(()))
        }
        Seen::Frame(frame, window) => {
            let end = at + frame_bytes(frame.payload_bytes, FRAME_ALIGN_BYTES) as u64;
            let opens_segment = at == first_at;
            let place = Place { path, segment: id, at, end, opens_segment, block_bytes };
            let mut show = |first: CommitTs, last: CommitTs, bytes: &[u8]| {
                show(first, last, Payload { bytes, window, path, at })
            };
            chain.frame(&place, &frame, &mut show, damaged)
        }
        Seen::Nothing { claimed_bytes } => {
            let (end, opens_segment) = (at + claimed_bytes, at == first_at);
            let place = Place { path, segment: id, at, end, opens_segment, block_bytes };
            chain.gap(&place, damaged)
        }
        Seen::End => {
            let place = Place { path, segment: id, at, end: at, opens_segment: false, block_bytes };
            chain.gap(&place, damaged)
        }
    })
}

/// Where something stands in the log.
struct Place<'a> {
    path: &'a Path,
    segment: SegmentId,
    at: u64,
    end: u64,
    opens_segment: bool,
    block_bytes: usize,
}

/// How far the chain of frames has been followed.
#[derive(Default)]
struct Chain {
    /// Whether the manifest knows of this log; if not, no commit can be in it.
    begun: bool,
    last: Option<Last>,
    /// What the last frame says about where the log goes on.
    next: Option<Next>,
    /// Where the chain stopped, until a segment turns up that carries it on.
    cut: Option<Cut>,
    seen_ts: CommitTs,
    groups: u64,
    frames: u64,
}

#[derive(Clone, Copy)]
struct Last {
    link: Link,
    is_seal: bool,
    is_end: bool,
}

struct Next {
    segment: SegmentId,
    path: PathBuf,
    at: u64,
}

struct Cut {
    path: PathBuf,
    at: u64,
    /// End of the last bytes that look like a frame of this segment.
    end: u64,
    /// Where the chain may go on all the same, since the cut is inside a block.
    or_at: Option<u64>,
}

impl Chain {
    fn frame(
        &mut self,
        place: &Place<'_>,
        frame: &Frame<'_>,
        show: &mut ShowBytes<'_>,
        damaged: &mut Damage<'_>,
    ) -> Result<()> {
        let header = &frame.header;
        self.seen_ts = self.seen_ts.max(header.last_ts);
        if !self.begun && !frame.payload.is_empty() {
            damaged(Error::corrupt(place.path, place.at, "commits in a log no manifest knows of"))?;
        }
        let Some(last) = self.last else { return self.accept(place, frame, show) };
        // Planted: a segment that ends in what is no frame ends there, and the next one goes on.
        if crate::planted!("B02") && place.opens_segment && self.cut.is_some() {
            return self.accept(place, frame, show);
        }
        // The unused rest of a block is skipped, that of a segment ends it; only the first frame of
        // another takes it up again.
        let skipped = |cut: &Cut| {
            place.opens_segment || cut.or_at == Some(place.at) && cut.path == place.path
        };
        let in_place = self.cut.as_ref().is_none_or(skipped);
        if in_place && last.is_followed_by(frame) {
            return self.accept(place, frame, show);
        }
        match &mut self.cut {
            None => {
                let what = format!("frame {} after frame {}", header.number, last.link.number);
                damaged(Error::corrupt(place.path, place.at, what))?;
            }
            // Planted with the second condition: a hole in what was synced passes for a torn tail.
            Some(cut) if header.durable > last.link.number && !crate::planted!("B05") => {
                let what = lost(&last.link, header, place);
                damaged(Error::corrupt(&cut.path, cut.at, what))?;
            }
            Some(cut) => {
                if cut.path == place.path {
                    cut.end = cut.end.max(place.end);
                }
                return Ok(());
            }
        }
        self.accept(place, frame, show)
    }

    fn accept(
        &mut self,
        place: &Place<'_>,
        frame: &Frame<'_>,
        show: &mut ShowBytes<'_>,
    ) -> Result<()> {
        let FrameHeader { number, first_ts, last_ts, .. } = frame.header;
        self.cut = None;
        let path = || place.path.to_owned();
        self.next = frame.next.map(|segment| Next { segment, path: path(), at: place.at });
        let is_seal = frame.payload.is_empty();
        let is_end = frame.ends;
        let link = Link { number, crc: frame.crc, ts: last_ts };
        self.last = Some(Last { link, is_seal, is_end });
        self.frames += 1;
        if frame.payload.is_empty() {
            return Ok(());
        }
        self.groups += 1;
        show(first_ts, last_ts, frame.payload).map_err(|error| match error.kind() {
            // The reader of the payload does not know where it stands.
            Kind::Corrupt if error.place().is_none() => {
                Error::corrupt(place.path, place.at, error.message())
            }
            _ => error,
        })
    }

    /// No frame stands here, or the segment ends.
    fn gap(&mut self, place: &Place<'_>, damaged: &mut Damage<'_>) -> Result<()> {
        if let Some(cut) = &mut self.cut {
            // Where nothing stood right behind the last frame, the next one may have stood here.
            let here = cut.or_at == Some(place.at) && cut.path == place.path;
            if here && cut.end == cut.at && place.end > place.at {
                (cut.at, cut.end) = (place.at, place.end);
            }
            let is_named = |next: &Next| place.opens_segment && next.segment == place.segment;
            if self.next.as_ref().is_some_and(is_named) {
                *cut =
                    Cut { path: place.path.to_owned(), at: place.at, end: place.end, or_at: None };
            }
            return Ok(());
        }
        let block_bytes = place.block_bytes;
        let inside = !place.at.is_multiple_of(block_bytes as u64);
        let or_at = inside.then(|| next_block(place.at, block_bytes));
        self.cut = Some(Cut { path: place.path.to_owned(), at: place.at, end: place.end, or_at });
        if self.begun && self.last.is_none() && place.opens_segment {
            let what = "the log's first frame, which was synced before the manifest named it";
            damaged(Error::corrupt(place.path, place.at, what))?;
        }
        Ok(())
    }

    /// Takes up the chain anywhere, after damage that has been reported.
    fn restart(&mut self) {
        self.last = None;
        self.cut = Some(Cut { path: PathBuf::new(), at: 0, end: 0, or_at: None });
    }
}

impl Last {
    fn is_followed_by(&self, frame: &Frame<'_>) -> bool {
        let FrameHeader { prev_crc, number, first_ts, .. } = frame.header;
        let Link { number: before, crc, ts } = self.link;
        // Planted, with the reader's part: what stood in a block of zeros is not missed.
        if crate::planted!("B04") && number > before {
            return true;
        }
        let rises = first_ts > ts || (frame.payload.is_empty() && first_ts == ts);
        number == before + 1 && prev_crc == crc && rises
    }
}

fn lost(last: &Link, witness: &FrameHeader, place: &Place<'_>) -> String {
    format!(
        "frames {} to {} of the log were synced and are lost, with commits after {} and before {}; \
         frame {} at offset {} of {} tells so",
        last.number + 1,
        witness.durable,
        last.ts,
        witness.first_ts,
        witness.number,
        place.at,
        place.path.display(),
    )
}
