//! The service against the reference model: random lists of requests, answered in one process
//! without sockets by the service and the engine, with reopen, kill and loss of power between
//! them. Every answer must be that of an ordered map under the rules of the protocol. The same list
//! then runs without the protocol, on the table layer as an embedded user has it.
//!
//! A list that fails is made shorter, written into a file (`TABULITH_FAILED` names the folder), and
//! printed with the line that replays it. Lists in `regress` are replayed for ever.
//! `TABULITH_HTTP_LIST_OPS` runs another number of operations than 400,000.
#![allow(clippy::print_stderr, reason = "the figures are what the run is for")]

#[path = "../common/mod.rs"]
mod common;
mod ops;
mod mix;
mod model;
mod talk;
mod house;
mod way;
mod direct;
mod run;

use mix::Mix;
use ops::{OPTION_SETS, Op};
use std::collections::BTreeMap;
use std::path::Path;
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::lists::{self, List, Lists};
use tabulith_testkit::seed::{self, Rng};

const LIST_LEN: u64 = 400;
const OPS_DEFAULT: u64 = 400_000;
const OPS_VARIABLE: &str = "TABULITH_HTTP_LIST_OPS";
/// Kinds of operations; a run of many lists must have had each.
const KINDS: u64 = 50;

/// How far lists went over HTTP, and how far without it.
#[derive(Debug, Default)]
struct Reached {
    http: run::Reached,
    direct: direct::Reached,
}

fn both(ops: &[Op], options: usize) -> Result<Reached, String> {
    Ok(Reached { http: run::run(ops, options)?, direct: direct::run(ops, options)? })
}

fn lists() -> Lists<Op, Reached> {
    Lists {
        name: "http",
        command: "TABULITH_HTTP_LIST_OPS=1 cargo test -p tabulith-server --test lists",
        failed: Path::new(env!("CARGO_TARGET_TMPDIR")).join("failed"),
        run: both,
    }
}

fn list(seed: u64) -> List<Op> {
    let mut rng = Rng::new(seed);
    let ops = Mix::choose(&mut rng).list(&mut rng, LIST_LEN as usize);
    List { ops, options: seed as usize % OPTION_SETS }
}

#[test]
fn every_answer_is_that_of_the_model() {
    let wanted = seed::number(OPS_VARIABLE).unwrap_or(OPS_DEFAULT);
    let (first, lists) = (seed::seed_or(1), wanted.div_ceil(LIST_LEN));
    let (mut reached, mut kinds) = (Reached::default(), BTreeMap::<_, u64>::new());
    self::lists().check(first, lists, list, |_, list, one| {
        reached.http.add(&one.http);
        reached.direct.add(&one.direct);
        list.ops.iter().for_each(|op| *kinds.entry(op.kind()).or_default() += 1);
    });
    eprintln!("{lists} lists from seed {first}: 0 differences\n{reached:?}\n{kinds:#?}");
    let Reached { http, direct } = reached;
    let is_long = lists >= 50;
    let floor = |number: u64| if is_long { number * lists } else { 0 };
    let counts = [
        count("operations", lists * LIST_LEN, wanted),
        count("requests", http.requests, wanted),
        count("kinds", kinds.len() as u64, if is_long { KINDS } else { 1 }),
        count("refused", http.refused, floor(20)),
        count("entities", http.entities, floor(100)),
        count("batches", http.batches_done, floor(8)),
        count("batches_refused", http.batches_refused, floor(15)),
        count("undisturbed", http.undisturbed, floor(15)),
        count("flushes", http.flushes, floor(3)),
        count("scrubbed", http.scrubbed, floor(100_000)),
        count("past", http.past, floor(7)),
        count("power_losses", http.power_losses, floor(2)),
        count("by_policy", http.by_policy, floor(1)),
        count("signed", http.signed, floor(3)),
        count("kills_between", http.kills_between, floor(1)),
        count("direct_done", direct.done, floor(60)),
        count("direct_refused", direct.refused, floor(20)),
        count("direct_entities", direct.entities, floor(100)),
        count("direct_past", direct.past, floor(7)),
    ];
    counts::tell("http-lists", &counts);
}

/// Lists that failed once, each with its story.
#[test]
fn lists_that_failed_once_pass() {
    lists().replay(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lists/regress"));
}

#[test]
fn a_list_that_was_written_reads_back() {
    (0..20).for_each(|seed| lists::reads_back(list(seed).ops));
}
