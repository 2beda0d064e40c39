//! The log's append without a sync: a frame put together, checksummed and handed to the system.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tabulith::structures::Log;
use tabulith_benches::fixture::{self, BATCH_ROWS};
use tabulith_benches::rows::VALUE_BYTES;

fn append(c: &mut Criterion) {
    let row_bytes = fixture::key(0).len() + VALUE_BYTES;
    let mut group = c.benchmark_group("log: append of a commit");
    for rows in [1, BATCH_ROWS as usize] {
        let folder = fixture::folder().expect("a folder");
        let mut log = Log::create(folder.path()).expect("an empty log");
        let payload = vec![7; rows * row_bytes];
        log.append(&payload).expect("room for a commit");
        group.throughput(Throughput::Bytes(payload.len() as u64));
        group.bench_function(format!("rows: {rows}"), |b| b.iter(|| log.append(&payload)));
        log.append(&payload).expect("a log that nothing has closed");
    }
    group.finish();
}

criterion_group!(log, append);
criterion_main!(log);
