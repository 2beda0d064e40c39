//! Runs a target over its corpus and over inputs made from it. A panic keeps the input and tells
//! how to run it again.

use crate::corpus;
use crate::memory;
use crate::mutate::Mutator;
use crate::targets::list::Target;
use std::cell::RefCell;
use std::io;
use std::sync::Once;
use std::time::Duration;
use tabulith::env::clock::{Clock, SystemClock};
use tabulith_testkit::watch::{Watch, watched};

/// What an input may take of memory, in bytes; those of the tests take up to 600 KiB.
const MEMORY_MAX: usize = 4 << 20;

/// What a run did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Inputs of the corpus.
    pub corpus: u64,
    /// Inputs made from them.
    pub made: u64,
    /// The longest time that one input took.
    pub slowest: Duration,
    /// Its number among those made; none for one of the corpus.
    pub slowest_at: Option<u64>,
    /// The most memory that one input took, in bytes.
    pub most_held: usize,
    /// The whole run.
    pub time: Duration,
}

/// The input that this thread is at.
struct Current {
    target: &'static Target,
    what: String,
    input: Vec<u8>,
}

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

/// Runs `target` over its corpus, then over the inputs numbered `from..from + runs` of `seed`.
///
/// Panics as the target does, and where an input takes more memory than it may; before that the
/// input is kept and the line that runs it again is told. One that does not end ends the program,
/// with that line.
pub fn run(target: &'static Target, seed: u64, from: u64, runs: u64) -> io::Result<Done> {
    watched(|watch| run_watched(target, (seed, from, runs), watch))
}

fn run_watched(
    target: &'static Target,
    (seed, from, runs): (u64, u64, u64),
    watch: &Watch,
) -> io::Result<Done> {
    let clock = SystemClock::new();
    let mut done = Done::default();
    let corpus = corpus::load(target)?;
    let one = |what: String, at: Option<u64>, input: Vec<u8>, done: &mut Done| {
        watch.step(replay(target, &what));
        let start = clock.steady();
        let held = one_input(target, what, input);
        done.most_held = done.most_held.max(held);
        let took = clock.steady().saturating_sub(start);
        if took > done.slowest {
            (done.slowest, done.slowest_at) = (took, at);
        }
    };
    for (name, input) in &corpus {
        let path = corpus::folder(target).join(name);
        one(format!("--input {}", path.display()), None, input.clone(), &mut done);
        done.corpus += 1;
    }
    let inputs: Vec<_> = corpus.into_iter().map(|(_, input)| input).collect();
    let mutator = Mutator { corpus: &inputs, words: target.words, bytes_max: target.bytes_max };
    for index in from..from.saturating_add(runs) {
        let what = format!("--seed {seed} --from {index} --runs 1");
        one(what, Some(index), mutator.input(seed, index), &mut done);
        done.made += 1;
    }
    done.time = clock.steady();
    Ok(done)
}

/// Runs `target` on one input; the bytes of memory that it took. `what`: the flags that run it
/// again.
pub fn one_input(target: &'static Target, what: String, input: Vec<u8>) -> usize {
    tell_failures();
    CURRENT.set(Some(Current { target, what, input: input.clone() }));
    let held = memory::most_held(|| (target.run)(&input));
    let len = input.len();
    assert!(held <= MEMORY_MAX, "{len} bytes of input took {held} of memory");
    CURRENT.set(None);
    held
}

/// The line that runs an input again.
fn replay(target: &Target, what: &str) -> String {
    format!("cargo run --release -p tabulith-fuzz -- {} {what}", target.name)
}

/// Whatever ends the target ends with the line that replays it. A hook, not a guard: release builds
/// abort at a panic.
#[allow(clippy::print_stderr, reason = "the reader of a failed run needs the line")]
fn tell_failures() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            before(panic);
            let Some(current) = CURRENT.take() else { return };
            let Current { target, what, input } = current;
            eprintln!("replay: {}", replay(target, &what));
            match corpus::keep_failed(target.name, &input) {
                Ok(path) => eprintln!(
                    "{} bytes kept in {}; it belongs into fuzz/corpus/{}",
                    input.len(),
                    path.display(),
                    target.name
                ),
                Err(error) => eprintln!("the input could not be kept: {error}"),
            }
        }));
    });
}
