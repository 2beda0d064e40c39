//! Atomics of loom, such that it tries every order: each beside a mark for each thread that reads
//! it.
//!
//! loom decides by the last access to an object which orders are worth a try. Where a thread loads
//! an atomic and then stores to it, the last access is its own load, and loom 0.7 forgets that
//! another thread has loaded it before: it never tries that load after the store. All of a
//! memtable's writer is such loads and stores. So a load changes a mark that is this thread's, and
//! whoever stores changes the marks of all others: nothing hides those accesses from each other.
//! The marks order no memory.

use loom::sync::atomic as inner;
use std::cell::Cell;
use std::fmt;

pub(crate) use loom::sync::atomic::{Ordering, fence};

/// Threads of a model, the first included.
const THREADS: usize = 4;

thread_local! {
    static NAMED: Cell<usize> = const { Cell::new(0) };
}

loom::thread_local! {
    static ME: usize = NAMED.replace(NAMED.get() + 1) % THREADS;
}

/// To be called where a model begins: its threads are named anew.
#[cfg(test)]
pub(crate) fn begin() {
    NAMED.set(0);
}

#[derive(Default)]
struct Marks([inner::AtomicU8; THREADS]);

impl Marks {
    fn load(&self) {
        // A thread that ends has no name any more: it is taken for the first.
        let me = ME.try_with(|me| *me).unwrap_or(0);
        self.0[me].fetch_add(0, Ordering::Relaxed);
    }

    fn store(&self) {
        let me = ME.try_with(|me| *me).unwrap_or(0);
        for (thread, mark) in self.0.iter().enumerate() {
            if thread != me {
                mark.fetch_add(0, Ordering::Relaxed);
            }
        }
    }
}

macro_rules! atomics {
    ($($name:ident<$($generic:ident)?> of $value:ty: $($method:ident)*;)*) => {
        $(
            pub(crate) struct $name$(<$generic>)? {
                value: inner::$name$(<$generic>)?,
                marks: Marks,
            }

            impl$(<$generic>)? $name$(<$generic>)? {
                pub(crate) fn new(value: $value) -> Self {
                    Self { value: inner::$name::new(value), marks: Marks::default() }
                }

                pub(crate) fn load(&self, order: Ordering) -> $value {
                    self.marks.load();
                    self.value.load(order)
                }

                pub(crate) fn store(&self, value: $value, order: Ordering) {
                    self.marks.store();
                    self.value.store(value, order);
                }

                #[allow(dead_code, reason = "each type has all that std's has")]
                pub(crate) fn fetch_update(
                    &self,
                    set: Ordering,
                    fetch: Ordering,
                    next: impl FnMut($value) -> Option<$value>,
                ) -> Result<$value, $value> {
                    self.marks.load();
                    self.marks.store();
                    self.value.fetch_update(set, fetch, next)
                }

                $(
                    #[allow(dead_code, reason = "each type has all that std's has")]
                    pub(crate) fn $method(&self, value: $value, order: Ordering) -> $value {
                        self.marks.load();
                        self.marks.store();
                        self.value.$method(value, order)
                    }
                )*
            }

            impl$(<$generic>)? fmt::Debug for $name$(<$generic>)? {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str(stringify!($name))
                }
            }
        )*
    };
}

atomics! {
    AtomicBool<> of bool: swap;
    AtomicU8<> of u8: swap fetch_add fetch_max fetch_or;
    AtomicU16<> of u16: swap fetch_add;
    AtomicU32<> of u32: swap fetch_add fetch_sub fetch_max;
    AtomicU64<> of u64: swap fetch_add fetch_sub fetch_max fetch_min;
    AtomicUsize<> of usize: swap fetch_add fetch_sub fetch_max fetch_min;
    AtomicPtr<T> of *mut T: swap;
}

macro_rules! defaults {
    ($($name:ident)*) => {
        $(
            impl Default for $name {
                fn default() -> $name {
                    $name::new(Default::default())
                }
            }
        )*
    };
}

defaults! { AtomicBool AtomicU8 AtomicU16 AtomicU32 AtomicU64 AtomicUsize }

impl<T> Default for AtomicPtr<T> {
    fn default() -> AtomicPtr<T> {
        AtomicPtr::new(std::ptr::null_mut())
    }
}
