//! `tabulith bench partition`: one partition loaded, then driven at a rising rate until it takes no
//! more.

use crate::args::bench::PartitionArgs;
use crate::bench::drive::{self, Did, Plan, Work};
use crate::bench::keep::Keeper;
use crate::bench::knee::{self, Search};
use crate::bench::pattern::Pattern;
use crate::bench::rows::{RowName, Values};
use crate::bench::series::Recorded;
use crate::bench::stage::Stage;
use crate::bench::store::{Store, plain};
use crate::bench::workload::Act;
use crate::exit::{Exit, Failure};
use crate::print::note;
use anyhow::{Context, Result};
use std::time::Duration;
use tabulith::env::clock::{Clock, SystemClock};
use tabulith::env::rng::Rng;
use tabulith_results::latency::Latency;
use tabulith_results::result::{Knee, Line, Step};

/// Rows that are loaded by one transaction.
const LOAD_ROWS: usize = 100;

/// The rate at which times in patterns go on.
const PATTERN_RATE: u32 = 1_000;

/// Loads, drives, advises.
pub(crate) fn run(args: &PartitionArgs) -> Result<Exit> {
    let pattern = Pattern::parse(&args.row_key)
        .map_err(|error| Failure::usage(format!("--row-key: {error}")))?;
    if args.from > args.to {
        return Err(Failure::usage("--from is above --to").into());
    }
    let mut keeper = Keeper::new(args.load.out.as_deref())?;
    let stage = Stage::of(&args.load)?;
    let store = stage.open(args.load.durability)?;
    let mut head = stage.head(&args.load, command(args), store.as_ref());
    head.facts.push((
        "one partition".to_owned(),
        format!(
            "'{}' with RowKeys {}, {} rows before, {} % PUTs, {} threads, steps of {} s",
            args.partition_key, args.row_key, args.rows, args.puts, args.load.threads, args.step
        ),
    ));
    keeper.line(Line::Run(Box::new(head)))?;
    let partition = Partition {
        args,
        store: store.as_ref(),
        pattern,
        values: Values::new(args.load.value_size as usize, args.load.seed),
    };
    let made = store.create(&args.load.table)?;
    if !made {
        let text =
            format!("there is a table {} already; --table names another one", args.load.table);
        return Err(Failure::new(Exit::Conflict, text).into());
    }
    let driven = partition.load().and_then(|()| partition.drive(&SystemClock::new(), &mut keeper));
    let dropped = match stage.folder {
        None => store.drop_table(&args.load.table),
        Some(_) => Ok(()),
    };
    let closed = store.close();
    driven?;
    dropped?;
    closed?;
    keeper.finish()
}

fn command(args: &PartitionArgs) -> String {
    format!(
        "tabulith bench partition --durability {} --threads {} --partition-key '{}' --row-key '{}' --rows {} --puts {} \
         --from {} --to {} --step {} --value-size {} --seed {}",
        args.load.durability.name(),
        args.load.threads,
        args.partition_key,
        args.row_key,
        args.rows,
        args.puts,
        args.from,
        args.to,
        args.step,
        args.load.value_size,
        args.load.seed
    )
}

struct Partition<'a> {
    args: &'a PartitionArgs,
    store: &'a dyn Store,
    pattern: Pattern,
    values: Values,
}

impl Partition<'_> {
    /// The keys of row number n: the same for whoever asks.
    fn name(&self, number: u64) -> RowName {
        let mut rng = Rng::seeded(Rng::seeded(self.args.load.seed ^ number).next_u64());
        let row = self.pattern.key(number, PATTERN_RATE, &mut rng);
        RowName { partition: self.args.partition_key.clone(), row }
    }

    fn load(&self) -> Result<()> {
        let mut client = self.store.client(&self.args.load.table)?;
        let mut rng = Rng::seeded(self.args.load.seed);
        let numbers: Vec<u64> = (0..self.args.rows).collect();
        for part in numbers.chunks(LOAD_ROWS) {
            let mut rows: Vec<(RowName, &str)> = part
                .iter()
                .map(|number| (self.name(*number), self.values.draw(&mut rng)))
                .collect();
            // A pattern may name a row twice; a transaction must not.
            rows.sort_by(|a, b| a.0.cmp(&b.0));
            rows.dedup_by(|a, b| a.0 == b.0);
            plain(client.group(&rows)).context("loading the partition")?;
        }
        self.store.flush()
    }

    fn drive(&self, clock: &dyn Clock, keeper: &mut Keeper) -> Result<()> {
        let mut search = Search::new(self.args.from.into(), self.args.to.into());
        let mut steps = Vec::new();
        let mut first = self.args.rows;
        while let Some(rate) = search.next(&steps) {
            let time = Some(Duration::from_secs(self.args.step.into()));
            let threads = self.args.load.threads.into();
            let plan = Plan { threads, rate: Some(rate), ops: None, time, first };
            let recorded = drive::drive(clock, plan, |_| self.work())?;
            let step = step(rate, &recorded, self.args.step)?;
            let p99 = step.latency_us.p99.map_or("none".to_owned(), crate::bench::figures::time_us);
            note(&format!("{rate:.0} a second due: {:.0} achieved, p99 {p99}", step.achieved));
            first += recorded.ops() + recorded.failed + recorded.refused;
            keeper.line(Line::Step(step.clone()))?;
            steps.push(step);
        }
        let found = knee::find(&steps);
        let advice = knee::advice(&found, self.args.puts);
        let why = match &found.beyond {
            Some((_, why)) => {
                format!("One partition takes {:.0} entities a second here: {why}.", found.served)
            }
            None => {
                format!("One partition takes at least {:.0} entities a second here.", found.served)
            }
        };
        let found_one = found.beyond.is_some();
        keeper.line(Line::Knee(Knee { rate: found.served, found: found_one, why, advice }))
    }

    fn work(&self) -> Result<Box<Work<'_>>> {
        let mut client = self.store.client(&self.args.load.table)?;
        Ok(Box::new(move |number| {
            let mut rng = Rng::seeded(Rng::seeded(!self.args.load.seed ^ number).next_u64());
            if rng.below(100) < u64::from(self.args.puts) {
                let (name, value) = (self.name(number), self.values.draw(&mut rng));
                let written = (name.partition.len() + name.row.len() + value.len()) as u64;
                (Act::Insert, client.put(&name, value).map(|()| Did { written, rows: 0 }))
            } else {
                let name = self.name(rng.below(self.args.rows));
                let got = client.get(&name);
                (Act::Read, got.map(|found| Did { written: 0, rows: found.into() }))
            }
        }))
    }
}

fn step(offered: f64, recorded: &Recorded, seconds: u32) -> Result<Step> {
    let due = offered * f64::from(seconds);
    let lost = (recorded.failed + recorded.refused + recorded.late) as f64 / due.max(1.0);
    let elapsed = recorded.elapsed.as_secs_f64().max(f64::from(seconds) * 0.5);
    Ok(Step {
        offered,
        achieved: recorded.ops() as f64 / elapsed,
        lost,
        latency_us: Latency::of(&recorded.all()?),
    })
}
