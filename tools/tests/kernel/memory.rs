//! Little memory: 256 MiB by a control group where this process may make one, addresses by
//! `ulimit -v` elsewhere.
//!
//! `TABULITH_SCAN_ROWS=1000000` scans more rows than the default.

use crate::common::Place;
use crate::limited::{Limited, all_there, entity, rows, table};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::seed;

const ROWS_DEFAULT: u64 = 60_000;
const LIMIT_BYTES: u64 = 256 << 20;

/// A control group that limits memory, of either version; removed in the end.
struct Group {
    dir: PathBuf,
    version: u32,
}

impl Group {
    /// `None` where this process may not make one.
    fn make() -> Option<Group> {
        let root = Path::new("/sys/fs/cgroup");
        let controllers = std::fs::read_to_string(root.join("cgroup.subtree_control"));
        let (parent, version) = match controllers.is_ok_and(|names| names.contains("memory")) {
            true => (root.to_owned(), 2),
            false => (root.join("memory"), 1),
        };
        let dir = parent.join(format!("tabulith-{}", std::process::id()));
        std::fs::create_dir(&dir).ok()?;
        let group = Group { dir, version };
        let limit = if version == 2 { "memory.max" } else { "memory.limit_in_bytes" };
        std::fs::write(group.dir.join(limit), LIMIT_BYTES.to_string()).ok()?;
        if version == 2 {
            let _ = std::fs::write(group.dir.join("memory.swap.max"), "0");
        }
        Some(group)
    }

    /// What a shell does to become part of it.
    fn enter(&self) -> String {
        format!("echo $$ > {}/cgroup.procs", self.dir.display())
    }

    fn number(&self, name: &str) -> u64 {
        let text = std::fs::read_to_string(self.dir.join(name)).expect("a number of the group");
        text.trim().parse().expect("a number")
    }

    /// The most that was in use.
    fn most(&self) -> u64 {
        self.number(if self.version == 2 { "memory.peak" } else { "memory.max_usage_in_bytes" })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.dir);
    }
}

/// Small rows in a file that `import` reads.
fn small_rows(place: &Place, count: u64) -> String {
    let mut text = String::from("PartitionKey,RowKey,Text\n");
    for row in 0..count {
        let _ = writeln!(text, "s,{row:08},{}", "x".repeat(100));
    }
    place.file("rows.csv", text)
}

#[test]
fn with_little_memory_scans_and_large_batches_are_served() {
    let scanned = seed::number("TABULITH_SCAN_ROWS").unwrap_or(ROWS_DEFAULT);
    let place = Place::new();
    let file = small_rows(&place, scanned);
    place.ok(&["import", "--table", "many", "--data-dir", "data", &file]);
    let group = Group::make();
    let limits = match &group {
        Some(group) => group.enter(),
        None => {
            counts::skipped("a control group of 256 MiB; addresses are limited instead");
            // Of addresses, not of memory in use: the program's own and its allocator's are part of
            // it.
            "ulimit -v 2097152".to_owned()
        }
    };
    let mut server = Limited::start(&place, &limits, &[]).unwrap();
    let mut client = table(&server);
    let (mut acked, mut refused) = (BTreeSet::new(), 0);
    for batch in 0..40 {
        let rows: Vec<u64> = (batch * 100..batch * 100 + 100).collect();
        let entities: Vec<_> = rows.iter().map(|row| entity(*row, 39_000)).collect();
        let reply = client.insert_batch("rows", &entities).expect("an answer");
        match reply.status {
            202 => acked.extend(rows),
            503 => refused += 1,
            status => panic!("{status}: {}", reply.body),
        }
    }
    eprintln!("{} bytes of its own", server.own_bytes());
    std::thread::scope(|scope| {
        let (server, acked) = (&server, &acked);
        for _ in 0..2 {
            scope.spawn(move || assert_eq!(rows(&mut server.client()), *acked));
            scope.spawn(move || {
                let mut many = 0;
                server.client().each_row("many", |_| many += 1);
                assert_eq!(many, scanned, "a scan is whole");
            });
        }
    });
    let own_bytes = server.own_bytes();
    eprintln!("{} rows of 39 KB in batches, {refused} batches refused", acked.len());
    assert!(acked.len() >= 1000 && server.lives());
    if let Some(group) = &group {
        let most = group.most();
        eprintln!("{own_bytes} bytes of its own, {most} at most with those of files");
        // An eighth is for the kernel, whose share of the group's memory varies: beyond the limit
        // it ends the process.
        assert!(own_bytes <= LIMIT_BYTES / 8 * 7, "{own_bytes}");
    }
    assert_eq!(server.stop(), Some(0));
    drop(group);
    all_there(&place, &acked);
    let floors =
        [count("scanned", 2 * scanned, 10_000), count("batched", acked.len() as u64, 1000)];
    counts::tell("memory", &floors);
}
