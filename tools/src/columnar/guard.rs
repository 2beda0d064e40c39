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

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]
mod tests {
    use super::*;
    use std::process::Command;

    /// Where it is set, the test is the process that panics.
    const PANICS: &str = "TABULITH_GUARD_PANICS";

    /// Of the library's panics each that is known is refused before, so this one is our own.
    #[test]
    fn a_panic_ends_the_process_with_the_file_and_the_code_of_corruption() {
        if let Ok(how) = std::env::var(PANICS) {
            let lengths: Vec<usize> = Vec::new();
            let named = || "odd.parquet: column `a`".to_owned();
            match how.as_str() {
                "inside" => drop(reading(named, || lengths[lengths.len() + 7])),
                _ => assert_eq!(reading(named, || lengths.len()), 1, "behind it"),
            }
            return;
        }
        let own = "columnar::guard::tests::a_panic_ends_the_process";
        let run = |how: &str| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            let out = command.args([own, "--nocapture"]).env(PANICS, how).output().unwrap();
            (out.status.code(), String::from_utf8(out.stderr).unwrap())
        };
        let (code, err) = run("inside");
        assert_eq!(code, Some(Exit::Corrupt as i32), "{err}");
        let told = "tabulith: odd.parquet: column `a`: damaged: index out of bounds";
        assert!(err.contains(told) && !err.contains("panicked"), "{err}");
        // What happens elsewhere stays a panic.
        let (code, err) = run("behind");
        assert!(code != Some(Exit::Corrupt as i32) && err.contains("panicked"), "{code:?} {err}");
    }
}
