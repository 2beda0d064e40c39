//! Inputs that Tabulith's own encoders make, for the targets of binary formats. They are written
//! once into the corpus by `cargo run -p tabulith-fuzz -- seeds`, and again when a format changes;
//! the inputs of texts are written by hand.

use crate::input::{put_long, put_short};
use std::path::Path;
use std::sync::Arc;
use tabulith::db::Db;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::error::Result;
use tabulith::internals;
use tabulith::options::{Advanced, Options};
use tabulith::table::value::{DateTime, Value};
use tabulith::vfs::api::{Access, Vfs};
use tabulith::vfs::mem::SimFs;

/// An input: target, name, bytes.
pub type Seed = (&'static str, String, Vec<u8>);

const DIR: &str = "/db";

/// Every input that is made.
pub fn all() -> Result<Vec<Seed>> {
    let mut seeds = Vec::new();
    for (name, rows, flushed) in
        [("empty", 0, false), ("log", 6, false), ("files", 60, true), ("both", 40, false)]
    {
        let files = database(rows, flushed || name == "both", name == "both")?;
        of_database(&mut seeds, name, &files);
    }
    seeds.push(("entity", "every-type".to_owned(), internals::write_entity(&every_type())));
    seeds.push(("entity", "empty".to_owned(), internals::write_entity(&[])));
    let recipe = b"\x07\x01a\x05text!\x05\x01b\x01\x02\x03\x04\x03\x01c\0\0\xf8\x7f\0\0\0\0";
    seeds.push(("entity", "recipe".to_owned(), recipe.to_vec()));
    seeds.push(("json", "recipe".to_owned(), recipe.to_vec()));
    let mut keys = vec![0, 0, 0, 1];
    put_short(&mut keys, b"p\0q");
    put_short(&mut keys, "r\u{1f600}".as_bytes());
    keys.extend_from_slice(&[0, 0, 0, 1]);
    put_short(&mut keys, b"p");
    put_short(&mut keys, "\u{ffff}".as_bytes());
    keys.extend_from_slice(b"\0\0\0\x01p\0\xff\0\x01r");
    seeds.push(("key_order", "two-rows".to_owned(), keys));
    seeds.push(("key_order", "same-row".to_owned(), b"\0\0\0\x02\x01p\x01r".repeat(2)));
    for (name, choice, mix) in [("small", 0u8, 17u8), ("cached", 0b1_1011, 91), ("killed", 36, 203)]
    {
        let step = |n: u16| (n.wrapping_mul(u16::from(mix)) >> 3) as u8 ^ mix;
        let operations = (0..900u16).map(step);
        let seed = std::iter::once(choice).chain(operations).collect();
        seeds.push(("engine_ops", name.to_owned(), seed));
    }
    Ok(seeds)
}

fn every_type() -> Vec<(String, Value)> {
    [
        ("Binary", Value::Binary(vec![0, 255])),
        ("Boolean", Value::Boolean(true)),
        ("DateTime", Value::DateTime(DateTime::UNIX_EPOCH)),
        ("Double", Value::Double(-0.5)),
        ("Guid", Value::Guid(*b"0123456789abcdef")),
        ("Int32", Value::Int32(-1)),
        ("Int64", Value::Int64(i64::MIN)),
        ("String", Value::String("ä😀".to_owned())),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}

/// The files of a small database.
fn database(rows: usize, flushed: bool, more: bool) -> Result<Vec<(String, Vec<u8>)>> {
    let options = Options {
        advanced: Advanced {
            wal_segment_bytes: 16 << 10,
            memtable_bytes: Some(4 << 10),
            block_bytes: 256,
            blob_bytes_min: 30,
            ..Advanced::default()
        },
        ..Options::default()
    };
    let disk = SimFs::new();
    let clock = Arc::new(ManualClock::at(16_000_000_000_000_000));
    let parts = Db::builder().options(options);
    let db = parts.parts(Arc::new(disk.clone()), clock, Arc::new(ByHand)).open(DIR)?;
    let table = db.table("rows")?;
    for i in 0..rows {
        table.upsert([b'p', (i / 20) as u8], [i as u8], "value ".repeat(i % 9))?;
    }
    if flushed {
        db.flush()?;
    }
    if more {
        for i in 0..rows / 3 {
            table.partition([b'p', 0]).batch().delete([i as u8]).upsert([99], [7]).commit()?;
        }
    }
    db.close()?;
    drop((table, db));
    let mut files = Vec::new();
    for name in disk.list(Path::new(DIR)).unwrap_or_default() {
        let path = Path::new(DIR).join(&name);
        let read = disk.open(&path, Access::Read).and_then(|file| {
            let mut bytes = vec![0; file.len()? as usize];
            file.read_exact_at(&mut bytes, 0).map(|()| bytes)
        });
        files.push((name, read.map_err(|e| tabulith::Error::io("reading", &path, e))?));
    }
    files.sort();
    Ok(files)
}

fn of_database(seeds: &mut Vec<Seed>, name: &str, files: &[(String, Vec<u8>)]) {
    let ending =
        |ending: &'static str| files.iter().filter(move |(file, _)| file.ends_with(ending));
    let (mut folder, mut log, mut manifest) = (Vec::new(), Vec::new(), Vec::new());
    for (file, bytes) in files {
        put_short(&mut folder, file.as_bytes());
        put_long(&mut folder, if file.ends_with(".wal") { without_zeros(bytes) } else { bytes });
    }
    for (_, segment) in ending(".wal") {
        put_long(&mut log, without_zeros(segment));
    }
    for part in ["ROOT-A", "ROOT-B", ".manifest-a", ".manifest-b"] {
        ending(part).for_each(|(_, bytes)| put_long(&mut manifest, bytes));
    }
    seeds.push(("folder", name.to_owned(), folder));
    seeds.push(("wal", name.to_owned(), log));
    seeds.push(("manifest", name.to_owned(), manifest));
    for (file, table) in ending(".sst") {
        seeds.push(("table_file", format!("{name}-{file}"), table.clone()));
        for (at, block) in internals::blocks_of_table(table).into_iter().enumerate().take(3) {
            seeds.push(("block", format!("{name}-{file}-{at}"), block));
        }
    }
    for (file, blob) in ending(".blob") {
        seeds.push(("blob_file", format!("{name}-{file}"), blob.clone()));
    }
    let payloads = ending(".wal").flat_map(|(_, segment)| payloads(segment));
    for (at, payload) in payloads.enumerate().take(3) {
        seeds.push(("group", format!("{name}-{at}"), payload));
    }
}

/// A log segment up to its last byte that is not zero.
fn without_zeros(segment: &[u8]) -> &[u8] {
    let len = segment.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    &segment[..len]
}

/// The payloads of the frames in a segment of small blocks.
fn payloads(segment: &[u8]) -> Vec<Vec<u8>> {
    let frames = segment.chunks(512).enumerate().filter(|(_, block)| block.starts_with(b"TLF1"));
    let payload = |(at, block): (usize, &[u8])| {
        let len = u32::from_le_bytes(block.get(8..12)?.try_into().ok()?) as usize;
        let start = at * 512 + 56;
        segment.get(start..start + len).filter(|payload| !payload.is_empty()).map(<[u8]>::to_vec)
    };
    frames.filter_map(payload).collect()
}
