//! What the disk itself costs: the floor under every durable commit.

use crate::case::{Case, Plan};
use crate::overwrite::{BLOCK, Space};
use crate::sample::Loop;
use anyhow::{Context as _, Result};
use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// Bytes of a file that is overwritten.
const FILE_BYTES: u64 = 64 << 20;

/// A commit of 100 rows of 200 bytes, as the log frames it, in whole blocks; and eight in one
/// group.
const BATCH_BYTES: usize = 6 * BLOCK;
const GROUP_BYTES: usize = 8 * BATCH_BYTES;

/// Overwriting and appending, each synced.
pub fn cases(plan: &Plan) -> Result<Vec<Case>> {
    let dir = plan.folder("disk")?;
    let space = |name: &str, files: usize| {
        let path = |i| dir.join(format!("{name}-{i}"));
        Space::make((0..files).map(path).collect(), FILE_BYTES)
    };
    let appended = dir.join("append");
    Ok(vec![
        overwrite("disk: 4 KiB overwrite of written space, synced", space("block", 1)?, BLOCK),
        overwrite(
            "disk: the same with 24 KiB, a batch of 100 rows",
            space("batch", 1)?,
            BATCH_BYTES,
        ),
        overwrite(
            "disk: the same with 192 KiB, a group of 8 batches",
            space("group", 1)?,
            GROUP_BYTES,
        ),
        overwrite("disk: 4 KiB to 8 files at once", space("files", 8)?, BLOCK),
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

/// One write of `bytes` after the other, from the start again at the end, each synced, in the way
/// that is the fastest in this round.
fn overwrite(name: &str, space: Space, bytes: usize) -> Case {
    Case::new(name, "syncs/s", move |plan| {
        let ways = space.measure(bytes, plan.span)?;
        let (_, fastest) = ways.into_iter().next().context("no way to write")?;
        Ok(fastest)
    })
}
