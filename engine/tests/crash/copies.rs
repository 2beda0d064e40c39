//! A checkpoint or an export under way when the power fails or the process dies: once it is
//! acknowledged the copy is whole, before that there is none or a whole one, and the first database
//! is as ever.

use crate::fates::fates;
use crate::look::read_world;
use crate::model::{History, Need, World};
use crate::opening::{DIR, open_in};
use crate::ops::Op;
use crate::run::Run;
use crate::stop::Stop;
use crate::workload::small;
use std::path::Path;
use std::sync::Arc;
use tabulith::error::Kind;
use tabulith::options::{Durability, Options};
use tabulith::vfs::mem::{SimFs, Trace};

const COPY: &str = "/copy";
/// States of one crash point.
const STATES: usize = 100;

fn put(rk: u8, bytes: u16) -> Op {
    let rows = vec![(rk, Some(bytes)), (rk + 1, Some(40))];
    Op::Write { table: 0, pk: 0, rows, level: Durability::Synced, wait: true }
}

fn open(fs: &SimFs, dir: &str) -> tabulith::Result<World> {
    let options = Options { create_if_missing: false, ..small() };
    let db = open_in(Path::new(dir), Arc::new(fs.clone()), &options)?;
    Ok(read_world(&db).unwrap_or_else(|stop| panic!("{dir}: {stop}")))
}

#[test]
fn a_copy_is_there_whole_or_not_at_all() {
    check(|run, sim| {
        let trace = sim.record();
        let world = run.checkpoint(Path::new(COPY))?;
        Ok((trace, world.clone(), world))
    });
}

#[test]
fn an_export_is_there_whole_or_not_at_all() {
    check(|run, sim| {
        let (snapshot, then) = run.hold()?;
        // Newer versions beside older ones in one file, and in files of their own.
        run.apply_all(&[put(3, 50), Op::Flush, put(0, 800), put(7, 10), Op::Flush, put(1, 5)])?;
        let (_, now) = run.hold()?;
        let trace = sim.record();
        snapshot.export(COPY)?;
        Ok((trace, then, now))
    });
}

/// Cuts what `copy` does at every place. It gives what the copy shows, and what the first database
/// does.
fn check(copy: impl FnOnce(&mut Run, &SimFs) -> Result<(Trace, World, World), Stop>) {
    let sim = SimFs::new();
    let (vfs, options) = (Arc::new(sim.clone()), small());
    let mut run = Run::new(&sim, vfs, &options, History::new(), Need::default());
    let ops = [Op::Create(0), put(0, 700), Op::Flush, put(1, 3000), Op::Flush, put(3, 90)];
    let outcome = run.open(|need| need.kill).and_then(|_| run.apply_all(&ops));
    let outcome = outcome.and_then(|_| copy(&mut run, &sim));
    let (trace, world, first) = outcome.unwrap_or_else(|stop| panic!("{stop}"));
    let done = trace.len();
    let (mut absent, mut whole) = (0, 0);
    for n in 0..=done {
        let disk = trace.at(n).expect("the trace goes that far");
        for (how, fs) in &fates(&disk, STATES, n as u64) {
            let place = format!("after effect {n} of {done}, {how}");
            match open(fs, COPY) {
                Ok(found) if found == world => whole += 1,
                // Nothing of it counts yet: no database, or files without one.
                Err(error)
                    if matches!(error.kind(), Kind::NotFound | Kind::Corrupt) && n < done =>
                {
                    absent += 1;
                }
                outcome => panic!("{place}: the copy gave {outcome:?}"),
            }
            let found = open(fs, DIR).unwrap_or_else(|error| panic!("{place}: {error:?}"));
            assert!(found == first, "{place}: the first database has changed");
        }
    }
    assert!(absent > 100 && whole > 10, "{absent} absent, {whole} whole");
}
