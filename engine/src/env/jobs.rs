//! Background work: threads in production, steps taken by hand in tests.

use parking_lot::Mutex;
use std::fmt::Debug;
use std::io;
use std::num::NonZero;
use std::thread;

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

/// A part of some work that can be done beside its other parts.
pub type Part<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Runs long-lived background workers, and parts of work beside one another.
pub trait Jobs: Debug + Send + Sync {
    /// Starts `work` on its own thread and returns true; or returns false, and the owner of the
    /// work is stepped by hand instead.
    fn start(
        &self,
        name: &str,
        priority: Priority,
        work: Box<dyn FnOnce() + Send>,
    ) -> io::Result<bool>;

    /// Does all `parts` and returns once they are done. The caller's thread does its share; without
    /// threads it does them one after the other, in their order.
    fn together(&self, parts: Vec<Part<'_>>) {
        parts.into_iter().for_each(|part| part());
    }
}

/// More threads for one merge gain little: they share its disk.
const THREADS_DEFAULT_MAX: usize = 8;

/// Threads for work that can be divided, where nobody says how many: the processors there are.
pub(crate) fn threads_default() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_DEFAULT_MAX)
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
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            stand_back(priority);
            work();
        })?;
        Ok(true)
    }

    /// A thread for each part but one. They stand back as far as the caller does: on Linux a thread
    /// begins with the nice value of the one that started it. A thread that cannot be had costs
    /// speed only: the others take its part.
    fn together(&self, parts: Vec<Part<'_>>) {
        let threads = parts.len();
        let left = Mutex::new(parts.into_iter());
        let next = || left.lock().next();
        let work = || std::iter::from_fn(next).for_each(|part| part());
        thread::scope(|scope| {
            for _ in 1..threads {
                let builder = thread::Builder::new().name("tabulith-part".to_owned());
                if builder.spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
            work();
        });
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
///
/// Absent: `SCHED_BATCH`, which would spare commits some wake-ups of background threads. rustix has
/// no call for it, and a system call by number would be `unsafe` code for that alone.
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
