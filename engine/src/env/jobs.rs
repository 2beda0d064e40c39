//! Background work: threads in production, steps taken by hand in tests.

use std::fmt::Debug;
use std::io;

/// Runs long-lived background workers.
pub trait Jobs: Debug + Send + Sync {
    /// Starts `work` on its own thread at low priority and returns true; or returns false, and the
    /// owner of the work is stepped by hand instead.
    fn start(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> io::Result<bool>;
}

/// Threads of the operating system.
#[derive(Debug, Default)]
pub struct Threads;

impl Jobs for Threads {
    fn start(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> io::Result<bool> {
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            lower_priority();
            work();
        })?;
        Ok(true)
    }
}

/// No threads: whoever owns the work steps it.
#[derive(Debug, Default)]
pub struct ByHand;

impl Jobs for ByHand {
    fn start(&self, _name: &str, _work: Box<dyn FnOnce() + Send>) -> io::Result<bool> {
        Ok(false)
    }
}

/// Compaction must not take the processor from commits: on two cores a flush at equal priority
/// multiplies the tail of a sync.
fn lower_priority() {
    // On Linux the nice value belongs to the thread. Refusal costs speed, not correctness.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 10);
}
