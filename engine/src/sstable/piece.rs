//! Memory for the bytes of blocks: what one block leaves, the next one on the same thread takes.
//!
//! A read that misses the cache needs a place to read into for a microsecond and one for the block
//! that it makes, while a block of about the same size leaves the cache for it. From the allocator
//! that costs as much as the block's checksum: pages are cleared by the system and by us, the heap
//! of a thread grows by one system call per block, and whoever frees what another thread allocated
//! waits for that one's heap. So each thread keeps the pieces that it let go last.
//!
//! Absent: large pieces, which go back to the allocator; see [`KEPT_BYTES_MAX`].

use bytes::Bytes;
use std::cell::RefCell;
use std::hint::black_box;
use std::ops::{Deref, DerefMut};

/// A thread keeps no more than this, as there may be hundreds of threads.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// Looking through more pieces than this costs as much as the allocator.
const KEPT_PIECES_MAX: usize = 12;

/// Pieces come in multiples of this, so that blocks of nearly the same size can take turns.
const GRAIN_BYTES: usize = 128;

thread_local! {
    static SPARE: RefCell<Spare> = const { RefCell::new(Spare::new()) };
}

/// The heap of a thread is made to grow by so much at once. More than that is no part of a heap to
/// glibc, which maps it by itself.
const HEAP_STEP_BYTES: usize = 120 << 10;

/// What a thread keeps, the oldest first.
struct Spare {
    pieces: Vec<Vec<u8>>,
    bytes: usize,
    /// Of the last step of the heap, what pieces may have taken.
    stepped_bytes: usize,
}

/// Some bytes in a piece of memory of their own; given back when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    memory: Vec<u8>, // Written once to its end, and no shorter than `len`.
    len: usize,
}

impl Piece {
    /// `len` bytes to be overwritten: they are whatever was in them last.
    pub(crate) fn of(len: usize) -> Piece {
        // Nothing is kept for a thread that is about to end.
        let spare = SPARE.try_with(|spare| spare.borrow_mut().take(len)).ok().flatten();
        let memory = spare.unwrap_or_else(|| {
            let len = len.next_multiple_of(GRAIN_BYTES);
            let _ = SPARE.try_with(|spare| spare.borrow_mut().step_heap(len));
            vec![0; len]
        });
        Piece { memory, len }
    }

    /// A copy of `bytes`.
    pub(crate) fn copy_of(bytes: &[u8]) -> Piece {
        let mut piece = Piece::of(bytes.len());
        piece.copy_from_slice(bytes);
        piece
    }

    /// Bytes of memory that it takes.
    pub(crate) fn weight(&self) -> usize {
        self.memory.len()
    }

    /// The bytes to be shared; the piece is given back with the last share.
    pub(crate) fn share(self) -> Bytes {
        if self.len == 0 { Bytes::new() } else { Bytes::from_owner(self) }
    }
}

impl Spare {
    const fn new() -> Spare {
        Spare { pieces: Vec::new(), bytes: 0, stepped_bytes: HEAP_STEP_BYTES }
    }

    /// Before `len` bytes of fresh memory are taken: now and then asks for more, and gives it back.
    /// The heaps that glibc has for all threads but the first grow by as much as is asked for, by a
    /// system call that takes as long as half of what is done to load a block.
    fn step_heap(&mut self, len: usize) {
        if len >= HEAP_STEP_BYTES {
            return;
        }
        self.stepped_bytes += len;
        if self.stepped_bytes > HEAP_STEP_BYTES {
            self.stepped_bytes = len;
            drop(black_box(Vec::<u8>::with_capacity(HEAP_STEP_BYTES)));
        }
    }

    /// The least piece that has `len` bytes and not many more.
    fn take(&mut self, len: usize) -> Option<Vec<u8>> {
        let most = len + len / 8 + GRAIN_BYTES;
        let fits = self.pieces.iter().enumerate().filter(|(_, piece)| {
            let have = piece.len();
            len <= have && have <= most
        });
        let (at, _) = fits.min_by_key(|(_, piece)| piece.len())?;
        let piece = self.pieces.remove(at);
        self.bytes -= piece.len();
        Some(piece)
    }

    /// Keeps a piece, and for it lets go of those kept longest.
    fn keep(&mut self, piece: Vec<u8>) {
        if piece.is_empty() || piece.len() > KEPT_BYTES_MAX {
            return;
        }
        self.bytes += piece.len();
        self.pieces.push(piece);
        while self.bytes > KEPT_BYTES_MAX || self.pieces.len() > KEPT_PIECES_MAX {
            self.bytes -= self.pieces.remove(0).len();
        }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.memory);
        let _ = SPARE.try_with(|spare| spare.borrow_mut().keep(memory));
    }
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[..self.len]
    }
}

impl DerefMut for Piece {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[..self.len]
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> (usize, usize) {
        SPARE.with(|spare| (spare.borrow().pieces.len(), spare.borrow().bytes))
    }

    #[test]
    fn a_piece_is_used_again_by_one_of_about_its_size() {
        const LEN: usize = 5000;
        let first = Piece::copy_of(&[7; LEN]);
        let place = first.as_ptr();
        let value = first.share();
        let part = value.slice(10..20);
        drop(value);
        assert_eq!(kept().0, 0, "a part of it is still shared");
        drop(part);
        assert_eq!(kept().0, 1);
        assert_ne!(Piece::of(100).as_ptr(), place, "too large for that");
        let again = Piece::of(LEN - 300);
        assert_eq!((again.as_ptr(), again.len()), (place, LEN - 300));
        assert_ne!(Piece::of(LEN - 300).as_ptr(), place, "two at a time are two");
    }

    #[test]
    fn a_thread_keeps_little() {
        drop(Piece::of(KEPT_BYTES_MAX + 1));
        assert_eq!(kept(), (0, 0), "not a large one");
        let many: Vec<_> = (1..200).map(|n| Piece::of(n * 100)).collect();
        drop(many);
        let (pieces, bytes) = kept();
        assert!(pieces > 1 && pieces <= KEPT_PIECES_MAX && bytes <= KEPT_BYTES_MAX);
    }
}
