//! The machine and the build that numbers belong to.

use std::path::Path;
use std::process::Command;

/// Name and value, one line each.
pub fn facts(dir: &Path) -> Vec<(&'static str, String)> {
    vec![
        ("commit", commit()),
        ("kernel", read("/proc/sys/kernel/osrelease")),
        ("CPU", field_of("/proc/cpuinfo", "model name")),
        ("cores", std::thread::available_parallelism().map_or(0, usize::from).to_string()),
        ("CPU cache", read("/sys/devices/system/cpu/cpu0/cache/index3/size")),
        ("memory", field_of("/proc/meminfo", "MemTotal")),
        ("file system", file_system(dir)),
        ("load before", read("/proc/loadavg")),
    ]
}

/// The commit that is checked out, with a mark where files differ from it.
fn commit() -> String {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    match (git(&["rev-parse", "--short=12", "HEAD"]), git(&["status", "--porcelain", "-uno"])) {
        (Some(head), Some(changed)) if changed.is_empty() => head,
        (Some(head), _) => format!("{head} with changes"),
        (None, _) => "unknown".to_owned(),
    }
}

/// Type and device of the mount that `dir` lies in.
fn file_system(dir: &Path) -> String {
    let dir = dir.canonicalize().unwrap_or_default();
    let mounts = read("/proc/self/mounts");
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let holding = fields.filter(|f| f.len() > 2 && dir.starts_with(f[1]));
    let nearest = holding.max_by_key(|f| f[1].len());
    nearest.map_or("unknown".to_owned(), |f| format!("{} on {}", f[2], f[0]))
}

fn field_of(path: &str, name: &str) -> String {
    let text = read(path);
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.split_once(':'));
    value.map_or("unknown", |(_, value)| value.trim()).to_owned()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).map_or("unknown".to_owned(), |text| text.trim().to_owned())
}
