//! Background work: threads in production, steps taken by hand in tests.

use std::fmt::Debug;
use std::io;

/// How far a worker stands back where the processors are busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// As the threads that commit: somebody waits for what the worker does.
    Normal,
    /// Behind them, as long as they leave something: they will wait if it falls far behind.
    Behind,
    /// Behind both: whatever is left.
    Last,
}

/// Runs long-lived background workers.
pub trait Jobs: Debug + Send + Sync {
    /// Starts `work` on its own thread and returns true; or returns false, and the owner of the
    /// work is stepped by hand instead.
    fn start(
        &self,
        name: &str,
        priority: Priority,
        work: Box<dyn FnOnce() + Send>,
    ) -> io::Result<bool>;
}

/// Threads of the operating system.
#[derive(Debug, Default)]
pub struct Threads;

impl Jobs for Threads {
    fn start(
        &self,
        name: &str,
        priority: Priority,
        work: Box<dyn FnOnce() + Send>,
    ) -> io::Result<bool> {
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            stand_back(priority);
            work();
        })?;
        Ok(true)
    }
}

/// No threads: whoever owns the work steps it.
#[derive(Debug, Default)]
pub struct ByHand;

impl Jobs for ByHand {
    fn start(
        &self,
        _name: &str,
        _priority: Priority,
        _work: Box<dyn FnOnce() + Send>,
    ) -> io::Result<bool> {
        Ok(false)
    }
}

/// Compaction must not take the processor from commits: on two cores a flush at equal priority
/// multiplies the tail of a sync.
///
/// A third and a tenth of the processor that a commit gets, where both want it whole. Less would
/// starve the work beside other programs, and commits stop once it is far enough behind.
fn stand_back(priority: Priority) {
    let nice = match priority {
        Priority::Normal => return,
        Priority::Behind => 5,
        Priority::Last => 10,
    };
    // On Linux the nice value belongs to the thread. Refusal costs speed, not correctness.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), nice);
    #[cfg(not(target_os = "linux"))]
    let _ = nice;
}
