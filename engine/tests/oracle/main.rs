//! The store against an ordered map: random operations, reopen, kill, loss of power, flush,
//! compaction, scrub, snapshots and changes of options included. Every answer must be equal.
//!
//! A run is a number of lists of ten thousand operations, each with its own seed on its own store
//! in memory. A list that fails is made shorter, written into a file (`TABULITH_FAILED` names the
//! folder) and printed with the line that replays it; the lists in `regress` are replayed for ever.
//! `TABULITH_ORACLE_OPS` runs another number of operations than three million.
#![allow(clippy::print_stderr, reason = "the figures are what the run is for")]

#[path = "../common/levels.rs"]
mod levels;
mod zones;
mod entity;
mod questions;
mod entities;
mod doubt;
mod ops;
mod kinds;
mod rows;
mod walk;
mod updates;
mod transactions;
mod cursors;
mod batches;
mod clocks;
mod store;
mod sizes;
mod run;

use ops::{Mix, OPTION_SETS, Op, Preset};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use store::Reached;
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::lists::{self, List, Lists};
use tabulith_testkit::seed::{self, Rng};

/// A tenth faster than the system's: most of a list is small pieces that come and go.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const LIST_LEN: u64 = 10_000;
const OPS_DEFAULT: u64 = 3_000_000;
/// Kinds of operations that a run of many lists must have had.
const KINDS_MIN: u64 = 50;
/// How often it must have had each, in a million operations.
const EACH_MIN: u64 = 40;

fn lists() -> Lists<Op, Reached> {
    Lists {
        name: "oracle",
        command: "TABULITH_ORACLE_OPS=10000 cargo test -p tabulith --test oracle",
        failed: Path::new(env!("CARGO_TARGET_TMPDIR")).join("failed"),
        run: run::run,
    }
}

fn list(seed: u64) -> List<Op> {
    let mut rng = Rng::new(seed);
    let ops = Mix::choose(&mut rng).list(&mut rng, LIST_LEN as usize);
    List { ops, options: seed as usize % OPTION_SETS }
}

#[test]
fn every_answer_equals_the_model() {
    let ops = seed::number("TABULITH_ORACLE_OPS").unwrap_or(OPS_DEFAULT);
    let (first, lists) = (seed::seed_or(1), ops.div_ceil(LIST_LEN));
    let (mut reached, mut generated) = (Reached::default(), BTreeMap::<_, u64>::new());
    self::lists().check(first, lists, list, |seed, list, one| {
        reached.add(&one);
        *generated.entry(list_kind(Mix::choose(&mut Rng::new(seed)).preset())).or_default() += 1;
        list.ops.iter().for_each(|op| *generated.entry(op.kind()).or_default() += 1);
    });
    let operations = lists * LIST_LEN;
    eprintln!(
        "{operations} operations in {lists} lists from seed {first}: 0 differences\n{reached:?}"
    );
    let (own, of_lists): (Vec<_>, Vec<_>) =
        generated.iter().partition(|(kind, _)| !kind.starts_with("list,"));
    eprintln!("operations by kind, and lists: {generated:#?}");
    let is_long = lists >= 100;
    for (kind, times) in own.iter().filter(|_| is_long) {
        assert!(**times >= EACH_MIN * operations / 1_000_000, "{kind}: only {times} times");
    }
    assert!(!is_long || of_lists.len() == 6, "{of_lists:?}");
    eprintln!("of those, had something to do or to compare: {:#?}", reached.done);
    for (kind, least) in kinds::DONE_MIN.iter().filter(|_| is_long) {
        let done = reached.done.get(kind).copied().unwrap_or(0);
        assert!(done >= least * operations / 1_000_000, "{kind}: only {done} did anything");
    }
    let has_floor = |kind: &str| kinds::DONE_MIN.iter().any(|(other, _)| *other == kind);
    let without: Vec<_> = own.iter().filter(|(kind, _)| !has_floor(kind)).collect();
    assert!(without.is_empty(), "no floor in kinds.rs: {without:?}");
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
    assert!(
        reached.lost_with_power > lists / 20 || !is_long,
        "too few commits lost with the power"
    );
    assert!(
        reached.scrubs > lists / 10 || !is_long,
        "too few passes of the scrub to mean anything"
    );
    assert!(reached.blob_files > 2, "too few values in blob files to mean anything");
    assert!(reached.level >= 2, "no row reached a deep level");
    assert!(reached.exports > 0 || lists < 10, "no snapshot was exported");
    assert!(reached.long_logs > lists / 20 || !is_long, "too few flushes of long logs");
    assert!(reached.moves > lists && reached.dropped_files > lists, "{reached:?}");
    let spared = [("rows", &zones::SKIPPED, 10), ("entities", &zones::SKIPPED_FOR_ENTITIES, 6)];
    for (whose, skipped, floor) in spared {
        let skipped = skipped.load(Ordering::Relaxed);
        eprintln!("zones of {whose} spared {skipped} blocks");
        let is_enough = skipped > lists * floor || lists < 10;
        assert!(is_enough, "{whose}: too few to mean anything");
    }
}

fn list_kind(preset: Preset) -> &'static str {
    match preset {
        Preset::None => "list, mixed",
        Preset::HotKey => "list, two rows",
        Preset::WidePartition => "list, one partition",
        Preset::Tombstones => "list, mostly removed",
        Preset::LargeValues => "list, large values",
        Preset::Erasures => "list, erased and looked back on",
    }
}

/// Lists that failed once, each with its story.
#[test]
fn lists_that_failed_once_pass() {
    lists().replay(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/regress"));
}

#[test]
fn a_list_that_was_written_reads_back() {
    let mut kinds = BTreeMap::new();
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let ops = Mix::choose(&mut rng).list(&mut rng, 300);
        ops.iter().for_each(|op| *kinds.entry(op.kind()).or_insert(0) += 1);
        lists::reads_back(ops);
    }
    assert!(kinds.len() as u64 >= KINDS_MIN, "only {} kinds", kinds.len());
}
