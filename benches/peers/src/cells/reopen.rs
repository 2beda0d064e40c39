//! W14: opening after a kill -9 with a log that is nearly as large as a memtable.

use crate::adapters::open::open;
use crate::engine::{Change, Direction, Promise};
use crate::probe::{Kind, Line, Probe};
use crate::rows::{KeyBuf, Values, size_of};
use crate::settings::promise_of;
use crate::work::{self, Context, bytes_of};
use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Signal, getpid, kill_process};
use std::process::Command;
use std::time::Instant;

/// Bytes of keys and values in the log at scale 1: three quarters of a memtable.
const LOG_BYTES: u64 = 48 << 20;

/// The environment variable by which the process that is to be killed knows what it is.
pub const VICTIM: &str = "TABULITH_PEERS_VICTIM";

fn rows(context: &Context, value_bytes: usize) -> u64 {
    context.scaled(LOG_BYTES / bytes_of(1, value_bytes), 1000)
}

/// Lets another process write and kill itself, then opens and reads.
pub fn after_kill(context: &Context, value_bytes: usize) -> Result<Vec<Line>> {
    if std::env::var_os(VICTIM).is_some() {
        fill_and_die(context, value_bytes)?;
    }
    let program = std::env::current_exe().context("finding this program")?;
    let victim = Command::new(program).args(std::env::args_os().skip(1)).env(VICTIM, "1").status();
    let status = victim.context("starting the process that is to be killed")?;
    ensure!(!status.success() && status.code().is_none(), "it was not killed: {status}");

    let settings = context.settings(Promise::Unsynced);
    let (probe, start) = (Probe::start()?, Instant::now());
    let engine = open(&context.engine, &context.dir.join("rows"), &settings)?;
    let found = engine.get(KeyBuf::default().row(0), &mut |_| ())?;
    let took = start.elapsed();
    let name = format!("W14 open after kill -9, and one get{}", size_of(value_bytes));
    let line = probe.took(Kind::Read, name, took)?;
    let kept = work::sum(&*engine, Direction::Forward)?.rows;
    ensure!(found == (kept > 0), "the first row is not among {kept} rows");
    let promised = promise_of(&context.engine).contains("survive kill -9");
    let given = rows(context, value_bytes);
    ensure!(kept == given || !promised, "{kept} of {given} rows were kept");
    let share = kept as f64 / given as f64 * 100.0;
    engine.close()?;
    Ok(vec![line.note(format!("{share:.1} % of the rows kept"))])
}

/// Writes by commits of one row, in order, and ends without a word.
fn fill_and_die(context: &Context, value_bytes: usize) -> Result<()> {
    let engine = context.fresh("rows", &context.settings(Promise::Unsynced))?;
    let (mut key, mut values) = (KeyBuf::default(), Values::new(value_bytes, context.seed));
    for i in 0..rows(context, value_bytes) {
        engine.write(&[Change::Put(key.row(i), values.value(i, 0))])?;
    }
    kill_process(getpid(), Signal::KILL)?;
    bail!("still alive")
}
