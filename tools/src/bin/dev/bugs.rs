//! The bugs that `planted!` knows, each with the test that must find it: the museum of
//! docs/testing.md.

/// A planted bug.
pub(crate) struct Bug {
    pub(crate) id: &'static str,
    /// What the store does with it.
    pub(crate) story: &'static str,
    /// The layer whose business it is.
    pub(crate) layer: &'static str,
    pub(crate) test: Test,
    /// What the line says by which the test gives alarm: how it begins, and the rest of it.
    pub(crate) alarm: &'static [&'static str],
}

/// A test as cargo knows it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Test {
    pub(crate) package: &'static str,
    /// Its program; `lib` for the unit tests.
    pub(crate) program: &'static str,
    pub(crate) name: &'static str,
    /// What it is asked for by a variable, if anything: which workloads to begin with.
    pub(crate) asked: Option<(&'static str, &'static str)>,
}

const fn engine(program: &'static str, name: &'static str) -> Test {
    Test { package: "tabulith", program, name, asked: None }
}

const fn server(program: &'static str, name: &'static str) -> Test {
    Test { package: "tabulith-server", program, name, asked: None }
}

const T2: &str = "T2 metamorphic";
const T3: &str = "T3 crash states";
const T4: &str = "T4 faults";
const T6: &str = "T6 damage";
const T7: &str = "T7 threads";
const T9: &str = "T9 processes";
const HTTP: &str = "section 4, requests";

const STATES: Test =
    engine("crash", "enumeration::every_crash_leaves_a_prefix_with_all_that_was_promised");
/// Commits over several segments of the log, most of them without a sync.
const SEGMENTS: Test = Test { asked: Some(("TABULITH_CRASH_FAMILY", "rolling")), ..STATES };
/// Memtables that are full before any is flushed.
const MEMTABLES: Test = Test { asked: Some(("TABULITH_CRASH_FAMILY", "filling")), ..STATES };
/// Commits of every durability, so that one group holds several.
const MIXED: Test = Test { asked: Some(("TABULITH_CRASH_FAMILY", "mixed")), ..STATES };
/// Edits of the manifest of every kind, under kills in the midst of them.
const EDITS: Test = Test { asked: Some(("TABULITH_CRASH_FAMILY", "random")), ..STATES };
const STATE: &[&str] = &["after ", " states: "];
const MODEL: Test = engine("oracle", "every_answer_equals_the_model");
const ANSWER: &[&str] = &["seed ", "options ", "operation "];
const CALLS: Test = engine("crash", "faults::every_call_may_fail");
const CALL: &[&str] = &["call ", " of "];
const READERS: Test = engine("crash", "readers::a_reader_that_met_an_error_gives_nothing_more");
const SYNCS: Test = engine("crash", "faults::every_sync_may_fail_as_file_systems_fail_it");
/// Which sync of which work fails, and how.
const SYNC: &[&str] = &["sync ", ", ", ": "];
const ROOM: Test = engine("crash", "faults::a_full_disk_refuses_writes_until_there_is_room");
const DAMAGE: Test = engine("crash", "damage::damage_is_never_a_wrong_answer");
/// Files that are mapped, which come last.
const MAPPED: Test = Test { asked: Some(("TABULITH_DAMAGE_CONFIG", "mapped")), ..DAMAGE };
const NONSENSE: Test = engine("crash", "damage::nonsense_with_a_good_checksum_is_no_panic");
const PAUSED: Test = engine("crash", "paused::what_happens_while_work_is_held_up_changes_nothing");
const HELD_UP: &[&str] = &["paused: "];
const WRONG: &[&str] = &["damage: after ", " opens: "];

const HALVES: Test = engine("crash", "concurrent::nobody_sees_half_a_batch");
const LOOKS: Test =
    engine("crash", "concurrent::what_a_reader_sees_between_write_and_sync_is_safe");
const SECOND: Test = engine("basics", "one_process_writes_and_others_may_read");
const LISTS: Test = server("lists", "every_answer_is_that_of_the_model");
const TABLE_SAS: Test = server("matrix", "table_signatures");
const CASE: &[&str] = &["    \"", ", not "];
const ROLES: Test = server("tokens", "every_operation_asks_for_its_actions");
const RANGES: Test = server("ranges", "every_range_through_the_service");

const fn bug(
    id: &'static str,
    story: &'static str,
    layer: &'static str,
    test: Test,
    alarm: &'static [&'static str],
) -> Bug {
    Bug { id, story, layer, test, alarm }
}

/// All of them. A letter behind the number: a second one of the kind.
pub(crate) const BUGS: &[Bug] = &[
    bug("B01", "acknowledges before the sync", T3, STATES, STATE),
    bug("B02", "replays the next segment after a bad frame", T3, SEGMENTS, STATE),
    bug("B02b", "begins a log behind a frame that is not there", T3, SEGMENTS, STATE),
    bug("B03", "takes what a reused segment's file held for frames", T3, SEGMENTS, STATE),
    bug("B04", "takes zeros for unused room and goes on behind them", T3, SEGMENTS, STATE),
    bug("B05", "takes a hole in the synced log for its end", T6, DAMAGE, WRONG),
    bug("B06", "does not ask after holes where files are mapped", T6, MAPPED, WRONG),
    bug("B07", "names a table file before its bytes are synced", T3, STATES, STATE),
    bug("B07b", "names a blob file before its bytes are synced", T3, STATES, STATE),
    bug("B08", "names files before their names are synced", T3, STATES, STATE),
    bug("B09", "uses a segment before its length is synced", T3, SEGMENTS, STATE),
    bug("B09b", "writes into a block of the log that a sync covers", T3, STATES, STATE),
    bug("B10", "gives up the old log before a restart is recorded", T3, STATES, STATE),
    bug("B11", "gives up the log when a memtable is full", T3, MEMTABLES, STATE),
    bug("B12", "does not replay what was erased", T2, MODEL, ANSWER),
    bug("B13", "begins at the files' timestamp after a restart", T2, MODEL, ANSWER),
    bug("B14", "has two bytes for the length of a value", T2, MODEL, ANSWER),
    bug("B15", "merges without what it cannot read", T4, CALLS, CALL),
    bug("B16", "goes on after a failed write of the log", T4, CALLS, CALL),
    bug("B17", "stumbles over what a full disk left", T4, ROOM, &["room for "]),
    bug("B18", "syncs again after a failed sync", T4, SYNCS, SYNC),
    bug("B19", "deletes on the word of what is only cached", T3, EDITS, STATE),
    bug("B20", "lets work under way stand in nobody's way", T2, PAUSED, HELD_UP),
    bug("B21", "ends a file between two versions of a row", T2, MODEL, ANSWER),
    bug("B22", "deletes files that work under way is about to name", T2, PAUSED, HELD_UP),
    bug("B23", "forgets the history window when it restarts", T3, STATES, STATE),
    bug("B24", "has checksums that say nothing of the place", T6, DAMAGE, WRONG),
    bug("B25", "skips a group of which a part is in files", T3, MIXED, STATE),
    bug("B26", "shows a batch before it is whole", T7, HALVES, &["half a batch: after "]),
    bug("B27", "shows a commit before it is safe", T3, LOOKS, &["a reader in between"]),
    bug("B28", "gives one timestamp twice within a tick", T2, MODEL, ANSWER),
    bug("B29", "does not look at conditions within a batch", T2, LISTS, ANSWER),
    bug("B30", "leaves what stands before a refused change", T2, LISTS, ANSWER),
    bug("B31", "goes on reading without what failed", T4, READERS, &["reader ", ", call "]),
    bug("B32", "makes a new database where the roots are gone", T6, DAMAGE, WRONG),
    bug("B33", "believes a length that it reads", T6, NONSENSE, WRONG),
    bug("B34", "forgets a failed sync before one that goes well", T4, SYNCS, SYNC),
    bug("B34b", "leaves those waiting whose sync failed", T4, SYNCS, &["hangs: sync ", ", ", ": "]),
    bug(
        "B35",
        "lets two processes open one folder",
        T9,
        SECOND,
        &["called `Result::unwrap_err()` on an `Ok`"],
    ),
    bug("B36", "writes the second copy from a buffer that changed", T2, MODEL, ANSWER),
    bug("B37", "leaves a key out of the filter", T2, MODEL, ANSWER),
    bug("B38", "does not ask who may do what in a batch", HTTP, TABLE_SAS, CASE),
    bug(
        "B39",
        "has an operation that forgets a kind of credentials",
        HTTP,
        ROLES,
        &["operation: "],
    ),
    bug("B40", "answers queries beyond a signature's range", HTTP, RANGES, &["assertion"]),
];
