//! Many cursors as one, in the order of [`Cursor`].
//!
//! The sources that stand on something are kept in the order in which they come. A move of the
//! first one costs one comparison, with the second, for as long as it stays the first; where it
//! does not, it is sorted in again by halving. Where the first source knows how many rows of its
//! block lie before the second, no comparison is left ([`Walked`]).

use crate::cursor::{Cursor, Direction, Found};
use crate::error::{Error, Result};
use crate::ids::{CommitTs, RowKind};
use crate::sstable::format::Damage;
use crate::sstable::walk::{Terms, Walk, Walked};
use bytes::Bytes;
use std::cmp::Ordering;

/// A key above every key: no table has this number.
pub(crate) const KEY_ABOVE_ALL: &[u8] = &[0xff; 5];

/// A merge of sources that each hold different versions.
pub(crate) struct MergeCursor<C> {
    sources: Vec<C>,
    /// The sources that stand on a version, in the order of travel. Empty: the merge stands on
    /// nothing.
    order: Vec<usize>,
    direction: Direction,
    /// Whether the first two stand on the same key.
    same: bool,
    error: Option<Error>,
}

impl<C: Cursor> MergeCursor<C> {
    /// A merge of `sources`, not yet positioned.
    pub(crate) fn new(sources: Vec<C>) -> MergeCursor<C> {
        let order = Vec::with_capacity(sources.len());
        MergeCursor { sources, order, direction: Direction::Up, same: false, error: None }
    }

    fn first(&self) -> Option<&C> {
        self.order.first().map(|first| &self.sources[*first])
    }

    fn second(&self) -> Option<&C> {
        self.order.get(1).map(|second| &self.sources[*second])
    }

    /// How the keys of two sources compare. Both stand on a version.
    fn keys(&self, a: usize, b: usize) -> Ordering {
        self.sources[a].key().cmp(self.sources[b].key())
    }

    /// Sorts the sources that stand on something.
    fn elect(&mut self) {
        let MergeCursor { sources, order, direction, .. } = self;
        order.clear();
        order.extend((0..sources.len()).filter(|source| sources[*source].valid()));
        if order.len() > 1 {
            order.sort_unstable_by(|a, b| match leads(sources, *direction, *a, *b) {
                true => Ordering::Less,
                false => Ordering::Greater,
            });
        }
        self.compare_first_two();
    }

    fn compare_first_two(&mut self) {
        self.same = match self.order[..] {
            [first, second, ..] => self.keys(first, second).is_eq(),
            _ => false,
        };
    }

    /// After the first source moved: puts it where it now belongs.
    fn settle(&mut self, first: usize) {
        if !self.sources[first].valid() {
            self.order.remove(0);
            return self.compare_first_two();
        }
        let Some(second) = self.order.get(1).copied() else { return };
        let keys = self.keys(first, second);
        self.same = keys.is_eq();
        if comes_first(&self.sources, self.direction, keys, first, second) {
            return;
        }
        if self.place_behind_second(first) > 1 {
            self.compare_first_two();
        }
    }

    /// The same where it left a key on which the second one stands, in the direction of travel.
    fn settle_behind(&mut self, first: usize) {
        if !self.sources[first].valid() {
            self.order.remove(0);
            return self.compare_first_two();
        }
        self.place_behind_second(first);
        match self.order.len() {
            2 => self.same = false,
            _ => self.compare_first_two(),
        }
    }

    /// Sorts in the first source, which comes after the second one; returns where.
    fn place_behind_second(&mut self, first: usize) -> usize {
        let MergeCursor { sources, direction, .. } = self;
        let leads = |other: &usize| leads(sources, *direction, *other, first);
        let place = 1 + self.order[2..].partition_point(leads);
        self.order[..=place].rotate_left(1);
        place
    }

    /// Puts every source but the first on the first version past the first's, in the new
    /// direction.
    fn turn(&mut self, first: usize, direction: Direction) -> Result<()> {
        let (key, ts) = (self.sources[first].key().to_vec(), self.sources[first].ts());
        for (i, source) in self.sources.iter_mut().enumerate() {
            if i == first {
                continue;
            }
            source.seek(&key, ts)?;
            if direction == Direction::Down {
                match source.valid() {
                    true => source.prev()?,
                    false => source.seek_before(KEY_ABOVE_ALL)?,
                }
            }
        }
        self.direction = direction;
        Ok(())
    }

    fn try_advance(&mut self, direction: Direction) -> Result<()> {
        let Some(first) = self.order.first().copied() else { return Ok(()) };
        let turned = self.direction != direction;
        if turned {
            self.turn(first, direction)?;
        }
        match direction {
            Direction::Up => self.sources[first].next()?,
            Direction::Down => self.sources[first].prev()?,
        }
        match turned {
            true => self.elect(),
            false => self.settle(first),
        }
        Ok(())
    }

    /// Each source that stands on the key here leaves it by itself. The sources on one key are the
    /// first ones, so one that left finds its place behind the rest of them.
    fn try_leave_key(&mut self, scratch: &mut Vec<u8>) -> Result<()> {
        loop {
            let Some(first) = self.order.first().copied() else { return Ok(()) };
            if self.direction == Direction::Down {
                self.turn(first, Direction::Up)?;
                self.elect();
            }
            let shared = self.same;
            self.sources[first].leave_key(scratch)?;
            if !shared {
                self.settle(first);
                return Ok(());
            }
            self.settle_behind(first);
        }
    }

    /// Each source that stands on a version of the key here that is newer than `at` passes those by
    /// itself; whether one of the key is left. The sources on one key are the first ones, and of
    /// those the ones with newer versions.
    fn try_pass_newer(&mut self, at: CommitTs, scratch: &mut Vec<u8>) -> Result<bool> {
        loop {
            let Some(first) = self.order.first().copied() else { return Ok(false) };
            if self.sources[first].ts() <= at {
                return Ok(true);
            }
            let shared = self.same;
            let stays = self.sources[first].pass_newer(at, scratch)?;
            self.settle(first);
            if !shared {
                return Ok(stays);
            }
        }
    }

    /// All versions of the key here, downwards; the newest of what each source shows of it.
    fn try_pass_key(&mut self, at: CommitTs, scratch: &mut Vec<u8>) -> Result<Option<Found>> {
        let mut newest: Option<Found> = None;
        loop {
            let Some(first) = self.order.first().copied() else { return Ok(newest) };
            let shared = self.same;
            let found = self.sources[first].pass_key(at, scratch)?;
            let newer = |than: &Found| found.as_ref().is_some_and(|found| found.ts > than.ts);
            if newest.as_ref().is_none_or(newer) {
                newest = found;
            }
            if !shared {
                self.settle(first);
                return Ok(newest);
            }
            self.settle_behind(first);
        }
    }

    /// While the first two sources alone stand on a key, and the newer of them on its delete: both
    /// leave it. Which sources move is known without a look at the order, so that a deleted row
    /// costs two comparisons of keys, and one more where there is a third source.
    fn try_pass_deleted(
        &mut self,
        terms: Terms<'_>,
        most: usize,
        scratch: &mut Vec<u8>,
    ) -> Result<usize> {
        let (newer, older) = match (terms.direction, &self.order[..]) {
            (Direction::Up, [newer, older, ..]) => (*newer, *older),
            (Direction::Down, [older, newer, ..]) => (*newer, *older),
            _ => return Ok(0),
        };
        let mut passed = 0;
        while passed < most && self.has_deleted(newer, older, terms) {
            for source in [newer, older] {
                let source = &mut self.sources[source];
                match terms.direction {
                    Direction::Up => source.leave_key(scratch)?,
                    Direction::Down => source.prev()?,
                }
            }
            passed += 1;
        }
        if passed > 0 {
            self.order.drain(..2);
            for moved in [newer, older] {
                if self.sources[moved].valid() {
                    let MergeCursor { sources, direction, order, .. } = self;
                    let leads = |other: &usize| leads(sources, *direction, *other, moved);
                    order.insert(order.partition_point(leads), moved);
                }
            }
            self.compare_first_two();
        }
        Ok(passed)
    }

    /// Whether source `newer` stands on the delete of the row that source `older` stands on, and
    /// all other sources are past them. Going down each must have one version of the key.
    fn has_deleted(&self, newer: usize, older: usize, terms: Terms<'_>) -> bool {
        let Terms { direction, at, fence } = terms;
        let third = self.order.get(2).map(|third| &self.sources[*third]);
        let (newer, older) = (&self.sources[newer], &self.sources[older]);
        if !newer.valid() || newer.kind() != RowKind::Delete || !older.valid() {
            return false;
        }
        if newer.ts() > at || newer.ts() <= older.ts() {
            return false;
        }
        let key = newer.key();
        let (is_within, is_alone) = match direction {
            Direction::Up => (key < fence, third.is_none_or(|third| key < third.key())),
            Direction::Down => {
                let is_alone = newer.ends_key(direction) && older.ends_key(direction);
                (key >= fence, is_alone && third.is_none_or(|third| third.key() < key))
            }
        };
        is_within && is_alone && older.key() == key
    }

    fn try_seek(
        &mut self,
        direction: Direction,
        seek: impl Fn(&mut C) -> Result<()>,
    ) -> Result<()> {
        self.sources.iter_mut().try_for_each(seek)?;
        self.direction = direction;
        self.elect();
        Ok(())
    }

    fn try_skip(&mut self, direction: Direction, fence: &[u8], before: CommitTs) -> Result<bool> {
        let mut moved = false;
        for at in &self.order {
            let source = &mut self.sources[*at];
            let stands_before = match direction {
                Direction::Up => source.key() < fence,
                Direction::Down => source.key() >= fence,
            };
            moved |= stands_before && source.skip(direction, fence, before)?;
        }
        if moved {
            self.elect();
        }
        Ok(moved)
    }

    /// Makes a move unless an earlier one failed. A failed one leaves the merge on nothing, never
    /// on what would come next.
    fn guard<T>(&mut self, step: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if let Some(error) = &self.error {
            return Err(error.duplicate());
        }
        step(self).inspect_err(|error| {
            if crate::planted!("B31") && !self.order.is_empty() {
                // Planted (`planted.rs`): the merge goes on without the source that failed.
                self.order.remove(0);
                return self.compare_first_two();
            }
            self.order.clear();
            self.error = Some(error.duplicate());
        })
    }
}

/// Whether source `a` comes before source `b` in the direction of travel. Both stand on a version,
/// and never on the same.
fn leads<C: Cursor>(sources: &[C], direction: Direction, a: usize, b: usize) -> bool {
    let keys = sources[a].key().cmp(sources[b].key());
    comes_first(sources, direction, keys, a, b)
}

/// The same where it is known how their keys compare.
fn comes_first<C: Cursor>(
    sources: &[C],
    direction: Direction,
    keys: Ordering,
    a: usize,
    b: usize,
) -> bool {
    let order = keys.then_with(|| sources[b].ts().cmp(&sources[a].ts()));
    match direction {
        Direction::Up => order.is_lt(),
        Direction::Down => order.is_gt(),
    }
}

impl<C: Cursor> Cursor for MergeCursor<C> {
    fn seek(&mut self, key: &[u8], ts: CommitTs) -> Result<()> {
        self.guard(|merge| merge.try_seek(Direction::Up, |source| source.seek(key, ts)))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.guard(|merge| merge.try_seek(Direction::Down, |source| source.seek_before(key)))
    }

    fn next(&mut self) -> Result<()> {
        self.guard(|merge| merge.try_advance(Direction::Up))
    }

    fn prev(&mut self) -> Result<()> {
        self.guard(|merge| merge.try_advance(Direction::Down))
    }

    fn valid(&self) -> bool {
        !self.order.is_empty()
    }

    fn key(&self) -> &[u8] {
        self.first().map_or(&[], C::key)
    }

    fn ts(&self) -> CommitTs {
        self.first().map_or(CommitTs::ZERO, C::ts)
    }

    fn kind(&self) -> RowKind {
        self.first().map_or(RowKind::Delete, C::kind)
    }

    fn value(&mut self) -> Result<Bytes> {
        match self.order.first() {
            Some(first) => self.sources[*first].value(),
            None => Ok(Bytes::new()),
        }
    }

    fn value_ref(&self) -> Result<&[u8]> {
        self.first().map_or(Ok(&[]), C::value_ref)
    }

    fn is_ruled_out(&self) -> bool {
        self.first().is_some_and(C::is_ruled_out)
    }

    fn ends_key(&self, direction: Direction) -> bool {
        direction == self.direction
            && !self.same
            && self.first().is_some_and(|first| first.ends_key(direction))
    }

    fn leave_key(&mut self, scratch: &mut Vec<u8>) -> Result<()> {
        self.guard(|merge| merge.try_leave_key(scratch))
    }

    fn pass_newer(&mut self, at: CommitTs, scratch: &mut Vec<u8>) -> Result<bool> {
        self.guard(|merge| {
            if let Some(first) = merge.order.first().copied()
                && merge.direction == Direction::Down
            {
                merge.turn(first, Direction::Up)?;
                merge.elect();
            }
            merge.try_pass_newer(at, scratch)
        })
    }

    fn pass_key(&mut self, at: CommitTs, scratch: &mut Vec<u8>) -> Result<Option<Found>> {
        self.guard(|merge| {
            if let Some(first) = merge.order.first().copied()
                && merge.direction == Direction::Up
            {
                merge.turn(first, Direction::Down)?;
                merge.elect();
            }
            merge.try_pass_key(at, scratch)
        })
    }

    fn skip(&mut self, direction: Direction, fence: &[u8], before: CommitTs) -> Result<bool> {
        match direction == self.direction {
            true => self.guard(|merge| merge.try_skip(direction, fence, before)),
            false => Ok(false),
        }
    }
}

impl<C: Walked> Walked for MergeCursor<C> {
    fn plain_walk(&self, terms: Terms<'_>) -> Option<(&Walk, usize)> {
        let first = self.first().filter(|_| terms.direction == self.direction)?;
        let Some(second) = self.second() else { return first.plain_walk(terms) };
        let fence = match terms.direction {
            Direction::Up => terms.fence.min(second.key()),
            Direction::Down => terms.fence.max(second.key()),
        };
        first.plain_walk(Terms { fence, ..terms })
    }

    fn plain_from(&self) -> CommitTs {
        self.first().map_or(CommitTs::ZERO, C::plain_from)
    }

    fn pass_deleted(
        &mut self,
        terms: Terms<'_>,
        most: usize,
        scratch: &mut Vec<u8>,
    ) -> Result<usize> {
        match self.same && terms.direction == self.direction {
            true => self.guard(|merge| merge.try_pass_deleted(terms, most, scratch)),
            false => Ok(0),
        }
    }

    fn follow(&mut self, direction: Direction, moves: usize) {
        if let Some(first) = self.order.first() {
            self.sources[*first].follow(direction, moves);
        }
    }

    fn blame(&self, damage: Damage) -> Error {
        self.first().map_or_else(|| damage.nowhere(), |first| first.blame(damage))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;
    use crate::chunks::SpareChunks;
    use crate::env::rng::Rng;
    use crate::memtable::api::Memtable;
    use crate::memtable::ordered::OrderedMemtable;
    use crate::memtable::table::new_memtable;
    use std::cmp::Reverse;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    impl Walked for Box<dyn Cursor + Send> {}

    impl Cursor for Box<dyn Cursor + Send> {
        fn seek(&mut self, key: &[u8], ts: CommitTs) -> Result<()> {
            (**self).seek(key, ts)
        }
        fn seek_before(&mut self, key: &[u8]) -> Result<()> {
            (**self).seek_before(key)
        }
        fn next(&mut self) -> Result<()> {
            (**self).next()
        }
        fn prev(&mut self) -> Result<()> {
            (**self).prev()
        }
        fn valid(&self) -> bool {
            (**self).valid()
        }
        fn key(&self) -> &[u8] {
            (**self).key()
        }
        fn ts(&self) -> CommitTs {
            (**self).ts()
        }
        fn kind(&self) -> RowKind {
            (**self).kind()
        }
        fn value(&mut self) -> Result<Bytes> {
            (**self).value()
        }
        fn value_ref(&self) -> Result<&[u8]> {
            (**self).value_ref()
        }
        fn ends_key(&self, direction: Direction) -> bool {
            (**self).ends_key(direction)
        }
        fn leave_key(&mut self, scratch: &mut Vec<u8>) -> Result<()> {
            (**self).leave_key(scratch)
        }
        fn pass_newer(&mut self, at: CommitTs, scratch: &mut Vec<u8>) -> Result<bool> {
            (**self).pass_newer(at, scratch)
        }
        fn pass_key(&mut self, at: CommitTs, scratch: &mut Vec<u8>) -> Result<Option<Found>> {
            (**self).pass_key(at, scratch)
        }
    }

    #[test]
    fn any_walk_is_the_walk_over_the_union() {
        for seed in 0..40 {
            let mut rng = Rng::seeded(seed);
            // Two kinds: one that passes versions of a key in one step, and one that seeks.
            let tables: Vec<Arc<dyn Memtable>> = (0..rng.below(5) + 1)
                .map(|number| match (seed + number) % 2 {
                    0 => new_memtable(&SpareChunks::none()),
                    _ => Arc::new(OrderedMemtable::default()) as Arc<dyn Memtable>,
                })
                .collect();
            let letters = if seed % 4 < 2 { 20 } else { 2 };
            let mut all = BTreeSet::new();
            for ts in 1..300u64 {
                let key = vec![b'a' + rng.below(letters) as u8; rng.below(2) as usize + 1];
                let table = &tables[rng.below(tables.len() as u64) as usize];
                table.insert(&key, CommitTs(ts), RowKind::Put, ts.to_string().as_bytes());
                all.insert((key, Reverse(ts)));
            }
            let all: Vec<_> = all.into_iter().collect();
            let mut merge = MergeCursor::new(tables.iter().map(|t| t.clone().cursor()).collect());
            merge.seek(&[], CommitTs::MAX).unwrap();
            let mut at = 0isize;
            for _ in 0..3000 {
                let want = usize::try_from(at).ok().and_then(|at| all.get(at));
                let here = merge.valid().then(|| (merge.key().to_vec(), Reverse(merge.ts().0)));
                assert_eq!(here.as_ref(), want, "seed {seed}");
                if let Some((_, Reverse(ts))) = want {
                    assert_eq!(merge.value().unwrap(), ts.to_string().as_bytes());
                }
                let ends_key = want.is_some_and(|(key, _)| {
                    all.get(at as usize + 1).is_none_or(|(next, _)| next != key)
                });
                match rng.below(12) {
                    0 => {
                        let key = vec![b'a' + rng.below(21) as u8];
                        let ts = rng.below(300);
                        merge.seek(&key, CommitTs(ts)).unwrap();
                        at = all.partition_point(|e| *e < (key.clone(), Reverse(ts))) as isize;
                    }
                    9 => {
                        let key = vec![b'a' + rng.below(21) as u8];
                        merge.seek_before(&key).unwrap();
                        at = all.partition_point(|e| e.0 < key) as isize - 1;
                    }
                    n if want.is_some() && n % 2 == 0 => {
                        merge.next().unwrap();
                        at += 1;
                    }
                    1 if want.is_some() => {
                        let key = merge.key().to_vec();
                        merge.leave_key(&mut Vec::new()).unwrap();
                        at = all.partition_point(|e| e.0 <= key) as isize;
                    }
                    3 if want.is_some() => {
                        let (key, ts) = (merge.key().to_vec(), rng.below(merge.ts().0));
                        let stays = merge.pass_newer(CommitTs(ts), &mut Vec::new()).unwrap();
                        at = all.partition_point(|e| *e < (key.clone(), Reverse(ts))) as isize;
                        let here = all.get(at as usize).is_some_and(|e| e.0 == key);
                        assert_eq!(stays, here, "seed {seed}");
                    }
                    5 if ends_key => {
                        let (key, ts) = (merge.key().to_vec(), rng.below(300));
                        let found = merge.pass_key(CommitTs(ts), &mut Vec::new()).unwrap();
                        let newest = all.partition_point(|e| *e < (key.clone(), Reverse(ts)));
                        let newest = all.get(newest).filter(|e| e.0 == key);
                        let found = found.map(|found| (key.clone(), Reverse(found.ts.0)));
                        assert_eq!(found.as_ref(), newest, "seed {seed}");
                        at = all.partition_point(|e| e.0 < key) as isize - 1;
                    }
                    _ if want.is_some() => {
                        merge.prev().unwrap();
                        at -= 1;
                    }
                    _ => {}
                }
            }
        }
    }
}
