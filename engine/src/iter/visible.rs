//! What a reader at one timestamp sees of a merge: per key the newest version not newer than it,
//! and no row where that version is a delete, has expired or has outlived its table's time to live.
//!
//! Both directions take the same steps here: a key with one version, which is nearly every key, is
//! settled where the merge stands, with no copy. Going down, only a key with several versions is
//! carried along, as the merge has passed it by then. Where the merge knows of a plain stretch (one
//! block, puts of different keys), its rows are handed out one after the other from the block, with
//! no check at all, and the merge follows once that ends; where something is erased, such a stretch
//! ends with it.
//!
//! Rows that an erasure hides are not walked one by one where a source knows that all of them are
//! older than it: it is sought past them.

use crate::cursor::{Direction, Found, Unwanted};
use crate::erasure::live::Cover;
use crate::error::{Error, Result};
use crate::expiry;
use crate::ids::{CommitTs, RowKind};
use crate::key::range::KeyRange;
use crate::moment::Moment;
use crate::sstable::walk::{Terms, Walk, Walked};
use bytes::Bytes;
use std::mem;

/// The rows of a range as of a timestamp. Starts before the first row and after the last.
pub(crate) struct VisibleCursor<C> {
    merge: C,
    cover: Cover,
    at: CommitTs,
    now: CommitTs,
    outlived_to: CommitTs,
    range: KeyRange,
    state: State,
    /// Where `state` is `On`: the direction in which the row was reached.
    direction: Direction,
    /// Where the cursor is within a plain stretch. The merge stands where that began.
    walk: Option<Walk>,
    /// Moves that the walk has made, and those in `direction` that it may still make.
    walked: usize,
    plain: usize,
    /// Whether the last move is known to have led from a row to another of its partition.
    stays: bool,
    /// Where `state` is `On`: the kind of the version here. Asked for at every value, and known.
    kind: RowKind,
    key: Vec<u8>,
    walk_key: Vec<u8>, // Memory for the keys of the next walk.
    /// The row that the merge has passed.
    passed: Found,
    scratch: Vec<u8>,
    /// Most keys without a row, or erased stretches, that one move up passes.
    hidden_max: usize,
    /// Whether the last move stopped on one of those.
    is_hidden: bool,
    /// What an earlier move failed with.
    error: Option<Error>,
}

/// Where the cursor stands, and so where the merge below it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not yet on any row.
    Fresh,
    /// On a row, and so is the merge, unless the cursor walks.
    On,
    /// On a row with `key`; the merge is on some version of a smaller key, or on nothing.
    Passed,
    /// On a row with `key`, or on a key without one; the merge is anywhere.
    Apart,
    /// The last move up found no row.
    Above,
    /// The last move down found no row.
    Below,
}

/// What is kept of a key without a row.
fn none() -> Found {
    Found { ts: CommitTs::ZERO, kind: RowKind::Delete, value: Bytes::new() }
}

impl<C: Walked> VisibleCursor<C> {
    /// The rows of `range` that a reader at `moment` sees; `cover` is what is erased for it.
    pub(crate) fn new(merge: C, cover: Cover, moment: Moment, range: KeyRange) -> VisibleCursor<C> {
        VisibleCursor {
            merge,
            cover,
            at: moment.at,
            now: moment.now,
            outlived_to: CommitTs::ZERO,
            range,
            state: State::Fresh,
            direction: Direction::Up,
            walk: None,
            walked: 0,
            plain: 0,
            stays: false,
            kind: RowKind::Delete,
            key: Vec::new(),
            walk_key: Vec::new(),
            passed: none(),
            scratch: Vec::new(),
            hidden_max: usize::MAX,
            is_hidden: false,
            error: None,
        }
    }

    /// The same without rows of commits up to `outlived_to`.
    pub(crate) fn without(self, outlived_to: CommitTs) -> VisibleCursor<C> {
        VisibleCursor { outlived_to, ..self }
    }

    /// From here on a move up ends where it has passed so many keys without a row, or erased
    /// stretches: on the next of them, which is ruled out.
    pub(crate) fn stop_after(&mut self, hidden: usize) {
        self.hidden_max = hidden;
    }

    /// Goes to the next row; false past the last.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<bool> {
        if self.moves_plainly(Direction::Up) { Ok(true) } else { self.next_in_merge() }
    }

    /// Goes to the row before; false before the first.
    #[inline]
    pub(crate) fn prev(&mut self) -> Result<bool> {
        if self.moves_plainly(Direction::Down) { Ok(true) } else { self.prev_in_merge() }
    }

    #[inline(never)]
    fn next_in_merge(&mut self) -> Result<bool> {
        self.guard(Self::seek_next)
    }

    #[inline(never)]
    fn prev_in_merge(&mut self) -> Result<bool> {
        self.guard(Self::seek_prev)
    }

    /// Goes to the first row at or after `key`; false where there is none in the range.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.guard(|rows| {
            rows.merge.seek(key.max(&rows.range.start), rows.at)?;
            rows.settle_upwards()
        })
    }

    /// Passes the rows after the one here that are `unwanted`, as far as a plain stretch goes,
    /// `rows_max` at most; stands on the last of them and returns how many. One that is ruled out
    /// counts as unwanted, unasked.
    pub(crate) fn pass_over(&mut self, rows_max: usize, unwanted: &mut Unwanted<'_>) -> usize {
        let is_on_row = self.state == State::On && !self.is_hidden && self.error.is_none();
        if !is_on_row || self.direction != Direction::Up {
            return 0;
        }
        if self.plain == 0 {
            self.end_walk();
            self.begin_walk(Direction::Up);
        }
        let Some(walk) = &mut self.walk else { return 0 };
        let passed = walk.pass_over(rows_max.min(self.plain), unwanted);
        self.plain -= passed;
        self.walked += passed;
        if passed > 0 {
            (self.kind, self.stays) = (RowKind::Put, false);
        }
        passed
    }

    /// Makes a move unless an earlier one failed. The merge of one that failed stands on nothing,
    /// which must not be taken for the end of the rows.
    fn guard(&mut self, step: impl FnOnce(&mut Self) -> Result<bool>) -> Result<bool> {
        if let Some(error) = &self.error {
            return Err(error.duplicate());
        }
        (self.is_hidden, self.stays) = (false, false);
        self.end_walk();
        step(self).inspect_err(|error| self.fail(error))
    }

    /// Every move from here on fails.
    pub(crate) fn fail(&mut self, error: &Error) {
        self.plain = 0; // The next move is none of a walk.
        if crate::planted!("B31") {
            return; // Planted (`planted.rs`), with the merge's part: it goes on.
        }
        self.error = Some(error.duplicate());
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        match &self.walk {
            Some(walk) => walk.key(),
            None if self.state == State::On => self.merge.key(),
            None => &self.key,
        }
    }

    #[inline]
    pub(crate) fn ts(&self) -> CommitTs {
        match &self.walk {
            Some(walk) => walk.ts(),
            None if self.state == State::On => self.merge.ts(),
            None => self.passed.ts,
        }
    }

    /// Whether the last move is known to have led from a row to another of its partition.
    #[inline]
    pub(crate) fn stays_in_partition(&self) -> bool {
        self.stays
    }

    /// How the value is stored: as it is, or as a reference to it.
    pub(crate) fn kind(&self) -> RowKind {
        self.stored_kind().while_alive()
    }

    fn stored_kind(&self) -> RowKind {
        if self.state == State::On { self.kind } else { self.passed.kind }
    }

    /// The time from which on the row here is gone, where it has one.
    pub(crate) fn expires(&self) -> Result<Option<CommitTs>> {
        let kind = self.stored_kind();
        if !kind.expires() {
            return Ok(None); // As every row of a walk.
        }
        let stored =
            if self.state == State::On { self.merge.value_ref()? } else { &self.passed.value };
        Ok(expiry::told(kind, stored))
    }

    /// The value as stored. Where it cannot be read the scan has failed.
    pub(crate) fn value(&mut self) -> Result<Bytes> {
        let start = expiry::value_start(self.stored_kind());
        if let Some(Ok(value)) = self.walk.as_ref().map(Walk::value) {
            return Ok(value); // Of a put, which has nothing before it.
        }
        self.end_walk(); // An error is the merge's to tell.
        let mut value = match self.state {
            State::On => self.merge.value().inspect_err(|error| self.fail(error))?,
            _ => self.passed.value.clone(),
        };
        Ok(if start == 0 { value } else { value.split_off(start.min(value.len())) })
    }

    /// The value where the cursor walks: as it is. `None` elsewhere, and where it cannot be read.
    #[inline]
    pub(crate) fn plain_value(&self) -> Option<&[u8]> {
        self.walk.as_ref()?.value_ref().ok()
    }

    /// The value as stored, borrowed. Cost: the first of a block decompresses the block's values.
    #[inline]
    pub(crate) fn value_ref(&self) -> Result<&[u8]> {
        if let Some(walk) = &self.walk {
            return walk.value_ref().map_err(|damage| self.merge.blame(damage));
        }
        let kind = self.stored_kind();
        let stored =
            if self.state == State::On { self.merge.value_ref()? } else { &self.passed.value };
        Ok(expiry::value_of(kind, stored))
    }

    /// Whether the row is known not to pass the filter of the scan, or is none. While the cursor
    /// walks, the merge stands in the same block, of which all rows are ruled out or none.
    pub(crate) fn is_ruled_out(&self) -> bool {
        self.is_hidden || self.state == State::On && self.merge.is_ruled_out()
    }

    /// Whether the next move in the direction of the last one may lead to another block or source:
    /// the time to ask whether the sources are still the ones to read.
    pub(crate) fn is_at_edge(&self) -> bool {
        self.plain == 0
    }

    /// The range.
    pub(crate) fn range(&self) -> &KeyRange {
        &self.range
    }

    /// Goes on with another merge that shows the same rows. What is erased stays as it was: it is
    /// so whether the other still holds such rows or not.
    pub(crate) fn go_on_with(&mut self, merge: C) {
        self.end_walk();
        self.leave_merge();
        if self.state == State::Passed {
            self.state = State::Apart;
        }
        self.merge = merge;
    }

    #[inline]
    fn moves_plainly(&mut self, direction: Direction) -> bool {
        if self.plain == 0 || self.direction != direction {
            return false;
        }
        let Some(walk) = &mut self.walk else { return false };
        self.stays = walk.go(direction, 1);
        self.plain -= 1;
        self.walked += 1;
        self.kind = RowKind::Put; // What a plain move leads to.
        true
    }

    /// Begins a plain stretch and makes its first move, where the merge knows of one.
    fn enters_stretch(&mut self, direction: Direction) -> bool {
        self.begin_walk(direction);
        self.moves_plainly(direction)
    }

    /// Begins a plain stretch, where the merge, which is here, knows of one.
    fn begin_walk(&mut self, direction: Direction) {
        if self.outlived_to > CommitTs::ZERO && self.merge.plain_from() <= self.outlived_to {
            return; // Some of it has gone by.
        }
        let VisibleCursor { merge, cover, range, at, .. } = self;
        let Some(fence) = clear_to(cover, range, direction, merge.key()) else { return };
        let terms = Terms { direction, at: *at, fence };
        if let Some((walk, moves)) = self.merge.plain_walk(terms) {
            let mut walk = walk.branch(mem::take(&mut self.walk_key));
            walk.fetch_values(direction);
            (self.walk, self.plain) = (Some(walk), moves);
        }
    }

    /// Passes rows that were deleted, from the one here on, where the merge knows of some; returns
    /// how many, `most` at most.
    fn pass_deleted(&mut self, direction: Direction, most: usize) -> Result<usize> {
        let VisibleCursor { merge, cover, range, at, scratch, .. } = self;
        let Some(fence) = clear_to(cover, range, direction, merge.key()) else { return Ok(0) };
        merge.pass_deleted(Terms { direction, at: *at, fence }, most, scratch)
    }

    /// Has the merge follow to the row here, where the cursor walks.
    fn end_walk(&mut self) {
        self.plain = 0;
        let Some(walk) = self.walk.take() else { return };
        self.walk_key = walk.into_key();
        let moves = mem::take(&mut self.walked);
        if moves > 0 {
            self.merge.follow(self.direction, moves);
        }
    }

    fn seek_next(&mut self) -> Result<bool> {
        if self.state == State::On && self.direction == Direction::Down {
            self.leave_merge();
        }
        let state = self.state;
        match state {
            State::Fresh | State::Below => self.merge.seek(&self.range.start, self.at)?,
            State::On if self.enters_stretch(Direction::Up) => return Ok(true),
            State::On => self.merge.leave_key(&mut self.key)?,
            State::Passed | State::Apart => {
                self.merge.seek(&self.key, CommitTs::ZERO)?;
                while self.merge.valid() && self.merge.key() == self.key.as_slice() {
                    self.merge.next()?;
                }
            }
            State::Above => return Ok(false),
        }
        self.settle_upwards()
    }

    fn seek_prev(&mut self) -> Result<bool> {
        if self.state == State::On && self.direction == Direction::Up {
            self.leave_merge();
        }
        let state = self.state;
        match state {
            State::Fresh | State::Above => self.merge.seek_before(&self.range.end)?,
            State::On if self.enters_stretch(Direction::Down) => return Ok(true),
            State::On => self.merge.prev()?, // Going down stands on a key's only version.
            State::Apart => self.merge.seek_before(&self.key)?,
            State::Passed => {}
            State::Below => return Ok(false),
        }
        self.settle_downwards()
    }

    /// Keeps the key of the row here, so that the merge may go anywhere.
    fn leave_merge(&mut self) {
        if self.state == State::On {
            self.key.clear();
            self.key.extend_from_slice(self.merge.key());
            self.state = State::Apart;
        }
    }

    /// Whether the version here is a row: no delete, not expired, not outlived. Cost: the first row
    /// of a block that may expire decompresses the block's values.
    #[inline]
    fn is_alive_here(&self) -> Result<bool> {
        if self.merge.ts() <= self.outlived_to {
            return Ok(false);
        }
        match self.merge.kind() {
            RowKind::Delete => Ok(false),
            RowKind::Put | RowKind::Link => Ok(true),
            kind => Ok(self.now < expiry::of(kind, self.merge.value_ref()?)),
        }
    }

    /// Passes what the erasure over the version here hides, as far as sources know of it without
    /// reading; returns whether any was passed.
    fn skip_hidden(&mut self) -> Result<bool> {
        let hidden = self.cover.hidden();
        let fence = match self.direction {
            Direction::Up => &hidden.end,
            Direction::Down => &hidden.start,
        };
        self.merge.skip(self.direction, fence, hidden.before)
    }

    /// From the merge's place upwards, stands on the first row that is visible.
    fn settle_upwards(&mut self) -> Result<bool> {
        self.direction = Direction::Up;
        let mut hidden = 0;
        while self.merge.valid() && self.merge.key() < self.range.end.as_slice() {
            if self.merge.ts() > self.at {
                if !self.merge.ends_key(Direction::Up) {
                    if self.pass_newer()? {
                        continue;
                    }
                    if hidden == self.hidden_max {
                        // The merge has left the key, all of whose versions are too new.
                        (self.state, self.passed, self.is_hidden) = (State::Apart, none(), true);
                        return Ok(true);
                    }
                    hidden += 1;
                    continue;
                }
            } else if self.cover.hides(self.merge.key(), self.merge.ts()) {
                // A stretch counts as a key does: to pass it, sources seek.
                if hidden < self.hidden_max && self.skip_hidden()? {
                    hidden += 1;
                    continue;
                }
            } else if self.is_alive_here()? {
                (self.state, self.kind) = (State::On, self.merge.kind());
                return Ok(true);
            }
            if hidden == self.hidden_max {
                // The merge still stands on the version that is no row.
                (self.state, self.kind, self.is_hidden) = (State::On, RowKind::Delete, true);
                return Ok(true);
            }
            match self.pass_deleted(Direction::Up, self.hidden_max - hidden)? {
                0 => {
                    hidden += 1;
                    self.merge.leave_key(&mut self.key)?;
                }
                passed => hidden += passed,
            }
        }
        self.state = State::Above;
        Ok(false)
    }

    /// Moves the merge up past the versions of its key that are newer than a reader sees; whether
    /// one is left that it may see. The key is kept.
    fn pass_newer(&mut self) -> Result<bool> {
        self.key.clear();
        self.key.extend_from_slice(self.merge.key());
        self.merge.pass_newer(self.at, &mut self.scratch)
    }

    /// From the merge's place downwards, stands on the first row that is visible. The merge is on
    /// the oldest version of a key.
    fn settle_downwards(&mut self) -> Result<bool> {
        self.direction = Direction::Down;
        while self.merge.valid() && self.merge.key() >= self.range.start.as_slice() {
            if self.cover.hides(self.merge.key(), self.merge.ts()) && self.skip_hidden()? {
                continue;
            }
            if !self.merge.ends_key(Direction::Down) {
                if self.pass_deleted(Direction::Down, usize::MAX)? > 0 {
                    continue;
                }
                if self.pass_key()? {
                    self.state = State::Passed;
                    return Ok(true);
                }
            } else if self.cover.hides(self.merge.key(), self.merge.ts()) {
                self.merge.prev()?;
            } else if self.merge.ts() <= self.at && self.is_alive_here()? {
                (self.state, self.kind) = (State::On, self.merge.kind());
                return Ok(true);
            } else {
                self.merge.prev()?;
            }
        }
        self.state = State::Below;
        Ok(false)
    }

    /// Moves the merge down past every version of its key; whether a reader sees a row there, which
    /// is then kept.
    fn pass_key(&mut self) -> Result<bool> {
        self.key.clear();
        self.key.extend_from_slice(self.merge.key());
        let Some(newest) = self.merge.pass_key(self.at, &mut self.scratch)? else {
            return Ok(false);
        };
        let seen = !self.cover.hides(&self.key, newest.ts) && self.is_alive(&newest);
        self.passed = newest;
        Ok(seen)
    }

    /// Whether a version is a row; see [`VisibleCursor::is_alive_here`].
    fn is_alive(&self, version: &Found) -> bool {
        version.ts > self.outlived_to
            && match version.kind {
                RowKind::Delete => false,
                RowKind::Put | RowKind::Link => true,
                kind => self.now < expiry::of(kind, &version.value),
            }
    }
}

/// How far in `direction` from `key` on `range` goes and `cover` hides nothing: see
/// [`Cover::clear_to`].
fn clear_to<'a>(
    cover: &'a mut Cover,
    range: &'a KeyRange,
    direction: Direction,
    key: &[u8],
) -> Option<&'a [u8]> {
    let fence = match direction {
        Direction::Up => range.end.as_slice(),
        Direction::Down => range.start.as_slice(),
    };
    if cover.is_empty() { Some(fence) } else { cover.clear_to(direction, key, fence) }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;
    use crate::chunks::SpareChunks;
    use crate::cursor::Cursor;
    use crate::env::rng::Rng;
    use crate::erasure::set::{Erasure, Erasures};
    use crate::ids::TableId;
    use crate::iter::merge::MergeCursor;
    use crate::key::order;
    use crate::memtable::api::Memtable;
    use crate::memtable::ordered::OrderedMemtable;
    use crate::memtable::table::new_memtable;
    use crate::sstable::layout::BLOCK_BYTES_MAX;
    use crate::sstable::tests::{Model, file_of};
    use std::cmp::Reverse;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    fn key(byte: u8) -> Vec<u8> {
        order::row_key(TableId(1), b"p", &[byte])
    }

    /// Versions, oldest first, each with its time as the value, as one of four kinds of sources: a
    /// memtable that passes versions of a key in one step, one that seeks, a file, one in place.
    fn source(kind: u64, rows: &[(Vec<u8>, CommitTs, RowKind)]) -> Box<dyn Cursor + Send> {
        let valued = rows.iter().map(|(key, ts, kind)| (key, *ts, *kind, ts.0.to_string()));
        let memtable = match kind % 4 {
            0 => new_memtable(&SpareChunks::none()),
            1 => Arc::new(OrderedMemtable::default()) as Arc<dyn Memtable>,
            kind => {
                let version = |(key, ts, kind, value): (&Vec<u8>, CommitTs, RowKind, String)| {
                    let value = if kind == RowKind::Put { value.into_bytes() } else { vec![] };
                    ((key.clone(), Reverse(ts)), (kind, value))
                };
                return Box::new(file_of(&valued.map(version).collect(), kind == 3).cursor());
            }
        };
        valued.for_each(|(key, ts, kind, value)| memtable.insert(key, ts, kind, value.as_bytes()));
        memtable.cursor()
    }

    #[test]
    fn any_walk_sees_the_model_at_that_time() {
        for seed in 0..40 {
            let mut rng = Rng::seeded(seed);
            let mut sources = [Vec::new(), Vec::new(), Vec::new()];
            let at = rng.below(400);
            let letters = if seed % 4 < 2 { 26 } else { 5 };
            let mut model: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
            let mut erased = [Vec::new(), Vec::new()];
            for ts in 1..400u64 {
                if seed % 2 == 0 && rng.one_in(20) {
                    let start = b'a' + rng.below(26) as u8;
                    let end = start + 1 + rng.below(5) as u8;
                    let range = KeyRange { start: key(start), end: key(end) };
                    erased[rng.below(2) as usize].push(Erasure::new(&range, CommitTs(ts)));
                    if ts <= at {
                        model.retain(|key, _| !range.contains(key));
                    }
                    continue;
                }
                let key = key(b'a' + rng.below(letters) as u8);
                let put = !rng.one_in(3);
                let kind = if put { RowKind::Put } else { RowKind::Delete };
                // A newer source holds newer versions, as memtables and levels do.
                sources[(ts / 134) as usize].push((key.clone(), CommitTs(ts), kind));
                if ts <= at {
                    match put {
                        true => model.insert(key, ts),
                        false => model.remove(&key),
                    };
                }
            }
            let range = KeyRange { start: key(b'c'), end: key(b'x') };
            model.retain(|key, _| range.contains(key));
            let rows: Vec<_> = model.into_iter().collect();
            let kinds = sources.iter().zip(seed / 4..);
            let merge = MergeCursor::new(kinds.map(|(rows, kind)| source(kind, rows)).collect());
            let sets = erased.map(|erased| Arc::new(Erasures::of(erased))).into_iter();
            let cover = Cover::new(sets, CommitTs(at));
            let mut cursor = VisibleCursor::new(merge, cover, Moment::past(CommitTs(at)), range);
            let stops = seed % 3 == 0;
            if stops {
                cursor.stop_after(rng.below(3) as usize);
            }
            walk_at_random(&mut rng, cursor, &rows, stops);
        }
    }

    /// Walks up and down and seeks, 500 times, by RowKeys of a byte, and is where `rows` are.
    /// `stops`: the cursor may stop on keys without a row.
    fn walk_at_random(
        rng: &mut Rng,
        mut cursor: VisibleCursor<MergeCursor<Box<dyn Cursor + Send>>>,
        rows: &[(Vec<u8>, u64)],
        stops: bool,
    ) {
        // A fresh cursor stands at both ends: the first move says which.
        let mut place = if rng.one_in(2) { -1 } else { rows.len() as isize };
        let mut up = place == -1;
        for step in 0..500 {
            let mut found = match rng.below(9) {
                0 if step > 0 => {
                    let key = key(rng.below(256) as u8);
                    place = rows.partition_point(|(k, _)| *k < key) as isize;
                    up = rng.one_in(2);
                    cursor.seek(&key).unwrap()
                }
                n => {
                    // Mostly on, or it would stay about where it is.
                    up ^= step > 0 && n == 1;
                    let by = if up { 1 } else { -1 };
                    place = (place + by).clamp(-1, rows.len() as isize);
                    if up { cursor.next().unwrap() } else { cursor.prev().unwrap() }
                }
            };
            while found && cursor.is_ruled_out() {
                assert!(stops, "nobody has said that it may stop there");
                let here = rows.partition_point(|(k, _)| k.as_slice() < cursor.key()) as isize;
                (place, found) = match rng.one_in(2) {
                    true => (here, cursor.next().unwrap()),
                    false => (here - 1, cursor.prev().unwrap()),
                };
            }
            let want = usize::try_from(place).ok().and_then(|i| rows.get(i));
            assert_eq!(found, want.is_some(), "step {step}");
            if let Some((key, ts)) = want {
                assert_eq!((cursor.key(), cursor.ts().0), (key.as_slice(), *ts));
                assert_eq!(cursor.value().unwrap(), ts.to_string().as_bytes());
            }
        }
    }

    #[test]
    fn rows_that_were_deleted_are_passed_whichever_versions_there_are() {
        for seed in 0..200 {
            let mut rng = Rng::seeded(seed);
            let mut sources = [Vec::new(), Vec::new(), Vec::new()];
            let (twice, is_erased) = (rng.below(2), rng.one_in(4));
            // Rows, of one version or of two, deletes of most of them, and a few of either.
            let writes = [(0, 250), (1, 150 + rng.below(100)), (2, rng.below(20))];
            let total: u64 = writes.iter().map(|(_, writes)| writes).sum();
            let at = CommitTs(if rng.one_in(2) { total } else { rng.below(total) });
            let (mut ts, mut model) = (0, BTreeMap::new());
            for (number, writes) in writes {
                for _ in 0..writes {
                    ts += 1;
                    let row = if number == 0 { ts >> twice } else { rng.below(256) };
                    let key = key(row as u8);
                    let kind = match number != 0 && !rng.one_in(10) {
                        true => RowKind::Delete,
                        false => RowKind::Put,
                    };
                    sources[number].push((key.clone(), CommitTs(ts), kind));
                    match kind {
                        _ if ts > at.0 => None,
                        RowKind::Delete => model.remove(&key),
                        _ => model.insert(key, ts),
                    };
                }
            }
            let range = KeyRange { start: key(rng.below(40) as u8), end: key(255) };
            let mut erased = Vec::new();
            if is_erased {
                let range = KeyRange { start: key(90), end: key(90 + rng.below(90) as u8) };
                let when = CommitTs(1 + rng.below(at.0.max(1)));
                model.retain(|key, ts| !range.contains(key) || *ts >= when.0);
                erased.push(Erasure::new(&range, when));
            }
            model.retain(|key, _| range.contains(key));
            let rows: Vec<_> = model.into_iter().collect();
            let kinds = sources.iter().zip(seed..).filter(|(rows, _)| !rows.is_empty());
            let merge = MergeCursor::new(kinds.map(|(rows, kind)| source(kind, rows)).collect());
            let cover = Cover::new([Arc::new(Erasures::of(erased))].into_iter(), at);
            let mut cursor = VisibleCursor::new(merge, cover, Moment::past(at), range);
            let stops = seed % 3 == 0;
            if stops {
                cursor.stop_after(rng.below(20) as usize);
            }
            walk_at_random(&mut rng, cursor, &rows, stops);
        }
    }

    #[test]
    fn a_deleted_row_is_passed_whose_versions_lie_in_two_blocks() {
        let version = |letter, ts, len| {
            ((key(letter), Reverse(CommitTs(ts))), (RowKind::Put, vec![b'v'; len]))
        };
        let mut rows: Model = (b'a'..=b'z').map(|letter| version(letter, 1, 3)).collect();
        rows.extend([1, 2].map(|ts| version(b'm', ts, 3 * BLOCK_BYTES_MAX / 4)));
        let deletes: Vec<_> =
            (b'b'..=b'y').map(|letter| (key(letter), CommitTs(3), RowKind::Delete)).collect();
        for in_place in [false, true] {
            let file = file_of(&rows, in_place);
            let index = file.index();
            let mut blocks = std::iter::successors(Some(index.first()), |at| index.next(*at));
            assert!(blocks.any(|at| index.splits_key_after(at)), "of the key in the middle");
            let file = Box::new(file.cursor());
            let merge = MergeCursor::new(vec![source(0, &deletes), file]);
            let moment = Moment::past(CommitTs(3));
            let cover = Cover::new(std::iter::empty(), moment.at);
            let range = KeyRange { start: key(0), end: key(255) };
            let mut cursor = VisibleCursor::new(merge, cover, moment, range);
            let mut seen = Vec::new();
            while cursor.next().unwrap() {
                seen.push(cursor.key().to_vec());
            }
            while cursor.prev().unwrap() {
                seen.push(cursor.key().to_vec());
            }
            assert_eq!(seen, [b'a', b'z', b'z', b'a'].map(key));
        }
    }

    #[test]
    fn a_move_up_passes_so_many_keys_whose_versions_are_all_newer() {
        let table = new_memtable(&SpareChunks::none());
        for ts in [11, 12, 13] {
            for key in b'a'..=b'z' {
                table.insert(&[key], CommitTs(ts), RowKind::Put, b"");
            }
        }
        let moment = Moment::past(CommitTs(10));
        let cover = Cover::new(std::iter::empty(), moment.at);
        let range = KeyRange { start: Vec::new(), end: vec![b'{'] };
        let merge = MergeCursor::new(vec![table.cursor()]);
        let mut rows = VisibleCursor::new(merge, cover, moment, range);
        rows.stop_after(3);
        let mut stops = Vec::new();
        while rows.next().unwrap() {
            assert!(rows.is_ruled_out());
            stops.extend_from_slice(rows.key());
        }
        assert_eq!(stops, b"dhlptx");
        assert!(!rows.prev().unwrap());
    }

    /// One row for each letter; the value of each is damaged, and after a look at it the cursor
    /// stands on nothing.
    #[derive(Default)]
    struct Damaged {
        letter: Vec<u8>,
    }

    impl Cursor for Damaged {
        fn seek(&mut self, key: &[u8], _ts: CommitTs) -> Result<()> {
            key.clone_into(&mut self.letter);
            Ok(())
        }
        fn seek_before(&mut self, key: &[u8]) -> Result<()> {
            self.letter = vec![key[0] - 1];
            Ok(())
        }
        fn next(&mut self) -> Result<()> {
            self.step(1);
            Ok(())
        }
        fn prev(&mut self) -> Result<()> {
            self.step(u8::MAX);
            Ok(())
        }
        fn valid(&self) -> bool {
            !self.letter.is_empty()
        }
        fn key(&self) -> &[u8] {
            &self.letter
        }
        fn ts(&self) -> CommitTs {
            CommitTs(1)
        }
        fn kind(&self) -> RowKind {
            RowKind::Put
        }
        fn value(&mut self) -> Result<Bytes> {
            self.letter.clear();
            Err(Error::new(crate::error::Kind::Corrupt, "damaged"))
        }
        fn value_ref(&self) -> Result<&[u8]> {
            Ok(&[])
        }
    }

    impl Walked for Damaged {}

    impl Damaged {
        fn step(&mut self, by: u8) {
            self.letter.iter_mut().for_each(|letter| *letter = letter.wrapping_add(by));
        }
    }

    #[test]
    fn no_row_comes_after_a_value_that_cannot_be_read() {
        let range = KeyRange { start: vec![b'c'], end: vec![b'x'] };
        let moment = Moment::past(CommitTs(9));
        let cover = Cover::new(std::iter::empty(), moment.at);
        let mut rows = VisibleCursor::new(Damaged::default(), cover, moment, range);
        assert!(rows.next().unwrap() && rows.next().unwrap());
        assert_eq!(rows.key(), b"d");
        rows.value().unwrap_err();
        rows.next().unwrap_err();
        rows.seek(b"f").unwrap_err();
    }
}
