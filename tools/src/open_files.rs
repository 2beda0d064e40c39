//! How many files this process may have open: as many as it may be raised to.

/// Raises the number of files that this process may have open as far as it goes; gives it.
#[cfg(unix)]
pub(crate) fn raised() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Where that is refused, what is allowed already has to do.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(not(unix))]
pub(crate) fn raised() -> u64 {
    u64::MAX
}
