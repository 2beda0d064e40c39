//! The lines that `benches/peers --json` wrote before it wrote results: a process each, as results.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value as Json;
use std::collections::HashMap;
use tabulith_results::latency::Latency;
use tabulith_results::result::{Failure, Line, Results, Workload};

#[derive(Deserialize)]
struct Process {
    cell: String,
    engine: String,
    said: Said,
}

#[derive(Deserialize)]
struct Said {
    #[serde(default)]
    lines: Vec<Figure>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Figure {
    name: String,
    unit: String,
    kind: String,
    value: f64,
    #[serde(default)]
    less_is_better: bool,
    latency_us: Option<[f64; 3]>,
    #[serde(default)]
    cpu_us: f64,
    written_per_byte: Option<f64>,
    dirtied_per_byte: Option<f64>,
    disk_per_byte: Option<f64>,
    #[serde(default)]
    peak_bytes: u64,
    others_cores: Option<f64>,
    note: Option<String>,
}

/// Engines that keep nothing, and a variant of ours.
const ASIDE: [&str; 3] = ["ours-mapped", "skiplist", "btreemap"];

/// Whether a line is one of that program.
pub(crate) fn is_one(json: &Json) -> bool {
    json.get("cell").is_some() && json.get("engine").is_some() && json.get("said").is_some()
}

/// Adds the lines of a file that has only such lines.
pub(crate) fn read(text: &str, results: &mut Results) -> Result<()> {
    let mut runs: HashMap<(String, String), u32> = HashMap::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let process: Process =
            serde_json::from_str(line).with_context(|| format!("line {number}"))?;
        if let Some(why) = process.said.error {
            let run = runs.entry((process.engine.clone(), process.cell.clone())).or_default();
            let (workload, target) = (process.cell, process.engine.clone());
            results.push(Line::Failure(Failure { workload, run: *run + 1, target, why }));
        }
        for figure in process.said.lines {
            let run = runs.entry((process.engine.clone(), figure.name.clone())).or_default();
            *run += 1;
            results.push(Line::Workload(Box::new(workload(&process.engine, *run, figure))));
        }
    }
    Ok(())
}

fn workload(engine: &str, run: u32, figure: Figure) -> Workload {
    let latency = figure.latency_us.map(|[p50, p99, p99_9]| Latency {
        p50: Some(p50),
        p99: Some(p99),
        p99_9: Some(p99_9),
        ..Latency::default()
    });
    Workload {
        name: figure.name,
        run,
        target: engine.to_owned(),
        aside: engine.ends_with("-raw") || ASIDE.contains(&engine),
        // What each engine promises when it does not sync is not the same: its own report says it.
        durability: match figure.kind.as_str() {
            "Durable" => "synced".to_owned(),
            "Unsynced" => "unsynced".to_owned(),
            _ => "–".to_owned(),
        },
        per_second: figure.value,
        unit: Some(figure.unit),
        less_is_better: figure.less_is_better,
        latency_us: latency.unwrap_or_default(),
        write_amplification: figure.written_per_byte,
        dirty_amplification: figure.dirtied_per_byte,
        space_amplification: figure.disk_per_byte,
        memory_bytes: Some(figure.peak_bytes).filter(|bytes| *bytes > 0),
        cpu_us: Some(figure.cpu_us).filter(|us| *us > 0.0),
        others_cores: figure.others_cores,
        remark: figure.note,
        ..Workload::default()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const LINES: &str = concat!(
        r#"{"cell":"W3","engine":"ours","seconds":1.5,"said":{"lines":[{"name":"W3 durable","unit":"commits/s","#,
        r#""kind":"Durable","value":9000.5,"less_is_better":false,"latency_us":[100.0,200.0,300.0],"cpu_us":12.5,"#,
        r#""written_per_byte":1.5,"dirtied_per_byte":null,"disk_per_byte":null,"peak_bytes":1000,"others_cores":0.1,"note":null}]}}"#,
        "\n",
        r#"{"cell":"W3","engine":"sled","seconds":1.5,"said":{"error":"killed"}}"#,
        "\n",
        r#"{"cell":"W3","engine":"ours","seconds":1.5,"said":{"lines":[{"name":"W3 durable","unit":"commits/s","#,
        r#""kind":"Durable","value":9001.5,"latency_us":null,"peak_bytes":0,"note":"x"}]}}"#,
        "\n",
    );

    fn figure() -> Figure {
        let line: Process = serde_json::from_str(LINES.lines().next().unwrap()).unwrap();
        line.said.lines.into_iter().next().unwrap()
    }

    #[test]
    fn lines_become_workloads_and_runs_are_counted() {
        let mut results = Results::default();
        read(LINES, &mut results).unwrap();
        let [first, second] = &results.workloads[..] else { panic!("{results:?}") };
        assert_eq!((first.run, second.run), (1, 2));
        assert_eq!((first.target.as_str(), first.durability.as_str()), ("ours", "synced"));
        assert_eq!((first.latency_us.p99, first.write_amplification), (Some(200.0), Some(1.5)));
        assert_eq!((second.per_second, second.memory_bytes), (9001.5, None));
        let [failure] = &results.failures[..] else { panic!("{results:?}") };
        assert_eq!((failure.target.as_str(), failure.why.as_str()), ("sled", "killed"));
        assert!(!first.aside && workload("rocksdb-raw", 1, figure()).aside);
        assert!(is_one(&serde_json::from_str(LINES.lines().next().unwrap()).unwrap()));
        assert!(read("{\"cell\":1}", &mut results).is_err());
    }
}
