//! The report as one page of HTML that needs nothing else: no script, no font, no picture from
//! elsewhere.

use crate::bench::charts;
use crate::bench::figures::{bytes, or_dash, short, time_us};
use crate::bench::grouped::Group;
use crate::bench::markdown::{self, GROUPS_MAX, facts};
use crate::bench::rows::Names;
use crate::bench::sheets;
use crate::bench::svg::escaped;
use std::fmt::Write as _;
use tabulith_results::latency::Latency;
use tabulith_results::result::{Results, Run, Workload};

/// The style, for light and dark.
const STYLE: &str = include_str!("report.css");

/// More than this have no charts of their own.
const CHARTED_MAX: usize = 24;

/// More facts than this stand folded.
const FACTS_OPEN_MAX: usize = 6;

/// The page.
pub(crate) fn page(results: &Results) -> String {
    let groups = Group::all(&results.workloads);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Tabulith bench</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
    );
    out.push_str("<h1>Tabulith bench</h1>\n");
    results.runs.iter().for_each(|run| head(&mut out, run));
    out.push_str(&sheets::html(&groups));
    remarks(&mut out, results, groups.len() > GROUPS_MAX);
    if groups.len() <= GROUPS_MAX {
        glance(&mut out, &groups);
    }
    stress(&mut out, results);
    let curved: Vec<&Group<'_>> =
        groups.iter().filter(|group| !group.first().curve.is_empty()).collect();
    // The curves of many engines are in the file; in a page nobody could tell them apart.
    let curved = if groups.len() <= GROUPS_MAX { curved } else { Vec::new() };
    for (at, some) in curved.chunks(charts::CLASSES.len()).enumerate().take(4) {
        if let Some(svg) = charts::percentiles(some) {
            let title = if at == 0 { "<h2>Percentiles</h2>\n" } else { "" };
            let _ = writeln!(out, "{title}<figure>{svg}</figure>");
        }
    }
    for group in groups.iter().take(CHARTED_MAX) {
        workload(&mut out, results, group);
    }
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

/// What a reader has to know first: the promise and the disk's floor large, the rest below.
fn head(out: &mut String, run: &Run) {
    let floor = run.floor.as_ref().map(|floor| time_us(floor.p50_us));
    let target = run.target.as_ref();
    let what = target.map_or(String::new(), |about| about.engine.clone());
    let cards = [
        ("Durability", run.durability.clone(), "what a commit promises when it is acknowledged"),
        ("Sync of the disk", or_dash(floor, |text| text), "the floor below every synced commit"),
        ("Measured", what, target.map_or("", |about| about.place.as_str())),
    ];
    out.push_str("<section class=\"cards\">\n");
    for (name, value, more) in cards.iter().filter(|(_, value, _)| !value.is_empty()) {
        let (value, more) = (escaped(value), escaped(more));
        let _ = writeln!(
            out,
            "<div class=\"card\"><h3>{name}</h3><p class=\"big\">{value}</p><p>{more}</p></div>"
        );
    }
    out.push_str("</section>\n");
    if !run.optimized && run.format > 0 {
        out.push_str("<p class=\"warning\">A debug build measured this: the figures say nothing about speed.</p>\n");
    }
    let rest =
        facts(run).into_iter().filter(|(name, _)| *name != "durability" && *name != "measured");
    facts_list(out, rest.map(|(name, value)| (name.to_owned(), value)));
    // So many that they would push the figures off the first screen are folded.
    let is_long = run.facts.len() > FACTS_OPEN_MAX;
    out.push_str(if is_long { "<details><summary>Settings</summary>\n" } else { "" });
    facts_list(out, run.facts.iter().cloned());
    out.push_str(if is_long { "</details>\n" } else { "" });
}

fn facts_list(out: &mut String, facts: impl Iterator<Item = (String, String)>) {
    let mut any = false;
    for (name, value) in facts {
        out.push_str(if any { "" } else { "<dl>\n" });
        any = true;
        let value = escaped(&value.replace("**", ""));
        let value = match value.strip_prefix('`').and_then(|text| text.strip_suffix('`')) {
            Some(command) => format!("<code>{command}</code>"),
            None => value,
        };
        let _ = writeln!(out, "<dt>{}</dt><dd>{value}</dd>", escaped(&name));
    }
    out.push_str(if any { "</dl>\n" } else { "" });
}

/// How wide the bar of a figure is, of the largest one of its kind.
fn bar(value: Option<f64>, most: f64) -> String {
    let share = value.map_or(0.0, |value| value / most.max(1e-9) * 100.0);
    format!("<span class=\"bar\" style=\"width:{share:.1}%\"></span>")
}

/// A line for each workload.
fn glance(out: &mut String, groups: &[Group<'_>]) {
    if groups.is_empty() {
        return;
    }
    out.push_str(
        "<h2>At a glance</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th>workload</th><th>of</th><th>durability</th>\
         <th class=\"wide\">per second</th><th class=\"n\">spread</th><th class=\"n\">p50</th><th class=\"n\">p99</th><th class=\"n\">p99.9</th><th class=\"n\">max</th>\
         <th class=\"n\">write amp.</th><th class=\"n\">space amp.</th><th class=\"n\">read amp.</th><th class=\"n\">memory</th><th class=\"n\">disk</th><th class=\"n\">not done</th></tr></thead>\n<tbody>\n",
    );
    let rates: Vec<Option<f64>> =
        groups.iter().map(|group| group.median(|run| Some(run.per_second))).collect();
    let plain = |group: &Group<'_>| group.first().unit.is_none();
    let most = groups.iter().zip(&rates).filter(|(group, _)| plain(group));
    let most = most.filter_map(|(_, rate)| *rate).fold(0.0, f64::max);
    for (group, rate) in groups.iter().zip(&rates) {
        let first = group.first();
        let latency = |figure: fn(&Latency) -> Option<f64>| or_dash(group.latency(figure), time_us);
        let spread = group.spread(|run| Some(run.per_second)).filter(|spread| spread.runs > 1);
        let lost: u64 = group.runs.iter().map(|run| run.failed + run.refused + run.late).sum();
        let threads = match (first.threads, first.rate) {
            (0, _) => String::new(),
            (threads, Some(rate)) => format!("{threads} threads at {} a second", short(rate)),
            (1, None) => "1 thread".to_owned(),
            (threads, None) => format!("{threads} threads"),
        };
        let unit = first.unit.as_ref().map_or(String::new(), |unit| format!(" {}", escaped(unit)));
        let drawn = if plain(group) { bar(*rate, most) } else { String::new() };
        let _ = writeln!(
            out,
            "<tr><th>{}<small>{threads}</small></th><td>{}</td><td>{}</td><td class=\"wide\"><b>{}{unit}</b>{drawn}</td>",
            escaped(&first.name),
            escaped(&first.target),
            escaped(&first.durability),
            or_dash(*rate, short)
        );
        let cells = [
            or_dash(spread, |spread| format!("± {:.0} % of {}", spread.percent(), spread.runs)),
            latency(|l| l.p50),
            latency(|l| l.p99),
            latency(|l| l.p99_9),
            latency(|l| l.max),
            or_dash(group.median(|run| run.write_amplification), short),
            or_dash(group.median(|run| run.space_amplification), short),
            or_dash(group.median(|run| run.read_amplification), short),
            or_dash(group.median(|run| run.memory_bytes.map(|b| b as f64)), |b| bytes(b as u64)),
            or_dash(group.median(|run| run.disk_bytes.map(|b| b as f64)), |b| bytes(b as u64)),
            lost.to_string(),
        ];
        for cell in &cells {
            let _ = write!(out, "<td class=\"n\">{cell}</td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

/// What there is nothing of, and why; and what else was remarked.
fn remarks(out: &mut String, results: &Results, are_many: bool) {
    if are_many {
        let remarks = markdown::remarks(results);
        if !remarks.is_empty() {
            out.push_str("<details><summary>Remarks</summary>\n<ul>\n");
            for remark in remarks {
                let _ = writeln!(out, "<li>{}</li>", escaped(&remark));
            }
            out.push_str("</ul></details>\n");
        }
    }
    if results.failures.is_empty() {
        return;
    }
    out.push_str("<h2>What failed</h2>\n<ul>\n");
    for failure in &results.failures {
        let text = format!(
            "{} of {}, run {}: {}",
            failure.workload, failure.target, failure.run, failure.why
        );
        let _ = writeln!(out, "<li>{}</li>", escaped(&text));
    }
    out.push_str("</ul>\n");
}

/// The stress test of a partition.
fn stress(out: &mut String, results: &Results) {
    let Some([rates, times]) = charts::stress(results) else { return };
    out.push_str("<h2>One partition</h2>\n");
    for knee in &results.knees {
        let _ = writeln!(out, "<p class=\"verdict\">{}</p>\n<ul>", escaped(&knee.why));
        for line in &knee.advice {
            let _ = writeln!(out, "<li>{}</li>", escaped(line));
        }
        out.push_str("</ul>\n");
    }
    let _ = writeln!(out, "<figure>{rates}</figure>\n<figure>{times}</figure>");
}

/// One workload over time.
fn workload(out: &mut String, results: &Results, group: &Group<'_>) {
    let run = group.middle();
    let Some(charts) = charts::over_time(results, group) else { return };
    let _ = writeln!(
        out,
        "<h2>{} <small>{}</small></h2>\n<p>{}</p>",
        escaped(&run.name),
        escaped(&run.target),
        escaped(&circumstances(results, group))
    );
    if let Some(remark) = &run.remark {
        let _ = writeln!(out, "<p>{}</p>", escaped(remark));
    }
    acts(out, run);
    for svg in &charts.wide {
        let _ = writeln!(out, "<figure>{svg}</figure>");
    }
    if !charts.small.is_empty() {
        out.push_str("<div class=\"row\">\n");
        for svg in &charts.small {
            let _ = writeln!(out, "<figure>{svg}</figure>");
        }
        out.push_str("</div>\n");
    }
}

/// How the middle run of a group was made, in a sentence.
fn circumstances(results: &Results, group: &Group<'_>) -> String {
    let run = group.middle();
    let data = run.rows * (run.value_bytes as u64 + Names::KEY_BYTES);
    let memory = results.runs.first().and_then(|head| head.machine.memory_bytes);
    let of_memory = memory.map_or(String::new(), |memory| {
        format!(", {:.1} % of the machine's memory", data as f64 / memory as f64 * 100.0)
    });
    let threads = if run.threads == 1 { "1 thread" } else { &format!("{} threads", run.threads) };
    let rate = match run.rate {
        Some(rate) => format!("at {} a second", short(rate)),
        None => "as fast as it goes".to_owned(),
    };
    let runs = match group.runs.len() {
        1 => String::new(),
        runs => format!("; the middle one of {runs} runs"),
    };
    format!(
        "{} rows with values of {} bytes ({}{of_memory}); {threads} {rate}; keys {}; {}; {:.1} s{runs}.",
        short(run.rows as f64),
        run.value_bytes,
        bytes(data),
        run.keys,
        run.durability,
        run.seconds
    )
}

/// The kinds of operations, where there are several.
fn acts(out: &mut String, run: &Workload) {
    if run.acts.len() < 2 {
        return;
    }
    out.push_str("<div class=\"scroll\"><table>\n<thead><tr><th>operation</th><th class=\"n\">how many</th><th class=\"n\">p50</th><th class=\"n\">p99</th><th class=\"n\">p99.9</th><th class=\"n\">max</th></tr></thead>\n<tbody>\n");
    for act in &run.acts {
        let Latency { p50, p99, p99_9, max, .. } = act.latency_us;
        let _ = write!(
            out,
            "<tr><th>{}</th><td class=\"n\">{}</td>",
            escaped(&act.act),
            short(act.ops as f64)
        );
        for value in [p50, p99, p99_9, max] {
            let _ = write!(out, "<td class=\"n\">{}</td>", or_dash(value, time_us));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn golden() -> Results {
        let mut results = Results::default();
        results.read(include_str!("../../tests/bench/result.jsonl")).unwrap();
        results
    }

    /// The elements of a page by their order, without text and attributes.
    fn structure(page: &str) -> String {
        let mut out = String::new();
        let (_, body) = page.split_once("<body>").unwrap();
        for part in body.split('<').skip(1) {
            let tag: String = part.chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
            let text = part.split_once('>').map_or("", |(_, text)| text).trim();
            if matches!(tag.as_str(), "h1" | "h2" | "h3" | "th" | "dt" | "figure" | "li" | "table")
            {
                out.push_str(&format!("{tag} {text}\n"));
            } else if tag == "text" && part.contains("class=\"title\"") {
                out.push_str(&format!("  chart: {text}\n"));
            } else if tag == "text"
                && (part.contains("class=\"label") || part.contains("class=\"rule"))
            {
                out.push_str(&format!("    {text}\n"));
            }
        }
        out
    }

    #[test]
    fn the_structure_of_a_report_is_as_it_was() {
        let found = structure(&page(&golden()));
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bench/report.txt");
        if std::env::var_os("TABULITH_BLESS").is_some() {
            #[allow(clippy::disallowed_methods, reason = "writes the snapshot")]
            std::fs::write(file, &found).unwrap();
        }
        assert_eq!(
            found,
            include_str!("../../tests/bench/report.txt"),
            "TABULITH_BLESS=1 writes {file}"
        );
    }

    #[test]
    fn a_page_needs_nothing_else_and_believes_no_text() {
        let mut results = golden();
        results.workloads[0].remark = Some("<script>alert(1)</script>".to_owned());
        results.workloads[0].target = "\"><img src=x>".to_owned();
        results.runs[0].machine.disk = Some("<b>".to_owned());
        let page = page(&results);
        for foreign in ["<script", "<img", "<link", "http:", "https:", "@import", "url(", "<b>\n"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        assert!(page.contains("&lt;script&gt;") && page.contains("prefers-color-scheme: dark"));
        for open in
            ["section", "table", "details", "figure", "svg", "ul", "dl", "p", "h2", "div", "small"]
        {
            let (opened, closed) = (
                page.matches(&format!("<{open}")).count(),
                page.matches(&format!("</{open}>")).count(),
            );
            // `<path` begins like `<p`.
            let paths = if open == "p" { page.matches("<path").count() } else { 0 };
            assert_eq!(opened - paths, closed, "{open}");
        }
    }

    #[test]
    fn targets_of_the_same_conditions_stand_side_by_side() {
        let mut results = golden();
        let mut other = results.workloads[0].clone();
        other.target = "other".to_owned();
        other.per_second /= 2.0;
        results.workloads.push(other);
        let page = page(&results);
        assert!(page.contains("<h2>Side by side</h2>"));
        let (main, rest) = page.split_once("<details>").unwrap();
        assert_eq!((main.matches("n best").count(), rest.matches("<details>").count()), (1, 6));
        results.workloads.last_mut().unwrap().threads += 1;
        assert!(
            !super::page(&results).contains("Side by side"),
            "other conditions are no comparison"
        );
        assert!(super::page(&Results::default()).contains("</html>"));
    }

    #[test]
    fn many_settings_stand_folded_above_the_figures() {
        let mut results = golden();
        assert!(!page(&results).contains("<summary>Settings"));
        let fact = ("engine".to_owned(), "its settings".to_owned());
        results.runs[0].facts = vec![fact; FACTS_OPEN_MAX + 1];
        let page = page(&results);
        let (_, folded) = page.split_once("<summary>Settings</summary>").unwrap();
        let (folded, _) = folded.split_once("</details>").unwrap();
        assert_eq!(folded.matches("<dd>its settings</dd>").count(), FACTS_OPEN_MAX + 1);
    }
}
