//! Random lists of operations, each held against a model: run on threads, made short and saved
//! where one fails, replayed from files for ever.

use crate::script::Script;
use crate::seed::Replay;
use crate::shrink::shrink;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Lists that run at a time.
const THREADS: usize = 2;

/// Operations that the search for a shorter list takes at most, a few minutes. One that fails now
/// and then, as threads have it, is hardly made shorter, and its test is to end by itself.
const SHORTENING_OPS_MAX: usize = 4_000_000;

/// Of a difference and of an operation, so many characters are printed.
const LINE_CHARS: usize = 600;

/// What a list runs under.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Which set of options.
    pub options: usize,
}

/// A list of operations with the options that it runs under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T> {
    /// The operations.
    pub ops: Vec<T>,
    /// Which set of options.
    pub options: usize,
}

/// A test whose work is lists of `T`, each of which comes to an `R`.
#[derive(Clone, Debug)]
pub struct Lists<T, R> {
    /// What its files are called by.
    pub name: &'static str,
    /// The command that runs one list, but for its seed.
    pub command: &'static str,
    /// Where lists that fail are written.
    pub failed: PathBuf,
    /// Does the operations under the options; what it came to, or the first difference.
    pub run: fn(&[T], usize) -> Result<R, String>,
}

impl<T, R> Lists<T, R>
where
    T: Clone + Debug + Serialize + DeserializeOwned,
{
    /// Runs the lists of `count` seeds from `first` on; `make` gives the list of a seed, `take` is
    /// given what came of it.
    ///
    /// Panics: at a list that fails, with a shorter one that does, and where that was saved.
    pub fn check(
        &self,
        first: u64,
        count: u64,
        make: impl Fn(u64) -> List<T> + Sync,
        take: impl FnMut(u64, &List<T>, R) + Send,
    ) {
        let (next, take) = (AtomicU64::new(0), Mutex::new(take));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    loop {
                        let n = next.fetch_add(1, Ordering::Relaxed);
                        if n >= count {
                            return;
                        }
                        let (seed, list) = (first + n, make(first + n));
                        let reached = self.check_one(seed, &list);
                        take.lock().expect("no panic while it is held")(seed, &list, reached);
                    }
                });
            }
        });
    }

    #[allow(clippy::print_stderr, reason = "the reader of a failed test needs it")]
    fn check_one(&self, seed: u64, list: &List<T>) -> R {
        let _replay = Replay::new(seed, self.command);
        let options = list.options;
        let difference = match self.outcome(&list.ops, options) {
            Ok(reached) => return reached,
            Err(difference) => difference,
        };
        // At once: so it is told whatever becomes of the search for a shorter list.
        eprintln!("seed {seed}, options {options}: {}", shortened(&difference));
        let few = self.shorter(list, SHORTENING_OPS_MAX);
        let shorter = shortened(&self.outcome(&few, options).err().unwrap_or_default());
        let printed: Vec<_> = few.iter().map(|op| shortened(&format!("  {op:?}"))).collect();
        let story = vec![format!("Seed {seed}: {shorter}")];
        let script = Script { story, settings: Settings { options }, ops: few };
        let place = script.save(&self.failed, &format!("{}-{seed}", self.name));
        panic!(
            "seed {seed}, options {options}: {}\n{} operations suffice:\n{}\n{shorter}\nsaved: {place:?}",
            shortened(&difference),
            printed.len(),
            printed.join("\n")
        );
    }

    /// The shortest list that still fails, of those tried with `ops_max` operations in all.
    fn shorter(&self, list: &List<T>, ops_max: usize) -> Vec<T> {
        let mut left = Some(ops_max);
        shrink(&list.ops, |ops| {
            left = left.and_then(|left| left.checked_sub(ops.len()));
            left.is_some() && self.outcome(ops, list.options).is_err()
        })
    }

    /// What a list comes to. A panic is a difference too.
    fn outcome(&self, ops: &[T], options: usize) -> Result<R, String> {
        catch_unwind(AssertUnwindSafe(|| (self.run)(ops, options)))
            .unwrap_or_else(|panic| Err(format!("panic: {:?}", panic.downcast_ref::<String>())))
    }

    /// Runs the lists of a folder, which failed once.
    ///
    /// Panics: at one that fails, and where there is none.
    pub fn replay(&self, folder: &Path) {
        let scripts = Script::<Settings, T>::all_in(folder).unwrap_or_else(|what| panic!("{what}"));
        assert!(!scripts.is_empty(), "no lists in {}", folder.display());
        for (name, script) in &scripts {
            let outcome = self.outcome(&script.ops, script.settings.options);
            if let Err(difference) = outcome {
                panic!("{name}: {difference}");
            }
        }
    }
}

/// Panics where the list, written as a file, would not be read back as it is.
pub fn reads_back<T: Debug + Serialize + DeserializeOwned>(ops: Vec<T>) {
    let script = Script { story: vec!["One.".to_owned()], settings: Settings { options: 1 }, ops };
    let text = script.to_text().expect("text");
    let read = Script::<Settings, T>::parse(&text).expect("a list");
    assert_eq!(format!("{script:?}"), format!("{read:?}"));
}

/// A text in a line; the same word again and again, as the bytes of a large value are, says
/// nothing.
fn shortened(text: &str) -> String {
    let mut out = String::new();
    let (mut last, mut times) = ("", 0);
    for word in text.split_inclusive(' ') {
        times = if word == last { times + 1 } else { 0 };
        last = word;
        match times {
            0..8 => out.push_str(word),
            8 => out.push_str("… "),
            _ => {}
        }
    }
    out.chars().take(LINE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds up; nothing may be above 90, and 13 panics.
    fn sum(ops: &[u32], options: usize) -> Result<u32, String> {
        assert!(!ops.contains(&13), "13");
        match ops.iter().find(|op| **op > 90) {
            Some(op) => Err(format!("{op} with {options}")),
            None => Ok(ops.iter().sum()),
        }
    }

    fn lists(failed: &Path) -> Lists<u32, u32> {
        let (name, command) = ("sums", "cargo test -p tabulith-testkit");
        Lists { name, command, failed: failed.to_owned(), run: sum }
    }

    fn list(seed: u64) -> List<u32> {
        List { ops: (20..20 + seed as u32).collect(), options: 3 }
    }

    #[test]
    fn every_list_runs_once() {
        let mut seen = Vec::new();
        lists(Path::new("")).check(5, 20, list, |seed, list, reached| {
            assert_eq!(reached, list.ops.iter().sum::<u32>());
            seen.push(seed);
        });
        seen.sort_unstable();
        assert_eq!(seen, (5..25).collect::<Vec<_>>());
    }

    #[test]
    fn a_list_that_fails_is_made_short_and_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let lists = lists(folder.path());
        for (seed, bad) in [(50, 95), (51, 13)] {
            let ops = [list(seed).ops, vec![bad], list(9).ops].concat();
            let run = || lists.check_one(seed, &List { ops, options: 3 });
            let told = catch_unwind(AssertUnwindSafe(run)).expect_err("it fails");
            let told = told.downcast_ref::<String>().expect("a text");
            assert!(told.contains(&format!("1 operations suffice:\n  {bad}\n")), "{told}");
            let replayed = catch_unwind(AssertUnwindSafe(|| lists.replay(folder.path())));
            let told = replayed.expect_err("what was written fails again");
            assert!(told.downcast_ref::<String>().is_some_and(|told| told.contains("sums-50")));
        }
    }

    #[test]
    fn the_search_for_a_shorter_list_has_an_end() {
        let ops = [list(50).ops, vec![95]].concat();
        let shorter = |ops_max| {
            let list = List { ops: ops.clone(), options: 3 };
            lists(Path::new("")).shorter(&list, ops_max)
        };
        assert_eq!(shorter(0), ops);
        assert_eq!(shorter(25), ops[26..], "the second half, and nothing after it");
        assert_eq!(shorter(1000), [95]);
    }
}
