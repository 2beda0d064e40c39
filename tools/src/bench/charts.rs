//! The charts of a report: which figures of a result are drawn, and how.

use crate::bench::figures::{bytes, short, time_us};
use crate::bench::grouped::Group;
use crate::bench::svg::{Chart, Curve, Scale, seconds_ticks};
use tabulith_results::latency::Latency;
use tabulith_results::result::{Results, Second, Workload};

/// Classes of colours that are told apart.
pub(crate) const CLASSES: [&str; 8] = ["c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"];

/// A chart over the whole width, and one of three beside each other.
const WIDE: (f64, f64) = (960.0, 200.0);
const SMALL: (f64, f64) = (310.0, 150.0);

/// Room for the labels of latencies, which throughput above them keeps free.
const ROOM: f64 = 60.0;

/// A figure of latencies.
type Figure = fn(&Latency) -> Option<f64>;

/// Fewer seconds than this are no curve.
const SECONDS_MIN: usize = 2;

/// The percentile curves of workloads, the middle run of each.
pub(crate) fn percentiles(groups: &[&Group<'_>]) -> Option<String> {
    let shown: Vec<&Workload> =
        groups.iter().map(|group| group.middle()).filter(|run| run.curve.len() > 1).collect();
    if shown.is_empty() {
        return None;
    }
    let several = shown.iter().any(|run| run.target != shown[0].target);
    let place = |percent: f64| -((1.0 - percent / 100.0).max(1e-9).log10());
    let ops = shown.iter().map(|run| run.ops).max().unwrap_or(1).max(10);
    let last = (ops as f64).log10().clamp(1.0, 6.0);
    let mut chart = Chart::new("Latency by percentile", (960.0, 280.0), (0.0, last));
    (chart.scale, chart.told) = (Scale::Log, |us| time_us(us).replace(".00", "").replace(".0", ""));
    let names = ["0 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %", "99.9999 %"];
    chart.ticks = names
        .iter()
        .enumerate()
        .map(|(at, name)| (at as f64, (*name).to_owned()))
        .filter(|(at, _)| *at <= last)
        .collect();
    for (run, class) in shown.iter().zip(CLASSES) {
        let label = if several { format!("{} {}", run.name, run.target) } else { run.name.clone() };
        let points =
            run.curve.iter().map(|(p, us)| Some((place(*p).min(last), us.max(0.01)))).collect();
        chart.curves.push(Curve { label, class, points });
    }
    Some(chart.svg())
}

/// The charts of one workload over time: what it did, how long that took, and what it cost.
pub(crate) struct OverTime {
    /// Throughput and latency, each over the whole width.
    pub(crate) wide: Vec<String>,
    /// What stands beside each other.
    pub(crate) small: Vec<String>,
}

/// The charts of the middle run of a group; `None` where it was too short for any.
pub(crate) fn over_time(results: &Results, group: &Group<'_>) -> Option<OverTime> {
    let run = group.middle();
    let of_run = |second: &&Second| second.workload == run.name && second.run == run.run;
    let mut seconds: Vec<&Second> = results.seconds.iter().filter(of_run).collect();
    // A last interval that is a sliver would end every line with a cliff.
    if seconds.last().is_some_and(|last| last.seconds < 0.5 * seconds[0].seconds) {
        seconds.pop();
    }
    if seconds.len() < SECONDS_MIN {
        return None;
    }
    let last = seconds.last().map_or(1.0, |second| second.at_s + second.seconds);
    let wide = vec![throughput(run, &seconds, last), latencies(&seconds, last)];
    let per_s = |second: &Second, value: f64| value / second.seconds;
    let small = [
        small("Stalls, ms a second", &seconds, last, short, |s| s.stall_ms.map(|ms| per_s(s, ms))),
        small(
            "Bytes written a second",
            &seconds,
            last,
            |v| bytes(v as u64),
            |s| s.written_bytes.map(|bytes| per_s(s, bytes as f64)),
        ),
        small(
            "Merges behind",
            &seconds,
            last,
            |v| bytes(v as u64),
            |s| s.debt_bytes.map(|b| b as f64),
        ),
        small("Memory", &seconds, last, |v| bytes(v as u64), |s| s.memory_bytes.map(|b| b as f64)),
        small(
            "Disk, log included",
            &seconds,
            last,
            |v| bytes(v as u64),
            |s| s.disk_bytes.map(|b| b as f64),
        ),
    ];
    Some(OverTime { wide, small: small.into_iter().flatten().collect() })
}

fn base(title: &str, size: (f64, f64), last: f64) -> Chart {
    let mut chart = Chart::new(title, size, (0.0, last));
    chart.ticks = seconds_ticks(last, if size.0 > 500.0 { 10 } else { 4 });
    if size == WIDE {
        chart.room = ROOM;
    }
    chart
}

fn middle(second: &Second) -> f64 {
    second.at_s + second.seconds / 2.0
}

fn throughput(run: &Workload, seconds: &[&Second], last: f64) -> String {
    let mut chart =
        base("Operations a second; marked: stalls, and seconds without an answer", WIDE, last);
    chart.filled = true;
    let points = seconds.iter().map(|s| Some((middle(s), s.ops as f64 / s.seconds))).collect();
    chart.curves.push(Curve { label: String::new(), class: "c1", points });
    for second in seconds {
        let end = second.at_s + second.seconds;
        let share = match second.ops {
            0 => 1.0,
            _ => {
                second.stall_ms.unwrap_or_default()
                    / (second.seconds * 1e3 * run.threads.max(1) as f64)
            }
        };
        if share > 0.01 {
            chart.marks.push((second.at_s, end, share.min(1.0)));
        }
        chart.tips.push((second.at_s, end, tip(second)));
    }
    if let Some(rate) = run.rate {
        chart.rules.push((rate, format!("due: {} a second", short(rate))));
    }
    chart.svg()
}

fn tip(second: &Second) -> String {
    let mut text = format!(
        "second {:.0}: {} a second",
        second.at_s,
        short(second.ops as f64 / second.seconds)
    );
    let Latency { p50, p99, p99_9, max, .. } = second.latency_us;
    for (name, value) in [("p50", p50), ("p99", p99), ("p99.9", p99_9), ("max", max)] {
        if let Some(us) = value {
            text.push_str(&format!("\n{name} {}", time_us(us)));
        }
    }
    if let Some(ms) = second.stall_ms.filter(|ms| *ms > 0.0) {
        text.push_str(&format!("\nstalls {ms:.0} ms"));
    }
    if second.failed > 0 {
        text.push_str(&format!("\n{} not done", second.failed));
    }
    text
}

fn latencies(seconds: &[&Second], last: f64) -> String {
    let mut chart = base("Latency", WIDE, last);
    (chart.scale, chart.told) = (Scale::Log, |us| time_us(us).replace(".00", "").replace(".0", ""));
    let kinds: [(&str, &'static str, Figure); 4] = [
        ("max", "q4", |l| l.max),
        ("p99.9", "q3", |l| l.p99_9),
        ("p99", "q2", |l| l.p99),
        ("p50", "q1", |l| l.p50),
    ];
    for (label, class, figure) in kinds {
        let points =
            seconds.iter().map(|s| figure(&s.latency_us).map(|us| (middle(s), us))).collect();
        chart.curves.push(Curve { label: label.to_owned(), class, points });
    }
    for second in seconds {
        chart.tips.push((second.at_s, second.at_s + second.seconds, tip(second)));
    }
    chart.svg()
}

/// A small chart of a figure; none where nobody has it, or where it is nothing throughout.
fn small(
    title: &str,
    seconds: &[&Second],
    last: f64,
    told: fn(f64) -> String,
    figure: impl Fn(&Second) -> Option<f64>,
) -> Option<String> {
    let points: Vec<Option<(f64, f64)>> =
        seconds.iter().map(|s| figure(s).map(|value| (middle(s), value))).collect();
    if !points.iter().flatten().any(|(_, value)| *value > 0.0) {
        return None;
    }
    let mut chart = base(title, SMALL, last);
    (chart.told, chart.filled) = (told, true);
    chart.curves.push(Curve { label: String::new(), class: "c1", points });
    Some(chart.svg())
}

/// The stress test: what was achieved and how long it took, by what was offered.
pub(crate) fn stress(results: &Results) -> Option<[String; 2]> {
    let mut steps: Vec<_> = results.steps.iter().collect();
    steps.sort_by(|a, b| a.offered.total_cmp(&b.offered));
    let (first, last) = (steps.first()?.offered, steps.last()?.offered);
    let place = |rate: f64| rate.max(1.0).log10();
    let across = (place(first), place(last).max(place(first) + 0.1));
    let ticks: Vec<(f64, String)> = (0..=9)
        .flat_map(|power| [1.0, 2.0, 5.0].map(|step| step * 10_f64.powi(power)))
        .filter(|rate| (first * 0.999..=last * 1.001).contains(rate))
        .map(|rate| (place(rate), short(rate).replace(".00", "").replace(".0", "")))
        .collect();
    let line = |figure: &dyn Fn(&tabulith_results::result::Step) -> Option<f64>| {
        steps.iter().map(|step| figure(step).map(|value| (place(step.offered), value))).collect()
    };
    let mut rates =
        Chart::new("Entities a second achieved, by entities a second due", WIDE, across);
    rates.scale = Scale::Log;
    rates.ticks = ticks.clone();
    rates.curves = vec![
        Curve { label: "due".to_owned(), class: "q1", points: line(&|step| Some(step.offered)) },
        Curve {
            label: "achieved".to_owned(),
            class: "c1",
            points: line(&|step| Some(step.achieved.max(1.0))),
        },
    ];
    rates.rules.push((2_000.0, "2,000: what Azure serves of one partition".to_owned()));
    let mut times = Chart::new("Latency, by entities a second due", WIDE, across);
    (times.scale, times.told) = (Scale::Log, |us| time_us(us).replace(".00", "").replace(".0", ""));
    times.ticks = ticks;
    times.curves = vec![
        Curve { label: "max".to_owned(), class: "q4", points: line(&|step| step.latency_us.max) },
        Curve { label: "p99".to_owned(), class: "q2", points: line(&|step| step.latency_us.p99) },
        Curve { label: "p50".to_owned(), class: "q1", points: line(&|step| step.latency_us.p50) },
    ];
    Some([rates.svg(), times.svg()])
}
