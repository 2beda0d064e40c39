//! What a crash may leave of a simulated disk.

use tabulith::vfs::mem::{Profile, SimFs};

/// All of it, where the process dies, and up to so many states of either kind of file system, where
/// the power fails: each with how it came to be. The states depend on `seed`.
pub(crate) fn fates(disk: &SimFs, states: usize, seed: u64) -> Vec<(String, SimFs)> {
    let mut fates = vec![("killed".to_owned(), disk.fork())];
    for profile in [Profile::Ordered, Profile::Hostile] {
        let states = disk.crash_states(profile, states, seed);
        fates.extend(
            states.map(|state| (format!("{profile:?} {state:?}"), SimFs::after_crash(&state))),
        );
    }
    fates
}
