//! Bugs that a crash state found, each as the shortest list of steps that shows it.

use crate::explore::{Depth, Explorer};
use crate::ops::Op;
use crate::run::Run;
use crate::workload::small;
use tabulith::options::{Durability, Options};
use tabulith::vfs::mem::Profile;

fn explore(ops: &[Op], options: &Options) {
    explore_to(ops, options, (200, 32, 20));
}

/// A crash after every effect of every start after every crash.
fn explore_starts(ops: &[Op], options: &Options) {
    explore_to(ops, options, (3, 1, 8));
}

/// `how`: states of a crash point, of how many of them one is nested, and the states in there.
fn explore_to(ops: &[Op], options: &Options, how: (usize, u64, usize)) {
    let (states, one_nested_in, nested_states) = how;
    let run = Run::of(ops, options).unwrap_or_else(|stop| panic!("{stop}"));
    for profile in [Profile::Ordered, Profile::Hostile] {
        let depth =
            Depth { profile, states, one_used_in: 8, one_nested_in, levels: 1, nested_states };
        match Explorer::new(&run, &depth).all() {
            Ok(tally) => assert!(tally.opened > 100 && tally.used() > 5, "{tally}"),
            Err(violation) => panic!("{profile:?}\n{violation}"),
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

/// A process was killed when the edit of a merge was in the cache and not yet on the disk. The next
/// start believed it and deleted the files that it removes; then the power failed, the edit was
/// gone, and the one before it named files that were gone too.
#[test]
fn nothing_is_deleted_on_the_word_of_an_edit_that_power_loss_may_take() {
    let synced = Durability::Synced;
    let ops = [Op::Create(0), put(0, synced), Op::Flush, put(1, synced), Op::Flush, Op::Compact];
    explore_starts(&ops, &small());
}
