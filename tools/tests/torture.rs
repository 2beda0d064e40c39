//! `torture` for some kills; then losses are planted, and each must be told.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

mod common;

use common::{Place, Ran};
use serde_json::Value as Json;
use std::process::Stdio;
use tabulith::{Db, If};
use tabulith_testkit::counts::{self, count};

const KILLS: &str = "6";

fn verified(place: &Place) -> Ran {
    place.run(&["torture", "--verify", "--data-dir", "t"])
}

#[test]
fn kills_lose_nothing_and_planted_losses_are_told() {
    let place = Place::new();
    let seed = tabulith_testkit::seed::seed_or(20_261_122).to_string();
    let ran = place.ok(&[
        "torture",
        "--kills",
        KILLS,
        "--data-dir",
        "t",
        "--writers",
        "3",
        "--seed",
        &seed,
    ]);
    assert!(ran.err.contains(&format!("replay: TABULITH_SEED={seed} ")), "{}", ran.err);
    assert!(ran.out.contains("Nothing that was acknowledged is lost"), "{}", ran.out);
    let report: Json =
        serde_json::from_str(&std::fs::read_to_string(place.path("t/report.json")).unwrap())
            .unwrap();
    let number = |name: &str| report[name].as_u64().unwrap();
    assert!(report["floor"]["p50_us"].is_number() && report["lost"].as_array().unwrap().is_empty());
    assert_eq!(number("found"), number("acknowledged") + number("under_way_there"), "{report}");

    // It is refused a folder that has something in it, and what is there can be verified again.
    let again = place.run(&["torture", "--kills", "1", "--data-dir", "t"]);
    assert_eq!(again.code, 5, "{}", again.err);
    assert_eq!(verified(&place).code, 0);

    // A row of an acknowledged commit that is gone.
    let db = Db::open(place.path("t/data")).unwrap();
    let table = db.table("t0000000").unwrap();
    let row = table.scan::<&[u8], &[u8]>(..).unwrap().next().unwrap().unwrap();
    table.delete(&row.partition_key, &row.row_key, If::Any).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let lost = verified(&place);
    assert_eq!(lost.code, 8, "{}", lost.out);
    assert!(
        lost.out.contains("LOST: t0000000: Commit") && lost.out.contains("was acknowledged"),
        "{}",
        lost.out
    );
    // Whoever asks for the first lines alone is told the same, and the report is there.
    std::fs::remove_file(place.path("t/verified.json")).unwrap();
    let mut command = place.command(&["torture", "--verify", "--data-dir", "t"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(8));
    assert!(place.path("t/verified.json").exists());

    // Another content in its place is a loss too; what it was is none.
    let put = |value: &[u8]| {
        let db = Db::open(place.path("t/data")).unwrap();
        let table = db.table("t0000000").unwrap();
        table.upsert(&row.partition_key, &row.row_key, value).unwrap();
        db.close().unwrap();
    };
    put(b"1\tsomething else");
    assert_eq!(verified(&place).code, 8);
    put(&row.value);
    assert_eq!(verified(&place).code, 0);

    // A ledger that knows less than was written: what a power cut leaves is fine, a gap is not.
    let ledger = std::fs::read_to_string(place.path("t/ledger")).unwrap();
    let half: String =
        ledger.lines().take(ledger.lines().count() / 2).map(|line| format!("{line}\n")).collect();
    std::fs::write(place.path("t/ledger"), half).unwrap();
    assert_eq!(verified(&place).code, 0);
    let mut lines: Vec<&str> = ledger.lines().collect();
    let gap = lines.iter().position(|line| line.starts_with("a ")).unwrap();
    lines.remove(gap);
    std::fs::write(place.path("t/ledger"), lines.join("\n") + "\n").unwrap();
    let strange = verified(&place);
    assert_eq!(strange.code, 8, "{}", strange.out);
    assert!(strange.out.contains("nobody wrote"), "{}", strange.out);

    let floors =
        [count("kills", number("kills"), 6), count("acknowledged", number("acknowledged"), 6)];
    counts::tell("torture", &floors);
}

/// Without the durability in its ledger, a run of flushed commits was told to have lost what the
/// power may take.
#[test]
fn flushed_commits_need_not_outlive_the_power() {
    let place = Place::new();
    let run = ["torture", "--kills", "6", "--data-dir", "t", "--writers", "1"];
    place.ok(&[&run[..], &["--durability", "flushed"]].concat());
    let ran = verified(&place);
    assert!(ran.code == 0 && ran.out.contains("Nothing that was acknowledged"), "{}", ran.out);
    let take = |of: fn(&[u64]) -> u64| {
        let db = Db::open(place.path("t/data")).unwrap();
        let table = db.table("t0000000").unwrap();
        let rows = table.scan::<&[u8], &[u8]>(..).unwrap();
        let keys: Vec<Vec<u8>> = rows.map(|row| row.unwrap().row_key.to_vec()).collect();
        let number = |key: &[u8]| std::str::from_utf8(&key[..8]).unwrap().parse::<u64>().unwrap();
        let numbers: Vec<u64> = keys.iter().map(|key| number(key)).collect();
        let gone = of(&numbers);
        for key in keys.iter().filter(|key| number(key) == gone) {
            table.delete("c0", key, If::Any).unwrap();
        }
        db.close().unwrap();
    };
    take(|numbers| *numbers.last().unwrap());
    let ran = verified(&place);
    assert_eq!(ran.code, 0, "{}", ran.out);
    assert!(ran.out.contains("1 of the last commits are not: flushed commits"), "{}", ran.out);
    take(|numbers| numbers[0]);
    let ran = verified(&place);
    assert_eq!(ran.code, 8, "{}", ran.out);
    assert!(ran.out.contains("a later one of its writer is there"), "{}", ran.out);
}

/// A power cut in the first moments left such a ledger, which was praised for nothing.
#[test]
fn a_ledger_without_a_commit_proves_nothing() {
    let place = Place::new();
    std::fs::create_dir(place.path("t")).unwrap();
    Db::open(place.path("t/data")).unwrap().close().unwrap();
    for lines in ["", "table t0000000\n"] {
        place.file("t/ledger", format!("tabulith-torture 1 7 3\n{lines}"));
        let ran = verified(&place);
        assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
        assert!(ran.err.contains("the ledger has no commit"), "{}", ran.err);
    }
}

#[test]
fn what_means_nothing_is_refused() {
    let place = Place::new();
    place.file("file", "x");
    for (args, code) in [
        (&["torture", "--data-dir", ".", "--kills", "1"][..], 5),
        (&["torture", "--data-dir", "t", "--durability", "buffered"], 2),
        (&["torture", "--data-dir", "t", "--minutes", "0"], 2),
        (&["torture", "--verify", "--data-dir", "none"], 3),
    ] {
        let ran = place.run(args);
        assert_eq!(ran.code, code, "{args:?}: {}{}", ran.out, ran.err);
    }
    assert!(place.path("file").exists());
}
