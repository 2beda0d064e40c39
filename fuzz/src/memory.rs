//! The allocator of whatever drives targets: the system's, with a count of the bytes that each
//! thread holds. What the system maps by itself is not among them.

#![allow(unsafe_code, reason = "an allocator is unsafe by its signature")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that a thread holds beside what it held at first, and the most that it did.
#[derive(Clone, Copy)]
struct Held {
    now: isize,
    most: isize,
}

thread_local! {
    static HELD: Cell<Held> = const { Cell::new(Held { now: 0, most: 0 }) };
}

/// Bytes that are given, or below 0 given back, be it by another thread than was given them.
fn count(bytes: isize) {
    // A thread that ends has nothing more to tell.
    let _ = HELD.try_with(|held| {
        let Held { now, most } = held.get();
        let now = now.saturating_add(bytes);
        held.set(Held { now, most: most.max(now) });
    });
}

/// Layouts are of at most `isize::MAX` bytes, and so is what an allocator is asked for.
fn signed(bytes: usize) -> isize {
    isize::try_from(bytes).unwrap_or(isize::MAX)
}

// SAFETY: every call is handed on as it came; the count is a thread-local pair of numbers without a
// destructor, so it allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: the caller's promises are those of the allocator below.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(signed(bytes) - signed(layout.size()));
        // SAFETY: as above.
        unsafe { System.realloc(piece, layout, bytes) }
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        count(-signed(layout.size()));
        // SAFETY: as above.
        unsafe { System.dealloc(piece, layout) }
    }
}

/// Does `work`; the most bytes that this thread held meanwhile, beyond what it held before.
pub fn most_held(work: impl FnOnce()) -> usize {
    HELD.set(Held { now: 0, most: 0 });
    work();
    HELD.get().most.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn the_most_is_what_was_held_at_one_time() {
        let piece = || drop(black_box(vec![1u8; 1 << 20]));
        let held = most_held(|| (0..10).for_each(|_| piece()));
        assert!((1 << 20..1 << 21).contains(&held), "{held} bytes, one piece after the other");
        let mut grown = Vec::<u8>::new();
        let held = most_held(|| {
            grown.reserve_exact(1 << 20);
            grown.reserve_exact(3 << 20);
        });
        assert!((3 << 20..4 << 20).contains(&held), "{held} bytes of one that grew");
        assert_eq!(most_held(|| drop(black_box(grown))), 0, "what is given back is no gain");
    }
}
