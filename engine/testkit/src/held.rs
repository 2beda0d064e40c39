//! An allocator that counts what the process holds: the system's, with the bytes given out now and
//! the most there were. What it keeps of memory that came back is not among them, so that a figure
//! depends on what is held and not on what was held before.

#![allow(unsafe_code, reason = "an allocator is unsafe by its signature")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// The `#[global_allocator]` of a test program that asks [`now`] and [`most`].
#[derive(Debug)]
pub struct Counting;

fn gave(bytes: usize) {
    let now = NOW.fetch_add(bytes, Relaxed) + bytes;
    MOST.fetch_max(now, Relaxed);
}

fn took(bytes: usize) {
    NOW.fetch_sub(bytes, Relaxed);
}

// SAFETY: every call is handed on as it came; the counts are two numbers, for which nothing is
// allocated.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        gave(layout.size());
        // SAFETY: the caller's promises are those of the allocator below.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        gave(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        gave(bytes);
        took(layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(piece, layout, bytes) }
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        took(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(piece, layout) }
    }
}

/// Bytes that the process holds.
pub fn now() -> usize {
    NOW.load(Relaxed)
}

/// The most bytes that the process held at one time since [`forget_most`].
pub fn most() -> usize {
    MOST.load(Relaxed)
}

/// Has [`most`] begin anew. What other threads take meanwhile may be forgotten with it.
pub fn forget_most() {
    MOST.store(now(), Relaxed);
}
