//! The allocator of this test program: the server's own, with a note of the largest piece that each
//! thread asked for. A state is a thousand small pieces, for which the system's takes twice as
//! long. What the system maps, as it does a memtable's chunks of 1 MiB and more, is not seen; no
//! damage says how large those are.

#![allow(unsafe_code, reason = "an allocator is unsafe by its signature")]

use mimalloc::MiMalloc;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::io::{self, Write as _};

/// What no damage may make the engine ask for.
pub(crate) const LARGE_BYTES: usize = 64 << 20;

struct Noting;

#[global_allocator]
static ALLOCATOR: Noting = Noting;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

/// What no machine has: the program ends with it.
const IMPOSSIBLE_BYTES: usize = 1 << 40;

fn note(bytes: usize) {
    if bytes > IMPOSSIBLE_BYTES {
        // Nobody comes back to tell of it.
        let _ =
            io::stderr().write_all(b"damage: after some opens: Large: no machine has that much\n");
    }
    if bytes > LARGE_BYTES {
        // A thread that ends has nothing more to tell.
        let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(bytes)));
    }
}

// SAFETY: every call is handed on as it came; the note is a thread-local number without a
// destructor, so it allocates nothing.
unsafe impl GlobalAlloc for Noting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's promises are those of the allocator below.
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: as above.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        note(bytes);
        // SAFETY: as above.
        unsafe { MiMalloc.realloc(piece, layout, bytes) }
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { MiMalloc.dealloc(piece, layout) }
    }
}

/// The largest piece above [`LARGE_BYTES`] that this thread asked for since the last call; 0 for
/// none.
pub(crate) fn take_largest() -> usize {
    LARGEST.with(|largest| largest.replace(0))
}

#[test]
fn a_large_piece_is_noted_and_a_small_one_is_not() {
    take_largest();
    drop(std::hint::black_box(vec![1u8; 1 << 20]));
    assert_eq!(take_largest(), 0);
    drop(std::hint::black_box(Vec::<u8>::with_capacity(LARGE_BYTES + 1)));
    assert_eq!(take_largest(), LARGE_BYTES + 1);
    assert_eq!(take_largest(), 0);
}
