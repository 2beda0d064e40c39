//! Calls of the disk that fail while a folder is salvaged or checked, every call in every way. A
//! salvage gives what is true and lists what is missing, or an error and no database; a check never
//! calls a damaged folder sound. The folder is as it was.

use crate::absent::is_no_database;
use crate::damaged::damage;
use crate::judge::{Tally, judge};
use crate::kinds::{KINDS, failures};
use crate::life::{DIR, Model, NEW, all_bytes, life_of, open};
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use tabulith::Options;
use tabulith::error::Result;
use tabulith::salvage::rebuild::salvage_with;
use tabulith::salvage::report::Report;
use tabulith::verify;
use tabulith::vfs::api::{Access, Vfs};
use tabulith::vfs::fault::FaultFs;
use tabulith::vfs::mem::{Profile, SimFs};
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::seed::Rng;

/// So many steps lead to files of every kind.
const STEPS: usize = 40;

/// The folder of a second salvage.
const AGAIN: &str = "again";

/// What was tried.
#[derive(Default)]
struct Seen {
    calls: u64,
    runs: u64,
    refused: u64,
    /// Runs that gave anything else than a disk that is well does.
    told: u64,
}

impl Seen {
    /// Does `work` on copies of `disk` on which another call fails each time, once or from then on,
    /// and has `look` judge what came of it once the disk is well again.
    fn each_fault<T: Debug>(
        &mut self,
        disk: &SimFs,
        work: impl Fn(Arc<dyn Vfs>) -> Result<T>,
        mut look: impl FnMut(&SimFs, Result<T>) -> std::result::Result<(), String>,
    ) {
        let well = FaultFs::new(Arc::new(disk.fork()));
        let undisturbed = work(Arc::new(well.clone()));
        assert!(undisturbed.is_ok(), "a disk that is well: {undisturbed:?}");
        let undisturbed = format!("{undisturbed:?}");
        let calls = well.calls();
        self.calls += calls;
        for (how, rule) in failures(calls) {
            let disk = disk.fork();
            let faults = FaultFs::new(Arc::new(disk.clone()));
            faults.add(rule);
            let done = work(Arc::new(faults.clone()));
            assert!(faults.injected() > 0, "{how} is not reached");
            self.runs += 1;
            self.refused += u64::from(done.is_err());
            let outcome = format!("{done:?}");
            self.told += u64::from(outcome != undisturbed);
            look(&disk, done).unwrap_or_else(|why| panic!("{how}: {why}\n{outcome}"));
        }
    }

    /// `refused`: of how many runs one at least has to be.
    fn tell(&self, layer: &str, calls: u64, refused: u64) {
        let runs = self.calls * 2 * KINDS.len() as u64;
        let counts = [
            count("calls", self.calls, calls),
            count("runs", self.runs, runs),
            count("refused", self.refused, runs / refused),
            count("told", self.told, runs / 2),
        ];
        counts::tell(layer, &counts);
    }
}

/// The new folder is what `done` says. `again`: what a disk that is well has a salvage report.
fn judge_salvage(
    disk: &SimFs,
    model: &Model,
    done: Result<Report>,
    again: &Report,
) -> std::result::Result<(), String> {
    let tally = &mut Tally::default();
    match done {
        Ok(report) => {
            judge(disk, NEW, model, &report, tally)?;
            for state in disk.crash_states(Profile::Hostile, 2, 1) {
                let judged = judge(&SimFs::after_crash(&state), NEW, model, &report, tally);
                judged.map_err(|what| format!("the power fails after it: {what}"))?;
            }
            Ok(())
        }
        Err(_) => {
            let options = Options { create_if_missing: false, ..Options::default() };
            match open(disk, NEW, &options) {
                // Its last sync did what it had to and said that it had not.
                Ok(db) => {
                    drop(db);
                    judge(disk, NEW, model, again, tally)
                }
                Err(error) if is_no_database(&error) => Ok(()),
                Err(error) => Err(format!("half of a database: {error:?}")),
            }?;
            // Another one goes through and misses nothing more.
            let work = salvage_with(Arc::new(disk.clone()), Path::new(DIR), Path::new(AGAIN), 7);
            let report = work.map_err(|error| format!("again: {error:?}"))?;
            if report.losses.len() > again.losses.len() {
                return Err(format!("again: {:?}", report.losses));
            }
            judge(disk, AGAIN, model, &report, tally)
        }
    }
}

#[test]
fn a_salvage_whose_calls_fail_says_so_or_lists_what_it_lacks() {
    let mut seen = Seen::default();
    let work = |vfs| salvage_with(vfs, Path::new(DIR), Path::new(NEW), 7);
    let salvaged = |sim: &SimFs| work(Arc::new(sim.fork())).expect("a disk that is well");
    for (seed, is_damaged) in [(1, false), (2, true)] {
        let mut rng = Rng::new(seed);
        let (sim, _, model) = life_of(STEPS, &mut rng);
        while is_damaged && salvaged(&sim).is_whole() {
            damage(&sim, &mut rng);
        }
        let (before, well) = (all_bytes(&sim), salvaged(&sim));
        seen.each_fault(&sim, work, |disk, done| {
            if all_bytes(disk) != before {
                return Err("the folder has changed".to_owned());
            }
            judge_salvage(disk, &model, done, &well)
        });
    }
    seen.tell("salvage-faults", 100, 20);
}

/// Another byte stands in the middle of the file.
fn flip(sim: &SimFs, name: &str) {
    let file = sim.open(&Path::new(DIR).join(name), Access::ReadWrite).expect("a file");
    let at = file.len().expect("its length") / 2;
    let byte = file.read_vec_at(1, at).expect("a byte")[0];
    file.write_all_at(&[byte ^ 4], at).expect("the simulated disk");
}

#[test]
fn a_check_whose_calls_fail_never_calls_a_damaged_folder_sound() {
    let work = |vfs| verify::check_with(vfs, Path::new(DIR));
    let (mut seen, mut damaged) = (Seen::default(), 0);
    let (sim, ..) = life_of(STEPS, &mut Rng::new(2));
    let mut names = sim.list(Path::new(DIR)).expect("the folder");
    names.sort();
    let harmed = names.iter().step_by(2).map(|name| {
        let disk = sim.fork();
        if name != "LOCK" {
            flip(&disk, name);
        }
        disk
    });
    for disk in harmed {
        let (before, well) = (all_bytes(&disk), work(Arc::new(disk.clone())));
        let is_sound = well.expect("a disk that is well").is_clean();
        damaged += u64::from(!is_sound);
        seen.each_fault(&disk, work, |after, done| {
            if all_bytes(after) != before {
                return Err("the folder has changed".to_owned());
            }
            match done {
                Ok(report) if report.is_clean() && !is_sound => Err("sound?".to_owned()),
                Ok(report) if report.damage.iter().any(|error| error.place().is_none()) => {
                    Err("damage without a place".to_owned())
                }
                _ => Ok(()),
            }
        });
    }
    assert!(damaged >= 4, "{damaged} folders are damaged");
    // A file that cannot be read is damage; what ends a check is the metadata.
    seen.tell("check-faults", 300, 40);
}
