//! Asks the processor to fetch memory that will be read soon, so that several misses are waited for
//! at once. Does nothing where the processor has no such instruction.

/// Starts fetching the cache line in which `place` begins.
#[inline]
#[allow(unsafe_code, reason = "the instruction is not in safe Rust yet")]
pub(crate) fn read<T: ?Sized>(place: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads and writes nothing that the program can see and does not fault,
        // whatever the address is; this one is of a live reference besides. Every x86-64 has SSE.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}
