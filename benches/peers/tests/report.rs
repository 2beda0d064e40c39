//! What the report says of limits and latencies, and which cells there are: nothing is measured.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;
use tabulith::env::clock::{Clock as _, SystemClock};
use tabulith_peers::cells::list;
use tabulith_peers::goals::{GOALS, GOALS_MAPPED, LIMITS, Limit};
use tabulith_peers::parent::Outcome;
use tabulith_peers::probe::{Kind, Laps, Line};
use tabulith_peers::report;
use tabulith_peers::results;
use tabulith_results::latency::Latency;
use tabulith_results::result::Line as Written;

const W2: &str = "W2 random fill, commits of 1, settled";
const PACED: &str = "W2 random fill at 80 % of that";
const W3: &str = "W3 durable commits of 1, writers: 1";
const DISK: &str = "W3 the disk alone: 4 KiB overwritten and synced";
const W4: &str = "W4 durable commits of 1, writers: 8";
const W11: &str = "W11 scan after settling";
const W14: &str = "W14 open after kill -9, and one get";

#[test]
fn a_limit_of_the_line_itself() {
    check(W14, &[ours(W14, 99.9)], "at most 100 ms | 99.90 | met");
    check(W14, &[ours(W14, 100.0)], "at most 100 ms | 100.00 | met");
    check(W14, &[ours(W14, 100.2)], "at most 100 ms | 100.20 | **not met**");
    check(W14, &[by("rocksdb", line(W14, 1.0))], "");
    // The middle of three runs counts, unless one is on the other side.
    let runs = |values: [f64; 3]| {
        let run = |(at, value): (usize, f64)| Outcome { run: at + 1, ..ours(W14, value) };
        values.into_iter().enumerate().map(run).collect::<Vec<_>>()
    };
    check(W14, &runs([90.0, 20.0, 30.0]), "at most 100 ms | 30.00 ± 35.00 | met");
    check(W14, &runs([300.0, 20.0, 30.0]), "at most 100 ms | 30.00 ± 140.00 | undecided");
    check(W14, &runs([300.0, 200.0, 30.0]), "at most 100 ms | 200.00 ± 135.00 | undecided");
    check(W14, &runs([300.0, 200.0, 130.0]), "at most 100 ms | 200.00 ± 85.00 | **not met**");
}

/// The ratio of each run is to what the peer did in that run: the machine's hour is in both.
#[test]
fn a_ratio_whose_runs_lie_on_both_sides_of_the_goal_is_undecided() {
    const W8: &str = "W8 full scan";
    let said = |runs: &[(usize, f64, f64)]| {
        let both = |(run, a, b): &(usize, f64, f64)| {
            let (a, b) = (by("ours", line(W8, *a)), by("fjall", line(W8, *b)));
            [Outcome { run: *run, ..a }, Outcome { run: *run, ..b }]
        };
        let outcomes: Vec<Outcome> = runs.iter().flat_map(both).collect();
        let text = report::markdown(&outcomes, &["ours", "fjall"].map(str::to_owned), &[]);
        let start = format!("| {W8}, ours | 2 x the best LSM peer | ");
        text.lines().find_map(|line| line.strip_prefix(&start)).map(str::to_owned)
    };
    let said = |runs: &[(usize, f64, f64)]| said(runs).unwrap_or_default();
    assert_eq!(said(&[(1, 5.0, 2.0)]), "2.50 | met |");
    assert_eq!(said(&[(1, 5.0, 2.0), (2, 25.0, 10.0), (3, 50.0, 20.0)]), "2.50 ± 0.00 | met |");
    assert_eq!(said(&[(1, 5.0, 2.0), (2, 9.0, 3.0), (3, 3.0, 2.0)]), "2.50 ± 0.75 | undecided |");
    assert_eq!(said(&[(1, 3.0, 2.0), (2, 3.0, 3.0)]), "1.00 ± 0.25 | **not met** |");
    // A run that one of them failed in says nothing.
    let failed = [by("ours", line(W8, 9.0)), Outcome { run: 2, ..by("fjall", line(W8, 9.0)) }];
    let text = report::markdown(&failed, &["ours", "fjall"].map(str::to_owned), &[]);
    assert!(text.contains("| 2 x the best LSM peer | 1.00 | **not met** |"), "{text}");
}

#[test]
fn a_limit_by_another_line_of_ours() {
    let goal = format!("0.85 of {DISK}");
    check(W3, &[ours(W3, 850.0), ours(DISK, 1000.0)], &format!("{goal} | 0.85 | met"));
    check(W3, &[ours(W3, 840.0), ours(DISK, 1000.0)], &format!("{goal} | 0.84 | **not met**"));
    check(W3, &[ours(W3, 850.0)], "");
    // The disk as it was in another engine's turn says nothing of ours.
    check(W3, &[ours(W3, 850.0), by("lmdb", line(DISK, 1000.0))], "");
}

#[test]
fn a_limit_of_processor_time() {
    let of = |cpu_us| by("ours", Line { cpu_us, ..line(W4, 1.0) });
    check(W4, &[of(8.0)], "at most 8 us of CPU | 8.00 | met");
    check(W4, &[of(8.1)], "at most 8 us of CPU | 8.10 | **not met**");
    // The kernel counts in ticks: none at all is a line too short to say, not one that took
    // nothing.
    check(W4, &[of(0.0)], "");
}

#[test]
fn a_limit_of_space() {
    let of = |disk_per_byte| by("ours", Line { disk_per_byte, ..line(W11, 1.0) });
    check(W11, &[of(Some(1.2))], "at most 1.2 bytes on the disk per byte | 1.20 | met");
    check(W11, &[of(Some(1.21))], "at most 1.2 bytes on the disk per byte | 1.21 | **not met**");
    check(W11, &[of(None)], "");
}

#[test]
fn a_limit_by_what_a_peer_writes() {
    let of = |engine, written_per_byte| by(engine, Line { written_per_byte, ..line(W2, 1.0) });
    let goal = "at most the bytes written by rocksdb, 4.00 per byte of 1.00 rows; ours of 1.00";
    let theirs = || of("rocksdb", Some(4.0));
    check(W2, &[of("ours", Some(4.0)), theirs()], &format!("{goal} | 4.00 | met"));
    check(W2, &[of("ours", Some(4.1)), theirs()], &format!("{goal} | 4.10 | **not met**"));
    check(W2, &[of("ours", None), theirs()], "");
    check(W2, &[of("ours", Some(4.1)), of("rocksdb", None)], "");
    check(W2, &[of("ours", Some(4.1)), of("fjall", Some(1.0))], "");
}

#[test]
fn limits_of_how_late_commits_are() {
    let of = |p99_9, max| {
        let latency_us = Latency { p99_9, max, ..Latency::default() };
        by("ours", Line { latency_us, ..line(PACED, 1.0) })
    };
    let both = |longest, p99_9| {
        format!("none longer than 50 ms | {longest}\np99.9 of at most 50 ms | {p99_9}")
    };
    let said = both("50.00 | met", "1.50 | met");
    check(PACED, &[of(Some(1_500.0), Some(50_000.0))], &said);
    let said = both("102.00 | **not met**", "69.00 | **not met**");
    check(PACED, &[of(Some(69_000.0), Some(102_000.0))], &said);
    check(PACED, &[of(None, None)], "");
}

#[test]
fn every_kind_of_limit_is_tried_here() {
    for (name, limit) in LIMITS {
        let tried = match limit {
            Limit::Value(_) => W14,
            Limit::ShareOf(..) => W3,
            Limit::CpuUs(_) => W4,
            Limit::DiskPerByte(_) => W11,
            Limit::WrittenAsBy(_) => W2,
            Limit::LongestMs(_) | Limit::P999Ms(_) => PACED,
        };
        assert!(LIMITS.iter().any(|(name, _)| *name == tried), "{name} is like no line of a test");
    }
}

#[test]
fn goals_are_about_rows_of_200_bytes() {
    let goals = GOALS.iter().chain(GOALS_MAPPED).map(|(name, ..)| *name);
    // What W2 writes is held against RocksDB with both sizes of rows.
    let limits = LIMITS.iter().filter(|(_, limit)| !matches!(limit, Limit::WrittenAsBy(_)));
    for name in goals.chain(limits.map(|(name, _)| *name)) {
        assert!(!name.contains("1 KiB"), "{name}");
    }
    let wide = "W14 open after kill -9, and one get, 1 KiB";
    check(wide, &[ours(wide, 1000.0)], "");
}

#[test]
fn every_workload_has_rows_of_1_kib() {
    // W13 has sizes of its own, W2-paced is about when commits return.
    let small = |name: &&str| !name.ends_with("-1k") && !matches!(*name, "W13" | "W2-paced");
    let names: Vec<&str> = list::cells().iter().map(|cell| cell.name).collect();
    for name in names.iter().filter(|name| small(name)) {
        let wide = format!("{name}-1k");
        assert!(names.contains(&wide.as_str()), "{wide} is missing");
    }
}

#[test]
fn a_lap_ends_with_its_last_row() {
    let mut laps = Laps::of(10).unwrap();
    (0..9).for_each(|_| laps.row());
    // The nine rows of a call that is over do not count for the next.
    laps.begin();
    (0..9).for_each(|_| laps.row());
    let of_none = line(W11, 1.0).in_laps(&laps, "each 10 rows");
    assert_eq!((of_none.latency_us.p50, of_none.lap), (None, None));
    SystemClock::new().sleep(Duration::from_millis(2));
    laps.row();
    (0..10).for_each(|_| laps.row());
    let of_two = line(W11, 1.0).in_laps(&laps, "each 10 rows");
    let Latency { p50, max, .. } = of_two.latency_us;
    assert!(p50.unwrap() < 2_000.0 && max.unwrap() >= 1_980.0, "{p50:?} {max:?}");
    let outcome = by("ours", of_two.note("two laps"));
    let Written::Workload(written) = results::lines(&outcome).remove(0) else { panic!() };
    assert_eq!(written.remark.as_deref(), Some("two laps; latencies are of each 10 rows"));
    let text = report::markdown(&[outcome], &["ours".to_owned()], &[]);
    assert!(text.contains(&format!("\n- {W11}: each 10 rows\n")), "{text}");
}

/// What the report says of the goal called `name`: what is wanted, what was reached, and the
/// verdict. Goals by rates are not looked at: limits say `at most` or ` of `.
#[track_caller]
fn check(name: &str, outcomes: &[Outcome], expected: &str) {
    let engines = ["ours", "rocksdb", "fjall", "lmdb"].map(str::to_owned);
    let text = report::markdown(outcomes, &engines, &[]);
    let (_, goals) = text.split_once("\n### Goals\n").unwrap_or_default();
    let goals = goals.split("\n###").next().unwrap();
    let start = format!("| {name}, ours | ");
    let said = goals.lines().filter_map(|line| line.strip_prefix(&start)?.strip_suffix(" |"));
    let limits: Vec<&str> = said.filter(|said| !said.contains(" x ")).collect();
    assert_eq!(limits.join("\n"), expected, "{text}");
}

fn ours(name: &str, value: f64) -> Outcome {
    by("ours", line(name, value))
}

fn by(engine: &str, line: Line) -> Outcome {
    let (engine, lines) = (engine.to_owned(), Ok(vec![line]));
    Outcome { cell: "made up", engine, run: 1, lines, took: Duration::ZERO }
}

fn line(name: &str, value: f64) -> Line {
    Line {
        name: name.to_owned(),
        unit: "ms".to_owned(),
        kind: Kind::Read,
        value,
        less_is_better: false,
        ops: 1,
        seconds: 1.0,
        threads: 1,
        latency_us: Latency::default(),
        lap: None,
        curve: Vec::new(),
        cpu_us: 1.0,
        written_per_byte: None,
        dirtied_per_byte: None,
        disk_per_byte: None,
        peak_bytes: 0,
        others_cores: 0.0,
        note: None,
    }
}
