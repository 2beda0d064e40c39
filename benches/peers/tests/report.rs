//! What the report says of limits and latencies, and which cells there are: nothing is measured.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;
use tabulith::env::clock::{Clock as _, SystemClock};
use tabulith_peers::cells::list;
use tabulith_peers::parent::Outcome;
use tabulith_peers::probe::{Kind, Laps, Line};
use tabulith_peers::report;
use tabulith_peers::results;
use tabulith_results::latency::Latency;
use tabulith_results::result::Line as Written;

const W11: &str = "W11 scan after settling";

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
