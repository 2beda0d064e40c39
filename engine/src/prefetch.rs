//! Asks the processor to fetch memory that will be read soon, so that several misses are waited for
//! at once. Does nothing where the processor has no such instruction.

const LINE_BYTES: usize = 64;

/// Starts fetching the cache line in which `place` begins.
#[inline]
pub(crate) fn read<T: ?Sized>(place: &T) {
    fetch(std::ptr::from_ref(place).cast());
}

/// Starts fetching the cache lines of the `bytes` from `place` on, whoever they belong to.
#[inline]
pub(crate) fn read_from<T: ?Sized>(place: &T, bytes: usize) {
    let start = std::ptr::from_ref(place).cast::<u8>();
    (0..bytes).step_by(LINE_BYTES).for_each(|offset| fetch(start.wrapping_add(offset)));
}

#[inline]
#[allow(unsafe_code, reason = "the instruction is not in safe Rust yet")]
fn fetch(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads and writes nothing that the program can see and does not fault,
        // whatever the address is. Every x86-64 has SSE.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}
