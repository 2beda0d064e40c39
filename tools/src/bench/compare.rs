//! `tabulith bench compare`: whether a second result is worse than a first, beyond what runs differ
//! anyway.

use crate::args::bench::CompareArgs;
use crate::bench::figures::{short, time_us};
use crate::bench::files;
use crate::bench::grouped::{Group, Spread, conditions};
use crate::exit::{self, Exit, Failure};
use crate::list;
use crate::print::{self, note};
use anyhow::Result;
use serde_json::{Map, Value as Json, json};
use tabulith_results::result::{Results, Run, Workload};

/// What counts as nothing where one side ran once, in percent: nothing is known of its spread.
const NOISE_PERCENT: f64 = 10.0;

/// A figure of a run.
type Figure = fn(&Workload) -> Option<f64>;

/// What became of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Same,
    Better,
    Worse,
}

/// One figure of one workload on both sides.
#[derive(Clone, Debug)]
pub(crate) struct Compared {
    pub(crate) workload: String,
    pub(crate) figure: &'static str,
    pub(crate) a: Spread,
    pub(crate) b: Spread,
    /// By how much B is more, in percent of A.
    pub(crate) change: f64,
    pub(crate) verdict: Verdict,
}

/// Judges a figure: beyond the tolerance, and beyond where any run of the other side was.
pub(crate) fn judge(a: Spread, b: Spread, less_is_better: bool, tolerance: f64) -> (f64, Verdict) {
    let change = if a.median == 0.0 { 0.0 } else { (b.median - a.median) / a.median.abs() * 100.0 };
    let known = a.runs > 1 && b.runs > 1;
    let nothing = if known { tolerance } else { tolerance.max(NOISE_PERCENT) };
    let apart = b.least > a.most || b.most < a.least;
    if change.abs() <= nothing || !apart {
        return (change, Verdict::Same);
    }
    let verdict = if (change > 0.0) == less_is_better { Verdict::Worse } else { Verdict::Better };
    (change, verdict)
}

/// All figures that both sides have under the same conditions, and the workloads that only one has.
pub(crate) fn compare(a: &Results, b: &Results, tolerance: f64) -> (Vec<Compared>, Vec<String>) {
    let (mut rows, mut alone) = (Vec::new(), Vec::new());
    let (of_a, of_b) = (Group::all(&a.workloads), Group::all(&b.workloads));
    // What each side calls its target may differ: that may be what is compared.
    let one_each = |groups: &[Group<'_>], wanted: &Workload| {
        groups.iter().filter(|group| conditions(group.first()) == conditions(wanted)).count() == 1
    };
    let mut met = vec![false; of_b.len()];
    for group in &of_a {
        let own = group.first();
        let other = of_b.iter().position(|other| {
            let other = other.first();
            conditions(other) == conditions(own)
                && (other.target == own.target || (one_each(&of_a, own) && one_each(&of_b, own)))
        });
        let Some(at) = other else {
            alone.push(format!("{} of {} is in A alone", own.name, own.target));
            continue;
        };
        met[at] = true;
        let other = &of_b[at];
        let figures: [(&'static str, Figure, bool); 2] = [
            ("per second", |run| Some(run.per_second), own.less_is_better),
            ("p99 us", |run| run.latency_us.p99, true),
        ];
        for (figure, value, less_is_better) in figures {
            if let (Some(a), Some(b)) = (group.spread(value), other.spread(value)) {
                let (change, verdict) = judge(a, b, less_is_better, tolerance);
                let workload = own.name.clone();
                rows.push(Compared { workload, figure, a, b, change, verdict });
            }
        }
    }
    for (group, _) in of_b.iter().zip(met).filter(|(_, met)| !met) {
        alone.push(format!("{} of {} is in B alone", group.first().name, group.first().target));
    }
    (rows, alone)
}

/// What makes two results hard to compare.
fn doubts(a: Option<&Run>, b: Option<&Run>) -> Vec<String> {
    let (Some(a), Some(b)) = (a, b) else { return Vec::new() };
    let mut doubts = Vec::new();
    let facts = [
        ("processor", a.machine.processor != b.machine.processor),
        ("number of cores", a.machine.cores != b.machine.cores),
        ("file system", a.machine.file_system != b.machine.file_system),
        ("build (debug or release)", a.optimized != b.optimized),
    ];
    for (what, differs) in facts {
        if differs {
            doubts.push(format!("the {what} differs between A and B"));
        }
    }
    if let (Some(a), Some(b)) = (&a.floor, &b.floor)
        && (a.p50_us - b.p50_us).abs() > 0.3 * a.p50_us.min(b.p50_us)
    {
        doubts.push(format!(
            "a sync of the disk took {:.0} us at A and {:.0} us at B",
            a.p50_us, b.p50_us
        ));
    }
    doubts
}

/// Compares two files.
pub(crate) fn run(args: &CompareArgs) -> Result<Exit> {
    if !(0.0..=1e6).contains(&args.tolerance) {
        return Err(Failure::usage("--tolerance is a percentage").into());
    }
    let (mut a, mut b) = (Results::default(), Results::default());
    files::read(&args.a, &mut a)?;
    files::read(&args.b, &mut b)?;
    let (rows, alone) = compare(&a, &b, args.tolerance);
    if rows.is_empty() {
        return Err(
            Failure::usage("no workload of A was run under the same conditions in B").into()
        );
    }
    let items: Vec<Map<String, Json>> = rows.iter().map(item).collect();
    let told = list::print(&mut print::out(), args.output, &items);
    doubts(a.runs.first(), b.runs.first()).iter().for_each(|doubt| note(doubt));
    alone.iter().for_each(|line| note(line));
    if rows.iter().any(|row| row.a.runs.min(row.b.runs) < 2) {
        note("with one run on a side its spread is not known: --runs 5 makes more");
    }
    let worse = rows.iter().filter(|row| row.verdict == Verdict::Worse).count();
    note(&format!("{worse} of {} figures are worse", rows.len()));
    exit::verdict(told, if worse > 0 { Exit::Failure } else { Exit::Ok })
}

fn item(row: &Compared) -> Map<String, Json> {
    let told = |value: f64| if row.figure == "p99 us" { time_us(value) } else { short(value) };
    let spread = |spread: &Spread| match spread.runs {
        1 => told(spread.median),
        runs => format!(
            "{} ({} to {}, {runs} runs)",
            told(spread.median),
            told(spread.least),
            told(spread.most)
        ),
    };
    let verdict = match row.verdict {
        Verdict::Same => "same",
        Verdict::Better => "better",
        Verdict::Worse => "worse",
    };
    let value = json!({
        "workload": row.workload,
        "figure": row.figure,
        "a": spread(&row.a),
        "b": spread(&row.b),
        "change": format!("{:+.1} %", row.change),
        "verdict": verdict,
    });
    value.as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tabulith_results::latency::Latency;

    fn results(target: &str, runs: &[(&str, f64, f64)]) -> Results {
        let workloads = runs.iter().map(|(name, per_second, p99)| Workload {
            name: (*name).to_owned(),
            target: target.to_owned(),
            per_second: *per_second,
            latency_us: Latency { p99: Some(*p99), ..Latency::default() },
            ..Workload::default()
        });
        Results { workloads: workloads.collect(), ..Results::default() }
    }

    fn verdicts(a: &Results, b: &Results) -> Vec<Verdict> {
        compare(a, b, 5.0).0.into_iter().map(|row| row.verdict).collect()
    }

    #[test]
    fn worse_is_beyond_the_spread_and_beyond_the_tolerance() {
        use Verdict::{Better, Same, Worse};
        let before =
            results("folder", &[("x", 100.0, 10.0), ("x", 110.0, 11.0), ("x", 105.0, 10.0)]);
        let slower = results("folder", &[("x", 80.0, 10.0), ("x", 85.0, 10.5), ("x", 90.0, 11.0)]);
        assert_eq!(verdicts(&before, &slower), [Worse, Same]);
        assert_eq!(verdicts(&slower, &before), [Better, Same]);
        assert_eq!(verdicts(&before, &before), [Same, Same]);
        // Within the spread of the other side: nobody knows.
        let wide = results("folder", &[("x", 60.0, 10.0), ("x", 80.0, 10.0), ("x", 104.0, 10.0)]);
        assert_eq!(verdicts(&before, &wide), [Same, Same]);
        // Apart, but by less than the tolerance.
        let close = results("folder", &[("x", 99.0, 10.0), ("x", 99.5, 10.0), ("x", 99.9, 10.0)]);
        let tight = results("folder", &[("x", 101.0, 10.0), ("x", 101.5, 10.0)]);
        assert_eq!(verdicts(&tight, &close), [Same, Same]);
        // A longer tail is worse although more is more.
        let tail = results("folder", &[("x", 105.0, 20.0), ("x", 105.0, 21.0)]);
        assert_eq!(verdicts(&before, &tail), [Same, Worse]);
    }

    #[test]
    fn one_run_has_no_spread_so_less_is_said() {
        let one = |per_second| results("folder", &[("x", per_second, 10.0)]);
        assert_eq!(verdicts(&one(100.0), &one(92.0))[0], Verdict::Same);
        assert_eq!(verdicts(&one(100.0), &one(88.0))[0], Verdict::Worse);
    }

    #[test]
    fn other_conditions_are_no_comparison_and_other_targets_may_be() {
        let a = results("folder", &[("x", 100.0, 1.0), ("y", 1.0, 1.0)]);
        let mut b = results("azurite", &[("x", 50.0, 1.0), ("z", 1.0, 1.0)]);
        let (rows, alone) = compare(&a, &b, 5.0);
        assert_eq!(rows.len(), 2);
        assert_eq!(alone, ["y of folder is in A alone", "z of azurite is in B alone"]);
        b.workloads[0].durability = "buffered".to_owned();
        assert!(compare(&a, &b, 5.0).0.is_empty());
        let (_, worse) = judge(
            Spread { median: 1.0, least: 1.0, most: 1.0, runs: 2 },
            Spread { median: 2.0, least: 2.0, most: 2.0, runs: 2 },
            true,
            5.0,
        );
        assert_eq!(worse, Verdict::Worse, "of milliseconds more is worse");
    }
}
