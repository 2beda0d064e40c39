//! A strict reader of the text format of Prometheus 0.0.4, written from its description: what a
//! scraper would forgive is an error here.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::collections::{BTreeMap, BTreeSet};

/// Samples by name and labels as they stand.
#[derive(Debug, Default)]
pub struct Exposition {
    pub samples: BTreeMap<String, f64>,
    pub kinds: BTreeMap<String, String>,
}

impl Exposition {
    /// The sample, or nothing.
    pub fn get(&self, series: &str) -> Option<f64> {
        self.samples.get(series).copied()
    }

    /// The sum of all samples whose names and labels begin so.
    pub fn sum(&self, start: &str) -> f64 {
        let own = self.samples.iter().filter(|(series, _)| series.starts_with(start));
        own.map(|(_, value)| value).sum()
    }

    /// Reads a text, or says in which line it is wrong.
    pub fn parse(text: &str) -> Result<Exposition, String> {
        let mut read = Exposition::default();
        let (mut family, mut helped) = (String::new(), BTreeSet::new());
        if !text.ends_with('\n') {
            return Err("the last line does not end".to_owned());
        }
        for (number, line) in (1..).zip(text.lines()) {
            let wrong = |what: &str| Err(format!("line {number}: {what}: {line}"));
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
                if !is_name(name) || help.is_empty() || !helped.insert(name.to_owned()) {
                    return wrong("help for no name, for nothing, or twice");
                }
                family = name.to_owned();
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap_or((rest, ""));
                if name != family || !["counter", "gauge", "histogram"].contains(&kind) {
                    return wrong("a type without its help, or of no kind");
                }
                if (kind == "counter") != name.ends_with("_total") {
                    return wrong("counters and only they end in _total");
                }
                if read.kinds.insert(name.to_owned(), kind.to_owned()).is_some() {
                    return wrong("a type twice");
                }
            } else {
                let Some((series, value)) = line.rsplit_once(' ') else {
                    return wrong("neither head nor sample");
                };
                let Some((name, labels)) = series_of(series) else { return wrong("no series") };
                let Ok(value) = value.parse::<f64>() else { return wrong("no value") };
                let kind = read.kinds.get(&family).map(String::as_str);
                let base = match kind {
                    Some("histogram") => ["_bucket", "_sum", "_count"]
                        .iter()
                        .find_map(|suffix| name.strip_suffix(suffix))
                        .unwrap_or_default(),
                    Some(_) => name,
                    None => return wrong("a sample before its type"),
                };
                if base != family {
                    return wrong("a sample in another family");
                }
                if kind != Some("gauge") && !(value >= 0.0 && value.is_finite()) {
                    return wrong("what only grows cannot be there");
                }
                let names: BTreeSet<_> = labels.iter().map(|(name, _)| name).collect();
                if names.len() != labels.len() {
                    return wrong("a label twice");
                }
                if read.samples.insert(series.to_owned(), value).is_some() {
                    return wrong("a series twice");
                }
            }
        }
        read.check_histograms()?;
        Ok(read)
    }

    /// Buckets ascend, and the last one has all.
    fn check_histograms(&self) -> Result<(), String> {
        type Buckets = BTreeMap<String, Vec<(f64, f64)>>;
        let mut buckets: Buckets = BTreeMap::new();
        for (series, value) in &self.samples {
            let Some((name, labels)) = series_of(series) else { continue };
            let Some(base) = name.strip_suffix("_bucket") else { continue };
            let bound = labels.iter().find(|(name, _)| name == "le").map(|(_, text)| text.as_str());
            let bound = match bound {
                Some("+Inf") => f64::INFINITY,
                Some(text) => text.parse().map_err(|_| format!("{series}: no bound"))?,
                None => return Err(format!("{series}: a bucket without a bound")),
            };
            let others = labels.iter().filter(|(name, _)| name != "le");
            let others: Vec<_> = others.map(|(name, text)| format!("{name}=\"{text}\"")).collect();
            let labels =
                if others.is_empty() { String::new() } else { format!("{{{}}}", others.join(",")) };
            buckets.entry(format!("{base} {labels}")).or_default().push((bound, *value));
        }
        for (series, mut own) in buckets {
            own.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (base, labels) = series.split_once(' ').unwrap_or_default();
            let ascends = own.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1);
            let last = own.last().copied().unwrap_or_default();
            let count = self.get(&format!("{base}_count{labels}"));
            if !ascends || last.0 != f64::INFINITY || count != Some(last.1) {
                return Err(format!("{series}: buckets {own:?}, count {count:?}"));
            }
            if self.get(&format!("{base}_sum{labels}")).is_none() {
                return Err(format!("{series}: no sum"));
            }
        }
        Ok(())
    }
}

fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || b"_:".contains(&first))
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_:".contains(&byte))
}

/// The name and the labels, unescaped, of `name{label="text",…}`.
fn series_of(text: &str) -> Option<(&str, Vec<(String, String)>)> {
    let Some((name, rest)) = text.split_once('{') else {
        return is_name(text).then(|| (text, Vec::new()));
    };
    let mut rest = rest.strip_suffix('}')?;
    let mut labels = Vec::new();
    while !rest.is_empty() {
        let (label, quoted) = rest.split_once("=\"")?;
        let (mut value, mut end) = (String::new(), None);
        let mut chars = quoted.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    end = Some(at + 1);
                    break;
                }
                '\\' => value.push(match chars.next()?.1 {
                    'n' => '\n',
                    plain @ ('\\' | '"') => plain,
                    _ => return None,
                }),
                other => value.push(other),
            }
        }
        if !is_name(label) || label.contains(':') {
            return None;
        }
        labels.push((label.to_owned(), value));
        rest = &quoted[end?..];
        rest = match rest.strip_prefix(',') {
            Some(more) if !more.is_empty() => more,
            Some(_) => return None,
            None if rest.is_empty() => rest,
            None => return None,
        };
    }
    is_name(name).then_some((name, labels))
}
