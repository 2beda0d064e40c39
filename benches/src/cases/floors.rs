//! What an engine cannot undercut: a block fetched or compressed, a system call, a copy, a miss of
//! the processor's caches. Goals are held against these.

use crate::case::{Case, Plan};
use crate::rows::{Values, keys};
use crate::sample::Loop;
use anyhow::{Context as _, Result, ensure};
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use tabulith::env::rng::Rng;

/// Bytes of a block of rows before it is compressed.
const BLOCK_BYTES: usize = 4096;

/// Bytes of rows in the file of blocks at scale 1: 4.3 times a cache of 256 MiB, as in the
/// comparison with other engines.
const FILE_BYTES: u64 = 1100 << 20;

/// Memory in which a place is looked up, as large as that cache.
const MEMORY_BYTES: usize = 256 << 20;

/// A commit of one small row, as the log frames it.
const COMMIT_BYTES: usize = 300;

/// A large value.
const VALUE_BYTES: usize = 64 << 10;

/// A growing file starts anew at this size, so that the disk does not fill.
const GROWING_BYTES_MAX: u64 = 512 << 20;

/// Every floor.
pub fn cases(plan: &Plan) -> Result<Vec<Case>> {
    let dir = plan.folder("floors")?;
    let blocks = Arc::new(Blocks::create(&dir.join("blocks"), plan)?);
    let compressed = Arc::clone(&blocks);
    let (small, large) = (dir.join("small"), dir.join("large"));
    let lines = chain();
    Ok(vec![
        random(
            "floor: block of 4 KiB, compressed, read from the page cache",
            move |at, buffers| blocks.read(at, buffers).map(drop),
        ),
        random("floor: the same, and decompressed", move |at, buffers| {
            let stored = compressed.read(at, buffers)?;
            lz4_flex::block::decompress_into(&buffers.stored[..stored], &mut buffers.raw)
                .map(drop)
                .context("LZ4")
        }),
        compressed_by_lz4(),
        Case::new("floor: a line anywhere in 256 MiB of memory", "lines/s", move |plan| {
            let run = Loop { threads: 1, span: plan.span, timed_every: 64 };
            run.run(|_| {
                let (lines, mut at) = (&lines, 0);
                move || {
                    at = black_box(lines[at * WORDS_PER_LINE]) as usize;
                    Ok(1)
                }
            })
        }),
        growing("floor: write of 300 bytes to the end of a file", small, COMMIT_BYTES),
        growing("floor: write of 64 KiB to the end of a file", large, VALUE_BYTES),
        Case::new("floor: 64 KiB copied into fresh memory", "copies/s", |plan| {
            let run = Loop { threads: 1, span: plan.span, timed_every: 16 };
            let value = vec![7_u8; VALUE_BYTES];
            run.run(|_| {
                let value = &value;
                move || {
                    black_box(black_box(value).clone());
                    Ok(1)
                }
            })
        }),
    ])
}

/// Rows in their order, as blocks of 4 KiB that nobody has compressed.
struct Rows {
    values: Values,
    row: u64,
}

impl Rows {
    fn new(seed: u64) -> Rows {
        Rows { values: Values::new(seed), row: 0 }
    }
}

impl Iterator for Rows {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut raw = Vec::with_capacity(2 * BLOCK_BYTES);
        while raw.len() < BLOCK_BYTES {
            let (partition, row_key) = keys(self.row);
            raw.extend_from_slice(partition.as_bytes());
            raw.extend_from_slice(row_key.as_bytes());
            raw.extend_from_slice(&self.values.value());
            self.row += 1;
        }
        raw.truncate(BLOCK_BYTES);
        Some(raw)
    }
}

/// Compressed blocks one behind the other in a file that was just written, so that the page cache
/// has it.
struct Blocks {
    file: File,
    starts: Vec<u64>,
}

/// Memory for one block as stored and as it was.
struct Buffers {
    stored: Vec<u8>,
    raw: Vec<u8>,
}

impl Blocks {
    fn create(path: &Path, plan: &Plan) -> Result<Blocks> {
        let file = File::options().create(true).truncate(true).read(true).write(true).open(path);
        let file = file.with_context(|| format!("making {}", path.display()))?;
        let count = (FILE_BYTES as f64 * plan.scale) as u64 / BLOCK_BYTES as u64;
        let mut out = BufWriter::new(&file);
        let (mut starts, mut end) = (vec![0], 0);
        for raw in Rows::new(plan.seed).take(count.max(1) as usize) {
            let stored = lz4_flex::block::compress(&raw);
            out.write_all(&stored).context("blocks")?;
            end += stored.len() as u64;
            starts.push(end);
        }
        out.flush().context("blocks")?;
        drop(out);
        Ok(Blocks { file, starts })
    }

    /// Reads the block that a random number stands for; its stored length.
    fn read(&self, random: u64, buffers: &mut Buffers) -> Result<usize> {
        let block = (random % (self.starts.len() as u64 - 1)) as usize;
        let (start, end) = (self.starts[block], self.starts[block + 1]);
        let len = (end - start) as usize;
        ensure!(len <= buffers.stored.len(), "block {block} has {len} bytes");
        self.file.read_exact_at(&mut buffers.stored[..len], start).context("block")?;
        Ok(len)
    }
}

fn random(name: &str, once: impl Fn(u64, &mut Buffers) -> Result<()> + Sync + 'static) -> Case {
    Case::new(name, "blocks/s", move |plan| {
        let run = Loop { threads: 1, span: plan.span, timed_every: 16 };
        run.run(|_| {
            let mut rng = Rng::seeded(plan.seed);
            let mut buffers =
                Buffers { stored: vec![0; 2 * BLOCK_BYTES], raw: vec![0; BLOCK_BYTES] };
            let once = &once;
            move || once(rng.next_u64(), &mut buffers).map(|()| 1)
        })
    })
}

/// What each row costs that a flush or a merge writes, beside the write: a block of rows, the
/// memory of the compressor used again.
fn compressed_by_lz4() -> Case {
    Case::new("floor: block of 4 KiB compressed", "blocks/s", |plan| {
        // More of them than the nearest caches hold.
        let blocks: Vec<Vec<u8>> = Rows::new(plan.seed).take(4096).collect();
        let run = Loop { threads: 1, span: plan.span, timed_every: 16 };
        run.run(|_| {
            let (blocks, mut at) = (&blocks, 0);
            let mut table = CompressTable::small();
            let mut out = vec![0; get_maximum_output_size(BLOCK_BYTES)];
            move || {
                at = (at + 1) % blocks.len();
                let stored = compress_into_with_table(&blocks[at], &mut out, &mut table);
                black_box(stored.context("LZ4")?);
                Ok(1)
            }
        })
    })
}

const WORDS_PER_LINE: usize = 64 / size_of::<u64>();

/// Lines of memory of which each names the next one, all in one ring in random order (Sattolo's
/// shuffle): no processor can fetch one ahead of time.
fn chain() -> Vec<u64> {
    let count = MEMORY_BYTES / 64;
    let mut lines: Vec<u64> = vec![0; count * WORDS_PER_LINE];
    for line in 0..count {
        lines[line * WORDS_PER_LINE] = line as u64;
    }
    let mut rng = Rng::seeded(1);
    for line in (1..count).rev() {
        lines.swap(line * WORDS_PER_LINE, rng.below(line as u64) as usize * WORDS_PER_LINE);
    }
    lines
}

fn growing(name: &str, path: std::path::PathBuf, bytes: usize) -> Case {
    Case::new(name, "writes/s", move |plan| {
        let file = File::create(&path).context("growing file")?;
        let run = Loop { threads: 1, span: plan.span, timed_every: 16 };
        run.run(|_| {
            let (file, mut end, data) = (&file, 0, vec![7; bytes]);
            move || {
                if end + bytes as u64 > GROWING_BYTES_MAX {
                    file.set_len(0).context("growing file")?;
                    end = 0;
                }
                file.write_all_at(&data, end).context("growing file")?;
                end += bytes as u64;
                Ok(1)
            }
        })
    })
}
