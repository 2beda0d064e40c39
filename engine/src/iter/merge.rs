//! Many cursors as one, in the order of [`Cursor`].
//!
//! The winner of the last move is kept together with the runner-up: while the winner's next version
//! still comes before the runner-up's, one comparison decides a move, however many sources there
//! are. Sources are few (memtables, L0 files, one per deeper level), so a new winner is found by a
//! plain pass over all of them.

use crate::cursor::Cursor;
use crate::error::Result;
use crate::ids::{CommitTs, RowKind};
use bytes::Bytes;
use std::cmp::Ordering;

/// A key above every key: no table has this number.
pub(crate) const KEY_ABOVE_ALL: &[u8] = &[0xff; 5];

/// A merge of sources that each hold different versions.
pub(crate) struct MergeCursor<C> {
    sources: Vec<C>,
    winner: Option<usize>,
    runner_up: Option<usize>,
    direction: Direction,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

impl<C: Cursor> MergeCursor<C> {
    /// A merge of `sources`, not yet positioned.
    pub(crate) fn new(sources: Vec<C>) -> MergeCursor<C> {
        MergeCursor { sources, winner: None, runner_up: None, direction: Direction::Up }
    }

    /// Whether source `a` stands on a version that comes first in the direction of travel.
    fn leads(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.sources[a], &self.sources[b]);
        let order = a.key().cmp(b.key()).then_with(|| b.ts().cmp(&a.ts()));
        match self.direction {
            Direction::Up => order == Ordering::Less,
            Direction::Down => order == Ordering::Greater,
        }
    }

    /// Finds winner and runner-up among the sources that stand on something.
    fn elect(&mut self) {
        let (mut first, mut second) = (None, None);
        for i in 0..self.sources.len() {
            if !self.sources[i].valid() {
                continue;
            }
            if first.is_none_or(|f| self.leads(i, f)) {
                second = first;
                first = Some(i);
            } else if second.is_none_or(|s| self.leads(i, s)) {
                second = Some(i);
            }
        }
        (self.winner, self.runner_up) = (first, second);
    }

    /// After the winner moved: keeps it if it still leads, else elects anew.
    fn settle(&mut self, winner: usize) {
        let stays = self.sources[winner].valid()
            && self.runner_up.is_none_or(|runner_up| self.leads(winner, runner_up));
        if !stays {
            self.elect();
        }
    }

    /// Puts every source but the winner on the first version past the winner's, in the new
    /// direction.
    fn turn(&mut self, winner: usize, direction: Direction) -> Result<()> {
        let (key, ts) = (self.sources[winner].key().to_vec(), self.sources[winner].ts());
        for (i, source) in self.sources.iter_mut().enumerate() {
            if i == winner {
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

    fn advance(&mut self, direction: Direction) -> Result<()> {
        let Some(winner) = self.winner else { return Ok(()) };
        // A failed move leaves the merge on nothing, never on what would come next.
        self.winner = None;
        let turned = self.direction != direction;
        if turned {
            self.turn(winner, direction)?;
        }
        match direction {
            Direction::Up => self.sources[winner].next()?,
            Direction::Down => self.sources[winner].prev()?,
        }
        self.winner = Some(winner);
        match turned {
            true => self.elect(),
            false => self.settle(winner),
        }
        Ok(())
    }
}

impl<C: Cursor> Cursor for MergeCursor<C> {
    fn seek(&mut self, key: &[u8], ts: CommitTs) -> Result<()> {
        self.winner = None;
        for source in &mut self.sources {
            source.seek(key, ts)?;
        }
        self.direction = Direction::Up;
        self.elect();
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.winner = None;
        for source in &mut self.sources {
            source.seek_before(key)?;
        }
        self.direction = Direction::Down;
        self.elect();
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.advance(Direction::Up)
    }

    fn prev(&mut self) -> Result<()> {
        self.advance(Direction::Down)
    }

    fn valid(&self) -> bool {
        self.winner.is_some()
    }

    fn key(&self) -> &[u8] {
        self.winner.map_or(&[], |w| self.sources[w].key())
    }

    fn ts(&self) -> CommitTs {
        self.winner.map_or(CommitTs::ZERO, |w| self.sources[w].ts())
    }

    fn kind(&self) -> RowKind {
        self.winner.map_or(RowKind::Delete, |w| self.sources[w].kind())
    }

    fn value(&mut self) -> Result<Bytes> {
        match self.winner {
            Some(winner) => self.sources[winner].value(),
            None => Ok(Bytes::new()),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;
    use crate::env::rng::Rng;
    use crate::memtable::ordered::new_memtable;
    use std::cmp::Reverse;
    use std::collections::BTreeSet;

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
    }

    #[test]
    fn any_walk_is_the_walk_over_the_union() {
        for seed in 0..20 {
            let mut rng = Rng::seeded(seed);
            let tables: Vec<_> = (0..rng.below(5) + 1).map(|_| new_memtable()).collect();
            let mut all = BTreeSet::new();
            for ts in 1..300u64 {
                let key = vec![b'a' + rng.below(20) as u8; rng.below(2) as usize + 1];
                let table = &tables[rng.below(tables.len() as u64) as usize];
                table.insert(&key, CommitTs(ts), RowKind::Put, Bytes::from(ts.to_string()));
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
                match rng.below(8) {
                    0 => {
                        let key = vec![b'a' + rng.below(21) as u8];
                        let ts = rng.below(300);
                        merge.seek(&key, CommitTs(ts)).unwrap();
                        at = all.partition_point(|e| *e < (key.clone(), Reverse(ts))) as isize;
                    }
                    1 => {
                        let key = vec![b'a' + rng.below(21) as u8];
                        merge.seek_before(&key).unwrap();
                        at = all.partition_point(|e| e.0 < key) as isize - 1;
                    }
                    n if want.is_some() && n % 2 == 0 => {
                        merge.next().unwrap();
                        at += 1;
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
