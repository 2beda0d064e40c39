//! Results as Markdown: what a terminal, a pull request and a page of documentation show.

use crate::bench::figures::{bytes, or_dash, short, time_us};
use crate::bench::grouped::Group;
use crate::bench::sheets;
use std::collections::HashSet;
use std::fmt::Write as _;
use tabulith_results::result::{Results, Run};

/// More groups than this are shown side by side alone.
pub(crate) const GROUPS_MAX: usize = 48;

/// All of it.
pub(crate) fn markdown(results: &Results) -> String {
    let mut text = String::new();
    for run in &results.runs {
        for (name, value) in facts(run) {
            let _ = writeln!(text, "- {name}: {value}");
        }
        for (name, value) in &run.facts {
            let _ = writeln!(text, "- {name}: {value}");
        }
        text.push('\n');
    }
    let groups = Group::all(&results.workloads);
    text.push_str(&sheets::markdown(&groups));
    if groups.len() <= GROUPS_MAX {
        text.push_str(&summary(&groups));
    }
    text.push_str(&stress(results));
    text.push_str(&rest(results));
    text
}

/// What a reader has to know before he believes a figure.
pub(crate) fn facts(run: &Run) -> Vec<(&'static str, String)> {
    let machine = &run.machine;
    let not = || "not known".to_owned();
    let mut facts = vec![
        ("durability", run.durability.clone()),
        (
            "sync of the disk",
            run.floor.as_ref().map_or("not measured".to_owned(), |floor| floor.told()),
        ),
        (
            "measured",
            run.target
                .as_ref()
                .map_or(not(), |about| format!("{} in {}", about.engine, about.place)),
        ),
        (
            "program",
            format!(
                "{}, {} build",
                run.program,
                if run.optimized { "release" } else { "**debug**" }
            ),
        ),
        ("commit", run.commit.clone().unwrap_or_else(not)),
        ("started", run.started.clone()),
        ("system", machine.system.clone()),
        (
            "processor",
            format!(
                "{}, {} cores, cache {}",
                machine.processor.clone().unwrap_or_else(not),
                machine.cores,
                machine.processor_cache.clone().unwrap_or_else(not)
            ),
        ),
        ("memory", machine.memory_bytes.map_or(not(), bytes)),
        ("file system", machine.file_system.clone().unwrap_or_else(not)),
        ("disk", machine.disk.clone().unwrap_or_else(not)),
        ("load before", machine.load_before.clone().unwrap_or_else(not)),
        ("seed", run.seed.to_string()),
    ];
    facts.retain(|(_, value)| value != "not known");
    if !run.command.is_empty() {
        facts.push(("command", format!("`{}`", run.command)));
    }
    facts
}

/// One line for each workload: medians of its runs.
fn summary(groups: &[Group<'_>]) -> String {
    if groups.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "| workload | of | durability | threads | rate | per second | spread | p50 | p99 | p99.9 | max | write amp. | \
         space amp. | read amp. | memory | not done |\n\
         |---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for group in groups {
        let first = group.first();
        let latency = |figure: fn(&tabulith_results::latency::Latency) -> Option<f64>| {
            or_dash(group.latency(figure), time_us)
        };
        let spread = group.spread(|run| Some(run.per_second)).filter(|spread| spread.runs > 1);
        let lost: u64 = group.runs.iter().map(|run| run.failed + run.refused + run.late).sum();
        let unit = first.unit.as_ref().map_or(String::new(), |unit| format!(" {unit}"));
        let cells = [
            first.name.clone(),
            first.target.clone(),
            first.durability.clone(),
            if first.threads == 0 { "–".to_owned() } else { first.threads.to_string() },
            first.rate.map_or("–".to_owned(), short),
            or_dash(group.median(|run| Some(run.per_second)), |v| short(v) + &unit),
            or_dash(spread, |spread| format!("{:.0} %", spread.percent())),
            latency(|l| l.p50),
            latency(|l| l.p99),
            latency(|l| l.p99_9),
            latency(|l| l.max),
            or_dash(group.median(|run| run.write_amplification), short),
            or_dash(group.median(|run| run.space_amplification), short),
            or_dash(group.median(|run| run.read_amplification), short),
            or_dash(group.median(|run| run.memory_bytes.map(|b| b as f64)), |b| bytes(b as u64)),
            lost.to_string(),
        ];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

/// What else there is to say of runs; the same of several runs is said once.
pub(crate) fn remarks(results: &Results) -> Vec<String> {
    let mut said = HashSet::new();
    let new = results.workloads.iter().filter_map(|run| {
        let remark = run.remark.as_deref()?;
        let is_new = said.insert((&run.name, &run.target, remark));
        is_new.then(|| format!("{} of {}, run {}: {remark}", run.name, run.target, run.run))
    });
    new.collect()
}

/// Remarks, and what failed.
fn rest(results: &Results) -> String {
    let mut text = String::new();
    for remark in remarks(results) {
        let _ = writeln!(text, "\n{remark}");
    }
    for failure in &results.failures {
        let (workload, target) = (&failure.workload, &failure.target);
        let _ =
            writeln!(text, "\n**{workload} of {target}, run {}: {}**", failure.run, failure.why);
    }
    text
}

/// The stress test of a partition.
pub(crate) fn stress(results: &Results) -> String {
    if results.steps.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "\n| offered a second | achieved | not done | p50 | p99 | max |\n|--:|--:|--:|--:|--:|--:|\n",
    );
    for step in &results.steps {
        let latency = |value| or_dash(value, time_us);
        let _ = writeln!(
            text,
            "| {} | {} | {:.1} % | {} | {} | {} |",
            short(step.offered),
            short(step.achieved),
            step.lost * 100.0,
            latency(step.latency_us.p50),
            latency(step.latency_us.p99),
            latency(step.latency_us.max)
        );
    }
    for knee in &results.knees {
        let _ = writeln!(text, "\n**{}**", knee.why);
        knee.advice.iter().for_each(|line| text.push_str(&format!("\n- {line}")));
        text.push('\n');
    }
    text
}
