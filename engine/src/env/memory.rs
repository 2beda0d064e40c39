//! What this process may use: how many open files, and how much memory, which is the machine's or
//! less where a control group says so.

use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

/// Bytes of memory that this process may use; 0 where nobody says. The kernel is asked once a
/// process: a program that opens thousands of databases would spend an eighth of their opens on it.
pub fn bytes_usable() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| machine_bytes().min(group_bytes().unwrap_or(usize::MAX)))
}

/// Files that this process may have open now; many where nobody says.
#[cfg(not(unix))]
pub fn files_openable() -> usize {
    usize::MAX
}

/// Files that this process may have open now; many where nobody says.
#[cfg(unix)]
pub fn files_openable() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX)
}

#[cfg(target_os = "linux")]
fn machine_bytes() -> usize {
    let info = rustix::system::sysinfo();
    (info.totalram as usize).saturating_mul(info.mem_unit as usize)
}

#[cfg(not(target_os = "linux"))]
fn machine_bytes() -> usize {
    0
}

/// The least of the limits of the control groups that this process is in: its own, as a service has
/// one, and those around it. A container sees its own group as the root of all.
fn group_bytes() -> Option<usize> {
    let groups = text(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let limits = limits(Path::new("/sys/fs/cgroup"), &groups);
    limits.iter().filter_map(|file| text(file)?.trim().parse().ok()).min()
}

/// Reading them is no business of the database's disk, so it does not go through `vfs`.
#[expect(clippy::disallowed_methods, reason = "settings of the kernel, not files of ours")]
fn text(file: &Path) -> Option<String> {
    std::fs::read_to_string(file).ok()
}

/// The files that may hold a limit, for a process of these `groups` (as /proc/self/cgroup lists
/// them), by either version of control groups.
fn limits(root: &Path, groups: &str) -> Vec<PathBuf> {
    let mut limits = Vec::new();
    for line in groups.lines().chain(["0::/"]) {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let (root, name) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            list if list.split(',').any(|controller| controller == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        // A group outside of what is seen here begins with `..`: what is above is not known.
        let parts = Path::new(group).components();
        let group: PathBuf = parts.filter(|part| matches!(part, Component::Normal(_))).collect();
        limits.extend(group.ancestors().map(|group| root.join(group).join(name)));
    }
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn there_is_some() {
        assert!(bytes_usable() > 16 << 20);
    }

    /// A service under systemd was sized by the machine's memory and killed for want of its own.
    #[test]
    fn the_group_of_a_service_and_those_around_it_count() {
        let files = |groups: &str| {
            let files = limits(Path::new("/c"), groups);
            files
                .iter()
                .map(|file| file.to_str().unwrap_or_default().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            files("0::/system.slice/tabulith.service\n"),
            [
                "/c/system.slice/tabulith.service/memory.max",
                "/c/system.slice/memory.max",
                "/c/memory.max",
                "/c/memory.max"
            ]
        );
        assert_eq!(
            files("9:name=systemd:/a\n4:memory:/box/7\n3:cpu,memory:/b\n2:cpu:/x"),
            [
                "/c/memory/box/7/memory.limit_in_bytes",
                "/c/memory/box/memory.limit_in_bytes",
                "/c/memory/memory.limit_in_bytes",
                "/c/memory/b/memory.limit_in_bytes",
                "/c/memory/memory.limit_in_bytes",
                "/c/memory.max"
            ]
        );
        assert_eq!(files(""), ["/c/memory.max"], "a container's own");
        assert_eq!(
            files("0::/../../other")[0],
            "/c/other/memory.max",
            "nothing above what is seen"
        );
        assert_eq!(files("nonsense"), ["/c/memory.max"]);
    }
}
