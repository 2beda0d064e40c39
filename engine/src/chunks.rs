//! Memory in chunks, kept for the next who needs some: what one memtable gave back another fills.
//!
//! A page that is fresh from the system is mapped and cleared at its first touch, which costs as
//! much as what a commit then does with it: a third of the time of a writer of rows of 1 KiB. Where
//! none is kept, an errand touches the pages of the next chunk while commits fill the one before.
//!
//! Large chunks come from the system itself: an allocator that has had their memory before clears
//! all of it at once, a tenth of a second for 64 MiB in which nobody commits.
//!
//! Promise: what is kept beside what is in use stays within a bound, but for the one chunk that is
//! being made, and what is taken is either zeros throughout or says that it is not.

use crate::errands::{Errand, Errands};
use crate::sync::Mutex;
#[cfg(all(target_os = "linux", not(miri)))] // Miri makes no system calls.
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::alloc::{self, Layout};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

/// A chunk from this size on is mapped by the system; smaller ones are the allocator's.
#[cfg(all(target_os = "linux", not(miri)))]
const MAPPED_FROM_BYTES: usize = 1 << 20;

/// A chunk from this size on asks for huge pages: they are cleared whole, so the last one of a
/// memtable that is not full may be 2 MiB in vain.
#[cfg(all(target_os = "linux", not(miri)))]
const HUGE_FROM_BYTES: usize = 8 << 20;
#[cfg(all(target_os = "linux", not(miri)))]
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The largest page that systems are built with.
#[cfg(all(target_os = "linux", not(miri)))]
const PAGE_BYTES_MAX: usize = 64 << 10;

/// A chunk from this size on is made ahead: what smaller ones cost at first touch nobody notices.
const AHEAD_FROM_BYTES: usize = 4 << 20;

/// Touched at once: whoever maps memory meanwhile waits no longer than that takes.
#[cfg(all(target_os = "linux", not(miri)))]
const TOUCHED_BYTES: usize = 2 << 20;

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
        let chunk = Chunk { at: zeros(bytes), bytes, is_zeros: true };
        chunk.ask_for_huge_pages();
        chunk
    }

    /// Where the system gives them to those who ask. With small pages, finding a row costs mostly
    /// misses of the TLB.
    fn ask_for_huge_pages(&self) {
        #[cfg(all(target_os = "linux", not(miri)))]
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

    /// Has the system map and clear the first `bytes` of the chunk, a piece at a time for as long
    /// as `goes_on`. Does nothing where it does not know how.
    fn touch(&self, bytes: usize, goes_on: impl Fn() -> bool) {
        #[cfg(all(target_os = "linux", not(miri)))]
        {
            let base = self.at.as_ptr() as usize;
            let end = (base + bytes.min(self.bytes)) / PAGE_BYTES_MAX * PAGE_BYTES_MAX;
            let first = base.next_multiple_of(PAGE_BYTES_MAX);
            for from in (first..end).step_by(TOUCHED_BYTES) {
                if !goes_on() {
                    return;
                }
                let at = self.at.as_ptr().wrapping_add(from - base);
                let len = TOUCHED_BYTES.min(end - from);
                // SAFETY: all of it is the chunk's, and this advice changes no bytes.
                let done = unsafe { madvise(at.cast(), len, Advice::LinuxPopulateWrite) };
                // Linux before 5.14 refuses: then whoever fills the pages touches them first.
                let _ = done;
            }
        }
        #[cfg(not(all(target_os = "linux", not(miri))))]
        let _ = (bytes, goes_on);
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
        // SAFETY: `new` took so many bytes, and whoever had them gave them back whole.
        unsafe { give_up(self.at, self.bytes) };
    }
}

/// Fresh memory of zeros, aligned to 8 bytes.
fn zeros(bytes: usize) -> NonNull<u8> {
    assert!(bytes > 0, "a chunk has bytes");
    let layout = layout(bytes);
    #[cfg(all(target_os = "linux", not(miri)))]
    if bytes >= MAPPED_FROM_BYTES {
        let (reach, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: the system chooses a place where nothing is.
        let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), layout.size(), reach, flags) };
        let at = mapped.ok().and_then(|at| NonNull::new(at.cast()));
        return at.unwrap_or_else(|| alloc::handle_alloc_error(layout));
    }
    // SAFETY: the layout's size is not zero, as just asserted.
    let at = unsafe { alloc::alloc_zeroed(layout) };
    NonNull::new(at).unwrap_or_else(|| alloc::handle_alloc_error(layout))
}

/// Gives it to where it came from.
///
/// # Safety
///
/// It came from [`zeros`] of so many bytes, once, and nobody has a reference into it any more.
unsafe fn give_up(at: NonNull<u8>, bytes: usize) {
    let layout = layout(bytes);
    #[cfg(all(target_os = "linux", not(miri)))]
    if bytes >= MAPPED_FROM_BYTES {
        // SAFETY: a whole mapping, as the caller promises. Were it refused, it would stay: a leak.
        let given = unsafe { munmap(at.as_ptr().cast(), layout.size()) };
        let _ = given;
        return;
    }
    // SAFETY: allocated with this layout, as the caller promises.
    unsafe { alloc::dealloc(at.as_ptr(), layout) };
}

fn layout(bytes: usize) -> Layout {
    let layout = Layout::array::<u64>(bytes.div_ceil(size_of::<u64>()));
    layout.expect("a chunk is far smaller than the address space")
}

/// Chunks that nobody uses, up to a bound.
pub(crate) struct SpareChunks {
    bytes_max: usize,
    ahead: Option<Ahead>,
    kept: Mutex<Kept>,
}

/// By whom chunks are made ahead, and for what.
struct Ahead {
    errands: Arc<Errands>,
    /// What a memtable takes; each of its chunks is as large as all before it.
    memtable_bytes: usize,
}

#[derive(Default)]
struct Kept {
    chunks: Vec<Chunk>,
    /// The size of the chunk that is to be made ahead; 0 where none is.
    coming: usize,
}

impl SpareChunks {
    /// Keeps up to `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> Arc<SpareChunks> {
        Arc::new(SpareChunks { bytes_max, ahead: None, kept: Mutex::default() })
    }

    /// The same for memtables of `memtable_bytes`, whose next chunk `errands` make.
    pub(crate) fn made_ahead(
        bytes_max: usize,
        memtable_bytes: usize,
        errands: Arc<Errands>,
    ) -> Arc<SpareChunks> {
        let ahead = Some(Ahead { errands, memtable_bytes });
        Arc::new(SpareChunks { bytes_max, ahead, kept: Mutex::default() })
    }

    /// Keeps nothing: what is given back goes to the system.
    pub(crate) fn none() -> Arc<SpareChunks> {
        SpareChunks::new(0)
    }

    /// A chunk of so many bytes, one that was kept if there is any. Where the next one, twice as
    /// large, is not kept, it is made ahead.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Chunk {
        let mut kept = self.kept.lock();
        let taken = kept.take(bytes);
        if kept.coming == bytes {
            kept.coming = 0; // Needed now: nobody is to make it any more.
        }
        let next_bytes = 2 * bytes;
        let ahead = self.ahead.as_ref().filter(|ahead| {
            let is_one = (AHEAD_FROM_BYTES..ahead.memtable_bytes).contains(&next_bytes);
            is_one && !kept.chunks.iter().any(|chunk| chunk.bytes == next_bytes)
        });
        if ahead.is_some() {
            kept.coming = next_bytes;
        }
        drop(kept);
        if let Some(Ahead { errands, memtable_bytes }) = ahead {
            let needed_bytes = (memtable_bytes - next_bytes).min(next_bytes);
            let spare = Arc::clone(self);
            errands.give(Arc::new(Make { spare, bytes: next_bytes, needed_bytes }));
        }
        taken.unwrap_or_else(|| Chunk::new(bytes))
    }

    /// Keeps the chunk, where there is room for it.
    pub(crate) fn give_back(&self, chunk: Chunk) {
        let refused = self.kept.lock().add(chunk, self.bytes_max);
        drop(refused); // Without the lock: the system takes its time.
    }

    /// Gives what is kept to the system.
    pub(crate) fn release(&self) {
        let kept = std::mem::take(&mut *self.kept.lock());
        drop(kept);
    }

    /// Bytes that are kept.
    pub(crate) fn bytes(&self) -> usize {
        self.kept.lock().bytes()
    }
}

impl Kept {
    fn take(&mut self, bytes: usize) -> Option<Chunk> {
        let found = self.chunks.iter().position(|chunk| chunk.bytes == bytes);
        found.map(|at| self.chunks.swap_remove(at))
    }

    /// Keeps the chunk, or gives it back where there is no room for it.
    fn add(&mut self, chunk: Chunk, bytes_max: usize) -> Option<Chunk> {
        if self.bytes() + chunk.bytes > bytes_max {
            return Some(chunk);
        }
        self.chunks.push(chunk);
        None
    }

    fn bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.bytes).sum()
    }
}

/// The errand that makes a chunk ahead.
struct Make {
    spare: Arc<SpareChunks>,
    bytes: usize,
    /// What a memtable will need of it.
    needed_bytes: usize,
}

impl Errand for Make {
    fn run(&self, _scratch: &mut Vec<u8>) {
        let Make { spare, bytes, needed_bytes } = self;
        let is_awaited = || {
            let kept = spare.kept.lock();
            kept.coming == *bytes && kept.bytes() + bytes <= spare.bytes_max
        };
        if !is_awaited() {
            return;
        }
        let chunk = Chunk::new(*bytes);
        chunk.touch(*needed_bytes, is_awaited);
        let mut kept = spare.kept.lock();
        let refused = match kept.coming == *bytes {
            true => {
                kept.coming = 0;
                kept.add(chunk, spare.bytes_max)
            }
            false => Some(chunk), // Whoever needed it has made one.
        };
        drop(kept);
        drop(refused);
    }
}

impl fmt::Debug for SpareChunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpareChunks").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
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
    fn a_large_chunk_is_zeros_whatever_was_there_before() {
        for bytes in if cfg!(miri) { &[4 << 10][..] } else { &[64 << 10, 1 << 20, 3 << 20] } {
            for _ in 0..3 {
                let chunk = Chunk::new(*bytes);
                assert!(chunk.is_zeros());
                // SAFETY: so many bytes, which are the chunk's, and nobody else has it.
                let all = unsafe { std::slice::from_raw_parts_mut(chunk.at.as_ptr(), *bytes) };
                assert!(all.iter().all(|byte| *byte == 0));
                all.fill(7);
            }
        }
    }

    #[test]
    fn the_next_chunk_is_made_while_one_is_filled() {
        const MIB: usize = 1 << 20;
        let errands = Arc::new(Errands::default());
        let spare = SpareChunks::made_ahead(24 * MIB, 16 * MIB, Arc::clone(&errands));
        std::thread::scope(|scope| {
            scope.spawn(|| errands.serve());
            while !errands.is_served() {
                std::thread::yield_now();
            }
            drop(spare.take(MIB));
            assert_eq!(spare.bytes(), 0, "a small one is made when it is needed");
            drop(spare.take(4 * MIB));
            while spare.bytes() != 8 * MIB {
                std::thread::yield_now();
            }
            assert!(spare.take(8 * MIB).is_zeros() && spare.bytes() == 0);
            errands.close();
        });
        assert_ne!(spare.kept.lock().coming, 16 * MIB, "a memtable needs no more");
    }

    #[test]
    fn what_is_made_too_late_is_not_kept() {
        let spare = SpareChunks::new(64 << 10);
        let make = Make { spare: Arc::clone(&spare), bytes: 32 << 10, needed_bytes: 20 << 10 };
        make.run(&mut Vec::new());
        assert_eq!(spare.bytes(), 0);
        spare.kept.lock().coming = 32 << 10;
        make.run(&mut Vec::new());
        assert_eq!((spare.bytes(), spare.kept.lock().coming), (32 << 10, 0));
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
