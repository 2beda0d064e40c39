//! Table files against an ordered map, and against damage.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "a failed test shows the line that replays it")]

mod ahead;
mod block;
mod damage;
mod golden;
mod mapped;
mod memory;
mod model;
mod press;
mod proving;
mod upcoming;
mod walk;

use crate::compress::Codec;
use crate::env::rng::Rng;
use crate::error::Result;
use crate::ids::{CommitTs, FileNo, RowKind, TableId};
use crate::key::order;
use crate::sstable::builder::TableBuilder;
use crate::sstable::format::{FileMeta, TableOptions};
use crate::sstable::reader::{BlockCache, TableFile};
use memory::MemoryFile;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const NO: FileNo = FileNo(7);
const PATH: &str = "000007.sst";

/// How blocks are compressed that are: these tests run once for each codec that a build may have.
const PACKED: Codec = if cfg!(feature = "zstd") { Codec::Zstd } else { Codec::Lz4 };

/// A key and a timestamp, in the order of rows.
pub(crate) type Version = (Vec<u8>, Reverse<CommitTs>);

/// What is stored under each.
pub(crate) type Model = BTreeMap<Version, (RowKind, Vec<u8>)>;

fn options(block_bytes: usize, filter_bits: u32, compression: bool) -> TableOptions {
    let codec = if compression { PACKED } else { Codec::None };
    TableOptions { block_bytes, filter_bits, codec }
}

fn build(model: &Model, options: TableOptions) -> (Arc<MemoryFile>, FileMeta) {
    let file = Arc::new(MemoryFile::default());
    let mut builder = TableBuilder::new(file.clone(), Path::new(PATH), NO, options);
    for ((key, Reverse(ts)), (kind, value)) in model {
        let prefix_len = order::prefix_len(key).unwrap();
        builder.add(key, prefix_len, *ts, *kind, value).unwrap();
    }
    let meta = builder.finish().unwrap();
    (file, meta)
}

fn open(file: &Arc<MemoryFile>, meta: &FileMeta, cache_bytes: usize) -> Result<Arc<TableFile>> {
    let cache = Arc::new(BlockCache::new(cache_bytes));
    TableFile::open(file.clone(), PathBuf::from(PATH), meta, cache).map(Arc::new)
}

/// The same, to be read in place.
fn open_mapped(
    file: &Arc<MemoryFile>,
    meta: &FileMeta,
    cache_bytes: usize,
) -> Result<Arc<TableFile>> {
    let cache = Arc::new(BlockCache::new(cache_bytes));
    let opened = TableFile::open(file.clone(), PathBuf::from(PATH), meta, cache)?;
    Ok(Arc::new(opened.in_place()))
}

/// A file of rows in blocks of a few each, for tests of what is built on files.
pub(crate) fn file_of(model: &Model, in_place: bool) -> Arc<TableFile> {
    let (file, meta) = build(model, options(64, 10, !in_place));
    let opened = if in_place { open_mapped(&file, &meta, 0) } else { open(&file, &meta, 1 << 20) };
    opened.unwrap()
}

/// Rows of a few tables and partitions with keys of every awkward shape.
fn random_model(rng: &mut Rng, keys: u64, versions_max: u64, value_max: u64) -> Model {
    let mut model = Model::new();
    let partitions: Vec<_> = (0..1 + rng.below(12)).map(|_| random_part(rng)).collect();
    for _ in 0..keys {
        let table = TableId(rng.below(3) as u32);
        let pk = match rng.below(4) {
            0 => random_part(rng),
            _ => partitions[rng.below(partitions.len() as u64) as usize].clone(),
        };
        let key = order::row_key(table, &pk, &random_part(rng));
        for _ in 0..1 + rng.below(versions_max) {
            let ts = CommitTs(random_ts(rng));
            let row = match rng.below(4) {
                0 => (RowKind::Delete, vec![]),
                _ => (RowKind::Put, random_value(rng, value_max)),
            };
            model.insert((key.clone(), Reverse(ts)), row);
        }
    }
    model
}

fn random_ts(rng: &mut Rng) -> u64 {
    match rng.below(8) {
        0 => rng.below(3),
        1 => rng.next_u64(),
        _ => 17_000_000_000_000_000 + rng.below(1000),
    }
}

/// A PartitionKey or RowKey: empty, tiny with zeros and 0xff, alike at the front, or long.
fn random_part(rng: &mut Rng) -> Vec<u8> {
    const EDGE: [u8; 5] = [0, 1, 2, 0xfe, 0xff];
    match rng.below(10) {
        0 => vec![],
        1..=4 => (0..1 + rng.below(4)).map(|_| EDGE[rng.below(5) as usize]).collect(),
        5..=7 => format!("row-{:08}", rng.below(300)).into_bytes(),
        8 => [b"same front of eight".as_slice(), &vec![0; rng.below(20) as usize]].concat(),
        _ => vec![EDGE[rng.below(5) as usize]; rng.below(4097) as usize],
    }
}

fn random_value(rng: &mut Rng, value_max: u64) -> Vec<u8> {
    let len = rng.below(value_max + 1) as usize;
    match rng.below(3) {
        0 => (0..len).map(|_| rng.next_u64() as u8).collect(),
        _ => b"{\"name\":\"value\",\"n\":1}".iter().copied().cycle().take(len).collect(),
    }
}
