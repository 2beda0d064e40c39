//! Rows of one block, one after the other, and who may be asked for them.
//!
//! Most rows of a scan lie between two others of the same block, and nothing is to be settled about
//! them: they are the only versions of their keys and no other source has rows between. Whoever
//! scans takes those from the block itself, by a walk of its own, and has the cursors below follow
//! in one step when the block ends ([`Walked`]).
//!
//! Absent: whether a row is to be seen; that is known before a walk begins.

use crate::cursor::{Cursor, Direction, Unwanted};
use crate::error::{Error, Result};
use crate::ids::{CommitTs, RowKind};
use crate::sstable::block::Block;
use crate::sstable::format::Damage;
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of memory for keys at first, so that few keys make it grow.
const KEY_ROOM: usize = 64;

/// Which moves a reader takes for plain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'a> {
    pub(crate) direction: Direction,
    /// What is newer is not seen.
    pub(crate) at: CommitTs,
    /// Moves lead to this side of it: below it on the way up, above it on the way down; not to it.
    pub(crate) fence: &'a [u8],
}

/// A place in a block, with the key there.
pub(crate) struct Walk {
    block: Arc<Block>,
    row: usize,
    /// No row of the block passes the filter of the scan.
    ruled_out: bool,
    /// Whether the values that it will come to are being fetched.
    fetches: bool,
    /// Rows of the run that `row` is in.
    run: Range<usize>,
    // The key here; its first `share_len` bytes are those of the whole run.
    key: Vec<u8>,
    share_len: usize,
}

impl Walk {
    /// At `row` of `block`. `key` is memory for the keys.
    pub(super) fn new(block: Arc<Block>, row: usize, ruled_out: bool, key: Vec<u8>) -> Walk {
        let (run, share_len, fetches) = (0..0, 0, false);
        let mut walk = Walk { block, row, ruled_out, fetches, run, key, share_len };
        walk.show();
        walk
    }

    /// At another row of the block.
    pub(super) fn moved_to(mut self, row: usize) -> Walk {
        self.row = row;
        self.show();
        self
    }

    /// The same place once more. `key` is memory for the keys.
    pub(crate) fn branch(&self, mut key: Vec<u8>) -> Walk {
        key.clear();
        key.reserve(KEY_ROOM);
        key.extend_from_slice(&self.key);
        Walk { block: Arc::clone(&self.block), run: self.run.clone(), key, ..*self }
    }

    /// Starts fetching the values that a walk in `direction` comes to, unless that was done.
    #[inline]
    pub(crate) fn fetch_values(&mut self, direction: Direction) {
        if !self.fetches {
            self.fetches = true;
            self.block.prefetch_values(self.row, direction);
        }
    }

    /// The memory of the keys, for the next walk.
    pub(crate) fn into_key(self) -> Vec<u8> {
        self.key
    }

    pub(super) fn block(&self) -> &Arc<Block> {
        &self.block
    }

    pub(super) fn row(&self) -> usize {
        self.row
    }

    pub(super) fn is_ruled_out(&self) -> bool {
        self.ruled_out
    }

    /// The key here, in exchange for other memory; only for who goes away.
    pub(super) fn take_key(&mut self, memory: Vec<u8>) -> Vec<u8> {
        std::mem::replace(&mut self.key, memory)
    }

    /// So many rows on, which the block has. Whether it stays in its run, and so in its partition.
    #[inline]
    pub(crate) fn go(&mut self, direction: Direction, rows: usize) -> bool {
        self.row = match direction {
            Direction::Up => self.row + rows,
            Direction::Down => self.row.saturating_sub(rows),
        };
        self.show()
    }

    /// Follows another walk, which has the values fetched.
    pub(super) fn follow(&mut self, direction: Direction, rows: usize) {
        self.fetches = true;
        self.go(direction, rows);
    }

    /// Goes up as long as that leads to versions that are `unwanted`, `rows_max` at most; returns
    /// how many. If the block is ruled out they are, unasked.
    pub(crate) fn pass_over(&mut self, rows_max: usize, unwanted: &mut Unwanted<'_>) -> usize {
        let is_unwanted = |row: usize, unwanted: &mut Unwanted<'_>| {
            // Damage is told by whoever asks for the value.
            self.ruled_out
                || self.block.value_ref(row).is_ok_and(|v| unwanted(self.block.ts(row), v))
        };
        let passed = (1..=rows_max).take_while(|n| is_unwanted(self.row + n, unwanted)).count();
        if passed > 0 {
            self.go(Direction::Up, passed);
        }
        passed
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    #[inline]
    pub(crate) fn ts(&self) -> CommitTs {
        self.block.ts(self.row)
    }

    pub(crate) fn kind(&self) -> RowKind {
        self.block.kind(self.row)
    }

    /// The value here; see [`Block::value`].
    pub(crate) fn value(&self) -> Result<Bytes, Damage> {
        self.block.value(self.row)
    }

    /// The same, borrowed.
    #[inline]
    pub(crate) fn value_ref(&self) -> Result<&[u8], Damage> {
        self.block.value_ref(self.row)
    }

    /// How many moves in `direction` stay in the run, and how many of those lead to this side of
    /// `fence`. The rows must have different keys.
    #[inline]
    pub(super) fn moves_in_run(&self, direction: Direction, fence: &[u8]) -> (usize, usize) {
        let rows = match direction {
            // In a block that changes under us a run may end anywhere.
            Direction::Up => self.row + 1..self.run.end.min(self.block.rows()),
            Direction::Down => self.run.start..self.row,
        };
        let share = &self.key[..self.share_len];
        let bound = match fence.strip_prefix(share) {
            Some(rest) => {
                let is_before = |_| direction == Direction::Down;
                self.block.columns().suffix_bound(rows.clone(), rest, is_before)
            }
            None if fence < share => rows.start,
            None => rows.end,
        };
        let moves = match direction {
            Direction::Up => bound.saturating_sub(rows.start),
            Direction::Down => rows.end.saturating_sub(bound),
        };
        (rows.len(), moves.min(rows.len()))
    }

    /// Makes `key` that of the row; whether that is of the same run.
    #[inline]
    fn show(&mut self) -> bool {
        let stays = self.run.contains(&self.row);
        match stays {
            true => self.key.truncate(self.share_len),
            false => self.enter_run(),
        }
        self.block.put_suffix(self.row, &mut self.key);
        stays
    }

    #[inline(never)]
    fn enter_run(&mut self) {
        self.key.clear();
        self.key.reserve(KEY_ROOM);
        self.run = self.block.put_run_start(self.block.run_of(self.row), &mut self.key);
        self.share_len = self.key.len();
    }
}

/// A cursor that may stand in a block with plain rows next to it.
pub(crate) trait Walked: Cursor {
    /// Where it stands, and how many moves from there are plain on these terms: each leads to a put
    /// that is the only version of its key as far as the reader sees, and that lies in the block.
    /// `None` where no such move is found. What is here is left out of account, save that the first
    /// move must leave its key.
    fn plain_walk(&self, _terms: Terms<'_>) -> Option<(&Walk, usize)> {
        None
    }

    /// No plain move from here leads to a version of an earlier commit; zero where that is not
    /// known.
    fn plain_from(&self) -> CommitTs {
        CommitTs::ZERO
    }

    /// Follows a walk that has made so many of those moves, with no look left or right.
    fn follow(&mut self, _direction: Direction, _moves: usize) {}

    /// Passes keys from the one here on of which a reader at `terms.at` sees a delete, `most` of
    /// them at most, as long as each is found by a look at two sources; returns how many. It then
    /// stands on what comes next, on this side of the fence or beyond. `scratch` is used for
    /// whatever it needs.
    fn pass_deleted(
        &mut self,
        _terms: Terms<'_>,
        _most: usize,
        _scratch: &mut Vec<u8>,
    ) -> Result<usize> {
        Ok(0)
    }

    /// The error for damage that a walk from here has met.
    fn blame(&self, damage: Damage) -> Error {
        damage.nowhere()
    }
}
