//! Memory to read into, one piece per thread, used again and again.
//!
//! What a block is read into lives for a microsecond. Taken from the allocator it would cost as much as
//! the block's checksum, and its pages would be cleared by the system and by us. So a thread keeps
//! one; the bytes in it are always whatever was read last.
//!
//! Absent: large pieces, which go back to the allocator; see [`KEPT_BYTES_MAX`].

use std::cell::Cell;

/// A thread keeps no more than this, as there may be hundreds of threads.
const KEPT_BYTES_MAX: usize = 64 << 10;

thread_local! {
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A piece of memory; given back when it is dropped.
#[derive(Default)]
pub(super) struct Scratch(Vec<u8>);

impl Scratch {
    /// The first `len` bytes, to be overwritten.
    pub(super) fn first(&mut self, len: usize) -> &mut [u8] {
        if self.0.is_empty() {
            // Nothing is kept for a thread that is about to end.
            self.0 = SPARE.try_with(Cell::take).unwrap_or_default();
        }
        if self.0.len() < len {
            self.0.resize(len, 0);
        }
        &mut self.0[..len]
    }

    /// What lies in it, old bytes behind new ones.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.0);
        if bytes.is_empty() || bytes.capacity() > KEPT_BYTES_MAX {
            return;
        }
        let _ = SPARE.try_with(|spare| {
            let other = spare.take();
            spare.set(if other.len() < bytes.len() { bytes } else { other });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_uses_one_piece_again_and_keeps_no_large_one() {
        let mut first = Scratch::default();
        first.first(5000).fill(7);
        let place = first.bytes().as_ptr();
        drop(first);
        let mut again = Scratch::default();
        assert_eq!(again.first(100).as_ptr(), place);
        let mut beside = Scratch::default();
        assert_ne!(beside.first(100).as_ptr(), place, "two at a time are two");
        again.first(KEPT_BYTES_MAX + 1);
        drop((again, beside));
        assert!(Scratch::default().first(1).len() == 1);
        assert!(SPARE.with(Cell::take).capacity() <= KEPT_BYTES_MAX);
    }
}
