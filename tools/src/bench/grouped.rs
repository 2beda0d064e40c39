//! Runs of one workload under the same conditions, taken together.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use tabulith_results::latency::Latency;
use tabulith_results::result::Workload;
use tabulith_results::runs::median;

/// All runs of one workload under the same conditions.
#[derive(Clone, Debug)]
pub(crate) struct Group<'a> {
    /// The runs, at least one.
    pub(crate) runs: Vec<&'a Workload>,
}

/// The middle of some runs, and how far they lie apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
    pub(crate) runs: usize,
}

impl Spread {
    /// Of figures; `None` of none.
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.collect();
        let median = median(&mut values)?;
        Some(Spread { median, least: *values.first()?, most: *values.last()?, runs: values.len() })
    }

    /// The larger way from the middle to an end, in percent of the middle.
    pub(crate) fn percent(&self) -> f64 {
        let way = (self.most - self.median).max(self.median - self.least);
        if self.median == 0.0 { 0.0 } else { way / self.median.abs() * 100.0 }
    }
}

/// What must be the same for two runs to be compared. What a file of before does not say is the
/// same in all such files.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Conditions {
    name: String,
    durability: String,
    threads: usize,
    rate: Option<u64>,
    value_bytes: usize,
    rows: u64,
    partition_rows: Option<u64>,
    keys: String,
    /// Of what makes transactions.
    batch: Option<usize>,
    /// Of what scans so many.
    scan_rows: Option<u64>,
    warmup_ms: u64,
    memory_mib: Option<u64>,
}

/// The conditions of a run, without what was measured and where.
pub(crate) fn conditions(run: &Workload) -> Conditions {
    Conditions {
        name: run.name.clone(),
        durability: run.durability.clone(),
        threads: run.threads,
        rate: run.rate.map(|rate| rate.round() as u64),
        value_bytes: run.value_bytes,
        rows: run.rows,
        partition_rows: run.partition_rows,
        keys: run.keys.clone(),
        batch: (run.name == "transactions").then_some(run.batch),
        scan_rows: run.scan_rows.filter(|_| run.name == "seekrandom"),
        warmup_ms: (run.warmup_s * 1e3).round() as u64,
        memory_mib: run.memory_mib,
    }
}

impl<'a> Group<'a> {
    /// Runs in groups, each where its first run stands.
    pub(crate) fn all(runs: &'a [Workload]) -> Vec<Group<'a>> {
        let mut groups: Vec<Group<'a>> = Vec::new();
        let mut places: HashMap<(&str, Conditions), usize> = HashMap::new();
        for run in runs {
            match places.entry((&run.target, conditions(run))) {
                Entry::Occupied(place) => groups[*place.get()].runs.push(run),
                Entry::Vacant(place) => {
                    place.insert(groups.len());
                    groups.push(Group { runs: vec![run] });
                }
            }
        }
        groups
    }

    /// The first run.
    pub(crate) fn first(&self) -> &'a Workload {
        self.runs[0]
    }

    /// A figure over the runs that have it.
    pub(crate) fn spread(&self, figure: impl Fn(&Workload) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.runs.iter().filter_map(|run| figure(run)))
    }

    /// The middle of a figure.
    pub(crate) fn median(&self, figure: impl Fn(&Workload) -> Option<f64>) -> Option<f64> {
        self.spread(figure).map(|spread| spread.median)
    }

    /// The middle of a latency.
    pub(crate) fn latency(&self, figure: impl Fn(&Latency) -> Option<f64>) -> Option<f64> {
        self.median(|run| figure(&run.latency_us))
    }

    /// The run whose throughput is the middle one: charts show it.
    pub(crate) fn middle(&self) -> &'a Workload {
        let mut sorted = self.runs.clone();
        sorted.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
        sorted[sorted.len() / 2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, target: &str, threads: usize, per_second: f64) -> Workload {
        let (name, target) = (name.to_owned(), target.to_owned());
        Workload { name, target, threads, per_second, ..Workload::default() }
    }

    #[test]
    fn only_equal_conditions_are_taken_together() {
        let runs = [
            run("a", "folder", 1, 10.0),
            run("b", "folder", 1, 1.0),
            run("a", "folder", 1, 30.0),
            run("a", "folder", 2, 99.0),
            run("a", "endpoint", 1, 5.0),
            run("a", "folder", 1, 20.0),
        ];
        let groups = Group::all(&runs);
        assert_eq!(groups.iter().map(|group| group.runs.len()).collect::<Vec<_>>(), [3, 1, 1, 1]);
        let spread = groups[0].spread(|run| Some(run.per_second));
        let expected = Spread { median: 20.0, least: 10.0, most: 30.0, runs: 3 };
        assert_eq!(spread, Some(expected));
        assert_eq!(spread.map(|spread| spread.percent()), Some(50.0));
        assert_eq!(groups[0].middle().per_second, 20.0);
        assert_eq!(groups[0].latency(|latency| latency.p99), None);
    }
}
