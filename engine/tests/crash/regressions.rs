//! Bugs that a crash state found, each as the shortest list of steps that shows it.

use crate::explore::{Depth, Explorer};
use crate::run::Run;
use crate::workload::{Op, small};
use tabulith::options::{Durability, Options};
use tabulith::vfs::mem::Profile;

fn explore(ops: &[Op], options: &Options) {
    let run = Run::of(ops, options).unwrap_or_else(|stop| panic!("{stop}"));
    for profile in [Profile::Ordered, Profile::Hostile] {
        let depth = Depth {
            profile,
            states: 200,
            one_used_in: 8,
            one_nested_in: 32,
            levels: 1,
            nested_states: 20,
        };
        match Explorer::new(&run, &depth).all() {
            Ok(tally) => assert!(tally.opened > 100 && tally.used > 5, "{tally}"),
            Err((_, violation)) => panic!("{profile:?}\n{violation}"),
        }
    }
}

fn put(rk: u8, level: Durability) -> Op {
    Op::Write { table: 0, pk: 0, rows: vec![(rk, Some(20))], level, wait: true }
}

/// A start continued one second above the newest commit that it found. Where a crash had taken
/// every commit since the last start, that is where the last start had continued too: a reader of
/// an unsynced commit then met its ETag again, on another row.
#[test]
fn an_etag_that_a_crash_took_is_not_given_again() {
    let ops = [Op::Create(0), Op::Reopen, put(0, Durability::Buffered), Op::Kill];
    let more = [put(1, Durability::Buffered), Op::Kill, put(2, Durability::Flushed)];
    explore(&[&ops[..], &more].concat(), &small());
}
