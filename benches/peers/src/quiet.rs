//! Waiting until an engine's background threads are at rest, for engines that cannot be asked.

use anyhow::Result;
use std::time::{Duration, Instant};
use tabulith_benches::cpu::CpuTimes;

/// How long nothing must have happened.
const REST: Duration = Duration::from_millis(100);

/// How often it is looked at; the kernel counts CPU time in ticks of 10 ms.
const STEP: Duration = Duration::from_millis(20);

/// Longest wait: an engine that polls never comes to rest.
const LONGEST: Duration = Duration::from_secs(20);

/// Returns once this process has used no CPU time for [`REST`], or after [`LONGEST`]; says how much
/// of the wait was that rest.
pub fn wait() -> Result<Duration> {
    let start = Instant::now();
    let (mut before, mut since) = (CpuTimes::now(None).own, Instant::now());
    while since.elapsed() < REST && start.elapsed() < LONGEST {
        std::thread::sleep(STEP);
        let now = CpuTimes::now(None).own;
        if now != before {
            (before, since) = (now, Instant::now());
        }
    }
    Ok(since.elapsed())
}
