//! Merges sorted runs: a tree of losers whose matches are mostly decided by one comparison of two
//! words.
//!
//! Every run's present key is known by a *code* against the last key that left the tree: at which
//! column of 6 bytes the two first differ, and what the key has there. The key that agrees longer
//! comes first, and of two that agree as long the one with the lower column; only equal codes need
//! the keys' bytes, from behind that column on. The winner's next key is coded against the winner,
//! and so is, by the way the tree is played, every loser on its path. (Offset-value coding: Conner
//! 1977; Graefe and Do, "Offset-value coding in database query processing", 2022.)
//!
//! ```text
//! code, from the highest bit     a lower code is a lower key
//!   12 bits  4095 less the column; 0 for a key that is the last one again
//!   48 bits  the column's bytes, zeros where the key has ended
//!    4 bits  how many of them the key has
//! ```

use crate::error::Result;
use crate::ids::CommitTs;
use crate::key::fences::common_len;
use crate::limits::KEY_BYTES_MAX;

const COLUMN_BYTES: usize = 6;
const COLUMNS_MAX: usize = 4095;
const _: () = assert!(KEY_BYTES_MAX / COLUMN_BYTES < COLUMNS_MAX, "every column has a code");

/// The key that left the tree last, again.
const SAME: u64 = 0;
/// The run has ended: after every key, whose code ends with a count of 6 at most.
const ENDED: u64 = u64::MAX;

/// Versions in order: by key, and within a key from the newest down.
pub(crate) trait Run {
    /// Moves to the next version; false after the last.
    fn next(&mut self) -> Result<bool>;
    /// The key here.
    fn key(&self) -> &[u8];
    /// The commit timestamp here.
    fn ts(&self) -> CommitTs;
    /// How many bytes at least the key begins with that the run's key before began with too.
    fn shared(&self) -> usize;
}

/// A merge of runs that each hold different versions.
pub(crate) struct Tournament<R> {
    runs: Vec<R>,
    codes: Vec<u64>,    // Per run.
    losers: Vec<usize>, // Per inner node of the tree; the root is 1, run r the leaf r + runs.
    winner: usize,
    last_key: Vec<u8>,
}

impl<R: Run> Tournament<R> {
    /// A merge of `runs`, none of which has moved yet; it stands on the first version.
    pub(crate) fn start(mut runs: Vec<R>) -> Result<Tournament<R>> {
        let mut codes = Vec::with_capacity(runs.len());
        for run in &mut runs {
            codes.push(if run.next()? { code_at(run.key(), 0) } else { ENDED });
        }
        let losers = vec![0; runs.len()];
        let mut all = Tournament { runs, codes, losers, winner: 0, last_key: Vec::new() };
        if !all.runs.is_empty() {
            all.winner = all.play(1);
        }
        Ok(all)
    }

    /// The run that stands on the lowest version; `None` once all have ended.
    pub(crate) fn winner(&mut self) -> Option<&mut R> {
        match self.codes.get(self.winner) {
            None | Some(&ENDED) => None,
            Some(_) => self.runs.get_mut(self.winner),
        }
    }

    /// Whether the version's key differs from that of the version before.
    pub(crate) fn is_new_key(&self) -> bool {
        self.codes.get(self.winner) != Some(&SAME)
    }

    /// Moves to the next version.
    pub(crate) fn next(&mut self) -> Result<()> {
        let winner = self.winner;
        let Some(run) = self.runs.get_mut(winner) else { return Ok(()) };
        self.last_key.clear();
        self.last_key.extend_from_slice(run.key());
        self.codes[winner] = match run.next()? {
            true => code_against(&self.last_key, run.key(), run.shared()),
            false => ENDED,
        };
        let mut first = winner;
        let mut node = (winner + self.runs.len()) / 2;
        while node > 0 {
            let loser = self.losers[node];
            if self.beats(loser, first) {
                self.losers[node] = first;
                first = loser;
            }
            node /= 2;
        }
        self.winner = first;
        Ok(())
    }

    /// Plays the matches of `node` and all below; returns who won.
    fn play(&mut self, node: usize) -> usize {
        if node >= self.runs.len() {
            return node - self.runs.len();
        }
        let (left, right) = (self.play(2 * node), self.play(2 * node + 1));
        let (won, lost) = if self.beats(left, right) { (left, right) } else { (right, left) };
        self.losers[node] = lost;
        won
    }

    /// Whether run `a` comes before `b`; codes the later one against the earlier.
    fn beats(&mut self, a: usize, b: usize) -> bool {
        let code = self.codes[a];
        if code != self.codes[b] {
            return code < self.codes[b];
        }
        if code == ENDED {
            return true;
        }
        let (left, right) = (&self.runs[a], &self.runs[b]);
        if code != SAME {
            let from = column_of(code) * COLUMN_BYTES;
            let (x, y) = (left.key(), right.key());
            let (rest_x, rest_y) = (tail(x, from), tail(y, from));
            if rest_x != rest_y {
                let column = (from + common_len(rest_x, rest_y)) / COLUMN_BYTES;
                let first = rest_x < rest_y;
                let (lost, key) = if first { (b, y) } else { (a, x) };
                self.codes[lost] = code_at(key, column);
                return first;
            }
        }
        let first = left.ts() > right.ts();
        self.codes[if first { b } else { a }] = SAME;
        first
    }
}

fn tail(key: &[u8], from: usize) -> &[u8] {
    key.get(from..).unwrap_or_default()
}

fn column_of(code: u64) -> usize {
    COLUMNS_MAX - (code >> 52) as usize
}

/// The code of `key`, which differs from the last one first in `column`.
fn code_at(key: &[u8], column: usize) -> u64 {
    let rest = tail(key, column * COLUMN_BYTES);
    let count = rest.len().min(COLUMN_BYTES);
    let mut bytes = [0; 8];
    bytes[2..2 + count].copy_from_slice(&rest[..count]);
    ((COLUMNS_MAX - column) as u64) << 52 | u64::from_be_bytes(bytes) << 4 | count as u64
}

/// The code of `key` against `last`, which begins with the same `shared` bytes and is not above.
fn code_against(last: &[u8], key: &[u8], shared: usize) -> u64 {
    let from = shared.min(last.len()).min(key.len());
    let alike = from + common_len(&last[from..], &key[from..]);
    match alike == key.len() && alike == last.len() {
        true => SAME,
        false => code_at(key, alike / COLUMN_BYTES),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;
    use crate::env::rng::Rng;
    use std::cmp::Reverse;

    type Version = (Vec<u8>, Reverse<u64>);

    struct List {
        rows: Vec<Version>,
        at: Option<usize>,
        exact: bool,
    }

    impl Run for List {
        fn next(&mut self) -> Result<bool> {
            self.at = Some(self.at.map_or(0, |at| at + 1));
            Ok(self.at < Some(self.rows.len()))
        }
        fn key(&self) -> &[u8] {
            &self.rows[self.at.unwrap()].0
        }
        fn ts(&self) -> CommitTs {
            CommitTs(self.rows[self.at.unwrap()].1.0)
        }
        fn shared(&self) -> usize {
            match self.at.unwrap() {
                at if at > 0 && self.exact => common_len(&self.rows[at - 1].0, &self.rows[at].0),
                _ => 0,
            }
        }
    }

    /// Keys that share much, end anywhere, and are full of zeros, which also stand for "ended".
    fn random_key(rng: &mut Rng) -> Vec<u8> {
        let len = [rng.below(4), rng.below(14), 30][rng.below(3) as usize];
        (0..len).map(|i| if i % 5 == 4 { rng.below(3) as u8 } else { 0 }).collect()
    }

    #[test]
    fn runs_come_out_as_the_sorted_union() {
        for seed in 0..300 {
            let mut rng = Rng::seeded(seed);
            let count = rng.below(9) as usize;
            let mut lists: Vec<Vec<Version>> = vec![Vec::new(); count];
            let mut all = Vec::new();
            for ts in 0..if count == 0 { 0 } else { rng.below(200) } {
                let version = (random_key(&mut rng), Reverse(ts));
                lists[rng.below(count as u64) as usize].push(version.clone());
                all.push(version);
            }
            all.sort();
            lists.iter_mut().for_each(|list| list.sort());
            let exact = rng.one_in(2);
            let runs = lists.into_iter().map(|rows| List { rows, at: None, exact }).collect();
            let mut merge = Tournament::start(runs).unwrap();
            let mut last: Option<Vec<u8>> = None;
            for want in &all {
                let new = merge.is_new_key();
                let run = merge.winner().unwrap();
                assert_eq!((run.key(), run.ts().0), (&*want.0, want.1.0), "seed {seed}");
                assert_eq!(new, last.as_ref() != Some(&want.0), "seed {seed}");
                last = Some(want.0.clone());
                merge.next().unwrap();
            }
            assert!(merge.winner().is_none());
        }
    }
}
