//! The store against an ordered map: random operations, reopen, kill, flush, compaction, snapshots
//! and changes of options included. Every answer must be equal.
//!
//! A run is a number of lists of ten thousand operations, each with its own seed on its own store in
//! memory. A list that fails is made shorter, written into a file (`TABULITH_FAILED` names the folder)
//! and printed with the line that replays it; the lists in `regress` are replayed for ever.
//! `TABULITH_ORACLE_OPS` runs another number of operations than three million.
#![allow(clippy::print_stderr, reason = "the figures are what the run is for")]

#[path = "../common/levels.rs"]
mod levels;
mod zones;
mod entities;
mod doubt;
mod ops;
mod kinds;
mod rows;
mod walk;
mod cursors;
mod batches;
mod store;
mod run;

use ops::{Mix, OPTION_SETS, Op, Preset};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use store::Reached;
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::script::Script;
use tabulith_testkit::seed::{self, Replay, Rng};
use tabulith_testkit::shrink::shrink;

const LIST_LEN: u64 = 10_000;
const OPS_DEFAULT: u64 = 3_000_000;
/// Kinds of operations that a run of many lists must have had.
const KINDS_MIN: u64 = 50;
/// How often it must have had each, in a million operations.
const EACH_MIN: u64 = 40;
/// Lists that run at a time.
const THREADS: usize = 2;

/// What a list runs under.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Settings {
    options: usize,
}

#[test]
fn every_answer_equals_the_model() {
    let ops = seed::number("TABULITH_ORACLE_OPS").unwrap_or(OPS_DEFAULT);
    let first = seed::seed_or(1);
    let next = AtomicU64::new(0);
    let lists = ops.div_ceil(LIST_LEN);
    let reached = Mutex::new(Reached::default());
    let kinds: Mutex<BTreeMap<&str, u64>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= lists {
                        break;
                    }
                    let (one, own) = check_list(first + n);
                    let mut kinds = kinds.lock().expect("no panic while it is held");
                    own.into_iter().for_each(|(kind, n)| *kinds.entry(kind).or_default() += n);
                    drop(kinds);
                    reached.lock().expect("no panic while it is held").add(&one);
                }
            });
        }
    });
    let reached = reached.into_inner().expect("no panic while it was held");
    let operations = lists * LIST_LEN;
    eprintln!(
        "{operations} operations in {lists} lists from seed {first}: 0 differences\n{reached:?}"
    );
    let kinds = kinds.into_inner().expect("no panic while it was held");
    let (own, of_lists): (Vec<_>, Vec<_>) =
        kinds.iter().partition(|(kind, _)| !kind.starts_with("list,"));
    eprintln!("operations by kind, and lists: {kinds:#?}");
    let is_long = lists >= 100;
    for (kind, times) in own.iter().filter(|_| is_long) {
        assert!(**times >= EACH_MIN * operations / 1_000_000, "{kind}: only {times} times");
    }
    assert!(!is_long || of_lists.len() == 5, "{of_lists:?}");
    let kinds_min = if is_long { KINDS_MIN } else { 1 };
    let counts = [
        count("operations", operations, ops),
        count("lists", lists, 1),
        count("kinds", own.len() as u64, kinds_min),
    ];
    counts::tell("oracle", &counts);
    assert!(reached.openings > lists, "nothing was opened again");
    assert!(reached.flushes > lists * 10, "too few flushes to mean anything");
    assert!(reached.compactions > lists * 10, "too few compactions to mean anything");
    assert!(reached.parts > reached.compactions + lists * 10, "too few divided merges");
    assert!(reached.lost > 0 || lists < 10, "no kill took a buffered commit back");
    assert!(reached.blob_files > 2, "too few values in blob files to mean anything");
    assert!(reached.level >= 2, "no row reached a deep level");
    let skipped = zones::SKIPPED.load(Ordering::Relaxed);
    assert!(skipped > lists * 10, "zones spared {skipped} blocks: too few to mean anything");
}

/// What a list came to, and how many operations of each kind it had.
fn check_list(seed: u64) -> (Reached, BTreeMap<&'static str, u64>) {
    let command = format!("TABULITH_ORACLE_OPS={LIST_LEN} cargo test -p tabulith --test oracle");
    let _replay = Replay::new(seed, command);
    let mut rng = Rng::new(seed);
    let mix = Mix::choose(&mut rng);
    let ops = mix.list(&mut rng, LIST_LEN as usize);
    let options = seed as usize % OPTION_SETS;
    let mut kinds = BTreeMap::from([(list_kind(mix.preset()), 1)]);
    ops.iter().for_each(|op| *kinds.entry(op.kind()).or_default() += 1);
    let difference = match outcome(&ops, options) {
        Ok(reached) => return (reached, kinds),
        Err(difference) => difference,
    };
    // At once: the search for a shorter list may take longer than anybody waits.
    eprintln!("seed {seed}, options {options}: {}", shortened(&difference));
    let few = shrink(&ops, |rest| outcome(rest, options).is_err());
    let shorter = outcome(&few, options).err().unwrap_or_default();
    let printed: Vec<_> = few.iter().map(|op| shortened(&format!("  {op:?}"))).collect();
    let story = vec![format!("Seed {seed}: {}", shortened(&shorter))];
    let script = Script { story, settings: Settings { options }, ops: few };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("failed");
    let place = script.save(&folder, &format!("oracle-{seed}"));
    panic!(
        "seed {seed}, options {options}: {difference}\n{} operations suffice:\n{}\n{shorter}\n\
         saved: {place:?}",
        printed.len(),
        printed.join("\n")
    );
}

fn list_kind(preset: Preset) -> &'static str {
    match preset {
        Preset::None => "list, mixed",
        Preset::HotKey => "list, two rows",
        Preset::WidePartition => "list, one partition",
        Preset::Tombstones => "list, mostly removed",
        Preset::LargeValues => "list, large values",
    }
}

/// An operation in a line; the bytes of a large value say nothing.
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
    out.chars().take(600).collect()
}

/// A panic of the store is a difference too.
fn outcome(ops: &[Op], options: usize) -> Result<Reached, String> {
    catch_unwind(AssertUnwindSafe(|| run::run(ops, options)))
        .unwrap_or_else(|panic| Err(format!("panic: {:?}", panic.downcast_ref::<String>())))
}

/// Lists that failed once, each with its story.
#[test]
fn lists_that_failed_once_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/regress");
    let scripts = Script::<Settings, Op>::all_in(&folder).unwrap_or_else(|what| panic!("{what}"));
    for (name, script) in &scripts {
        let outcome = outcome(&script.ops, script.settings.options);
        outcome.unwrap_or_else(|difference| panic!("{name}: {difference}"));
    }
    assert!(!scripts.is_empty(), "no lists");
}

#[test]
fn a_list_that_was_written_reads_back() {
    let mut kinds = BTreeMap::new();
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let ops = Mix::choose(&mut rng).list(&mut rng, 300);
        ops.iter().for_each(|op| *kinds.entry(op.kind()).or_insert(0) += 1);
        let script =
            Script { story: vec!["One.".to_owned()], settings: Settings { options: 1 }, ops };
        let text = script.to_text().expect("text");
        let read = Script::<Settings, Op>::parse(&text).expect("a list");
        assert_eq!(format!("{script:?}"), format!("{read:?}"));
    }
    assert!(kinds.len() as u64 >= KINDS_MIN, "only {} kinds", kinds.len());
}
