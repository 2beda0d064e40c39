//! The service against the reference model: random lists of requests, answered in one process without
//! sockets by the service and the engine, with reopen and kill between them. Every answer must be
//! that of an ordered map under the rules of the protocol.
//!
//! A list that fails is made shorter, written into a file (`TABULITH_FAILED` names the folder), and
//! printed with the line that replays it. Lists in `regress` are replayed for ever.
//! `TABULITH_HTTP_LIST_OPS` runs another number of operations than 400,000.
#![allow(clippy::print_stderr, reason = "the figures are what the run is for")]

#[path = "../common/mod.rs"]
mod common;
mod ops;
mod model;
mod talk;
mod house;
mod run;

use ops::{Mix, OPTION_SETS, Op};
use run::Reached;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::script::Script;
use tabulith_testkit::seed::{self, Replay, Rng};
use tabulith_testkit::shrink::shrink;

const LIST_LEN: u64 = 400;
const OPS_DEFAULT: u64 = 400_000;
const OPS_VARIABLE: &str = "TABULITH_HTTP_LIST_OPS";
const THREADS: usize = 2;
/// Kinds of operations; a run of many lists must have had each.
const KINDS: u64 = 21;

/// What a list runs under.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Settings {
    options: usize,
}

#[test]
fn every_answer_is_that_of_the_model() {
    let wanted = seed::number(OPS_VARIABLE).unwrap_or(OPS_DEFAULT);
    let (first, lists) = (seed::seed_or(1), wanted.div_ceil(LIST_LEN));
    let next = AtomicU64::new(0);
    let found: Mutex<(Reached, BTreeMap<&str, u64>)> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= lists {
                        return;
                    }
                    let (reached, kinds) = check_list(first + n);
                    let mut found = found.lock().expect("no panic while it is held");
                    found.0.add(&reached);
                    kinds.into_iter().for_each(|(kind, n)| *found.1.entry(kind).or_default() += n);
                }
            });
        }
    });
    let (reached, kinds) = found.into_inner().expect("no panic while it was held");
    eprintln!("{lists} lists from seed {first}: 0 differences\n{reached:?}\n{kinds:#?}");
    let is_long = lists >= 50;
    let floor = |number: u64| if is_long { number * lists } else { 0 };
    let counts = [
        count("operations", lists * LIST_LEN, wanted),
        count("requests", reached.requests, wanted),
        count("kinds", kinds.len() as u64, if is_long { KINDS } else { 1 }),
        count("refused", reached.refused, floor(20)),
        count("entities", reached.entities, floor(100)),
        count("batches", reached.batches_done, floor(8)),
        count("batches_refused", reached.batches_refused, floor(15)),
        count("undisturbed", reached.undisturbed, floor(15)),
        count("flushes", reached.flushes, floor(3)),
    ];
    counts::tell("http-lists", &counts);
}

fn check_list(seed: u64) -> (Reached, BTreeMap<&'static str, u64>) {
    let command = format!("{OPS_VARIABLE}=1 cargo test -p tabulith-server --test lists");
    let _replay = Replay::new(seed, command);
    let mut rng = Rng::new(seed);
    let ops = Mix::choose(&mut rng).list(&mut rng, LIST_LEN as usize);
    let options = seed as usize % OPTION_SETS;
    let difference = match outcome(&ops, options) {
        Ok(reached) => {
            let mut kinds = BTreeMap::new();
            ops.iter().for_each(|op| *kinds.entry(op.kind()).or_default() += 1);
            return (reached, kinds);
        }
        Err(difference) => difference,
    };
    eprintln!("seed {seed}, options {options}: {difference}");
    let few = shrink(&ops, |rest| outcome(rest, options).is_err());
    let shorter = outcome(&few, options).err().unwrap_or_default();
    let story = vec![format!("Seed {seed}: {shorter}")];
    let script = Script { story, settings: Settings { options }, ops: few };
    let text = script.to_text().unwrap_or_else(|what| what);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("failed");
    let place = script.save(&folder, &format!("http-{seed}"));
    panic!("seed {seed}, options {options}: {difference}\n{text}saved: {place:?}");
}

/// A panic is a difference too.
fn outcome(ops: &[Op], options: usize) -> Result<Reached, String> {
    catch_unwind(AssertUnwindSafe(|| run::run(ops, options)))
        .unwrap_or_else(|panic| Err(format!("panic: {:?}", panic.downcast_ref::<String>())))
}

/// Lists that failed once, each with its story.
#[test]
fn lists_that_failed_once_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lists/regress");
    let scripts = Script::<Settings, Op>::all_in(&folder).unwrap_or_else(|what| panic!("{what}"));
    for (name, script) in &scripts {
        let outcome = outcome(&script.ops, script.settings.options);
        outcome.unwrap_or_else(|difference| panic!("{name}: {difference}"));
    }
    assert!(!scripts.is_empty(), "no lists");
}

#[test]
fn a_list_that_was_written_reads_back() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let ops = Mix::choose(&mut rng).list(&mut rng, 200);
        let script = Script { story: Vec::new(), settings: Settings { options: 1 }, ops };
        let text = script.to_text().expect("text");
        let read = Script::<Settings, Op>::parse(&text).expect("a list");
        assert_eq!(format!("{script:?}"), format!("{read:?}"));
    }
}
