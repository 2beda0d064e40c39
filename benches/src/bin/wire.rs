//! `cargo run --release -p tabulith-benches --bin wire`: measures `tabulith serve` by wrk, side by
//! side with Azurite and a bare hyper server, and prints two Markdown tables. docs/benchmarks.md
//! says how to read them.

#![allow(clippy::disallowed_methods, reason = "a program of measurements, as the library says")]

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use hyper::StatusCode;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tabulith::db::Db;
use tabulith::env::rng::Rng;
use tabulith_benches::sample::Loop;
use tabulith_benches::serve::{self, Served};
use tabulith_benches::wire::ask::{Ask, Proof, Signer};
use tabulith_benches::wire::entities::{self, OPERATIONS, READ, WRITTEN};
use tabulith_benches::wire::load::{self, Connection};
use tabulith_benches::wire::servers::{self, Kind, Programs, Running};
use tabulith_benches::wire::table::{ENGINE_WRITERS, Line, Runs, What};
use tabulith_benches::wire::wrk::{self, Load};
use tabulith_benches::{machine, rows};

/// Different entities that are asked for.
const GETS: usize = 2000;

/// Measures servers of tables by wrk, side by side.
#[derive(Debug, Parser)]
struct Args {
    /// The program to measure; by default the one beside this program.
    #[arg(long)]
    tabulith: Option<PathBuf>,
    /// A folder into which `npm install azurite@3.37 node@22` was done; without it Azurite is left
    /// out.
    #[arg(long)]
    azurite: Option<PathBuf>,
    /// Entities in the table that is read.
    #[arg(long, default_value_t = 10_000)]
    entities: u64,
    /// Length of one run, in whole seconds: wrk knows no others.
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// Runs of each line, in turns.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Numbers of connections.
    #[arg(long, value_delimiter = ',', default_value = "1,16")]
    connections: Vec<usize>,
    /// Measure only what has this in its name: get, insert, transaction, page, engine. May be
    /// repeated.
    #[arg(long)]
    only: Vec<String>,
    /// Folder on the disk to be measured; what is made there is removed again. By default `target`.
    #[arg(long)]
    dir: Option<PathBuf>,
    #[command(subcommand)]
    itself: Option<serve::Itself>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(itself) = &args.itself {
        return serve::main(itself);
    }
    ensure!(args.rounds > 0 && args.entities >= 2000, "at least one round of 2,000 entities");
    let dir = args.dir.clone().unwrap_or_else(|| PathBuf::from("target"));
    std::fs::create_dir_all(&dir).with_context(|| format!("making {}", dir.display()))?;
    let temporary = tempfile::Builder::new().prefix("wire-").tempdir_in(&dir)?;
    let facts = machine::facts(&dir);
    let mut bench = Bench::start(&args, temporary.path())?;
    let mut runs = Runs::default();
    let mut engine = Vec::new();
    let wanted = |name: &str| {
        args.only.is_empty() || args.only.iter().any(|only| name.contains(only.as_str()))
    };
    for round in 0..args.rounds {
        say(&format!("round {} of {}", round + 1, args.rounds));
        for connections in &args.connections {
            for what in What::ALL.into_iter().filter(|what| wanted(what.name())) {
                bench.measure(what, *connections, &mut runs)?;
            }
        }
        if wanted("engine") {
            engine.push(bench.engine()?);
        }
    }
    let mut out = std::io::stdout().lock();
    for (name, value) in facts {
        writeln!(out, "- {name}: {value}")?;
    }
    writeln!(
        out,
        "- {} entities, {} rounds of {} s by one thread of wrk, seed 1",
        args.entities, args.rounds, args.seconds
    )?;
    let stored = entities::stored(0).len();
    writeln!(out, "- an entity is {stored} bytes of JSON as it is inserted")?;
    writeln!(out, "\n{}", runs.markdown())?;
    let pages = bench.targets.first().map_or(1, |ours| ours.scan.len());
    let per_page = args.entities as f64 / pages as f64;
    writeln!(out, "{}", runs.goals(per_page, &engine))?;
    Ok(())
}

fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// A server, filled.
struct Target {
    kind: Kind,
    server: Running,
    /// The pages of its table: each server has tokens of its own.
    scan: Vec<Ask>,
}

/// All servers, and what is asked of them.
struct Bench {
    dir: PathBuf,
    span: Duration,
    targets: Vec<Target>,
    bare: Vec<(What, Served)>,
    gets: Vec<Ask>,
    db: Db,
    /// The number of the next entity that nobody has inserted.
    next: u64,
}

impl Bench {
    fn start(args: &Args, dir: &Path) -> Result<Bench> {
        let tabulith = match &args.tabulith {
            Some(path) => path.clone(),
            None => std::env::current_exe()?.with_file_name("tabulith"),
        };
        ensure!(
            tabulith.exists(),
            "{} is missing: cargo build --release --bin tabulith",
            tabulith.display()
        );
        let programs = Programs { tabulith, azurite: args.azurite.clone() };
        if programs.azurite.is_none() {
            say("SKIPPED: Azurite, because --azurite says no folder");
        }
        let mut targets = Vec::new();
        for kind in programs.kinds() {
            let dir = dir.join(format!("{kind:?}"));
            std::fs::create_dir_all(&dir)?;
            let server = Running::start(kind, &programs, &dir)?;
            say(&format!("filling {}", kind.name()));
            load::fill(server.addr, args.entities).with_context(|| kind.name())?;
            let pages = load::pages(server.addr, args.entities).with_context(|| kind.name())?;
            let page = |query| Ask::get(format!("/{READ}()"), query);
            targets.push(Target { kind, server, scan: pages.into_iter().map(page).collect() });
        }
        let mut rng = Rng::seeded(1);
        let gets: Vec<Ask> = (0..GETS).map(|_| get(rng.below(args.entities))).collect();
        let mut bare = Vec::new();
        let ours = targets.first().context("no server")?;
        for (what, ask) in [(What::Get, gets.first()), (What::Scan, ours.scan.first())] {
            let ask = ask.context("nothing to ask for")?;
            let request = Signer::now()?.request(ask, Proof::SharedKey, 0)?;
            let answer = Connection::open(ours.server.addr)?.ask(request, StatusCode::OK)?;
            bare.push((what, servers::bare(answer.bytes())?));
        }
        let db = Db::open(dir.join("engine"))?;
        let span = Duration::from_secs(args.seconds);
        Ok(Bench { dir: dir.to_owned(), span, targets, bare, gets, db, next: 0 })
    }

    /// Runs one thing once against every server, with both proofs.
    fn measure(&mut self, what: What, connections: usize, runs: &mut Runs) -> Result<()> {
        let signer = Signer::now()?;
        for proof in Proof::ALL {
            for target in &self.targets {
                // No server can take as many in the time.
                self.next += 100_000_000;
                let requests = requests(&self.gets, target, what, proof, &signer)?;
                let load = Load {
                    requests: &requests,
                    connections,
                    base: self.next,
                    transactions: what == What::Transaction,
                    span: self.span,
                };
                let (addr, id) = (target.server.addr, target.server.id());
                let run = wrk::run(addr, id, &load, &self.dir);
                let name = || format!("{}, {}, {}", target.kind.name(), what.name(), proof.name());
                let run = run.with_context(name)?;
                let line = Line { what, connections, proof };
                runs.servers.entry((line, target.kind)).or_default().push(run);
            }
        }
        for (_, server) in self.bare.iter().filter(|(bare, _)| *bare == what) {
            let ours = self.targets.first().context("no server")?;
            let requests = requests(&self.gets, ours, what, Proof::SharedKey, &signer)?;
            let load = Load {
                requests: &requests,
                connections,
                base: 0,
                transactions: false,
                span: self.span,
            };
            let run = wrk::run(server.addr, server.id(), &load, &self.dir).context("bare hyper")?;
            runs.bare.entry((what, connections)).or_default().push(run);
        }
        Ok(())
    }

    /// Durable commits per second of rows as long as an entity, by threads that need no server.
    fn engine(&mut self) -> Result<f64> {
        let table = self.db.table(WRITTEN)?;
        self.next += 100_000_000;
        let first = self.next;
        let run = Loop { threads: ENGINE_WRITERS, span: self.span, timed_every: 1 };
        let sample = run.run(|thread| {
            let (table, mut row) = (&table, first + thread as u64);
            let value = entities::stored(thread as u64);
            move || {
                row += ENGINE_WRITERS as u64;
                table.upsert(rows::partition(1), rows::row(row), value.as_bytes())?;
                Ok(1)
            }
        })?;
        Ok(sample.rate())
    }
}

fn get(i: u64) -> Ask {
    let (pk, rk) = rows::keys(i);
    Ask::get(format!("/{READ}(PartitionKey='{pk}',RowKey='{rk}')"), String::new())
}

/// The texts of the requests; one of them was answered as it should be.
fn requests(
    gets: &[Ask],
    target: &Target,
    what: What,
    proof: Proof,
    signer: &Signer,
) -> Result<Vec<String>> {
    let insert = Ask::post(format!("/{WRITTEN}"), entities::fresh(0));
    let transaction = load::transaction(WRITTEN, (0..OPERATIONS).map(entities::fresh));
    let asks = match what {
        What::Get => gets,
        What::Scan => target.scan.as_slice(),
        What::Insert => std::slice::from_ref(&insert),
        What::Transaction => std::slice::from_ref(&transaction),
    };
    let ask = asks.first().context("nothing to ask for")?;
    let expected = match what {
        What::Get | What::Scan => StatusCode::OK,
        What::Insert => StatusCode::NO_CONTENT,
        What::Transaction => StatusCode::ACCEPTED,
    };
    // A number that no run reaches: runs count upwards from far less.
    let number = jiff::Timestamp::now().as_microsecond().unsigned_abs() % 500_000_000_000;
    let request = signer.request(ask, proof, 500_000_000_000 + number)?;
    let answer = Connection::open(target.server.addr)?.ask(request, expected);
    let answer = answer.with_context(|| format!("{}, {}", target.kind.name(), what.name()))?;
    if what == What::Transaction {
        load::all_applied(&answer)?;
    }
    Ok(asks.iter().map(|ask| signer.text(ask, proof)).collect())
}
