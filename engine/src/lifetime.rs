//! How long the rows of a table live: a time to live that may be changed, and what has outlived it.
//!
//! A row has outlived it once so much time has passed since its commit. A change holds for readers
//! that see its commit; those before it go by what was. What was hidden once stays hidden: a change
//! carries a *cutoff*, and what was committed up to there is gone for good.
//!
//! For that nobody may hide more under the old setting than the cutoff does, so time stops for
//! readers under the old one shortly before the new one is committed ([`Lifetimes::stop`]). They
//! take the time first and look here second; who stops it looks at the clock after that.

use crate::ids::CommitTs;
use crate::moment::Moment;

/// One setting, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lifetime {
    /// The commit that set it.
    pub(crate) since: CommitTs,
    /// In ticks; 0 for ever.
    pub(crate) ttl: u64,
    /// What was committed up to here is hidden whatever the setting.
    pub(crate) cutoff: CommitTs,
}

impl Lifetime {
    /// Up to which commit rows have outlived it by `now`.
    fn outlived_to(&self, now: CommitTs) -> CommitTs {
        match self.ttl {
            0 => self.cutoff,
            ttl => self.cutoff.max(CommitTs(now.0.saturating_sub(ttl))),
        }
    }
}

/// The settings of one table that somebody may go by, oldest first. Before the first that there
/// ever was, rows live for ever.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lifetimes {
    /// With each, where time stops for its readers.
    settings: Vec<(Lifetime, CommitTs)>,
    /// Whether there were earlier ones.
    has_forgotten: bool,
}

impl Lifetimes {
    /// Adds the newest setting. One that changes nothing, as another change to the table brings it,
    /// is none. The one before hides what the cutoff of this one does, and no more: who reads back
    /// what was stored does not know when its time had stopped.
    pub(crate) fn add(&mut self, lifetime: Lifetime) {
        if let Some((last, stop)) = self.settings.last_mut() {
            if (last.ttl, last.cutoff) == (lifetime.ttl, lifetime.cutoff) {
                return;
            }
            *stop = (*stop).min(CommitTs(lifetime.cutoff.0.saturating_add(last.ttl)));
        }
        self.settings.push((lifetime, CommitTs::MAX));
    }

    /// The setting for a reader who sees commits up to `at`.
    pub(crate) fn at(&self, at: CommitTs) -> Option<&Lifetime> {
        self.settings[..self.count_at(at)].last().map(|(lifetime, _)| lifetime)
    }

    fn count_at(&self, at: CommitTs) -> usize {
        self.settings.iter().rposition(|(lifetime, _)| lifetime.since <= at).map_or(0, |i| i + 1)
    }

    /// Rows of commits up to here are hidden from a reader; zero hides none. All are where the
    /// setting that it goes by is forgotten: it looks again, at a moment that is kept for it.
    pub(crate) fn outlived_to(&self, moment: Moment) -> CommitTs {
        match self.settings[..self.count_at(moment.at)].last() {
            Some((lifetime, stop)) => lifetime.outlived_to(moment.now.min(*stop)),
            None if self.has_forgotten => CommitTs::MAX,
            None => CommitTs::ZERO,
        }
    }

    /// Forgets the settings that no reader at `oldest` or later goes by.
    pub(crate) fn forget(&mut self, oldest: CommitTs) {
        let replaced = self.count_at(oldest).saturating_sub(1);
        self.has_forgotten |= replaced > 0;
        self.settings.drain(..replaced);
    }

    /// How many settings are remembered.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.settings.len()
    }

    /// Rows of commits up to here are hidden from every reader, of now or to come. `readers`: their
    /// moments, the last that of those to come. `recorded`: what a crash does not take back; a
    /// later setting may be lost, and the one before it hold again.
    pub(crate) fn outlived_for_all(
        &self,
        readers: impl Iterator<Item = Moment>,
        recorded: CommitTs,
    ) -> CommitTs {
        let mut least = CommitTs::MAX;
        let mut last = Moment::past(CommitTs::ZERO);
        for reader in readers {
            least = least.min(self.outlived_to(reader));
            last = reader;
        }
        let Some(first) = self.count_at(last.at.min(recorded)).checked_sub(1) else {
            return CommitTs::ZERO;
        };
        let to_come = self.settings[first..].iter();
        let to_come = to_come.map(|(lifetime, stop)| lifetime.outlived_to(last.now.min(*stop)));
        to_come.fold(least, CommitTs::min)
    }

    /// Stops time at `now` for readers under the newest setting; `CommitTs::MAX` lets it go on.
    pub(crate) fn stop(&mut self, now: CommitTs) {
        if let Some((_, stop)) = self.settings.last_mut() {
            *stop = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(at: u64, now: u64) -> Moment {
        Moment { at: CommitTs(at), now: CommitTs(now) }
    }

    fn lifetimes() -> Lifetimes {
        let mut lifetimes = Lifetimes::default();
        let setting =
            |since, ttl, cutoff| Lifetime { since: CommitTs(since), ttl, cutoff: CommitTs(cutoff) };
        lifetimes.add(setting(100, 10, 0));
        lifetimes.stop(CommitTs(199));
        lifetimes.add(setting(200, 0, 189));
        lifetimes
    }

    #[test]
    fn a_reader_goes_by_the_setting_that_it_sees_and_nothing_comes_back() {
        let to = |moment| lifetimes().outlived_to(moment).0;
        assert_eq!(to(at(99, 150)), 0, "before there was one");
        assert_eq!(to(at(100, 150)), 140);
        assert_eq!(to(at(150, 900)), 189, "time has stopped");
        assert_eq!(to(at(200, 900)), 189, "so this hides no less");
    }

    #[test]
    fn who_is_too_early_for_what_is_remembered_is_shown_nothing() {
        let mut later = lifetimes();
        later.forget(CommitTs(199));
        assert_eq!(later.len(), 2, "somebody may be at 199");
        later.forget(CommitTs(200));
        assert_eq!(later.len(), 1);
        assert_eq!(later.outlived_to(at(199, 300)), CommitTs::MAX);
        for moment in [at(200, 200), at(300, 900)] {
            assert_eq!(later.outlived_to(moment), lifetimes().outlived_to(moment));
        }
    }

    #[test]
    fn settings_read_back_hide_as_much_as_those_that_were_made() {
        let mut loaded = Lifetimes::default();
        let setting =
            |since, ttl, cutoff| Lifetime { since: CommitTs(since), ttl, cutoff: CommitTs(cutoff) };
        loaded.add(setting(100, 10, 0));
        loaded.add(setting(150, 10, 0)); // Of another change to the table.
        loaded.add(setting(205, 0, 189)); // Time had stopped at 199.
        let to = |moment| loaded.outlived_to(moment).0;
        assert_eq!(to(at(120, 120)), 110);
        assert_eq!(to(at(180, 180)), 170);
        assert_eq!(to(at(203, 203)), 189, "as when it was read before the change was stored");
        assert_eq!(to(at(205, 300)), 189);
        // One between the two has gone in a merge; this one tells of what it hid.
        loaded.add(setting(400, 0, 290));
        assert_eq!(loaded.outlived_to(at(410, 410)).0, 290);
    }

    #[test]
    fn what_some_reader_or_a_crash_may_bring_back_is_not_outlived_for_all() {
        let to = |readers: &[Moment], recorded| {
            lifetimes().outlived_for_all(readers.iter().copied(), CommitTs(recorded)).0
        };
        assert_eq!(to(&[at(300, 300)], 300), 189);
        assert_eq!(to(&[at(150, 160), at(300, 300)], 300), 150, "a snapshot");
        assert_eq!(
            to(&[at(300, 300)], 150),
            189,
            "the change may be lost; the one before hid as much"
        );
        assert_eq!(to(&[at(300, 300)], 99), 0, "there may come to be none");
        assert_eq!(to(&[at(50, 60), at(300, 300)], 300), 0);
    }
}
