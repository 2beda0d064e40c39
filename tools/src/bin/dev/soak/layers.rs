//! The layers that a soak runs: one table. Whoever writes a test that takes a seed adds its line.
//!
//! A layer is a test file that takes its seed from `TABULITH_SEED` and its size from variables, and
//! tells what it counted by `tabulith_testkit::counts::tell`, under the layer's name. A turn takes
//! about a minute, that of the crashes three, that of the sequences a quarter of an hour.

/// A test that can be run with one seed after the other.
#[derive(Debug)]
pub(crate) struct Layer {
    /// The word of `--only` and of the line `counted: NAME …`.
    pub(crate) name: &'static str,
    /// What it asks, for the table of figures.
    pub(crate) asks: &'static str,
    /// The package, and what of it is run.
    pub(crate) package: &'static str,
    pub(crate) test: Program,
    /// Which tests of the program: those whose name contains this.
    pub(crate) only: &'static str,
    /// Variables that make one turn as long as it should be.
    pub(crate) sizes: &'static [(&'static str, u64)],
    /// What a turn must count, and how much of it at least.
    pub(crate) floors: &'static [(&'static str, u64)],
}

/// A test program of a package.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Program {
    /// A file of `tests`.
    Tests(&'static str),
    /// The package's own tests, built for a model checker.
    Models(&'static str),
}

/// All layers, in the order of their first turns.
pub(crate) const LAYERS: &[Layer] = &[
    Layer {
        name: "crash",
        asks: "what a power loss or a kill leaves: all that was promised, nothing half",
        package: "tabulith",
        test: Program::Tests("crash"),
        only: "every_crash_leaves",
        // Three rounds of its workloads: a single one may make hardly any copies.
        sizes: &[("TABULITH_CRASH_STATES", 900_000)],
        floors: &[("states", 900_000), ("nested", 45_000)],
    },
    Layer {
        name: "sequences",
        asks: "all sequences of three steps, each on one kind of disk, 4 states of each cut: the same",
        package: "tabulith",
        test: Program::Tests("crash"),
        only: "sequences_of_three",
        sizes: &[("TABULITH_SEQUENCES", 19_683), ("TABULITH_SEQUENCE_POINTS", 1_000)],
        floors: &[("runs", 19_683), ("points", 1_400_000), ("states", 8_000_000)],
    },
    Layer {
        name: "held-up",
        asks: "commits, ingests and flushes while a merge waits in the middle of a call",
        package: "tabulith",
        test: Program::Tests("crash"),
        only: "while_work_is_held_up",
        sizes: &[], // It has one.
        floors: &[("trials", 375)],
    },
    Layer {
        name: "oracle",
        asks: "random operations against an ordered map",
        package: "tabulith",
        test: Program::Tests("oracle"),
        only: "every_answer_equals",
        sizes: &[("TABULITH_ORACLE_OPS", 1_000_000)],
        floors: &[("operations", 1_000_000)],
    },
    Layer {
        name: "histories",
        asks: "threads on one table, across kills and power losses: linearizable",
        package: "tabulith",
        test: Program::Tests("histories"),
        only: "entities_are",
        sizes: &[("TABULITH_HISTORY_OPS", 4_000_000)],
        floors: &[("calls", 4_000_000), ("crashes", 500)],
    },
    Layer {
        name: "isolation",
        asks: "transactions of threads, across kills and power losses: strictly serializable",
        package: "tabulith",
        test: Program::Tests("histories"),
        only: "transactions_are",
        sizes: &[("TABULITH_HISTORY_OPS", 2_000_000)],
        floors: &[("transactions", 400_000)],
    },
    Layer {
        name: "http-histories",
        asks: "clients over real sockets, some of which hang up: linearizable",
        package: "tabulith-server",
        test: Program::Tests("histories"),
        only: "",
        sizes: &[("TABULITH_HTTP_HISTORY_OPS", 200_000)],
        floors: &[("calls", 200_000)],
    },
    Layer {
        name: "simulation",
        asks: "the whole system on one thread, in a world of troubles",
        package: "tabulith-server",
        test: Program::Tests("simulation"),
        only: "",
        sizes: &[("TABULITH_SIM_SEEDS", 1_500)],
        floors: &[("seeds", 1_500), ("twice", 30)],
    },
    Layer {
        name: "salvage",
        asks: "damaged folders salvaged: nothing invented, nothing missing that is not on the list",
        package: "tabulith",
        test: Program::Tests("salvage"),
        only: "what_is_salvaged",
        sizes: &[("TABULITH_SALVAGES", 20_000)],
        floors: &[("salvages", 20_000), ("lost", 1_000)],
    },
    Layer {
        name: "backups",
        asks: "every moment that a backup promises, restored: as the model has it",
        package: "tabulith",
        test: Program::Tests("backups"),
        only: "random_moments",
        sizes: &[],
        floors: &[("moments", 80), ("rewound", 40)],
    },
    Layer {
        name: "faults",
        asks: "every call of the disk fails: what was acknowledged is kept, the rest whole or not there",
        package: "tabulith",
        test: Program::Tests("crash"),
        only: "every_call_may_fail",
        sizes: &[("TABULITH_FAULTS", 60_000)],
        floors: &[("runs", 50_000), ("faults", 50_000), ("healed", 10_000)],
    },
    Layer {
        name: "damage",
        asks: "bytes, sectors, lengths and files changed: a right answer or an error that names the file",
        package: "tabulith",
        test: Program::Tests("crash"),
        only: "damage_is_never",
        sizes: &[("TABULITH_DAMAGE", 300_000)],
        floors: &[("opens", 180_000)],
    },
    Layer {
        name: "nonsense",
        asks: "the same with checksums made good: no panic, no allocation above 64 MiB",
        package: "tabulith",
        test: Program::Tests("crash"),
        only: "nonsense_with_a_good",
        sizes: &[("TABULITH_DAMAGE", 900_000)],
        floors: &[("opens", 270_000)],
    },
    Layer {
        name: "http-lists",
        asks: "random requests against an ordered map under the protocol's rules",
        package: "tabulith-server",
        test: Program::Tests("lists"),
        only: "every_answer_is",
        sizes: &[("TABULITH_HTTP_LIST_OPS", 1_000_000)],
        floors: &[("operations", 1_000_000), ("kinds", 26)],
    },
    Layer {
        name: "fuzz",
        asks: "any bytes for every decoder",
        package: "tabulith-fuzz",
        test: Program::Tests("run"),
        only: "",
        sizes: &[], // As many for each target as it says: most for the cheap ones.
        floors: &[("executions", 10_000_000), ("targets", 22)],
    },
    Layer {
        name: "kill",
        asks: "the real program killed under load, and asked for all that it had acknowledged",
        package: "tabulith-tools",
        test: Program::Tests("kill"),
        only: "survives_every_kill",
        sizes: &[("TABULITH_KILLS", 100)],
        floors: &[("kills", 100), ("acknowledged", 100)],
    },
    Layer {
        name: "starved",
        asks: "a process that gets no memory at its n-th request: what it acknowledged is there",
        package: "tabulith",
        test: Program::Tests("starved"),
        only: "whenever_memory_ends",
        sizes: &[("TABULITH_STARVED", 500)],
        floors: &[("processes", 450), ("kept", 450)],
    },
    Layer {
        name: "shuttle",
        asks: "the whole engine on a few threads, in orders drawn by chance",
        package: "tabulith",
        test: Program::Models("shuttle"),
        only: "models::",
        sizes: &[("TABULITH_SCHEDULES", 6_000)],
        floors: &[("schedules", 600_000), ("scenarios", 4)],
    },
    Layer {
        name: "filters",
        asks: "filters against a second evaluator, plans against a look at every row",
        package: "tabulith-server",
        test: Program::Tests("filters"),
        only: "",
        sizes: &[("TABULITH_FILTER_CASES", 1_000_000)],
        floors: &[("pairs", 1_000_000), ("plans", 1_000)],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo;

    #[test]
    fn every_layer_is_a_test_that_tells_what_it_counted() {
        let root = repo::root().expect("the repository");
        for layer in LAYERS {
            assert_eq!(LAYERS.iter().filter(|other| other.name == layer.name).count(), 1);
            assert!(!layer.floors.is_empty(), "{}: a layer that counts nothing", layer.name);
            let crates = [
                ("tabulith", "engine"),
                ("tabulith-fuzz", "fuzz"),
                ("tabulith-tools", "tools"),
                ("tabulith-server", "server"),
            ];
            let Program::Tests(test) = layer.test else { continue };
            let folder = crates.iter().find(|(package, _)| *package == layer.package);
            let (_, folder) = folder.expect("a crate of the workspace");
            let tests = root.join(folder).join("tests");
            let files = [tests.join(test).with_extension("rs"), tests.join(test).join("main.rs")];
            assert!(files.iter().any(|file| file.exists()), "{}: no such test", layer.name);
        }
    }
}
