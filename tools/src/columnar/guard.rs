//! What becomes of a panic inside the library that reads Parquet: the end of the process, in words.
//!
//! Promise: it is said which file and which column were being read, and the exit code is that of
//! corruption. The program is built to abort on a panic, so there is nothing to be caught; what was
//! acknowledged before is in the table.

use crate::exit::Exit;
use crate::print::note;
use std::cell::RefCell;
use std::panic;
use std::sync::Once;

thread_local! {
    /// What this thread reads.
    static READING: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Reads something; `what` names it.
pub(crate) fn reading<T>(what: impl FnOnce() -> String, read: impl FnOnce() -> T) -> T {
    static HOOK: Once = Once::new();
    HOOK.call_once(set_hook);
    READING.set(Some(what()));
    let done = read();
    READING.set(None);
    done
}

fn set_hook() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let Some(what) = READING.take() else { return before(info) };
        let payload = info.payload();
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let why = text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("it makes no sense");
        note(&format!("tabulith: {what}: damaged: {why}"));
        std::process::exit(Exit::Corrupt as i32);
    }));
}
