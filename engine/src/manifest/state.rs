//! The set of files that edits add up to, with the rules that every edit must keep. Pure.
//!
//! Promise: an edit that breaks a rule changes nothing. The rules hold for edits from the disk and
//! for our own alike: what is refused here never reaches the manifest.

use crate::blob::format::{BlobMeta, Use, Uses};
use crate::erasure::set::{Erasure, Erasures};
use crate::error::{Error, Result};
use crate::ids::{CommitTs, FileNo, SegmentId};
use crate::limits::LEVELS;
use crate::manifest::edit::Edit;
use crate::sstable::format::FileMeta;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// What exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// L0 by file number, oldest first; the others by key, no two overlapping.
    pub(crate) levels: [Vec<Arc<FileMeta>>; LEVELS],
    /// What hides rows of files.
    pub(crate) erasures: Arc<Erasures>,
    /// The blob files that files refer to.
    pub(crate) blobs: BTreeMap<FileNo, Arc<BlobMeta>>,
    /// The first segment of the log that is needed; 0 before there is a log.
    pub(crate) log_floor: SegmentId,
    /// The number that the next new file gets; above that of every file.
    pub(crate) next_file: FileNo,
    /// Every commit up to here is in files; every later one is in the log, or yet to come.
    pub(crate) last_ts: CommitTs,
    /// The oldest moment that can be read: what only earlier ones show may have been dropped.
    pub(crate) history_floor: CommitTs,
    /// Chosen when the database was made.
    pub(crate) db_id: u128,
}

impl State {
    /// A database without files.
    pub(crate) fn empty(db_id: u128) -> State {
        State { next_file: FileNo(1), db_id, ..State::default() }
    }

    /// Makes the change, all of it or none.
    ///
    /// Errors: `Invalid` for a number that goes back, a file that is removed where it is not or
    /// added twice, bounds in the wrong order, an overlap below L0; the same for erasures; a
    /// reference to more than a blob file has, or a new blob file that nothing refers to.
    pub(crate) fn apply(&mut self, edit: &Edit) -> Result<()> {
        let mut next = self.clone();
        next.raise(edit)?;
        let mut touched = [false; LEVELS];
        for (level, no) in &edit.removed {
            *slot(&mut touched, *level)? = true;
            let files = slot(&mut next.levels, *level)?;
            let at = files.iter().position(|file| file.no == *no);
            let at = at.ok_or_else(|| broken(format!("L{level} has no file {no} to remove")))?;
            files.remove(at);
        }
        let mut present: HashSet<_> = next.files().map(|(_, file)| file.no).collect();
        for (level, file) in &edit.added {
            check_file(file, next.next_file)?;
            if !present.insert(file.no) {
                return Err(broken(format!("file {} is added twice", file.no)));
            }
            *slot(&mut touched, *level)? = true;
            slot(&mut next.levels, *level)?.push(file.clone());
        }
        for (level, files) in
            next.levels.iter_mut().enumerate().filter(|(level, _)| touched[*level])
        {
            order(level, files)?;
        }
        if !edit.erased.is_empty() || !edit.retired.is_empty() {
            next.erasures = Arc::new(erase(&next.erasures, edit)?);
        }
        next.settle_blobs(edit)?;
        *self = next;
        Ok(())
    }

    /// Every file with its level.
    pub(crate) fn files(&self) -> impl Iterator<Item = (u8, &Arc<FileMeta>)> {
        self.levels
            .iter()
            .zip(0u8..)
            .flat_map(|(files, level)| files.iter().map(move |f| (level, f)))
    }

    /// The edit that makes this state out of an empty one.
    pub(crate) fn as_edit(&self) -> Edit {
        Edit {
            added: self.files().map(|(level, file)| (level, file.clone())).collect(),
            removed: Vec::new(),
            blobs: self.blobs.values().cloned().collect(),
            log_floor: Some(self.log_floor),
            next_file: Some(self.next_file),
            last_ts: Some(self.last_ts),
            history_floor: Some(self.history_floor),
            erased: self.erasures.iter().cloned().collect(),
            retired: Vec::new(),
        }
    }

    /// Every blob file with what files refer to of it.
    pub(crate) fn uses(&self) -> Result<Uses> {
        let mut all: Vec<_> = self.files().flat_map(|(_, file)| &file.blobs).collect();
        all.sort_unstable_by_key(|(no, _)| **no);
        let mut uses: Vec<(FileNo, Use)> = Vec::new();
        for (no, used) in all {
            match uses.last_mut().filter(|(last, _)| last == no) {
                Some((_, sum)) => {
                    let more = sum.plus(*used);
                    *sum = more.ok_or_else(|| broken(format!("blob file {no}: too much")))?;
                }
                None => uses.push((*no, *used)),
            }
        }
        Ok(uses.into_iter().collect()) // From what is sorted, in one go.
    }

    /// Adds the edit's blob files and forgets those that no file refers to any more.
    fn settle_blobs(&mut self, edit: &Edit) -> Result<()> {
        for blob in &edit.blobs {
            let taken = self.files().any(|(_, file)| file.no == blob.no);
            if blob.no >= self.next_file || taken {
                return Err(broken(format!("blob file {}: its number is not its own", blob.no)));
            }
            if self.blobs.insert(blob.no, Arc::clone(blob)).is_some() {
                return Err(broken(format!("blob file {} is added twice", blob.no)));
            }
        }
        let uses = self.uses()?;
        for (no, used) in &uses {
            let blob = self.blobs.get(no);
            if blob.is_none_or(|b| b.values < used.values || b.value_bytes() < used.bytes) {
                return Err(broken(format!("blob file {no} has not what files refer to")));
            }
        }
        if let Some(idle) = edit.blobs.iter().find(|blob| !uses.contains_key(&blob.no)) {
            return Err(broken(format!("nothing refers to blob file {}", idle.no)));
        }
        self.blobs.retain(|no, _| uses.contains_key(no));
        Ok(())
    }

    fn raise(&mut self, edit: &Edit) -> Result<()> {
        if let Some(floor) = edit.log_floor {
            self.log_floor = risen("log floor", self.log_floor, floor)?;
        }
        if let Some(next) = edit.next_file {
            self.next_file = risen("next file number", self.next_file, next)?;
        }
        if let Some(ts) = edit.last_ts {
            self.last_ts = risen("last commit", self.last_ts, ts)?;
        }
        if let Some(floor) = edit.history_floor {
            self.history_floor = risen("history floor", self.history_floor, floor)?;
        }
        Ok(())
    }
}

fn risen<T: PartialOrd + std::fmt::Debug>(what: &str, old: T, new: T) -> Result<T> {
    if new < old {
        return Err(broken(format!("the {what} goes back from {old:?} to {new:?}")));
    }
    Ok(new)
}

fn slot<T>(levels: &mut [T; LEVELS], level: u8) -> Result<&mut T> {
    levels.get_mut(usize::from(level)).ok_or_else(|| broken(format!("there is no level {level}")))
}

fn check_file(file: &FileMeta, next_file: FileNo) -> Result<()> {
    let rule = if file.no >= next_file {
        "its number was not given out"
    } else if file.smallest > file.largest {
        "its keys are in the wrong order"
    } else if file.min_ts > file.max_ts {
        "its commits are in the wrong order"
    } else if file.rows == 0 || file.deletes > file.rows {
        "its counts cannot be"
    } else if !file.expiring.is_plausible(file.rows - file.deletes) {
        "its rows that expire cannot be"
    } else if match file.deletes {
        0 => file.oldest_delete != CommitTs::ZERO,
        _ => !(file.min_ts..=file.max_ts).contains(&file.oldest_delete),
    } {
        "its oldest delete cannot be"
    } else {
        return Ok(());
    };
    Err(broken(format!("file {}: {rule}", file.no)))
}

fn order(level: usize, files: &mut [Arc<FileMeta>]) -> Result<()> {
    if level == 0 {
        files.sort_unstable_by_key(|file| file.no);
        return Ok(());
    }
    files.sort_unstable_by(|a, b| a.smallest.cmp(&b.smallest));
    // All versions of a key are in one file, so not even the bounds may be equal.
    match files.windows(2).find(|pair| pair[0].largest >= pair[1].smallest) {
        None => Ok(()),
        Some(pair) => {
            Err(broken(format!("files {} and {} of L{level} overlap", pair[0].no, pair[1].no)))
        }
    }
}

/// The erasures after `edit`.
fn erase(erasures: &Erasures, edit: &Edit) -> Result<Erasures> {
    let place = |e: &Erasure| format!("{}..{}", e.start.escape_ascii(), e.end.escape_ascii());
    if let Some(missing) = edit.retired.iter().find(|erasure| !erasures.contains(erasure)) {
        return Err(broken(format!("the erasure of {} is not there to retire", place(missing))));
    }
    let mut next = match edit.retired.is_empty() {
        true => erasures.clone(),
        false => erasures.without(&edit.retired),
    };
    for erasure in &edit.erased {
        if erasure.start >= erasure.end {
            return Err(broken(format!("the erasure of {} has no key", place(erasure))));
        }
        if next.contains(erasure) {
            return Err(broken(format!("the erasure of {} is added twice", place(erasure))));
        }
        next.insert(erasure.clone());
    }
    Ok(next)
}

fn broken(rule: String) -> Error {
    Error::invalid(format!("an edit of the manifest: {rule}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;
    use crate::expiry::Expiring;

    fn file(no: u64, smallest: &str, largest: &str) -> Arc<FileMeta> {
        Arc::new(FileMeta {
            no: FileNo(no),
            bytes: 10,
            smallest: smallest.into(),
            largest: largest.into(),
            min_ts: CommitTs(1),
            max_ts: CommitTs(2),
            rows: 3,
            deletes: 1,
            oldest_delete: CommitTs(2),
            expiring: Default::default(),
            erased_to: CommitTs::ZERO,
            aged_to: CommitTs::ZERO,
            blobs: Uses::new(),
            checksum: no,
        })
    }

    fn state() -> State {
        let mut state = State::empty(5);
        let added = vec![(0, file(3, "a", "z")), (0, file(1, "a", "c")), (1, file(2, "m", "p"))];
        let edit = Edit { added, next_file: Some(FileNo(10)), ..Edit::default() };
        state.apply(&edit).expect("a sound edit");
        state
    }

    #[track_caller]
    fn refused(edit: Edit, why: &str) {
        let mut state = state();
        let before = state.clone();
        let error = state.apply(&edit).expect_err("an edit that breaks a rule");
        assert_eq!(error.kind(), Kind::Invalid);
        assert!(error.message().contains(why), "{error}");
        assert_eq!(state, before, "nothing is half done");
    }

    fn erased(start: &str, end: &str) -> Vec<Erasure> {
        let (start, end) = (start.as_bytes().into(), end.as_bytes().into());
        vec![Erasure { start, end, ts: CommitTs(2) }]
    }

    #[test]
    fn erasures_come_and_go() {
        let mut state = state();
        let edit = Edit { erased: erased("a", "c"), ..Edit::default() };
        state.apply(&edit).expect("a sound edit");
        assert_eq!(state.erasures.len(), 1);
        let mut again = State::empty(state.db_id);
        again.apply(&state.as_edit()).expect("a state is an edit");
        assert_eq!(again, state);
        let twice = state.apply(&edit).expect_err("an erasure twice");
        assert!(twice.message().contains("added twice"), "{twice}");
        state.apply(&Edit { retired: erased("a", "c"), ..Edit::default() }).expect("it is there");
        assert!(state.erasures.is_empty());
        refused(Edit { retired: erased("a", "c"), ..Edit::default() }, "not there to retire");
        refused(Edit { erased: erased("c", "c"), ..Edit::default() }, "has no key");
    }

    /// A file 4 that refers to one value of 9 bytes in blob file 5, and that blob file.
    fn with_blob() -> (FileMeta, BlobMeta) {
        let blobs = Uses::from([(FileNo(5), Use { values: 1, bytes: 9 })]);
        let header = FileMeta { blobs, ..FileMeta::clone(&file(4, "a", "c")) };
        (header, BlobMeta { no: FileNo(5), bytes: 1000, values: 1 })
    }

    #[test]
    fn blob_files_are_those_that_files_refer_to() {
        let (file, blob) = with_blob();
        let edit = |file: &FileMeta, blobs: &[&BlobMeta]| Edit {
            blobs: blobs.iter().map(|blob| Arc::new(BlobMeta::clone(blob))).collect(),
            ..add(0, Arc::new(file.clone()))
        };
        let mut sound = state();
        sound.apply(&edit(&file, &[&blob])).expect("a sound edit");
        assert_eq!(sound.blobs.len(), 1);
        let again = Edit { blobs: vec![Arc::new(blob.clone())], ..Edit::default() };
        let twice = sound.apply(&again).expect_err("a blob file twice");
        assert!(twice.message().contains("blob file 000005 is added twice"), "{twice}");
        sound
            .apply(&Edit { removed: vec![(0, FileNo(4))], ..Edit::default() })
            .expect("it is there");
        assert!(sound.blobs.is_empty(), "nothing refers to it any more");

        refused(edit(&file, &[]), "has not what files refer to");
        refused(
            edit(&file, &[&BlobMeta { bytes: 1, ..blob.clone() }]),
            "has not what files refer to",
        );
        refused(edit(&file, &[&BlobMeta { no: FileNo(3), ..blob.clone() }]), "not its own");
        refused(edit(&file, &[&BlobMeta { no: FileNo(10), ..blob.clone() }]), "not its own");
        let idle = BlobMeta { no: FileNo(6), ..blob.clone() };
        refused(edit(&file, &[&blob, &idle]), "nothing refers to blob file 000006");
        let much = Use { values: 1, bytes: u64::MAX };
        let other =
            FileMeta { no: FileNo(7), blobs: Uses::from([(FileNo(5), much)]), ..file.clone() };
        let mut both = edit(&file, &[&blob]);
        both.added.push((0, Arc::new(other)));
        refused(both, "too much");
    }

    #[test]
    fn no_more_rows_expire_than_there_are() {
        let expiring = Expiring { rows: 3, from: CommitTs(1), to: CommitTs(2) };
        let file = FileMeta { expiring, ..FileMeta::clone(&file(4, "a", "c")) };
        refused(add(0, Arc::new(file)), "rows that expire");
    }

    #[test]
    fn the_oldest_delete_is_one_of_the_file() {
        let with = |deletes, oldest| {
            let oldest_delete = CommitTs(oldest);
            Arc::new(FileMeta { deletes, oldest_delete, ..FileMeta::clone(&file(4, "a", "c")) })
        };
        refused(add(0, with(0, 1)), "oldest delete");
        refused(add(0, with(1, 0)), "oldest delete");
        refused(add(0, with(1, 3)), "oldest delete");
    }

    fn add(level: u8, file: Arc<FileMeta>) -> Edit {
        Edit { added: vec![(level, file)], ..Edit::default() }
    }

    #[test]
    fn files_move_and_keep_their_order() {
        let mut state = state();
        let numbers = |files: &[Arc<FileMeta>]| files.iter().map(|f| f.no.0).collect::<Vec<_>>();
        assert_eq!(numbers(&state.levels[0]), [1, 3]);
        let edit = Edit {
            added: vec![(1, file(4, "q", "q")), (1, file(1, "a", "c"))],
            removed: vec![(0, FileNo(1))],
            log_floor: Some(SegmentId(2)),
            last_ts: Some(CommitTs(9)),
            ..Edit::default()
        };
        state.apply(&edit).expect("a sound edit");
        assert_eq!(numbers(&state.levels[0]), [3]);
        assert_eq!(numbers(&state.levels[1]), [1, 2, 4]);
        let mut copy = State::empty(5);
        copy.apply(&state.as_edit()).expect("its own snapshot");
        assert_eq!(copy, state);
    }

    #[test]
    fn what_cannot_be_is_refused_whole() {
        refused(add(0, file(3, "a", "b")), "added twice");
        refused(add(0, file(10, "a", "b")), "not given out");
        refused(add(0, file(4, "b", "a")), "keys are in the wrong order");
        refused(add(7, file(4, "a", "b")), "no level 7");
        refused(add(1, file(4, "p", "q")), "overlap");
        refused(add(1, file(4, "a", "z")), "overlap");
        refused(Edit { removed: vec![(1, FileNo(3))], ..Edit::default() }, "no file");
        refused(Edit { next_file: Some(FileNo(9)), ..Edit::default() }, "goes back");
        let late = Edit { removed: vec![(0, FileNo(1))], ..add(1, file(5, "n", "n")) };
        refused(late, "overlap");
    }
}
