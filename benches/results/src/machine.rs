//! The machine and the build that figures belong to, and what this process takes of it.
//!
//! What cannot be known here (a system without /proc) is left out, never guessed.

#![allow(clippy::disallowed_methods, reason = "reads /proc and asks git, not the engine's files")]

use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::Command;

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// The operating system and its version.
    pub system: String,
    /// The model of the processor.
    pub processor: Option<String>,
    /// Its last cache.
    pub processor_cache: Option<String>,
    /// Cores that this process may use.
    pub cores: usize,
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// Type and device of the file system that the data lies in.
    pub file_system: Option<String>,
    /// The model of the disk below it.
    pub disk: Option<String>,
    /// The load average before the run.
    pub load_before: Option<String>,
}

impl Machine {
    /// This one; `dir` is where the data lies, if it lies here.
    pub fn here(dir: Option<&Path>) -> Machine {
        let mount = dir.and_then(mount);
        Machine {
            system: system(),
            processor: field("/proc/cpuinfo", "model name"),
            processor_cache: read("/sys/devices/system/cpu/cpu0/cache/index3/size"),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: field("/proc/meminfo", "MemTotal").and_then(|text| kib(&text)),
            disk: mount.as_ref().and_then(|(_, device)| disk(device)),
            file_system: mount.map(|(kind, device)| format!("{kind} on {device}")),
            load_before: read("/proc/loadavg"),
        }
    }
}

/// The commit that this program was built from: as its build says, or of the repository that it
/// lies in.
pub fn commit() -> Option<String> {
    if let Some(commit) = option_env!("TABULITH_COMMIT") {
        return Some(commit.to_owned());
    }
    let program = std::env::current_exe().ok()?;
    let root = program.ancestors().find(|dir| dir.join(".git").exists())?;
    let git = |args: &[&str]| {
        let output = Command::new("git").arg("-C").arg(root).args(args).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let head = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "-uno"]).is_none_or(|text| !text.is_empty());
    Some(if changed { format!("{head} with changes") } else { head })
}

/// What a process has taken so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taken {
    /// Microseconds of CPU time, of all its threads.
    pub cpu_us: Option<u64>,
    /// Bytes handed to write(2) and its like. `write_bytes` beside it charges whole folios, so it
    /// is wrong for small writes.
    pub written: Option<u64>,
    /// Bytes of memory now.
    pub memory: Option<u64>,
    /// The most that it was since [`forget_peak`], or else since the process began.
    pub memory_peak: Option<u64>,
}

impl Taken {
    /// Of this process.
    pub fn now() -> Taken {
        Taken {
            cpu_us: cpu_us(),
            written: field("/proc/self/io", "wchar").and_then(|text| text.parse().ok()),
            memory: field("/proc/self/status", "VmRSS").and_then(|text| kib(&text)),
            memory_peak: field("/proc/self/status", "VmHWM").and_then(|text| kib(&text)),
        }
    }
}

/// The peak of this process's memory is what it has now; false where the system keeps it as it is.
pub fn forget_peak() -> bool {
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// Bytes on the disk of all files below a folder: blocks, as preallocated files are longer than
/// what they hold.
pub fn disk_bytes(dir: &Path) -> u64 {
    // A file may be deleted while this looks at it.
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let each = entries.filter_map(|entry| {
        let metadata = entry.metadata().ok()?;
        Some(if metadata.is_dir() { disk_bytes(&entry.path()) } else { blocks(&metadata) })
    });
    each.sum()
}

#[cfg(unix)]
fn system() -> String {
    let uname = rustix::system::uname();
    format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy())
}

#[cfg(not(unix))]
fn system() -> String {
    std::env::consts::OS.to_owned()
}

#[cfg(unix)]
fn blocks(metadata: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(metadata) * 512
}

#[cfg(not(unix))]
fn blocks(metadata: &std::fs::Metadata) -> u64 {
    metadata.len()
}

fn cpu_us() -> Option<u64> {
    let stat = read("/proc/self/stat")?;
    // The second field is a name in parentheses that may hold spaces; utime and stime are the
    // 12th and 13th after it, in hundredths of a second whatever the kernel ticks at.
    let (_, rest) = stat.rsplit_once(") ")?;
    let ticks = rest.split(' ').skip(11).take(2).map(|field| field.parse::<u64>().ok());
    Some(ticks.sum::<Option<u64>>()? * 10_000)
}

/// Type and device of the mount that a folder lies in.
fn mount(dir: &Path) -> Option<(String, String)> {
    let existing = dir.ancestors().find_map(|dir| dir.canonicalize().ok())?;
    let mounts = read("/proc/self/mounts")?;
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let holding = fields.filter(|f| f.len() > 2 && existing.starts_with(f[1]));
    holding.max_by_key(|f| f[1].len()).map(|f| (f[2].to_owned(), f[0].to_owned()))
}

/// The model of the disk that a device such as /dev/nvme0n1p1 is a part of.
fn disk(device: &str) -> Option<String> {
    let name = Path::new(device).canonicalize().ok()?;
    let name = name.file_name()?.to_str()?;
    let class = Path::new("/sys/class/block").join(name).canonicalize().ok()?;
    let folders = [Some(class.as_path()), class.parent()];
    folders.into_iter().flatten().find_map(|folder| {
        let model = folder.join("device/model");
        read(model.to_str()?)
    })
}

fn kib(text: &str) -> Option<u64> {
    Some(text.strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = read(path)?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.split_once(':'));
    value.map(|(_, value)| value.trim().to_owned())
}

fn read(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn disk_bytes_are_those_of_all_files_below() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
        std::fs::write(folder.path().join("x"), vec![1; 100_000]).unwrap();
        std::fs::write(folder.path().join("a/b/y"), vec![1; 50_000]).unwrap();
        let bytes = disk_bytes(folder.path());
        assert!((150_000..400_000).contains(&bytes), "{bytes}");
        assert_eq!(disk_bytes(&folder.path().join("none")), 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_machine_says_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let machine = Machine::here(Some(folder.path()));
        assert!(machine.system.starts_with("Linux ") && machine.cores > 0, "{machine:?}");
        assert!(machine.memory_bytes.is_some() && machine.file_system.is_some(), "{machine:?}");
        let taken = Taken::now();
        assert!(taken.memory > Some(1 << 20) && taken.cpu_us.is_some() && taken.written.is_some());
    }

    /// What a process had for less than the second between two looks was not seen.
    #[cfg(target_os = "linux")]
    #[test]
    fn memory_that_was_given_back_counts_until_it_is_forgotten() {
        const BYTES: usize = 64 << 20;
        let peak = || Taken::now().memory_peak.unwrap();
        let before = Taken::now().memory.unwrap();
        drop(std::hint::black_box(vec![1_u8; BYTES]));
        assert!(peak() >= before + BYTES as u64 / 10 * 9, "{} of {before}", peak());
        if forget_peak() {
            assert!(peak() < before + BYTES as u64 / 2, "{} of {before}", peak());
        }
    }
}
