//! Crashes around merges that are done in parts: one edit names the files of all, so that no crash
//! leaves some of them.

use crate::explore::{Depth, Explorer};
use crate::model::{History, Need};
use crate::ops::Op;
use crate::run::Run;
use crate::workload::small;
use std::sync::Arc;
use tabulith::options::{Advanced, Durability, Options};
use tabulith::vfs::mem::{Profile, SimFs};

/// Rows of one large partition and of a small one, written twice, with deletes; then merges that
/// somebody waits for, which are divided.
fn work() -> Vec<Op> {
    let level = Durability::Synced;
    let large = |pk, first: u8, bytes: u16| {
        let row = |rk: u8| (rk, (rk % 5 != 4).then_some(bytes + u16::from(rk)));
        let rows = (first..first + 12).map(row).collect();
        Op::Write { table: 0, pk, rows, level, wait: true }
    };
    vec![
        Op::Create(0),
        large(0, 0, 400),
        large(1, 0, 300),
        Op::Flush,
        large(0, 6, 350),
        Op::Flush,
        Op::Compact,
        large(1, 3, 200),
        Op::Settle,
        Op::Compact,
        Op::Read,
    ]
}

#[test]
fn no_crash_leaves_a_part_of_a_merge() {
    let advanced = Advanced { blob_bytes_min: 0, filter_bits: 0, ..small().advanced };
    for threads in [2, 3] {
        let options = Options { threads: Some(threads), advanced: advanced.clone(), ..small() };
        let sim = SimFs::new();
        let vfs = Arc::new(sim.clone());
        let run = Run::new(&sim, vfs, &options, History::new(), Need::default());
        let mut run = run.recorded();
        run.open(|need| need.power).unwrap_or_else(|stop| panic!("{stop}"));
        run.apply_all(&work()).unwrap_or_else(|stop| panic!("{stop}"));
        let divided = run.merges_divided().unwrap_or_else(|stop| panic!("{stop}"));
        assert!(divided > 0, "no merge was divided");
        let run = run.finish(Need::default());
        for profile in [Profile::Ordered, Profile::Hostile] {
            let depth = Depth {
                profile,
                states: 60,
                one_used_in: 16,
                one_nested_in: 64,
                levels: 1,
                nested_states: 12,
            };
            match Explorer::new(&run, &depth).all() {
                Ok(tally) => assert!(tally.opened > 500 && tally.used() > 20, "{tally}"),
                Err(violation) => panic!("{threads} threads, {profile:?}\n{violation}"),
            }
        }
    }
}
