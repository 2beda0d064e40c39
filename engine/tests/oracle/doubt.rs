//! Commits that an end without a closing may take back: those for which nobody asked for more than
//! [`Durability::Buffered`], by a loss of power [`Durability::Flushed`], as far as no safer one has
//! come after them. What is left of them must be a prefix of their order.

use std::sync::Arc;
use tabulith::options::Durability;
use tabulith_testkit::oracle::{Change, Oracle};

/// An end that asks nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Kill,
    PowerLoss,
}

/// What either end may take back.
#[derive(Default)]
pub(crate) struct Doubts {
    kill: Option<Doubt>,
    power: Option<Doubt>,
}

/// The model as it surely is, and the commits since.
pub(crate) struct Doubt {
    end: End,
    sure: Oracle,
    commits: Vec<Arc<Commit>>,
}

/// One commit of rows.
pub(crate) struct Commit {
    pub(crate) table: u32,
    pub(crate) pk: Vec<u8>,
    pub(crate) ts: u64,
    pub(crate) changes: Vec<Change>,
    /// What it asked for, if anything; the store may give less of itself.
    pub(crate) level: Option<Durability>,
}

impl Commit {
    /// Whether that end may take it back.
    fn is_weak(&self, end: End) -> bool {
        match self.level {
            Some(Durability::Buffered) => true,
            Some(Durability::Flushed) => end == End::PowerLoss,
            Some(Durability::Synced) | None => false,
        }
    }
}

impl Doubts {
    /// Notes a commit that `model` does not hold yet.
    pub(crate) fn note(&mut self, model: &Oracle, commit: Commit) {
        let commit = Arc::new(commit);
        for (doubt, end) in [(&mut self.kill, End::Kill), (&mut self.power, End::PowerLoss)] {
            if let Some(doubt) = doubt {
                doubt.commits.push(Arc::clone(&commit));
            } else if commit.is_weak(end) {
                let (sure, commits) = (model.clone(), vec![Arc::clone(&commit)]);
                *doubt = Some(Doubt { end, sure, commits });
            }
        }
    }

    /// All commits so far have been waited for: what a safer one follows is safe.
    pub(crate) fn settle(&mut self) {
        for doubt in [&mut self.kill, &mut self.power] {
            let last = doubt.as_ref().and_then(|doubt| Some((doubt.end, doubt.commits.last()?)));
            if last.is_some_and(|(end, commit)| !commit.is_weak(end)) {
                *doubt = None;
            }
        }
    }

    /// All commits so far outlive either end.
    pub(crate) fn clear(&mut self) {
        *self = Doubts::default();
    }

    /// Whether that end may take anything back.
    pub(crate) fn is_any(&self, end: End) -> bool {
        match end {
            End::Kill => self.kill.is_some(),
            End::PowerLoss => self.power.is_some(),
        }
    }

    /// What that end may take back; whatever is there after it stays.
    pub(crate) fn take(&mut self, end: End) -> Option<Doubt> {
        let Doubts { kill, power } = std::mem::take(self);
        match end {
            End::Kill => kill,
            End::PowerLoss => power,
        }
    }
}

impl Doubt {
    /// What may be left after the end, the most first.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = Oracle> {
        let strong = self.commits.iter().rposition(|commit| !commit.is_weak(self.end));
        let least = strong.map_or(0, |last| last + 1);
        (least..=self.commits.len()).rev().map(|count| {
            let mut model = self.sure.clone();
            for commit in &self.commits[..count] {
                model.commit(commit.table, &commit.pk, commit.ts, &commit.changes);
            }
            model
        })
    }
}
