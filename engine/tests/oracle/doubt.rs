//! Commits that a kill may take back: those for which nobody asked for more than
//! [`Durability::Buffered`], as far as no safer one has come after them. What is left of them must
//! be a prefix of their order.

use tabulith::options::Durability;
use tabulith_testkit::oracle::{Change, Oracle};

/// The model as it surely is, and the commits since.
pub(crate) struct Doubt {
    sure: Oracle,
    commits: Vec<Commit>,
}

/// One commit of rows.
pub(crate) struct Commit {
    pub(crate) table: u32,
    pub(crate) pk: Vec<u8>,
    pub(crate) ts: u64,
    pub(crate) changes: Vec<Change>,
    /// What it asked for, if that is less than the store gives of itself.
    pub(crate) level: Option<Durability>,
}

impl Commit {
    /// Whether a kill takes it back.
    fn is_weak(&self) -> bool {
        self.level == Some(Durability::Buffered)
    }
}

/// Notes a commit that `model` does not hold yet.
pub(crate) fn note(doubt: &mut Option<Doubt>, model: &Oracle, commit: Commit) {
    if let Some(doubt) = doubt {
        doubt.commits.push(commit);
    } else if commit.is_weak() {
        *doubt = Some(Doubt { sure: model.clone(), commits: vec![commit] });
    }
}

/// All commits so far have been waited for: what a safer one follows is safe.
pub(crate) fn settle(doubt: &mut Option<Doubt>) {
    let last = doubt.as_ref().and_then(|doubt| doubt.commits.last());
    if last.is_some_and(|commit| !commit.is_weak()) {
        *doubt = None;
    }
}

impl Doubt {
    /// What may be left after a kill, the most first.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = Oracle> {
        let strong = self.commits.iter().rposition(|commit| !commit.is_weak());
        let least = strong.map_or(0, |last| last + 1);
        (least..=self.commits.len()).rev().map(|count| {
            let mut model = self.sure.clone();
            for Commit { table, pk, ts, changes, .. } in &self.commits[..count] {
                model.commit(*table, pk, *ts, changes);
            }
            model
        })
    }
}
