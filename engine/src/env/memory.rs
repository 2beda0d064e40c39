//! How much memory this process may use: the machine's, or less where a control group says so.

/// Bytes of memory that this process may use; 0 where nobody says.
pub fn bytes_usable() -> usize {
    machine_bytes().min(group_bytes().unwrap_or(usize::MAX))
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

/// The limit of the control group that a container sees as its own. Reading it is no business of
/// the database's disk, so it does not go through `vfs`.
#[expect(clippy::disallowed_methods, reason = "a setting of the kernel, not a file of ours")]
fn group_bytes() -> Option<usize> {
    let text = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_os = "linux")]
    fn there_is_some() {
        assert!(super::bytes_usable() > 16 << 20);
    }
}
