//! One run of `tabulith torture`: start a writer, kill it, look for what it had acknowledged, again
//! and again.

#![allow(
    clippy::disallowed_methods,
    reason = "writes the report into the folder that the user named"
)]

use crate::args::bench::Promise;
use crate::args::torture::TortureArgs;
use crate::bench::stage::empty_folder;
use crate::exit::{self, Exit, Failure};
use crate::print::{self, note};
use crate::torture::ledger::{Book, Ledger, OfTable};
use crate::torture::report::Report;
use crate::torture::trial::{self, All, Look};
use crate::torture::writer;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;
use tabulith::env::clock::{Clock, SystemClock};
use tabulith::verify;
use tabulith::vfs::os::OsVfs;
use tabulith_results::floor;
use tabulith_results::machine::{self, Machine};
use tabulith_testkit::commits::Commit;
use tabulith_testkit::seed::Rng;

/// So many kills a table sees: all of its rows are read after each.
const KILLS_PER_TABLE: u64 = 25;

/// A writer that acknowledges nothing for so long has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Tries the disk.
pub(crate) fn run(args: &TortureArgs) -> Result<Exit> {
    let data = args.data_dir.join("data");
    if let Some(table) = &args.writer {
        return writer::run(args, &data, table);
    }
    if args.durability == Promise::Buffered {
        let text =
            "buffered commits are lost with the process by what they promise; synced or flushed";
        return Err(Failure::usage(format!("--durability: {text}")).into());
    }
    if !(args.minutes > 0.0 && args.minutes <= 60.0 * 24.0 * 366.0) {
        return Err(Failure::usage("--minutes is more than 0 and at most a year").into());
    }
    if args.verify {
        return verify_again(args, &data);
    }
    empty_folder(&args.data_dir).context("--data-dir")?;
    let clock = SystemClock::new();
    let ledger = Ledger::new(args.seed, args.writers.into(), args.durability);
    let mut torture = Torture {
        args,
        data,
        clock: &clock,
        rng: Rng::new(args.seed),
        book: Book::create(&args.data_dir.join("ledger"), &ledger)?,
        ledger,
        report: head(args, &clock)?,
    };
    note(&format!(
        "replay: TABULITH_SEED={} tabulith torture --data-dir DIR --writers {} --durability {}",
        args.seed,
        args.writers,
        args.durability.name()
    ));
    torture.all()?;
    torture.finish()
}

fn head(args: &TortureArgs, clock: &dyn Clock) -> Result<Report> {
    Ok(Report {
        program: format!("tabulith {}", env!("CARGO_PKG_VERSION")),
        commit: machine::commit(),
        durability: args.durability.name().to_owned(),
        seed: args.seed,
        writers: args.writers.into(),
        floor: Some(floor::measure(&OsVfs, clock, &args.data_dir)?),
        machine: Machine::here(Some(&args.data_dir)),
        ..Report::default()
    })
}

/// Holds a folder against the ledger of an earlier run, which may have ended with the power.
fn verify_again(args: &TortureArgs, data: &Path) -> Result<Exit> {
    let ledger = Ledger::read(&args.data_dir.join("ledger"))?;
    let clock = SystemClock::new();
    let before = clock.steady();
    let db = trial::open(data, Look::Recovered)?;
    let slowest_open_ms = clock.steady().saturating_sub(before).as_secs_f64() * 1e3;
    let All { found, gone, lost } = trial::verify_all(&db, &ledger, true)?;
    db.close().context("closing")?;
    let damage = damage(data)?;
    let commits: Vec<&Commit> = ledger.tables.values().flat_map(|of| &of.commits).collect();
    if commits.is_empty() && lost.is_empty() && damage.is_empty() {
        bail!("the ledger has no commit that could be looked for");
    }
    let report = Report {
        seed: ledger.seed,
        writers: ledger.writers,
        acknowledged: commits.len() as u64,
        rows: commits.iter().map(|commit| commit.rows as u64).sum(),
        found,
        gone,
        lost,
        damage,
        slowest_open_ms,
        seconds: clock.steady().as_secs_f64(),
        durability: ledger.durability.name().to_owned(),
        ..head(args, &clock)?
    };
    tell(args, &report, "verified")
}

fn damage(data: &Path) -> Result<Vec<String>> {
    let checked = verify::check(data).with_context(|| format!("checking {}", data.display()))?;
    Ok(checked.damage.iter().map(ToString::to_string).collect())
}

/// Keeps the report beside the data and prints it.
fn tell(args: &TortureArgs, report: &Report, name: &str) -> Result<Exit> {
    let text = report.text();
    let write = |name: &str, bytes: &[u8]| {
        let path = args.data_dir.join(name);
        std::fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))
    };
    write(&format!("{name}.txt"), text.as_bytes())?;
    write(&format!("{name}.json"), serde_json::to_string_pretty(report)?.as_bytes())?;
    let told = print::out().write_all(text.as_bytes());
    exit::verdict(told, if report.is_clean() { Exit::Ok } else { Exit::Corrupt })
}

struct Torture<'a> {
    args: &'a TortureArgs,
    data: PathBuf,
    clock: &'a dyn Clock,
    rng: Rng,
    book: Book,
    ledger: Ledger,
    report: Report,
}

impl Torture<'_> {
    fn all(&mut self) -> Result<()> {
        let end = self.clock.steady() + Duration::from_secs_f64(self.args.minutes * 60.0);
        let kills = self.args.kills.unwrap_or(u64::MAX);
        let mut name = String::new();
        while self.report.is_clean() && self.report.kills < kills && self.clock.steady() < end {
            if self.report.kills.is_multiple_of(KILLS_PER_TABLE) {
                name = format!("t{:07}", self.report.kills);
                self.book.line(&format!("table {name}"))?;
                // A power cut in the table's first moments must not leave it out of the ledger.
                self.book.sync()?;
                self.ledger.tables.insert(name.clone(), OfTable::default());
            }
            self.round(&name)?;
        }
        Ok(())
    }

    /// One writer from its start to its end, and what it left.
    fn round(&mut self, name: &str) -> Result<()> {
        let mut of = self.ledger.tables.remove(name).unwrap_or_default();
        let first: Vec<u64> = (0..self.ledger.writers).map(|writer| of.next(writer)).collect();
        let (process, lines) = self.start(name, &first)?;
        // The folder must exist before a kill can leave anything in it.
        let at_open = self.report.kills > 0 && self.rng.below(5) == 0;
        let until = match (at_open, self.rng.below(2)) {
            (true, _) => 0,
            (false, 0) => self.rng.between(1, 60),
            (false, _) => self.rng.between(60, 2_000),
        };
        if at_open {
            self.clock.sleep(Duration::from_micros(self.rng.between(0, 40_000) as u64));
        }
        let mut was_open = self.listen(&lines, until, &mut of)?;
        process.kill()?;
        while let Ok(line) = lines.recv() {
            was_open |= line.trim_end() == writer::OPEN;
            self.note(&line, &mut of)?;
        }
        self.report.kills += 1;
        self.report.kills_at_open += u64::from(!was_open);
        let under_way: Vec<Commit> = (0..self.ledger.writers)
            .map(|writer| self.ledger.commit(writer, of.next(writer)))
            .collect();
        self.look(name, &mut of, &under_way)?;
        self.ledger.tables.insert(name.to_owned(), of);
        Ok(())
    }

    fn start(&self, name: &str, first: &[u64]) -> Result<(Writing, Receiver<String>)> {
        let program = std::env::current_exe().context("finding this program")?;
        let first: Vec<String> = first.iter().map(u64::to_string).collect();
        let mut child = Command::new(program)
            .args(["torture", "--writer", name, "--data-dir"])
            .arg(&self.args.data_dir)
            .args(["--writers", &self.args.writers.to_string()])
            .args(["--durability", self.args.durability.name()])
            .args(["--seed", &self.args.seed.to_string(), "--first", &first.join(",")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting a writer")?;
        let out = child.stdout.take().context("a process without output")?;
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let mut out = BufReader::new(out);
            let mut line = String::new();
            // A last line that the kill cut short acknowledges nothing.
            while out.read_line(&mut line).is_ok_and(|read| read > 0) && line.ends_with('\n') {
                if send.send(std::mem::take(&mut line)).is_err() {
                    break;
                }
            }
        });
        Ok((Writing { child }, lines))
    }

    /// Listens until so many commits were acknowledged. Says whether the folder was open.
    fn listen(&mut self, lines: &Receiver<String>, until: usize, of: &mut OfTable) -> Result<bool> {
        let (mut was_open, mut seen) = (false, 0);
        while seen < until {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) if line.trim_end() == writer::OPEN => was_open = true,
                Ok(line) => {
                    self.note(&line, of)?;
                    seen += 1;
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    bail!("the writer acknowledged nothing for {} s", PATIENCE.as_secs())
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    bail!("the writer ended by itself; what it says stands above")
                }
            }
        }
        Ok(was_open)
    }

    /// Notes a commit that was acknowledged.
    fn note(&mut self, line: &str, of: &mut OfTable) -> Result<()> {
        if line.trim_end() == writer::OPEN {
            return Ok(());
        }
        let numbers: Vec<u64> = line.split_whitespace().flat_map(str::parse).collect();
        let [writer, number] = numbers[..] else { bail!("the writer says {line:?}") };
        let commit = self.ledger.commit(writer as usize, number);
        self.report.acknowledged += 1;
        self.report.rows += commit.rows as u64;
        of.commits.push(commit);
        self.book.line(&format!("a {writer} {number}"))
    }

    /// Opens the folder, in turns as a reader beside and as the next owner, and verifies the table.
    fn look(&mut self, name: &str, of: &mut OfTable, under_way: &[Commit]) -> Result<()> {
        // What the last look at a table finds has to stay: the next lines are of another one.
        let is_last = self.report.kills.is_multiple_of(KILLS_PER_TABLE);
        let is_beside = self.rng.below(2) == 0 && !is_last;
        let look = if is_beside { Look::Beside } else { Look::Recovered };
        let before = self.clock.steady();
        let db = trial::open(&self.data, look)?;
        let took = self.clock.steady().saturating_sub(before).as_secs_f64() * 1e3;
        self.report.slowest_open_ms = self.report.slowest_open_ms.max(took);
        let verdict = trial::verify(&db, name, of, under_way)?;
        db.close().context("closing")?;
        let kept: Vec<Commit> =
            verdict.there.iter().filter(|there| under_way.contains(there)).copied().collect();
        for commit in kept {
            let line = format!("k {} {}", commit.writer, commit.number);
            match look {
                Look::Beside => self.book.hold(line),
                Look::Recovered => self.book.line(&line)?,
            }
            self.report.under_way_there += 1;
            of.commits.push(commit);
        }
        note(&format!(
            "kill {}: {} commits acknowledged, {} there in this table, opened in {took:.0} ms{}",
            self.report.kills,
            self.report.acknowledged,
            of.commits.len(),
            if verdict.wrong.is_empty() { "" } else { ": LOST" }
        ));
        self.report.lost.extend(verdict.wrong);
        Ok(())
    }

    /// Looks at everything once more.
    fn finish(mut self) -> Result<Exit> {
        self.book.sync()?;
        if self.report.is_clean() {
            let db = trial::open(&self.data, Look::Recovered)?;
            self.book.settle()?;
            self.book.sync()?;
            let all = trial::verify_all(&db, &self.ledger, false)?;
            db.close().context("closing")?;
            self.report.found = all.found;
            self.report.lost.extend(all.lost);
            self.report.damage = damage(&self.data)?;
            if self.report.kills == 0 || self.report.acknowledged == 0 {
                bail!("too little happened to mean anything: --minutes or --kills is too small");
            }
        }
        self.report.seconds = self.clock.steady().as_secs_f64();
        tell(self.args, &self.report, "report")
    }
}

/// A writer; killed when nobody holds it any more.
struct Writing {
    child: Child,
}

impl Writing {
    fn kill(mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait().context("looking at a writer")? {
            bail!("the writer ended by itself ({status}); what it says stands above");
        }
        self.child.kill().context("killing a writer")?;
        self.child.wait().context("waiting for a writer").map(drop)
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
