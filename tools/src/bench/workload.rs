//! The workloads by name: what each does, to which rows, and what it needs before.

use crate::args::bench::Choice;

/// What one operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Act {
    /// Reads a row that is there.
    Read,
    /// Asks for a row that is not there.
    Miss,
    /// Writes a row that is there.
    Update,
    /// Writes a row that is new.
    Insert,
    /// Removes a row.
    Delete,
    /// Reads some rows from a key on.
    Scan,
    /// Reads all rows of a partition.
    Partition,
    /// Reads a row and writes it.
    ReadWrite,
    /// Writes some rows of one partition together.
    Group,
}

impl Act {
    /// Its name in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Act::Read => "read",
            Act::Miss => "miss",
            Act::Update => "update",
            Act::Insert => "insert",
            Act::Delete => "delete",
            Act::Scan => "scan",
            Act::Partition => "partition",
            Act::ReadWrite => "read-write",
            Act::Group => "transaction",
        }
    }

    /// Whether it writes.
    pub(crate) fn writes(self) -> bool {
        !matches!(self, Act::Read | Act::Miss | Act::Scan | Act::Partition)
    }
}

/// In which order rows come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// By their numbers.
    Rising,
    /// Each once, in no order.
    Shuffled,
    /// By a [`Choice`]: this one where the command line says none.
    Chosen(Choice),
}

/// What must be there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// An empty table.
    Nothing,
    /// All rows.
    Rows,
}

/// A workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it does.
    pub(crate) about: &'static str,
    /// Its operations with their shares in percent.
    pub(crate) mix: &'static [(Act, u64)],
    /// In which order rows come.
    pub(crate) order: Order,
    /// What must be there before.
    pub(crate) needs: Needs,
    /// Whether one thread more writes meanwhile.
    pub(crate) beside_a_writer: bool,
    /// Whether every commit is synced, whatever --durability says.
    pub(crate) synced: bool,
}

impl Workload {
    /// Whether each row comes once, so that the workload ends with the rows.
    pub(crate) fn ends_with_the_rows(&self) -> bool {
        !matches!(self.order, Order::Chosen(_))
    }

    /// Whether it leaves other rows behind than it met.
    pub(crate) fn spends_the_rows(&self) -> bool {
        self.mix.iter().any(|(act, _)| matches!(act, Act::Delete | Act::Insert))
    }
}

const fn fill(name: &'static str, about: &'static str, order: Order, synced: bool) -> Workload {
    const MIX: &[(Act, u64)] = &[(Act::Insert, 100)];
    let needs = Needs::Nothing;
    Workload { name, about, mix: MIX, order, needs, beside_a_writer: false, synced }
}

const fn over_rows(
    name: &'static str,
    about: &'static str,
    mix: &'static [(Act, u64)],
    choice: Choice,
) -> Workload {
    let (order, needs) = (Order::Chosen(choice), Needs::Rows);
    Workload { name, about, mix, order, needs, beside_a_writer: false, synced: false }
}

/// All workloads, in the order of the help.
pub(crate) const ALL: &[Workload] = &[
    fill("fillseq", "insert every row, in the order of keys", Order::Rising, false),
    fill("fillrandom", "insert every row, in no order", Order::Shuffled, false),
    fill(
        "fillsync",
        "as fillrandom, each commit synced whatever --durability says",
        Order::Shuffled,
        true,
    ),
    over_rows("overwrite", "replace rows", &[(Act::Update, 100)], Choice::Uniform),
    over_rows("readrandom", "read rows", &[(Act::Read, 100)], Choice::Uniform),
    over_rows(
        "readmissing",
        "ask for rows that are not there",
        &[(Act::Miss, 100)],
        Choice::Uniform,
    ),
    over_rows(
        "seekrandom",
        "read --scan-rows rows from a key on",
        &[(Act::Scan, 100)],
        Choice::Uniform,
    ),
    Workload {
        beside_a_writer: true,
        ..over_rows(
            "readwhilewriting",
            "read rows while one thread more replaces some",
            &[(Act::Read, 100)],
            Choice::Uniform,
        )
    },
    Workload {
        order: Order::Shuffled,
        ..over_rows(
            "deleterandom",
            "delete every row, in no order",
            &[(Act::Delete, 100)],
            Choice::Uniform,
        )
    },
    over_rows(
        "ycsba",
        "YCSB A: half reads, half updates",
        &[(Act::Read, 50), (Act::Update, 50)],
        Choice::Zipfian,
    ),
    over_rows(
        "ycsbb",
        "YCSB B: 95 % reads, 5 % updates",
        &[(Act::Read, 95), (Act::Update, 5)],
        Choice::Zipfian,
    ),
    over_rows("ycsbc", "YCSB C: reads", &[(Act::Read, 100)], Choice::Zipfian),
    over_rows(
        "ycsbd",
        "YCSB D: 95 % reads of the latest rows, 5 % inserts",
        &[(Act::Read, 95), (Act::Insert, 5)],
        Choice::Latest,
    ),
    over_rows(
        "ycsbe",
        "YCSB E: 95 % scans of up to 100 rows, 5 % inserts",
        &[(Act::Scan, 95), (Act::Insert, 5)],
        Choice::Zipfian,
    ),
    over_rows(
        "ycsbf",
        "YCSB F: half reads, half reads with a write of the same row",
        &[(Act::Read, 50), (Act::ReadWrite, 50)],
        Choice::Zipfian,
    ),
    over_rows(
        "transactions",
        "replace --batch rows of one partition in one transaction",
        &[(Act::Group, 100)],
        Choice::Uniform,
    ),
    over_rows(
        "scanpartition",
        "read all rows of a partition",
        &[(Act::Partition, 100)],
        Choice::Uniform,
    ),
];

/// The workload of that name.
pub(crate) fn named(name: &str) -> Option<Workload> {
    ALL.iter().find(|workload| workload.name == name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_shares_make_a_hundred() {
        let names: BTreeSet<&str> = ALL.iter().map(|workload| workload.name).collect();
        assert_eq!(names.len(), ALL.len());
        for Workload { name, mix, .. } in ALL {
            assert_eq!(mix.iter().map(|(_, share)| share).sum::<u64>(), 100, "{name}");
        }
        assert_eq!(named("ycsbf").map(|workload| workload.mix.len()), Some(2));
        assert!(named("ycsbg").is_none());
        let help = crate::args::bench::RUN_HELP;
        for Workload { name, about, .. } in ALL {
            assert!(help.contains(&format!("\n  {name:<17} {about}\n")), "{name} in the help");
        }
    }

    #[test]
    fn what_changes_the_set_of_rows_is_known() {
        let spends = |name| named(name).expect("known").spends_the_rows();
        assert!(spends("ycsbd") && spends("deleterandom") && !spends("overwrite"));
        let ends = |name| named(name).expect("known").ends_with_the_rows();
        assert!(ends("fillseq") && ends("deleterandom") && !ends("ycsba"));
    }
}
