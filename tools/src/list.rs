//! Short lists of what commands did or found, such as the names of tables, in each form of output.

use crate::args::output::Output;
use crate::yaml;
use anyhow::Result;
use serde_json::{Map, Value as Json};
use std::io::Write;

/// Prints items of the same members: as JSON, or their values below the names of the first one's.
pub(crate) fn print(out: &mut impl Write, form: Output, items: &[Map<String, Json>]) -> Result<()> {
    let text = |value: &Json| match value {
        Json::String(text) => text.clone(),
        Json::Null => String::new(),
        other => other.to_string(),
    };
    let rows: Vec<Vec<String>> =
        items.iter().map(|item| item.values().map(text).collect()).collect();
    let heads: Vec<&String> = items.first().map(|item| item.keys().collect()).unwrap_or_default();
    match form {
        Output::None => {}
        Output::Json => {
            let list = Json::from(items.iter().cloned().map(Json::Object).collect::<Vec<_>>());
            writeln!(out, "{list:#}")?;
        }
        Output::Jsonl => {
            for item in items {
                writeln!(out, "{}", Json::Object(item.clone()))?;
            }
        }
        Output::Yaml if items.is_empty() => out.write_all(b"[]\n")?,
        Output::Yaml => {
            let mut bytes = Vec::new();
            items.iter().for_each(|item| yaml::write_item(&mut bytes, item));
            out.write_all(&bytes)?;
        }
        Output::Csv => {
            let mut csv = csv::Writer::from_writer(&mut *out);
            if !heads.is_empty() {
                csv.write_record(&heads)?;
            }
            rows.iter().try_for_each(|row| csv.write_record(row))?;
            csv.flush()?;
        }
        Output::Tsv => {
            for row in &rows {
                writeln!(
                    out,
                    "{}",
                    row.iter().map(|text| tabless(text)).collect::<Vec<_>>().join("\t")
                )?;
            }
        }
        Output::Table if heads.is_empty() => {}
        Output::Table => print_table(out, &heads, &rows)?,
    }
    out.flush()?;
    Ok(())
}

/// A cell between tabs: what would end it is written as programs write it in quotes.
pub(crate) fn tabless(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}

fn print_table(out: &mut impl Write, heads: &[&String], rows: &[Vec<String>]) -> Result<()> {
    let chars = |text: &str| text.chars().count();
    let widest = |at: usize| rows.iter().map(|row| chars(&row[at])).max().unwrap_or(0);
    let widths: Vec<usize> =
        heads.iter().enumerate().map(|(at, head)| chars(head).max(widest(at))).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells = cells.zip(&widths).map(|(cell, width)| {
            // Control characters could move the cursor of the terminal that shows them.
            let clean: String =
                cell.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
            format!("{clean:<width$}")
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    writeln!(out, "{}", line(&mut heads.iter().map(|head| head.as_str())))?;
    let lines: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    writeln!(out, "{}", line(&mut lines.iter().map(String::as_str)))?;
    for row in rows {
        writeln!(out, "{}", line(&mut row.iter().map(String::as_str)))?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use serde_json::json;

    fn printed(form: Output, list: &Json) -> String {
        let items: Vec<Map<String, Json>> =
            list.as_array().unwrap().iter().map(|item| item.as_object().unwrap().clone()).collect();
        let mut out = Vec::new();
        print(&mut out, form, &items).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_form_says_the_same() {
        let list = json!([{"name": "a\tb", "rows": 7}, {"name": "long name", "rows": null}]);
        for (form, text) in [
            (Output::Table, "name       rows\n---------  ----\na\u{fffd}b        7\nlong name\n"),
            (
                Output::Jsonl,
                "{\"name\":\"a\\tb\",\"rows\":7}\n{\"name\":\"long name\",\"rows\":null}\n",
            ),
            (Output::Csv, "name,rows\na\tb,7\nlong name,\n"),
            (Output::Tsv, "a\\tb\t7\nlong name\t\n"),
            (Output::Yaml, "- name: \"a\\tb\"\n  rows: 7\n- name: \"long name\"\n  rows: null\n"),
            (Output::None, ""),
        ] {
            assert_eq!(printed(form, &list), text, "{form:?}");
        }
        let read: Json = serde_json::from_str(&printed(Output::Json, &list)).unwrap();
        assert_eq!(read, list);
    }

    #[test]
    fn nothing_is_still_valid() {
        for (form, text) in
            [(Output::Json, "[]\n"), (Output::Yaml, "[]\n"), (Output::Table, ""), (Output::Csv, "")]
        {
            assert_eq!(printed(form, &json!([])), text, "{form:?}");
        }
    }
}
