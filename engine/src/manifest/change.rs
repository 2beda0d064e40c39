//! Edits of a state: the rules that every edit must keep, and the change that it makes. Pure.
//!
//! Promise: an edit that breaks a rule changes nothing. The rules hold for edits from the disk and
//! for our own alike: what is refused here never reaches the manifest.
//!
//! Cost: of an edit, what it changes and a pointer for each file of the levels that it touches, not
//! a look at every file that there is.

use crate::blob::format::{Use, Uses};
use crate::erasure::set::{Erasure, Erasures};
use crate::error::{Error, Result};
use crate::ids::{CommitTs, FileNo};
use crate::limits::LEVELS;
use crate::manifest::edit::Edit;
use crate::manifest::state::State;
use crate::sstable::format::FileMeta;
use crate::wal::format::LogFloor;
use std::collections::{BTreeMap, HashSet};
use std::mem;
use std::sync::Arc;

/// A state that edits change, with what their rules ask of all files.
#[derive(Debug)]
pub(crate) struct Changing {
    state: State,
    /// The number of every table file.
    numbers: HashSet<FileNo>,
    /// What table files refer to of each blob file.
    uses: Uses,
}

/// What an edit that keeps the rules makes of a state.
pub(crate) struct Change {
    numbers: Numbers,
    /// The files of each level that the edit touches, as they will be.
    levels: [Option<Vec<Arc<FileMeta>>>; LEVELS],
    gone: HashSet<FileNo>,
    added: HashSet<FileNo>,
    erasures: Option<Arc<Erasures>>,
    /// What will be referred to of each blob file whose use changes.
    uses: Uses,
}

/// What only rises.
#[derive(Clone, Copy)]
struct Numbers {
    log_floor: LogFloor,
    next_file: FileNo,
    last_ts: CommitTs,
    history_floor: CommitTs,
}

impl Changing {
    /// Cost: a look at each file.
    pub(crate) fn new(state: State) -> Changing {
        let numbers = state.files().map(|(_, file)| file.no).collect();
        let uses = state.uses();
        Changing { state, numbers, uses }
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    pub(crate) fn into_state(self) -> State {
        self.state
    }

    /// What table files refer to of each blob file.
    pub(crate) fn uses(&self) -> &Uses {
        &self.uses
    }

    /// Whether a table file has that number.
    pub(crate) fn has_table(&self, no: FileNo) -> bool {
        self.numbers.contains(&no)
    }

    /// Takes a number for a new file.
    pub(crate) fn take_file_no(&mut self) -> FileNo {
        let no = self.state.next_file;
        self.state.next_file = FileNo(no.0 + 1);
        no
    }

    /// Checks the edit and makes the change.
    pub(crate) fn apply(&mut self, edit: &Edit) -> Result<()> {
        let change = self.check(edit)?;
        self.make(edit, change);
        Ok(())
    }

    /// What `edit` would change.
    ///
    /// Errors: `Invalid` for a number that goes back, a file that is removed where it is not or
    /// added twice, bounds in the wrong order, an overlap below L0; the same for erasures; a
    /// reference to more than a blob file has, or a new blob file that nothing refers to.
    pub(crate) fn check(&self, edit: &Edit) -> Result<Change> {
        let mut change = Change {
            numbers: self.raised(edit)?,
            levels: Default::default(),
            gone: HashSet::new(),
            added: HashSet::new(),
            erasures: None,
            uses: Uses::new(),
        };
        self.remove(edit, &mut change)?;
        self.add(edit, &mut change)?;
        if !edit.erased.is_empty() || !edit.retired.is_empty() {
            change.erasures = Some(Arc::new(erase(&self.state.erasures, edit)?));
        }
        self.check_blobs(edit, &change)?;
        Ok(change)
    }

    /// Makes the change that [`Changing::check`] found for `edit`, with no other edit in between.
    pub(crate) fn make(&mut self, edit: &Edit, change: Change) {
        let Change { numbers, levels, gone, added, erasures, uses } = change;
        let state = &mut self.state;
        state.log_floor = numbers.log_floor;
        state.next_file = numbers.next_file;
        state.last_ts = numbers.last_ts;
        state.history_floor = numbers.history_floor;
        state.history = edit.history.unwrap_or(state.history);
        for (files, next) in state.levels.iter_mut().zip(levels) {
            *files = next.unwrap_or_else(|| mem::take(files));
        }
        state.erasures = erasures.unwrap_or_else(|| mem::take(&mut state.erasures));
        state.blobs.extend(edit.blobs.iter().map(|blob| (blob.no, Arc::clone(blob))));
        gone.iter().for_each(|no| _ = self.numbers.remove(no));
        self.numbers.extend(added);
        for (no, used) in uses {
            if used == Use::default() {
                self.uses.remove(&no);
                state.blobs.remove(&no);
            } else {
                self.uses.insert(no, used);
            }
        }
    }

    fn raised(&self, edit: &Edit) -> Result<Numbers> {
        let State { log_floor, next_file, last_ts, history_floor, .. } = self.state;
        let segment = edit.log_floor.map(|floor| floor.segment);
        risen("log floor", log_floor.segment, segment)?;
        Ok(Numbers {
            log_floor: edit.log_floor.unwrap_or(log_floor),
            next_file: risen("next file number", next_file, edit.next_file)?,
            last_ts: risen("last commit", last_ts, edit.last_ts)?,
            history_floor: risen("history floor", history_floor, edit.history_floor)?,
        })
    }

    fn remove(&self, edit: &Edit, change: &mut Change) -> Result<()> {
        for (level, gone) in edit.removed_by_level() {
            let files = self.touched(&mut change.levels, level)?;
            for file in files.extract_if(.., |file| gone.contains(&file.no)) {
                change.gone.insert(file.no);
                for (blob, used) in &file.blobs {
                    let sum = self.in_use(&mut change.uses, *blob);
                    *sum = sum.less(*used);
                }
            }
            if let Some(no) = gone.difference(&change.gone).min() {
                return Err(broken(format!("L{level} has no file {no} to remove")));
            }
        }
        match change.gone.len() == edit.removed.len() {
            true => Ok(()),
            false => Err(broken("a file is removed twice".to_owned())),
        }
    }

    fn add(&self, edit: &Edit, change: &mut Change) -> Result<()> {
        for (level, file) in &edit.added {
            check_file(file, change.numbers.next_file)?;
            let stays = self.numbers.contains(&file.no) && !change.gone.contains(&file.no);
            if stays || !change.added.insert(file.no) {
                return Err(broken(format!("file {} is added twice", file.no)));
            }
            insert(*level, self.touched(&mut change.levels, *level)?, file)?;
            for (blob, used) in &file.blobs {
                let sum = self.in_use(&mut change.uses, *blob);
                let more = sum.plus(*used);
                *sum = more.ok_or_else(|| broken(format!("blob file {blob}: too much")))?;
            }
        }
        Ok(())
    }

    /// Checks the edit's blob files, and that each has what files will refer to of it.
    fn check_blobs(&self, edit: &Edit, change: &Change) -> Result<()> {
        let mut new = BTreeMap::new();
        for blob in &edit.blobs {
            let stays = self.numbers.contains(&blob.no) && !change.gone.contains(&blob.no);
            let is_taken = stays || change.added.contains(&blob.no);
            if blob.no >= change.numbers.next_file || is_taken {
                return Err(broken(format!("blob file {}: its number is not its own", blob.no)));
            }
            let twice = new.insert(blob.no, blob).is_some();
            if twice || self.state.blobs.contains_key(&blob.no) {
                return Err(broken(format!("blob file {} is added twice", blob.no)));
            }
        }
        for (no, used) in change.uses.iter().filter(|(_, used)| **used != Use::default()) {
            let blob = new.get(no).copied().or_else(|| self.state.blobs.get(no));
            if blob.is_none_or(|b| b.values < used.values || b.value_bytes() < used.bytes) {
                return Err(broken(format!("blob file {no} has not what files refer to")));
            }
        }
        let is_idle = |no: &FileNo| change.uses.get(no).is_none_or(|used| *used == Use::default());
        if let Some(idle) = new.keys().find(|no| is_idle(no)) {
            return Err(broken(format!("nothing refers to blob file {idle}")));
        }
        Ok(())
    }

    /// The files of `level` as the edit has them so far.
    fn touched<'a>(
        &self,
        levels: &'a mut [Option<Vec<Arc<FileMeta>>>; LEVELS],
        level: u8,
    ) -> Result<&'a mut Vec<Arc<FileMeta>>> {
        let at = usize::from(level);
        let slot =
            levels.get_mut(at).ok_or_else(|| broken(format!("there is no level {level}")))?;
        Ok(slot.get_or_insert_with(|| self.state.levels[at].clone()))
    }

    /// What is referred to of a blob file as the edit has it so far.
    fn in_use<'a>(&self, uses: &'a mut Uses, blob: FileNo) -> &'a mut Use {
        uses.entry(blob).or_insert_with(|| self.uses.get(&blob).copied().unwrap_or_default())
    }
}

impl State {
    /// Makes one edit, or nothing of it where it breaks a rule. Cost: a look at each file; whoever
    /// makes many edits keeps a [`Changing`].
    pub(crate) fn apply(&mut self, edit: &Edit) -> Result<()> {
        let mut changing = Changing::new(mem::take(self));
        let done = changing.apply(edit);
        *self = changing.into_state();
        done
    }
}

fn risen<T: PartialOrd + std::fmt::Debug>(what: &str, old: T, new: Option<T>) -> Result<T> {
    match new {
        None => Ok(old),
        Some(new) if new < old => {
            Err(broken(format!("the {what} goes back from {old:?} to {new:?}")))
        }
        Some(new) => Ok(new),
    }
}

fn check_file(file: &FileMeta, next_file: FileNo) -> Result<()> {
    let rule = if file.no >= next_file {
        "its number was not given out"
    } else if file.bytes == 0 {
        "it has no bytes"
    } else if file.smallest > file.largest {
        "its keys are in the wrong order"
    } else if file.min_ts > file.max_ts {
        "its commits are in the wrong order"
    } else if file.rows == 0 || file.deletes > file.rows {
        "its counts cannot be"
    } else if !file.expiring.is_plausible(file.rows - file.deletes) {
        "its rows that expire cannot be"
    } else if !could_be_replaced(file) {
        "its versions that are replaced cannot be"
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

/// Whether the versions said to be replaced can be: by commits of the file that are not its first.
fn could_be_replaced(file: &FileMeta) -> bool {
    let replaced = &file.replaced;
    replaced.rows == 0
        || replaced.is_plausible(file.rows - 1)
            && file.min_ts < replaced.from
            && replaced.to <= file.max_ts
}

/// Puts a file at its place among those of its level.
fn insert(level: u8, files: &mut Vec<Arc<FileMeta>>, file: &Arc<FileMeta>) -> Result<()> {
    let at = match level {
        0 => files.partition_point(|other| other.no < file.no),
        _ => files.partition_point(|other| other.smallest < file.smallest),
    };
    if level > 0 {
        // All versions of a key are in one file, so not even the bounds may be equal.
        let before = files[..at].last().filter(|other| other.largest >= file.smallest);
        let after = files.get(at).filter(|other| other.smallest <= file.largest);
        if let Some(other) = before.or(after) {
            let (a, b) = (other.no.min(file.no), other.no.max(file.no));
            return Err(broken(format!("files {a} and {b} of L{level} overlap")));
        }
    }
    files.insert(at, Arc::clone(file));
    Ok(())
}

/// The erasures after `edit`.
fn erase(erasures: &Erasures, edit: &Edit) -> Result<Erasures> {
    let place = |e: &Erasure| format!("{}..{}", e.start.escape_ascii(), e.end.escape_ascii());
    if let Some(missing) = edit.retired.iter().find(|erasure| !erasures.contains(erasure)) {
        return Err(broken(format!("the erasure of {} is not there to retire", place(missing))));
    }
    let mut added: Vec<&Erasure> = edit.erased.iter().collect();
    added.sort_unstable();
    let twice = added.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
    let known = || {
        let mut there = added.iter().filter(|erasure| erasures.contains(erasure));
        there.find(|erasure| !edit.retired.contains(erasure)).copied()
    };
    if let Some(empty) = added.iter().find(|erasure| erasure.start >= erasure.end) {
        return Err(broken(format!("the erasure of {} has no key", place(empty))));
    }
    if let Some(twice) = twice.or_else(known) {
        return Err(broken(format!("the erasure of {} is added twice", place(twice))));
    }
    Ok(erasures.changed(&edit.retired, &edit.erased))
}

fn broken(rule: String) -> Error {
    Error::invalid(format!("an edit of the manifest: {rule}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blob::format::BlobMeta;
    use crate::error::Kind;
    use crate::ids::SegmentId;
    use crate::lapsing::Lapsing;
    use tabulith_testkit::seed::Rng;

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
            replaced: Default::default(),
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
    fn no_more_rows_are_deletes_than_there_are() {
        let with = |rows, deletes| {
            Arc::new(FileMeta { rows, deletes, ..FileMeta::clone(&file(4, "a", "c")) })
        };
        refused(add(0, with(0, 0)), "counts cannot be");
        refused(add(0, with(3, 4)), "counts cannot be");
    }

    #[test]
    fn no_more_rows_expire_than_there_are() {
        let expiring = Lapsing { rows: 3, from: CommitTs(1), to: CommitTs(2) };
        let file = FileMeta { expiring, ..FileMeta::clone(&file(4, "a", "c")) };
        refused(add(0, Arc::new(file)), "rows that expire");
    }

    #[test]
    fn what_is_replaced_is_so_by_a_commit_of_the_file() {
        let with = |rows, from, to| {
            let replaced = Lapsing { rows, from: CommitTs(from), to: CommitTs(to) };
            add(0, Arc::new(FileMeta { replaced, ..FileMeta::clone(&file(4, "a", "c")) }))
        };
        let FileMeta { rows, min_ts, max_ts, .. } = *file(4, "a", "c");
        let (min, max) = (min_ts.0, max_ts.0);
        assert!(min < max && rows > 1, "there is one that can be");
        assert!(state().apply(&with(rows - 1, min + 1, max)).is_ok());
        refused(with(rows, min + 1, max), "versions that are replaced");
        refused(with(1, min, max), "versions that are replaced");
        refused(with(1, min + 1, max + 1), "versions that are replaced");
        refused(with(1, max, min), "versions that are replaced");
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
            log_floor: Some(LogFloor::at(SegmentId(2))),
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
        let empty = FileMeta { bytes: 0, ..FileMeta::clone(&file(4, "a", "b")) };
        refused(add(0, Arc::new(empty)), "no bytes");
        let twice = vec![(0, FileNo(1)), (0, FileNo(1))];
        refused(Edit { removed: twice, ..Edit::default() }, "removed twice");
        refused(add(7, file(4, "a", "b")), "no level 7");
        refused(add(1, file(4, "p", "q")), "overlap");
        refused(add(1, file(4, "a", "z")), "overlap");
        refused(Edit { removed: vec![(1, FileNo(3))], ..Edit::default() }, "no file");
        refused(Edit { next_file: Some(FileNo(9)), ..Edit::default() }, "goes back");
        let late = Edit { removed: vec![(0, FileNo(1))], ..add(1, file(5, "n", "n")) };
        refused(late, "overlap");
    }

    /// The edit as a whole look at all files judges it.
    fn by_the_rules(state: &State, edit: &Edit) -> Option<State> {
        let mut next = state.clone();
        for (level, no) in &edit.removed {
            let files = next.levels.get_mut(usize::from(*level))?;
            let at = files.iter().position(|file| file.no == *no)?;
            files.remove(at);
        }
        for (level, file) in &edit.added {
            next.levels.get_mut(usize::from(*level))?.push(Arc::clone(file));
        }
        for blob in &edit.blobs {
            next.blobs.insert(blob.no, Arc::clone(blob)).map_or(Some(()), |_| None)?;
        }
        next.levels[0].sort_by_key(|file| file.no);
        for files in &mut next.levels[1..] {
            files.sort_by(|a, b| a.smallest.cmp(&b.smallest));
            files.is_sorted_by(|a, b| a.largest < b.smallest).then_some(())?;
        }
        let mut numbers: Vec<_> = next.files().map(|(_, file)| file.no).collect();
        numbers.extend(edit.blobs.iter().map(|blob| blob.no));
        numbers.sort_unstable();
        numbers.is_sorted_by(|a, b| a < b).then_some(())?;
        let uses = next.uses();
        let has = |no, used: &Use| {
            let blob: &Arc<BlobMeta> = next.blobs.get(no)?;
            (blob.values >= used.values && blob.value_bytes() >= used.bytes).then_some(())
        };
        uses.iter().try_for_each(|(no, used)| has(no, used))?;
        edit.blobs.iter().all(|blob| uses.contains_key(&blob.no)).then_some(())?;
        next.blobs.retain(|no, _| uses.contains_key(no));
        Some(next)
    }

    #[test]
    fn every_edit_is_judged_as_by_a_look_at_all_files() {
        let (mut done, mut refused, mut blobs) = (0, 0, 0);
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let mut changing = Changing::new(State { next_file: FileNo(40), ..State::empty(5) });
            for _ in 0..60 {
                let edit = random_edit(&mut rng, changing.state());
                let wanted = by_the_rules(changing.state(), &edit);
                let before = changing.state().clone();
                let outcome = changing.apply(&edit);
                assert_eq!(
                    outcome.is_ok(),
                    wanted.is_some(),
                    "{edit:?} on {before:?}: {outcome:?}"
                );
                assert_eq!(changing.state(), wanted.as_ref().unwrap_or(&before), "{edit:?}");
                let anew = Changing::new(changing.state().clone());
                assert_eq!((&changing.numbers, &changing.uses), (&anew.numbers, &anew.uses));
                *(if outcome.is_ok() { &mut done } else { &mut refused }) += 1;
                blobs += changing.state().blobs.len();
            }
        }
        assert!(done > 2_000 && refused > 2_000 && blobs > 2_000, "{done} {refused} {blobs}");
    }

    /// Mostly an edit that could be: files that are there go, others come, some with values in blob
    /// files.
    fn random_edit(rng: &mut Rng, state: &State) -> Edit {
        let there: Vec<_> = state.files().map(|(level, file)| (level, file.no)).collect();
        let mut edit = Edit::default();
        for _ in 0..rng.below(3) {
            let absent = (rng.below(3) as u8, FileNo(rng.below(40) as u64));
            let known = rng.below(10) > 0 && !there.is_empty();
            edit.removed.push(if known { there[rng.below(there.len())] } else { absent });
        }
        for _ in 0..rng.below(3) {
            let from = rng.below(26) as u8;
            let to = (from + rng.below(3) as u8).min(25);
            let key = |letter: u8| char::from(b'a' + letter).to_string();
            let mut file = FileMeta::clone(&file(rng.below(40) as u64, &key(from), &key(to)));
            for _ in 0..rng.below(3) {
                let values = 1 + rng.below(3) as u64;
                file.blobs.insert(FileNo(rng.below(40) as u64), Use { values, bytes: values * 20 });
            }
            edit.added.push((rng.below(3) as u8, Arc::new(file)));
        }
        let named: Vec<_> = edit.added.iter().flat_map(|(_, file)| file.blobs.keys()).collect();
        for no in named {
            if !state.blobs.contains_key(no) && rng.below(20) > 0 {
                let meta = BlobMeta {
                    no: *no,
                    bytes: 52 + rng.below(200) as u64,
                    values: 1 + rng.below(8) as u64,
                };
                edit.blobs.push(Arc::new(meta));
            }
        }
        edit
    }
}
