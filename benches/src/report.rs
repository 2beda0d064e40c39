//! Results as a Markdown table and as lines of JSON.

use crate::case::Measured;
use crate::sample::histogram;
use anyhow::{Context as _, Result};
use tabulith_results::runs::median;

/// The table: medians of all rounds with the least and the most, latencies over all rounds.
pub fn markdown(all: &[Measured]) -> Result<String> {
    let mut text = String::from(
        "| what | median | min to max | unit | p50 us | p99 us | CPU us | others |\n\
         |---|--:|--:|---|--:|--:|--:|--:|\n",
    );
    for measured in all {
        let summary = Summary::of(measured)?;
        let dash = |value: Option<f64>| value.map_or("–".to_owned(), short);
        text.push_str(&format!(
            "| {} | {} | {} to {} | {} | {} | {} | {} | {:.1} |\n",
            measured.name,
            short(summary.median),
            short(summary.min),
            short(summary.max),
            measured.unit,
            dash(summary.p50_us),
            dash(summary.p99_us),
            short(summary.cpu_us),
            summary.others,
        ));
    }
    Ok(text)
}

/// One line of JSON per case.
pub fn json_lines(all: &[Measured]) -> Result<String> {
    let mut text = String::new();
    for measured in all {
        let summary = Summary::of(measured)?;
        let rates: Vec<_> = measured.samples.iter().map(|sample| sample.rate()).collect();
        let line = serde_json::json!({
            "what": measured.name,
            "unit": measured.unit,
            "per_second": rates,
            "median": summary.median,
            "p50_us": summary.p50_us,
            "p99_us": summary.p99_us,
            "cpu_us": summary.cpu_us,
            "others_cores": summary.others,
        });
        text.push_str(&format!("{line}\n"));
    }
    Ok(text)
}

struct Summary {
    median: f64,
    min: f64,
    max: f64,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    cpu_us: f64,
    others: f64,
}

impl Summary {
    fn of(measured: &Measured) -> Result<Summary> {
        let samples = &measured.samples;
        let mut rates: Vec<_> = samples.iter().map(|sample| sample.rate()).collect();
        let median_rate = median(&mut rates).context("a case without a sample")?;
        let mut latency_ns = histogram()?;
        for sample in samples {
            latency_ns.add(&sample.latency_ns).context("histogram")?;
        }
        let at = |quantile| {
            let ns = latency_ns.value_at_quantile(quantile);
            (!latency_ns.is_empty()).then_some(ns as f64 / 1e3)
        };
        Ok(Summary {
            median: median_rate,
            min: rates.first().copied().unwrap_or_default(),
            max: rates.last().copied().unwrap_or_default(),
            p50_us: at(0.5),
            p99_us: at(0.99),
            cpu_us: median(&mut samples.iter().map(|s| s.cpu_us()).collect::<Vec<_>>())
                .unwrap_or_default(),
            others: median(&mut samples.iter().map(|s| s.others_cores()).collect::<Vec<_>>())
                .unwrap_or_default(),
        })
    }
}

/// Three digits that mean something, and thousands as k and M.
fn short(value: f64) -> String {
    let (value, unit) = match value {
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e4 => (v / 1e3, "k"),
        v => (v, ""),
    };
    match value {
        v if v >= 100.0 => format!("{v:.0}{unit}"),
        v if v >= 10.0 => format!("{v:.1}{unit}"),
        v => format!("{v:.2}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        let printed = [0.834, 12.34, 834.4, 9999.0, 10_400.0, 1_234_567.0].map(short);
        assert_eq!(printed, ["0.83", "12.3", "834", "9999", "10.4k", "1.23M"]);
    }
}
