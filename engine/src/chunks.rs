//! Memory in chunks, kept for the next who needs some: what one memtable gave back another fills.
//!
//! A page that is fresh from the system is mapped and cleared at its first touch, which costs as
//! much as what a commit then does with it: a third of the time of a writer of rows of 1 KiB.
//!
//! Promise: what is kept beside what is in use stays within a bound, and what is taken is either
//! zeros throughout or says that it is not.

use crate::sync::Mutex;
#[cfg(target_os = "linux")]
use rustix::mm::{Advice, madvise};
use std::alloc::{self, Layout};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

/// A chunk from this size on asks for huge pages: they are cleared whole, so the last one of a
/// memtable that is not full may be 2 MiB in vain.
#[cfg(target_os = "linux")]
const HUGE_FROM_BYTES: usize = 8 << 20;
#[cfg(target_os = "linux")]
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A piece of memory, freed when dropped. Nothing of it is read or written here.
pub(crate) struct Chunk {
    at: NonNull<u8>,
    bytes: usize,
    is_zeros: bool,
}

// SAFETY: it owns its memory, as a `Box` of bytes does.
unsafe impl Send for Chunk {}

impl Chunk {
    /// Zeros.
    fn new(bytes: usize) -> Chunk {
        assert!(bytes > 0, "a chunk has bytes");
        let layout = layout(bytes);
        // SAFETY: the layout's size is not zero, as just asserted.
        let at = unsafe { alloc::alloc_zeroed(layout) };
        let Some(at) = NonNull::new(at) else { alloc::handle_alloc_error(layout) };
        let chunk = Chunk { at, bytes, is_zeros: true };
        chunk.ask_for_huge_pages();
        chunk
    }

    /// Where the system gives them to those who ask. What a memtable's rows share of the
    /// processor's table of pages is what finding one of them costs.
    fn ask_for_huge_pages(&self) {
        #[cfg(target_os = "linux")]
        if self.bytes >= HUGE_FROM_BYTES {
            let (begin, end) = (self.at.as_ptr() as usize, self.at.as_ptr() as usize + self.bytes);
            let first = begin.next_multiple_of(HUGE_PAGE_BYTES);
            let len = (end - end % HUGE_PAGE_BYTES) - first;
            let at = self.at.as_ptr().wrapping_add(first - begin);
            // SAFETY: all of it is the chunk's, and this advice changes no bytes.
            let asked = unsafe { madvise(at.cast(), len, Advice::LinuxHugepage) };
            // A system without them says so, and pages stay small.
            let _ = asked;
        }
    }

    /// Whether all its bytes are zero, and have never been anything else.
    pub(crate) fn is_zeros(&self) -> bool {
        self.is_zeros
    }

    /// Its memory, which is the caller's from now on: aligned to 8 bytes.
    pub(crate) fn into_raw(self) -> *mut u8 {
        let at = self.at.as_ptr();
        std::mem::forget(self);
        at
    }

    /// The same memory as a chunk again, with whatever is in it.
    ///
    /// # Safety
    ///
    /// `at` came from [`Chunk::into_raw`] of a chunk of so many bytes, once, and nobody else has a
    /// reference into it any more.
    pub(crate) unsafe fn from_raw(at: *mut u8, bytes: usize) -> Option<Chunk> {
        NonNull::new(at).map(|at| Chunk { at, bytes, is_zeros: false })
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: `new` allocated it with this layout, and whoever had it gave it back whole.
        unsafe { alloc::dealloc(self.at.as_ptr(), layout(self.bytes)) };
    }
}

fn layout(bytes: usize) -> Layout {
    let layout = Layout::array::<u64>(bytes.div_ceil(size_of::<u64>()));
    layout.expect("a chunk is far smaller than the address space")
}

/// Chunks that nobody uses, up to a bound.
pub(crate) struct SpareChunks {
    bytes_max: usize,
    kept: Mutex<Vec<Chunk>>,
}

impl SpareChunks {
    /// Keeps up to `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> Arc<SpareChunks> {
        Arc::new(SpareChunks { bytes_max, kept: Mutex::default() })
    }

    /// Keeps nothing: what is given back goes to the system.
    pub(crate) fn none() -> Arc<SpareChunks> {
        SpareChunks::new(0)
    }

    /// A chunk of so many bytes, one that was kept if there is any.
    pub(crate) fn take(&self, bytes: usize) -> Chunk {
        let mut kept = self.kept.lock();
        let found = kept.iter().position(|chunk| chunk.bytes == bytes);
        let taken = found.map(|at| kept.swap_remove(at));
        drop(kept);
        taken.unwrap_or_else(|| Chunk::new(bytes))
    }

    /// Keeps the chunk, where there is room for it.
    pub(crate) fn give_back(&self, chunk: Chunk) {
        let mut kept = self.kept.lock();
        if bytes_of(&kept) + chunk.bytes <= self.bytes_max {
            kept.push(chunk);
        }
    }

    /// Gives what is kept to the system.
    pub(crate) fn release(&self) {
        let kept = std::mem::take(&mut *self.kept.lock());
        drop(kept);
    }

    /// Bytes that are kept.
    pub(crate) fn bytes(&self) -> usize {
        bytes_of(&self.kept.lock())
    }
}

impl fmt::Debug for SpareChunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpareChunks").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

fn bytes_of(kept: &[Chunk]) -> usize {
    kept.iter().map(|chunk| chunk.bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_back_is_taken_again() {
        let spare = SpareChunks::new(1 << 20);
        let chunk = spare.take(64 << 10);
        assert!(chunk.is_zeros());
        let at = chunk.into_raw();
        // SAFETY: 64 KiB that are nobody else's.
        unsafe { at.write_bytes(7, 64 << 10) };
        // SAFETY: from `into_raw` of a chunk of that size.
        spare.give_back(unsafe { Chunk::from_raw(at, 64 << 10) }.expect("memory"));
        assert_eq!(spare.bytes(), 64 << 10);
        assert!(spare.take(32 << 10).is_zeros(), "of another size there is none");
        let again = spare.take(64 << 10);
        assert!(!again.is_zeros() && spare.bytes() == 0);
        assert!(spare.take(64 << 10).is_zeros());
        spare.give_back(spare.take(64 << 10));
        spare.release();
        assert!(spare.bytes() == 0 && spare.take(64 << 10).is_zeros());
    }

    #[test]
    fn no_more_is_kept_than_allowed() {
        let spare = SpareChunks::new(100 << 10);
        let chunks: Vec<Chunk> = (0..3).map(|_| spare.take(40 << 10)).collect();
        chunks.into_iter().for_each(|chunk| spare.give_back(chunk));
        assert_eq!(spare.bytes(), 80 << 10);
        SpareChunks::none().give_back(spare.take(1));
    }
}
