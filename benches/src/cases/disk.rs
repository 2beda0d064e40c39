//! What the disk itself costs: the floor under every durable commit.

use crate::case::{Case, Plan};
use crate::sample::Loop;
use anyhow::{Context as _, Result};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

const BLOCK: usize = 4096;

/// Blocks of a file that is overwritten.
const FILE_BLOCKS: u64 = 16 << 10;

/// A commit of 100 rows of 200 bytes, as the log frames it, in whole blocks; and eight in one
/// group.
const BATCH_BYTES: usize = 6 * BLOCK;
const GROUP_BYTES: usize = 8 * BATCH_BYTES;

/// Overwriting and appending, each synced.
pub fn cases(plan: &Plan) -> Result<Vec<Case>> {
    let dir = plan.folder("disk")?;
    let written: Vec<_> =
        (0..8).map(|i| written_file(&dir.join(format!("overwrite-{i}")))).collect::<Result<_>>()?;
    let appended = dir.join("append");
    let one = || Ok::<_, anyhow::Error>(vec![written[0].try_clone().context("handle")?]);
    Ok(vec![
        overwrite("disk: 4 KiB overwrite of written space + fdatasync", one()?, BLOCK),
        overwrite("disk: the same with 24 KiB, a batch of 100 rows", one()?, BATCH_BYTES),
        overwrite("disk: the same with 192 KiB, a group of 8 batches", one()?, GROUP_BYTES),
        overwrite("disk: 4 KiB to 8 files at once", written, BLOCK),
        Case::new("disk: 4 KiB append + fdatasync", "syncs/s", move |plan| {
            let file = File::create(&appended).context("append")?;
            let run = Loop { threads: 1, span: plan.span, timed_every: 1 };
            run.run(|_| {
                let (file, mut at) = (&file, 0);
                move || {
                    file.write_all_at(&[7; BLOCK], at).context("append")?;
                    at += BLOCK as u64;
                    file.sync_data().context("append").map(|()| 1)
                }
            })
        }),
    ])
}

/// One write of `bytes` after the other, from the start again at the end, each synced.
fn overwrite(name: &str, files: Vec<File>, bytes: usize) -> Case {
    Case::new(name, "syncs/s", move |plan| {
        let run = Loop { threads: files.len(), span: plan.span, timed_every: 1 };
        run.run(|thread| {
            let (file, mut at, data) = (&files[thread], 0, vec![7; bytes]);
            move || {
                at += bytes as u64;
                if at + bytes as u64 > FILE_BLOCKS * BLOCK as u64 {
                    at = 0;
                }
                file.write_all_at(&data, at).context("overwrite")?;
                file.sync_data().context("overwrite").map(|()| 1)
            }
        })
    })
}

/// A file that was written from end to end and synced.
fn written_file(path: &Path) -> Result<File> {
    let file = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(path);
    let file = file.with_context(|| format!("making {}", path.display()))?;
    let zeros = vec![0; 1 << 20];
    for at in (0..FILE_BLOCKS * BLOCK as u64).step_by(zeros.len()) {
        file.write_all_at(&zeros, at).context("zeros")?;
    }
    file.sync_all().context("zeros")?;
    Ok(file)
}
