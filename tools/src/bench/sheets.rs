//! The tables of several targets side by side, as HTML and as Markdown.

use crate::bench::grouped::Group;
use crate::bench::side::{FIGURES, Figure, Row, Side};
use crate::bench::svg::escaped;
use std::fmt::Write as _;
use tabulith_results::result::Workload;

/// The bar of the best of a line.
const BAR_PX: f64 = 44.0;

/// From here on two figures are told apart by the two digits that are shown.
const BEHIND: f64 = 0.995;

/// The tables as HTML: throughput open, the rest to be opened; nothing where there is one target.
pub(crate) fn html(groups: &[Group<'_>]) -> String {
    let Some(side) = Side::of(groups) else { return String::new() };
    let own = escaped(side.targets[0]);
    let mut out = format!(
        "<h2>Side by side</h2>\n<p>Medians of lines under the same conditions; the best of each line is marked. \
         {own} is held against the best of the others{}: the ratio is how many times better it is, in red where it \
         is behind.</p>\n<p class=\"verdict\">{}</p>\n",
        if side.held < side.targets.len() { ", those in grey left out" } else { "" },
        escaped(&verdict(&side))
    );
    for figure in FIGURES.iter().filter(|figure| side.has(figure)) {
        let is_first = figure.name == FIGURES[0].name;
        if !is_first {
            let _ = writeln!(out, "<details><summary>{}</summary>", escaped(figure.name));
        }
        for (durability, rows) in &side.parts {
            let rows: Vec<&Row<'_>> = rows.iter().filter(|row| row.has(figure)).collect();
            if !rows.is_empty() {
                let _ = writeln!(out, "<h3 class=\"part\">{}</h3>", escaped(title(durability)));
                table(&mut out, &side, &rows, figure);
            }
        }
        out.push_str(if is_first { "" } else { "</details>\n" });
    }
    out
}

/// On how many lines the first target is ahead, part by part.
fn verdict(side: &Side<'_>) -> String {
    let parts = side.parts.iter().filter_map(|(durability, rows)| {
        let ratios = rows.iter().filter_map(|row| row.ratio(&FIGURES[0], side.held));
        let (lines, ahead) = ratios.fold((0, 0), |(lines, ahead), ratio| {
            (lines + 1, ahead + usize::from(ratio >= BEHIND))
        });
        (lines > 0).then(|| format!("{ahead} of {lines} lines {}", lines_of(durability)))
    });
    format!("{} is ahead or level on {}.", side.targets[0], parts.collect::<Vec<_>>().join(", "))
}

fn lines_of(durability: &str) -> &str {
    if durability == "–" { "that write nothing" } else { durability }
}

/// What a part of the tables is called.
fn title(durability: &str) -> &str {
    if durability == "–" { "reads, and the machine by itself" } else { durability }
}

fn table(out: &mut String, side: &Side<'_>, rows: &[&Row<'_>], figure: &Figure) {
    let columns = side.columns(rows, figure);
    out.push_str("<div class=\"scroll\"><table class=\"matrix\">\n<thead><tr><th>workload</th><th>unit</th><th class=\"n\">ratio</th>");
    for at in &columns {
        let class = if *at < side.held { "n" } else { "n aside" };
        let _ = write!(out, "<th class=\"{class}\">{}</th>", escaped(side.targets[*at]));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        let ratio = row.ratio(figure, side.held);
        let class = if ratio.is_some_and(|ratio| ratio < BEHIND) { "n behind" } else { "n" };
        let _ = write!(
            out,
            "<tr><th>{}{}</th><td>{}</td><td class=\"{class}\">{}</td>",
            escaped(&row.own.name),
            threads(row.own),
            escaped(unit(row.own, figure)),
            ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"))
        );
        let best = row.best(figure, 0..side.held);
        for at in &columns {
            out.push_str(&cell(row, figure, *at, best, *at < side.held));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

fn cell(
    row: &Row<'_>,
    figure: &Figure,
    at: usize,
    best: Option<(usize, f64)>,
    held: bool,
) -> String {
    let Some(value) = row.value(figure, at) else { return "<td></td>".to_owned() };
    let class = match best {
        Some((place, _)) if place == at => "n best",
        _ if held => "n",
        _ => "n aside",
    };
    let spread = row.cells[at].and_then(|group| group.spread(|run| Some(run.per_second)));
    let spread = spread.filter(|spread| spread.runs > 1);
    let told = spread.map_or(String::new(), |spread| {
        format!(" title=\"{} runs, ± {:.0} %\"", spread.runs, spread.percent())
    });
    let bar = match best.filter(|_| held && figure.name == FIGURES[0].name) {
        Some((_, best)) => {
            let share = if row.less_is_better(figure) { best / value } else { value / best };
            // Columns differ in width; bars are compared across them.
            let width = share.clamp(0.0, 1.0) * BAR_PX;
            format!("<span class=\"bar\" style=\"width:{width:.0}px\"></span>")
        }
        None => String::new(),
    };
    format!("<td class=\"{class}\"{told}>{}{bar}</td>", (figure.told)(value))
}

/// The threads of a workload whose name does not say them.
fn threads(own: &Workload) -> String {
    if own.unit.is_some() || own.threads == 0 {
        return String::new();
    }
    let s = if own.threads == 1 { "" } else { "s" };
    format!("<small>{} thread{s}</small>", own.threads)
}

fn unit<'a>(own: &'a Workload, figure: &Figure) -> &'a str {
    let main = figure.name == FIGURES[0].name;
    if main { own.unit.as_deref().unwrap_or("ops/s") } else { "" }
}

/// The same as Markdown; nothing where there is one target.
pub(crate) fn markdown(groups: &[Group<'_>]) -> String {
    let Some(side) = Side::of(groups) else { return String::new() };
    let mut out = String::new();
    for figure in FIGURES.iter().filter(|figure| side.has(figure)) {
        for (durability, rows) in &side.parts {
            let rows: Vec<&Row<'_>> = rows.iter().filter(|row| row.has(figure)).collect();
            if rows.is_empty() {
                continue;
            }
            let columns = side.columns(&rows, figure);
            let names: Vec<&str> = columns.iter().map(|at| side.targets[*at]).collect();
            let own = side.targets[0];
            let _ = write!(
                out,
                "### {}, {}\n\n| workload | unit | {own} / best other | {} |\n|---|---|--:|{}\n",
                figure.name,
                title(durability),
                names.join(" | "),
                "--:|".repeat(columns.len())
            );
            for row in rows {
                let ratio = row.ratio(figure, side.held).map_or("–".to_owned(), |ratio| {
                    if ratio < BEHIND { format!("**{ratio:.2}**") } else { format!("{ratio:.2}") }
                });
                let value = |at: &usize| row.value(figure, *at).map_or(String::new(), figure.told);
                let values: Vec<String> = columns.iter().map(value).collect();
                let unit = unit(row.own, figure);
                let _ = writeln!(
                    out,
                    "| {} | {unit} | {ratio} | {} |",
                    row.own.name,
                    values.join(" | ")
                );
            }
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use tabulith_results::latency::Latency;

    fn run(name: &str, target: &str, per_second: f64, aside: bool) -> Workload {
        Workload {
            name: name.to_owned(),
            target: target.to_owned(),
            durability: "synced".to_owned(),
            unit: Some("rows/s".to_owned()),
            per_second,
            aside,
            ..Workload::default()
        }
    }

    #[test]
    fn a_line_has_all_targets_and_says_who_is_behind() {
        let runs = [
            run("W1 <a>", "ours", 50.0, false),
            run("W1 <a>", "ours", 70.0, false),
            run("W1 <a>", "ours", 60.0, false),
            run("W1 <a>", "theirs", 120.0, false),
            run("W1 <a>", "memory", 900.0, true),
        ];
        let groups = Group::all(&runs);
        let html = html(&groups);
        assert!(html.contains("<td class=\"n behind\">0.50</td>"), "{html}");
        assert!(html.contains("<td class=\"n best\">120"), "{html}");
        assert!(html.contains("title=\"3 runs, ± 17 %\">60.0<span"), "{html}");
        assert!(html.contains("<td class=\"n aside\">900</td>") && html.contains("W1 &lt;a&gt;"));
        assert!(html.contains(">ours is ahead or level on 0 of 1 lines synced.<"), "{html}");
        assert!(!html.contains("<details>"), "nobody has another figure");
        let text = markdown(&groups);
        let line = "| W1 <a> | rows/s | **0.50** | 60.0 | 120 | 900 |";
        assert!(text.lines().any(|own| own == line), "{text}");
    }

    /// Less is better of all figures but the first.
    #[test]
    fn each_figure_stands_under_its_own_name_in_its_own_unit() {
        let with = |target: &str, times: f64| Workload {
            latency_us: Latency {
                p50: Some(12.5 * times),
                p99: Some(340.0 * times),
                p99_9: Some(5_600.0 * times),
                ..Latency::default()
            },
            cpu_us: Some(7.5 * times),
            write_amplification: Some(3.25 * times),
            space_amplification: Some(1.5 * times),
            memory_bytes: Some((64.0 * times) as u64 * (1 << 20)),
            ..run("W3", target, 1_000.0 * times, false)
        };
        let runs = [with("ours", 1.0), with("theirs", 2.0)];
        let groups = Group::all(&runs);
        let text = markdown(&groups);
        let own = |line: &&str| line.starts_with("### ") || line.starts_with("| W3 |");
        let lines: Vec<&str> = text.lines().filter(own).collect();
        let expected = [
            ("Side by side", "rows/s | **0.50** | 1000 | 2000"),
            ("p50", " | 2.00 | 12.5 us | 25.0 us"),
            ("p99", " | 2.00 | 340 us | 680 us"),
            ("p99.9", " | 2.00 | 5.60 ms | 11.2 ms"),
            ("CPU by operation", " | 2.00 | 7.50 us | 15.0 us"),
            ("Write amplification", " | 2.00 | 3.25 | 6.50"),
            ("Space amplification", " | 2.00 | 1.50 | 3.00"),
            ("Most memory", " | 2.00 | 64.0 MiB | 128 MiB"),
        ];
        assert_eq!(lines.len(), 2 * expected.len(), "{text}");
        for (own, (name, line)) in lines.chunks(2).zip(expected) {
            assert!(own[0].starts_with(&format!("### {name}")), "{name}: {own:?}");
            assert!(own[0].ends_with(", synced"), "{name}: {own:?}");
            assert_eq!(own[1], format!("| W3 | {line} |"), "{name}");
        }
        let html = html(&groups);
        let best: Vec<&str> = html.split("<td class=\"n best\">").skip(1).collect();
        let best: Vec<&str> = best.iter().filter_map(|rest| rest.split('<').next()).collect();
        let ours = ["12.5 us", "340 us", "5.60 ms", "7.50 us", "3.25", "1.50", "64.0 MiB"];
        assert_eq!((best[0], &best[1..]), ("2000", &ours[..]), "{html}");
    }

    #[test]
    fn a_bar_is_as_long_as_it_is_good() {
        let mut runs = [run("W4", "ours", 10.0, false), run("W4", "theirs", 20.0, false)];
        let of = |runs: &[Workload]| html(&Group::all(runs));
        let bar = |value: &str, px: u32| {
            format!("{value}<span class=\"bar\" style=\"width:{px}px\"></span>")
        };
        let page = of(&runs);
        assert!(page.contains(&bar("10.0", 22)) && page.contains(&bar("20.0", 44)), "{page}");
        runs.iter_mut().for_each(|run| run.less_is_better = true);
        let page = of(&runs);
        assert!(page.contains(&bar("10.0", 44)) && page.contains(&bar("20.0", 22)), "{page}");
    }
}
