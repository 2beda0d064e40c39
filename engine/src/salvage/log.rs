//! What the log of a damaged database still holds: every commit whose frame verifies, and the
//! holes.

use crate::batch::Commit;
use crate::erasure::set::Erasure;
use crate::error::{Error, Kind, Result};
use crate::ids::{CommitTs, SegmentId};
use crate::key::order;
use crate::names;
use crate::salvage::report::{Loss, What};
use crate::salvage::table::Version;
use crate::vfs::api::Vfs;
use crate::wal::format::LogFloor;
use crate::wal::reader::SegmentReader;
use crate::wal::replay;
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

/// The commits of a log.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// In the order of a table file.
    pub(crate) versions: Vec<Version>,
    pub(crate) erasures: Vec<Erasure>,
    pub(crate) commits: u64,
    /// No commit in any frame is above it.
    pub(crate) seen_ts: CommitTs,
    pub(crate) losses: Vec<Loss>,
    /// Damage behind which no commit was that files do not have.
    pub(crate) harmless: Vec<Error>,
    /// The last commit before the log's end, where there is a log. Whatever made the end be there
    /// may have taken later ones along without a trace.
    pub(crate) end: Option<CommitTs>,
    /// Whether earlier segments are not there and nothing tells whether they were needed.
    pub(crate) begins_late: bool,
    /// Whether bytes stand there that were to be a frame, or no seal says that it ended once.
    pub(crate) end_is_odd: bool,
}

/// Reads the log from the segment `floor` on; all there is where that is not known. Commits up to
/// `in_files` are in table files.
///
/// Errors: what the disk refuses beyond single files.
pub(crate) fn read(
    vfs: &dyn Vfs,
    dir: &Path,
    floor: Option<LogFloor>,
    in_files: CommitTs,
) -> Result<Log> {
    let mut log = Log::default();
    let floors = match floor {
        Some(floor) => vec![floor],
        None => floors(vfs, dir, &mut log)?,
    };
    for floor in floors {
        read_from(vfs, dir, floor, in_files, &mut log)?;
    }
    // A commit may write a row twice: the last one counts, and stands first.
    log.versions.reverse();
    log.versions.sort_by(|a, b| a.key.cmp(&b.key).then(b.ts.cmp(&a.ts)));
    Ok(log)
}

/// The first segment of each log in the folder, as the segments themselves tell.
fn floors(vfs: &dyn Vfs, dir: &Path, log: &mut Log) -> Result<Vec<LogFloor>> {
    let mut first = BTreeMap::<SegmentId, SegmentId>::new();
    for id in replay::segments(vfs, dir)? {
        let header = SegmentReader::open(vfs, dir, id).and_then(|mut segment| segment.header());
        match header {
            Ok(header) => _ = first.entry(header.origin).or_insert(id),
            Err(error) => {
                let file = names::segment_path(dir, id);
                log.losses.push(Loss::new(What::Commits, file, &error));
            }
        }
    }
    log.begins_late = first.iter().any(|(origin, first)| origin != first);
    Ok(first.into_values().map(LogFloor::at).collect())
}

/// What the walk has come to.
struct Walk<'a> {
    log: &'a mut Log,
    last_ts: CommitTs,
    /// Losses whose end is not known yet.
    open: Vec<Loss>,
}

impl Walk<'_> {
    /// Takes a group; false where it is no list of commits.
    fn group(&mut self, first: CommitTs, last: CommitTs, payload: &[u8]) -> bool {
        self.close(first);
        let Some(commits) = Commit::read_group(&Bytes::copy_from_slice(payload)) else {
            return false;
        };
        if !commits.iter().all(|commit| (first..=last).contains(&commit.ts)) {
            return false;
        }
        for commit in commits {
            let versions = &mut self.log.versions;
            let whole = commit.each(|key, kind, value| {
                let Some(prefix_len) = order::prefix_len(key) else { return };
                let (key, value) = (key.to_vec(), commit.share(value));
                versions.push(Version { key, prefix_len, ts: commit.ts, kind, value });
            });
            debug_assert!(whole, "a group that reads is a list of operations");
            self.log.erasures.extend(commit.erasures());
            self.log.commits += 1;
        }
        self.last_ts = self.last_ts.max(last);
        true
    }

    /// The log goes on with the commit `before`.
    fn close(&mut self, before: CommitTs) {
        for mut loss in self.open.drain(..) {
            loss.commits.1 = before;
            self.log.losses.push(loss);
        }
    }

    fn damaged(&mut self, dir: &Path, error: &Error, in_files: CommitTs) {
        let file = error.place().map_or(dir, |(file, _)| file).to_owned();
        let mut loss = Loss::new(What::Commits, file, error);
        loss.commits = (self.last_ts.max(in_files), CommitTs::MAX);
        self.open.push(loss);
    }
}

fn read_from(
    vfs: &dyn Vfs,
    dir: &Path,
    floor: LogFloor,
    in_files: CommitTs,
    log: &mut Log,
) -> Result<()> {
    let before = log.losses.len();
    let walk = RefCell::new(Walk { log, last_ts: CommitTs::ZERO, open: Vec::new() });
    let found = replay::survey(
        vfs,
        dir,
        floor,
        &mut |first, last, payload| {
            let mut walk = walk.borrow_mut();
            if !walk.group(first, last, payload.bytes) {
                let what = format!("the group of commits {first} to {last} is no list");
                walk.damaged(dir, &Error::new(Kind::Corrupt, what), in_files);
                walk.last_ts = walk.last_ts.max(last); // What is lost before it ends there.
            }
            Ok(())
        },
        &mut |error| walk.borrow_mut().damaged(dir, &error, in_files),
    )?;
    let Walk { log, last_ts, open } = walk.into_inner();
    log.losses.extend(open);
    let holes = log.losses.split_off(before);
    for hole in holes {
        // What came before the hole's end is in files, all of it.
        match hole.commits.1 <= hole.commits.0 {
            true => log.harmless.push(Error::corrupt(
                &hole.file,
                hole.offset.unwrap_or_default(),
                hole.why,
            )),
            false => log.losses.push(hole),
        }
    }
    log.seen_ts = log.seen_ts.max(found.seen_ts).max(last_ts);
    let began = floor.segment.0 > 0 || !found.held.is_empty();
    if began {
        log.end = log.end.max(Some(last_ts.max(in_files)));
        log.end_is_odd = !found.sealed || found.tail_discarded_bytes > 0;
    }
    Ok(())
}
