//! Many writers: commits of different threads share one sync of the disk, and a counter that all
//! of them raise loses no count.
//!
//! `cargo run --release -p tabulith --example threads [FOLDER]`

use std::thread;
use tabulith::{Db, If, Kind, Result, Table};

const WRITERS: u64 = 8;
const ADDITIONS: u64 = 50;

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "example-threads".into());
    let db = Db::open(&folder)?;
    let counters = db.table("counters")?;
    counters.upsert("p", "count", 0u64.to_le_bytes())?;
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(|| add(&counters))).collect();
        writers.into_iter().try_for_each(|writer| writer.join().expect("a writer ends"))
    })?;
    let count = read(&counters)?.1;
    assert_eq!(count, WRITERS * ADDITIONS);
    show(count);
    db.close()
}

fn add(counters: &Table) -> Result<()> {
    for _ in 0..ADDITIONS {
        loop {
            let (ts, count) = read(counters)?;
            let raised = (count + 1).to_le_bytes();
            match counters.replace("p", "count", raised, If::Match(ts)) {
                Ok(_) => break,
                Err(error) if error.kind() == Kind::Changed => {} // Another was faster: read again.
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

fn read(counters: &Table) -> Result<(tabulith::CommitTs, u64)> {
    let row = counters.get("p", "count")?.expect("the counter was made");
    let bytes = row.value.as_ref().try_into().expect("the counter has 8 bytes");
    Ok((row.ts, u64::from_le_bytes(bytes)))
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn show(count: u64) {
    println!("{WRITERS} writers counted to {count}");
}
