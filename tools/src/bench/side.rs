//! Several targets side by side: a line for each workload that was run under the same conditions on
//! more than one of them, a column for each target.
//!
//! The first target is held against the best of the others. Those that stand aside (they keep
//! nothing, or are variants of another) are shown last and held against nobody.

use crate::bench::figures::{bytes, short, time_us};
use crate::bench::grouped::{Conditions, Group, conditions};
use std::collections::HashMap;
use tabulith_results::result::Workload;

/// A figure that a table shows.
#[derive(Clone, Copy)]
pub(crate) struct Figure {
    /// What it is called.
    pub(crate) name: &'static str,
    /// It, of the runs of one target.
    pub(crate) of: fn(&Group<'_>) -> Option<f64>,
    /// As people read it.
    pub(crate) told: fn(f64) -> String,
    /// Whether the workload says which way is better; else less is.
    is_main: bool,
}

/// What is shown: throughput first.
pub(crate) const FIGURES: [Figure; 8] = [
    Figure {
        name: "Side by side",
        of: |g| g.median(|run| Some(run.per_second)),
        told: short,
        is_main: true,
    },
    Figure { name: "p50", of: |g| g.latency(|l| l.p50), told: time_us, is_main: false },
    Figure { name: "p99", of: |g| g.latency(|l| l.p99), told: time_us, is_main: false },
    Figure { name: "p99.9", of: |g| g.latency(|l| l.p99_9), told: time_us, is_main: false },
    Figure {
        name: "CPU by operation, all threads",
        of: |g| g.median(|run| run.cpu_us),
        told: time_us,
        is_main: false,
    },
    Figure {
        name: "Write amplification: bytes given to write(2) by byte of keys and values",
        of: |g| g.median(|run| run.write_amplification),
        told: short,
        is_main: false,
    },
    Figure {
        name: "Space amplification: bytes of files by byte of live keys and values",
        of: |g| g.median(|run| run.space_amplification),
        told: short,
        is_main: false,
    },
    Figure {
        name: "Most memory",
        of: |g| g.median(|run| run.memory_bytes.map(|bytes| bytes as f64)),
        told: |value| bytes(value as u64),
        is_main: false,
    },
];

/// One workload.
pub(crate) struct Row<'g> {
    /// The first run of it: what was done, and how it is counted.
    pub(crate) own: &'g Workload,
    /// What each target came to, in the order of the targets.
    pub(crate) cells: Vec<Option<&'g Group<'g>>>,
}

/// All of it.
pub(crate) struct Side<'g> {
    /// The targets, those that stand aside last.
    pub(crate) targets: Vec<&'g str>,
    /// How many of them do not.
    pub(crate) held: usize,
    /// The workloads by what they promise: `synced` first; each where its first run stands.
    pub(crate) parts: Vec<(&'g str, Vec<Row<'g>>)>,
}

impl<'g> Side<'g> {
    /// Of all groups; none where nothing was run on more than one target.
    pub(crate) fn of(groups: &'g [Group<'g>]) -> Option<Side<'g>> {
        let mut places: HashMap<Conditions, usize> = HashMap::new();
        let mut lines: Vec<Vec<&Group<'_>>> = Vec::new();
        for group in groups {
            let place = *places.entry(conditions(group.first())).or_insert(lines.len());
            match lines.get_mut(place) {
                Some(line) => line.push(group),
                None => lines.push(vec![group]),
            }
        }
        lines.retain(|line| line.len() > 1);
        lines.sort_by_key(|line| number_in(&line[0].first().name));
        let (mut targets, mut aside): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
        for group in groups {
            let first = group.first();
            let column = if first.aside { &mut aside } else { &mut targets };
            if !column.contains(&first.target.as_str()) {
                column.push(&first.target);
            }
        }
        let held = targets.len();
        targets.extend(aside);
        let mut parts: Vec<(&str, Vec<Row<'_>>)> = Vec::new();
        for line in lines {
            let own = line[0].first();
            let of = |target: &&str| line.iter().copied().find(|g| g.first().target == *target);
            let row = Row { own, cells: targets.iter().map(of).collect() };
            match parts.iter_mut().find(|(durability, _)| *durability == own.durability) {
                Some((_, rows)) => rows.push(row),
                None => parts.push((&own.durability, vec![row])),
            }
        }
        parts.sort_by_key(|(durability, _)| rank(durability));
        (!parts.is_empty()).then_some(Side { targets, held, parts })
    }

    /// Whether anybody has that figure.
    pub(crate) fn has(&self, figure: &Figure) -> bool {
        self.parts.iter().any(|(_, rows)| rows.iter().any(|row| row.has(figure)))
    }

    /// The columns that have something of a figure in some rows.
    pub(crate) fn columns(&self, rows: &[&Row<'_>], figure: &Figure) -> Vec<usize> {
        let filled = |at: &usize| rows.iter().any(|row| row.value(figure, *at).is_some());
        (0..self.targets.len()).filter(filled).collect()
    }
}

impl Row<'_> {
    /// Whether two or more have that figure: one alone is no comparison.
    pub(crate) fn has(&self, figure: &Figure) -> bool {
        self.cells.iter().flatten().filter_map(|group| (figure.of)(group)).count() > 1
    }

    /// What a target came to.
    pub(crate) fn value(&self, figure: &Figure, at: usize) -> Option<f64> {
        (figure.of)(self.cells.get(at).copied().flatten()?)
    }

    /// Whether a smaller figure is a better one.
    pub(crate) fn less_is_better(&self, figure: &Figure) -> bool {
        !figure.is_main || self.own.less_is_better
    }

    /// The best of columns, and where it is.
    pub(crate) fn best(
        &self,
        figure: &Figure,
        columns: std::ops::Range<usize>,
    ) -> Option<(usize, f64)> {
        let values = columns.filter_map(|at| Some((at, self.value(figure, at)?)));
        match self.less_is_better(figure) {
            true => values.min_by(|a, b| a.1.total_cmp(&b.1)),
            false => values.max_by(|a, b| a.1.total_cmp(&b.1)),
        }
    }

    /// How many times better the first target is than the best of the others that do not stand
    /// aside.
    pub(crate) fn ratio(&self, figure: &Figure, held: usize) -> Option<f64> {
        let (own, (_, best)) = (self.value(figure, 0)?, self.best(figure, 1..held)?);
        let ratio = if self.less_is_better(figure) { best / own } else { own / best };
        ratio.is_finite().then_some(ratio)
    }
}

/// Where a part stands: what promises most first, what writes nothing last.
fn rank(durability: &str) -> usize {
    let order = ["synced", "flushed", "buffered", "unsynced", "–"];
    order.iter().position(|own| durability.starts_with(own)).unwrap_or(order.len())
}

/// The number of a workload that has one, as `W10 YCSB A` does: its lines stand together, wherever
/// they were measured.
fn number_in(name: &str) -> u32 {
    let digits =
        name.strip_prefix('W').map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    digits.flatten().and_then(|digits| digits.parse().ok()).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn run(name: &str, target: &str, per_second: f64) -> Workload {
        Workload {
            name: name.to_owned(),
            target: target.to_owned(),
            durability: "synced".to_owned(),
            per_second,
            ..Workload::default()
        }
    }

    #[test]
    fn the_first_is_held_against_the_best_of_those_that_do_not_stand_aside() {
        let mut runs = vec![
            run("W10 a", "memory", 1_000.0),
            run("W10 a", "ours", 300.0),
            run("W2 b", "ours", 20.0),
            run("W10 a", "theirs", 200.0),
            run("W10 a", "another", 100.0),
            run("W2 b", "theirs", 10.0),
            run("W1 alone", "ours", 1.0),
        ];
        runs[0].aside = true;
        for run in runs.iter_mut().filter(|run| run.name == "W2 b") {
            (run.less_is_better, run.durability) = (true, "unsynced".to_owned());
        }
        let groups = Group::all(&runs);
        let side = Side::of(&groups).unwrap();
        assert_eq!(
            (&side.targets[..], side.held),
            (&["ours", "theirs", "another", "memory"][..], 3)
        );
        let [(synced, a), (unsynced, b)] = &side.parts[..] else { panic!("two parts") };
        assert_eq!((*unsynced, *synced, a.len(), b.len()), ("unsynced", "synced", 1, 1));
        let main = &FIGURES[0];
        assert_eq!(a[0].ratio(main, side.held), Some(1.5));
        assert_eq!(b[0].ratio(main, side.held), Some(0.5), "less is better");
        assert_eq!(a[0].best(main, 0..side.held), Some((0, 300.0)));
        assert_eq!(b[0].best(main, 0..side.held), Some((1, 10.0)));
        assert_eq!(side.columns(&b.iter().collect::<Vec<_>>(), main), [0, 1]);
        assert!(side.has(main) && !side.has(&FIGURES[1]));
    }

    #[test]
    fn one_target_is_no_comparison() {
        assert!(Side::of(&Group::all(&[run("a", "ours", 1.0), run("b", "ours", 1.0)])).is_none());
        assert!(Side::of(&Group::all(&[run("a", "ours", 1.0), run("b", "theirs", 1.0)])).is_none());
    }

    #[test]
    fn names_without_a_number_keep_their_order() {
        let names = ["fillseq", "W10 x", "W2 y", "Wx"].map(number_in);
        assert_eq!(names, [u32::MAX, 10, 2, u32::MAX]);
    }
}
