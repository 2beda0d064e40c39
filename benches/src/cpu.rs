//! CPU time: of this process, of a server that it started, and of everybody else on the machine.

use std::time::Duration;

/// The kernel gives CPU time to user space in hundredths of a second, whatever it ticks at.
const TICK: Duration = Duration::from_millis(10);

/// CPU time used so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuTimes {
    /// By this process.
    pub own: Duration,
    /// By the server process, where there is one.
    pub server: Duration,
    /// By everything on the machine.
    pub machine: Duration,
}

impl CpuTimes {
    /// What was used up to now. What cannot be read counts as zero.
    pub fn now(server: Option<u32>) -> CpuTimes {
        CpuTimes {
            own: of_process("self"),
            server: server.map_or(Duration::ZERO, |pid| of_process(&pid.to_string())),
            machine: of_machine(),
        }
    }

    /// What was used between `earlier` and this.
    pub fn since(self, earlier: CpuTimes) -> CpuTimes {
        CpuTimes {
            own: self.own.saturating_sub(earlier.own),
            server: self.server.saturating_sub(earlier.server),
            machine: self.machine.saturating_sub(earlier.machine),
        }
    }

    /// What other processes used.
    pub fn others(self) -> Duration {
        self.machine.saturating_sub(self.own + self.server)
    }
}

/// User and system time of a process with all its threads, past ones included.
fn of_process(pid: &str) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The second field is a name in parentheses that may hold spaces; utime and stime are the
    // 14th and 15th of all, so the 12th and 13th after it.
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks =
        after_name.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u32>().ok());
    TICK * ticks.sum::<u32>()
}

/// Time that no core was idle or waiting for the disk.
fn of_machine() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = stat.lines().next().unwrap_or_default();
    let fields: Vec<u32> = first.split_whitespace().skip(1).flat_map(str::parse).collect();
    // user nice system idle iowait irq softirq steal
    let busy = fields.iter().take(8).enumerate().filter(|(i, _)| !matches!(i, 3 | 4));
    TICK * busy.map(|(_, ticks)| ticks).sum::<u32>()
}
