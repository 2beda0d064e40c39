//! `tabulith bench run`: workloads one after the other, run after run.

use crate::args::bench::{Promise, RunArgs};
use crate::bench::choice::{Chooser, Shuffle};
use crate::bench::drive::{self, Plan};
use crate::bench::keep::Keeper;
use crate::bench::rows::{Names, Values};
use crate::bench::scene::{ScanRows, Scene};
use crate::bench::series::Recorded;
use crate::bench::stage::Stage;
use crate::bench::store::Store;
use crate::bench::watch::{Look, Watched, most_memory, spread};
use crate::bench::workload::{self, Needs, Workload};
use crate::exit::{Exit, Failure};
use crate::print::note;
use anyhow::{Context, Result, bail};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tabulith::env::clock::{Clock, SystemClock};
use tabulith_results::latency::{Latency, curve};
use tabulith_results::result::{Line, OfAct, Second, Workload as Outcome};

/// Seconds of a workload where nothing is said.
const SECONDS_DEFAULT: u64 = 10;

/// The first number of a warm-up's operations.
const WARMUP_FIRST: u64 = 1 << 48;

/// Measures.
pub(crate) fn run(args: &RunArgs) -> Result<Exit> {
    let mut chosen = Vec::new();
    for name in &args.workloads {
        let unknown = || Failure::usage(format!("there is no workload {name}; --help lists them"));
        chosen.push(workload::named(name).ok_or_else(unknown)?);
    }
    let clock = SystemClock::new();
    let mut keeper = Keeper::new(args.load.out.as_deref())?;
    let stage = Stage::of(&args.load)?;
    let mut bench = Bench {
        args,
        clock: &clock,
        values: Values::new(args.load.value_size as usize, args.load.seed),
        store: stage.open(args.load.durability)?,
        open_as: args.load.durability,
        there: Rows::NoTable,
        stage: &stage,
    };
    keeper.line(Line::Run(Box::new(stage.head(
        &args.load,
        command(args),
        bench.store.as_ref(),
    ))))?;
    let measured = bench.all(&chosen, &mut keeper);
    let ended = bench.end();
    measured?;
    ended?;
    keeper.finish()
}

/// The command line that does the same again.
fn command(args: &RunArgs) -> String {
    let load = &args.load;
    let mut words = vec!["tabulith bench run".to_owned()];
    words.extend(args.workloads.iter().cloned());
    words.push(format!(
        "--durability {} --threads {} --rows {} --partition-rows {} --value-size {} --batch {} --scan-rows {} --warmup {} \
         --runs {} --seed {}",
        load.durability.name(),
        load.threads,
        args.rows,
        args.partition_rows,
        load.value_size,
        args.batch,
        args.scan_rows,
        args.warmup,
        args.runs,
        load.seed
    ));
    let numbers = [
        ("ops", args.ops),
        ("duration", args.duration.map(u64::from)),
        ("rate", args.rate.map(u64::from)),
        ("memory", load.memory.map(u64::from)),
    ];
    for (name, value) in numbers {
        words.extend(value.map(|value| format!("--{name} {value}")));
    }
    words.extend(args.keys.map(|keys| format!("--keys {}", keys.name())));
    words.join(" ")
}

/// What the table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    NoTable,
    All,
    Some,
}

struct Bench<'a> {
    args: &'a RunArgs,
    clock: &'a dyn Clock,
    values: Values,
    store: Box<dyn Store>,
    open_as: Promise,
    there: Rows,
    stage: &'a Stage,
}

impl Bench<'_> {
    fn all(&mut self, chosen: &[Workload], keeper: &mut Keeper) -> Result<()> {
        for run in 1..=self.args.runs {
            for workload in chosen {
                note(&format!("{}, run {run}: {}", workload.name, workload.about));
                let named = || format!("{}, run {run}", workload.name);
                let (outcome, seconds, recorded) = self.one(workload, run).with_context(named)?;
                keeper.workload(outcome, seconds, &recorded)?;
            }
        }
        Ok(())
    }

    /// Measures a workload.
    fn one(&mut self, workload: &Workload, run: u32) -> Result<(Outcome, Vec<Second>, Recorded)> {
        let wanted = if workload.synced { Promise::Synced } else { self.args.load.durability };
        if wanted != self.open_as && self.stage.folder.is_some() {
            self.store.close()?;
            self.store = self.stage.open(wanted)?;
            self.open_as = wanted;
        }
        self.set_up(workload)?;
        let scene = self.scene(workload, run);
        let (args, threads) = (self.args, usize::from(self.args.load.threads));
        let mut plan = self.plan(workload);
        if args.warmup > 0 && !workload.ends_with_the_rows() {
            let time = Some(Duration::from_secs(args.warmup.into()));
            let warm = Plan { time, ops: None, first: WARMUP_FIRST, ..plan };
            drive::drive(self.clock, warm, |_| scene.work())?;
        }
        plan.first = 0;
        let watched = Watched { store: self.store.as_ref(), folder: self.stage.folder.as_deref() };
        let stop = AtomicBool::new(false);
        let beside = AtomicU64::new(0);
        let (recorded, looks) = std::thread::scope(|scope| {
            let writer = workload
                .beside_a_writer
                .then(|| scope.spawn(|| write_beside(&scene, &stop, &beside)));
            let measured =
                watched.during(self.clock, || drive::drive(self.clock, plan, |_| scene.work()));
            stop.store(true, Ordering::Relaxed);
            if let Some(writer) = writer {
                writer.join().ok().context("the writer failed")??;
            }
            anyhow::Ok(measured)
        })?;
        let recorded = recorded?;
        let is_whole = workload.ends_with_the_rows()
            && recorded.ops() == args.rows
            && !workload.mix.iter().any(|(act, _)| act.name() == "delete");
        self.there = match (workload.needs, workload.spends_the_rows()) {
            (Needs::Nothing, _) if is_whole => Rows::All,
            (Needs::Rows, false) => self.there,
            _ => Rows::Some,
        };
        let mut outcome = self.outcome(workload, run, &recorded, &looks, threads)?;
        if workload.beside_a_writer {
            let rate = beside.into_inner() as f64 / recorded.elapsed.as_secs_f64().max(1e-9);
            outcome.remark = Some(format!("beside {rate:.0} updates a second by one thread more"));
        }
        self.space(&mut outcome, workload)?;
        let mut seconds = seconds(workload.name, run, &recorded);
        spread(&looks, &mut seconds);
        Ok((outcome, seconds, recorded))
    }

    /// Brings the table to what the workload needs.
    fn set_up(&mut self, workload: &Workload) -> Result<()> {
        let table = self.args.load.table.as_str();
        let is_there = match workload.needs {
            Needs::Nothing => false,
            Needs::Rows => self.there == Rows::All,
        };
        if is_there {
            return Ok(());
        }
        if self.there != Rows::NoTable {
            self.store.drop_table(table)?;
            self.there = Rows::NoTable;
        }
        if !self.store.create(table)? {
            let text = format!("there is a table {table} already; --table names another one");
            return Err(Failure::new(Exit::Conflict, text).into());
        }
        self.there = Rows::Some;
        if workload.needs == Needs::Rows {
            note(&format!("loading {} rows", crate::import::report::grouped(self.args.rows)));
            self.scene(workload, 0).load(usize::from(self.args.load.threads))?;
            self.there = Rows::All;
        }
        Ok(())
    }

    fn scene<'b>(&'b self, workload: &Workload, run: u32) -> Scene<'b> {
        let args = self.args;
        let seed = args.load.seed.wrapping_add(u64::from(run) << 32);
        let choice = Scene::choice_of(workload, args.keys);
        Scene {
            store: self.store.as_ref(),
            table: &args.load.table,
            workload: *workload,
            names: Names { of_partition: args.partition_rows },
            values: &self.values,
            rows: args.rows,
            chooser: Chooser::new(choice, args.rows, seed),
            shuffle: Shuffle::new(args.rows, seed),
            newest: AtomicU64::new(args.rows),
            batch: args.batch.into(),
            scan: match workload.name {
                "ycsbe" => ScanRows::UpTo(100),
                _ => ScanRows::Exactly(args.scan_rows),
            },
            seed,
        }
    }

    fn plan(&self, workload: &Workload) -> Plan {
        let args = self.args;
        let time = match (args.duration, args.ops) {
            (Some(seconds), _) => Some(Duration::from_secs(seconds.into())),
            (None, None) if !workload.ends_with_the_rows() => {
                Some(Duration::from_secs(SECONDS_DEFAULT))
            }
            _ => None,
        };
        let ops = match workload.ends_with_the_rows() {
            true => Some(args.ops.unwrap_or(args.rows).min(args.rows)),
            false => args.ops,
        };
        Plan {
            threads: args.load.threads.into(),
            rate: args.rate.map(f64::from),
            ops,
            time,
            first: 0,
        }
    }

    fn outcome(
        &self,
        workload: &Workload,
        run: u32,
        recorded: &Recorded,
        looks: &[Look],
        threads: usize,
    ) -> Result<Outcome> {
        let args = self.args;
        let all = recorded.all()?;
        let (ops, seconds) = (recorded.ops(), recorded.elapsed.as_secs_f64().max(1e-9));
        if ops == 0 {
            let why = recorded.first_failure.clone().unwrap_or_default();
            bail!("no operation succeeded: {why}");
        }
        let (first, last) = (looks.first().copied(), looks.last().copied());
        let grown = |figure: fn(&Look) -> Option<u64>| {
            Some(figure(&last?)?.saturating_sub(figure(&first?)?))
        };
        let reads = workload.mix.iter().any(|(act, _)| !act.writes());
        let stated = if self.stage.folder.is_some() { "" } else { ", as stated" };
        let acts = recorded.by_act.iter().map(|(act, one)| OfAct {
            act: act.name().to_owned(),
            ops: one.len(),
            latency_us: Latency::of(one),
        });
        Ok(Outcome {
            name: workload.name.to_owned(),
            run,
            target: self.stage.label.clone(),
            durability: format!("{}{stated}", self.open_as.name()),
            threads,
            rate: args.rate.map(f64::from),
            value_bytes: self.values.bytes(),
            rows: args.rows,
            keys: match workload.ends_with_the_rows() {
                true => "each once".to_owned(),
                false => Scene::choice_of(workload, args.keys).name().to_owned(),
            },
            batch: args.batch.into(),
            warmup_s: f64::from(args.warmup),
            partition_rows: Some(args.partition_rows),
            scan_rows: Some(args.scan_rows.into()),
            memory_mib: args.load.memory.map(u64::from),
            ops,
            seconds,
            per_second: ops as f64 / seconds,
            rows_per_second: (recorded.rows_read > ops)
                .then(|| recorded.rows_read as f64 / seconds),
            failed: recorded.failed,
            refused: recorded.refused,
            late: recorded.late,
            latency_us: Latency::of(&all),
            acts: acts.collect(),
            curve: curve(&all),
            write_amplification: grown(|look| look.taken.written)
                .filter(|_| recorded.written > 0 && !workload.beside_a_writer)
                .map(|written| written as f64 / recorded.written as f64),
            read_amplification: grown(|look| Some(look.figures?.blocks_read))
                .filter(|_| reads)
                .map(|blocks| blocks as f64 / ops as f64),
            memory_bytes: most_memory(looks),
            cpu_us: grown(|look| look.taken.cpu_us).map(|us| us as f64 / ops as f64),
            stall_ms: grown(|look| Some(look.figures?.stall_us)).map(|us| us as f64 / 1e3),
            remark: recorded.first_failure.as_ref().map(|why| format!("first failure: {why}")),
            ..Outcome::default()
        })
    }

    /// What the rows take on the disk once they are in files, where all of them are there.
    fn space(&self, outcome: &mut Outcome, workload: &Workload) -> Result<()> {
        let Some(folder) = &self.stage.folder else { return Ok(()) };
        let writes = workload.mix.iter().any(|(act, _)| act.writes());
        if writes {
            self.store.flush()?;
        }
        outcome.disk_bytes = Some(tabulith_results::machine::disk_bytes(folder));
        let live = self.args.rows * (Names::KEY_BYTES + self.values.bytes() as u64);
        outcome.space_amplification = self
            .store
            .figures()
            .filter(|_| self.there == Rows::All)
            .map(|figures| figures.file_bytes as f64 / live as f64);
        Ok(())
    }

    /// Leaves a folder as it is; a server is left without our table.
    fn end(&mut self) -> Result<()> {
        if self.stage.folder.is_none() && self.there != Rows::NoTable {
            self.store.drop_table(&self.args.load.table)?;
        }
        self.store.close()
    }
}

fn write_beside(scene: &Scene<'_>, stop: &AtomicBool, done: &AtomicU64) -> Result<()> {
    let mut work = scene.writing()?;
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let (_, written) = work(number);
        crate::bench::store::plain(written).context("the writer beside")?;
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn seconds(workload: &str, run: u32, recorded: &Recorded) -> Vec<Second> {
    let every = recorded.series.every.as_secs_f64();
    let elapsed = recorded.elapsed.as_secs_f64();
    let each = recorded.series.intervals.iter().enumerate().map(|(at, interval)| {
        let start = at as f64 * every;
        // The last one ends with the run.
        let length = every.min((elapsed - start).max(every / 1e3));
        Second {
            workload: workload.to_owned(),
            run,
            at_s: start,
            seconds: length,
            failed: interval.failed,
            ..Second::of(&interval.latency_ns)
        }
    });
    each.collect()
}
