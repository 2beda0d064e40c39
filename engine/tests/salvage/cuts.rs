//! The power fails, or the process dies, in the middle of a salvage: in the new folder is no
//! database or the whole one, the old one is as it was, and another salvage goes through.

use crate::absent::is_no_database;
use crate::damaged::damage;
use crate::fates::fates;
use crate::judge::{Tally, check, judge};
use crate::life::{DIR, Model, NEW, all_bytes, life, open};
use std::path::Path;
use std::sync::Arc;
use tabulith::Options;
use tabulith::salvage::rebuild::salvage_with;
use tabulith::vfs::api::{Access, Vfs};
use tabulith::vfs::mem::SimFs;
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::seed::Rng;

/// States of one crash point and profile.
const STATES: usize = 24;

/// Of so many crash points one has its folder salvaged again.
const AGAIN_STEP: usize = 4;

/// What has been done to the folder is durable.
fn rest(sim: &SimFs) {
    let dir = Path::new(DIR);
    for name in sim.list(dir).expect("the folder") {
        let file = sim.open(&dir.join(name), Access::ReadWrite).expect("a file");
        file.sync().expect("the simulated disk");
    }
    sim.sync_dir(dir).expect("the simulated disk");
}

#[derive(Default)]
struct Seen {
    effects: u64,
    states: u64,
    absent: u64,
    whole: u64,
}

/// Cuts a salvage of the folder at every place.
fn cut_anywhere(sim: &SimFs, model: &Model, seen: &mut Seen) -> Result<(), String> {
    rest(sim);
    let (before, trace) = (all_bytes(sim), sim.record());
    let vfs = Arc::new(sim.clone());
    let report = salvage_with(vfs, Path::new(DIR), Path::new(NEW), 7);
    let report = report.map_err(|error| error.to_string())?;
    let (done, options) = (trace.len(), Options { create_if_missing: false, ..Options::default() });
    seen.effects += done as u64;
    for n in 0..=done {
        let disk = trace.at(n).expect("the trace goes that far");
        let fates = fates(&disk, STATES, n as u64);
        for (how, fs) in &fates {
            let place = |what: &str| format!("after effect {n} of {done}, {how}: {what}");
            seen.states += 1;
            if all_bytes(fs) != before {
                return Err(place("the old folder has changed"));
            }
            match open(fs, NEW, &options) {
                Ok(db) => {
                    drop(db);
                    let judged = judge(fs, NEW, model, &report, &mut Tally::default());
                    judged.map_err(|what| place(&what))?;
                    seen.whole += 1;
                }
                Err(error) if is_no_database(&error) && n < done => seen.absent += 1,
                Err(error) => return Err(place(&format!("{error:?}"))),
            }
        }
        if n.is_multiple_of(AGAIN_STEP) {
            let (_, again) = fates.last().expect("the disk as it is at least");
            let vfs = Arc::new(again.clone());
            let done = salvage_with(vfs, Path::new(DIR), Path::new("again"), 7);
            let done = done.map_err(|error| format!("after effect {n}, again: {error:?}"))?;
            judge(again, "again", model, &done, &mut Tally::default())?;
        }
    }
    Ok(())
}

#[test]
fn a_salvage_that_is_cut_is_no_database_or_the_whole_one() {
    let mut seen = Seen::default();
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let (sim, _, model) = life(&mut rng);
        if seed % 2 == 1 {
            damage(&sim, &mut rng);
            let as_it_was = check(&sim.fork(), &model, &mut Tally::default());
            as_it_was.unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        }
        cut_anywhere(&sim, &model, &mut seen).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
    let Seen { effects, states, absent, whole } = seen;
    eprintln!("{effects} effects, {states} states: {absent} without a database, {whole} with it");
    counts::tell(
        "salvage-cuts",
        &[count("states", states, 1_000), count("absent", absent, 500), count("whole", whole, 20)],
    );
}
