//! The disk's floor: what a small write and its sync cost by themselves, below which no durable
//! commit goes.

use crate::latency::histogram;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;
use tabulith::env::clock::Clock;
use tabulith::vfs::api::Vfs;

/// Syncs that are timed.
const SYNCS: usize = 300;

/// No longer than this: a slow disk has told enough by then.
const TIME_MAX: std::time::Duration = std::time::Duration::from_secs(3);

/// Pages of the file that is overwritten.
const PAGES: u64 = 256;
const PAGE: usize = 4096;

/// Syncs that are faster than this have not reached any device.
const HONEST_US: f64 = 15.0;

/// What a 4 KiB overwrite and its sync took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// The middle one, in microseconds.
    pub p50_us: f64,
    /// One in a hundred.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
    /// How many were timed.
    pub syncs: u64,
}

impl Floor {
    /// What is to be said of it.
    pub fn told(&self) -> String {
        let doubt = match self.p50_us < HONEST_US {
            true => {
                "; so fast that it hardly reaches a device: tmpfs, or a disk that ignores flushes"
            }
            false => "",
        };
        format!(
            "{:.0} us for 4 KiB and a sync (p99 {:.0}, max {:.0}){doubt}",
            self.p50_us, self.p99_us, self.max_us
        )
    }
}

/// Measures the floor by a file of its own in a folder that exists; the file is removed again.
pub fn measure(vfs: &dyn Vfs, clock: &dyn Clock, dir: &Path) -> Result<Floor> {
    let path = dir.join(format!("tabulith-floor-{}.tmp", std::process::id()));
    let measured = timed(vfs, clock, &path).with_context(|| format!("syncing {}", path.display()));
    let removed = vfs.remove(&path).with_context(|| format!("removing {}", path.display()));
    let floor = measured?;
    removed?;
    Ok(floor)
}

fn timed(vfs: &dyn Vfs, clock: &dyn Clock, path: &Path) -> Result<Floor> {
    let file = vfs.create(path)?;
    file.write_all_at(&vec![0; PAGE * PAGES as usize], 0)?;
    file.sync()?;
    let mut all = histogram()?;
    let start = clock.steady();
    for at in 0..SYNCS as u64 {
        let before = clock.steady();
        if before.saturating_sub(start) > TIME_MAX {
            break;
        }
        file.write_all_at(&[at as u8; PAGE], at % PAGES * PAGE as u64)?;
        file.sync()?;
        all.saturating_record(clock.steady().saturating_sub(before).as_nanos() as u64);
    }
    let us = |ns: u64| ns as f64 / 1e3;
    Ok(Floor {
        p50_us: us(all.value_at_quantile(0.5)),
        p99_us: us(all.value_at_quantile(0.99)),
        max_us: us(all.max()),
        syncs: all.len(),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::time::Duration;
    use tabulith::env::clock::SystemClock;
    use tabulith::vfs::os::OsVfs;

    #[test]
    fn a_floor_is_measured_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let floor = measure(&OsVfs, &SystemClock::new(), folder.path()).unwrap();
        assert!(floor.syncs > 0 && floor.p50_us <= floor.p99_us && floor.p99_us <= floor.max_us);
        assert!(OsVfs.list(folder.path()).unwrap().is_empty());
        assert!(measure(&OsVfs, &SystemClock::new(), &folder.path().join("none")).is_err());
        assert!(TIME_MAX > Duration::ZERO);
    }

    #[test]
    fn a_disk_that_lies_is_doubted() {
        let floor = |p50_us| Floor { p50_us, p99_us: 200.0, max_us: 300.0, syncs: 300 };
        assert!(!floor(90.0).told().contains("ignores"));
        assert!(floor(2.0).told().contains("ignores flushes"));
    }
}
