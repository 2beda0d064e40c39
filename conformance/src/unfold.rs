//! Blocks as rows: one for each of their cases.

use crate::parse::{Block, ListError};
use crate::row::{Provenance, Row};

/// The test that runs every row which names no other.
pub const TEST: &str = "conformance/tests/ours.rs";

/// The rows of a block.
///
/// The first column of a block's cases is what their ids end with. A column `mark` replaces the
/// block's provenance, a column `about` what it says; the others are variables.
pub fn rows(block: &Block) -> Result<Vec<Row>, ListError> {
    if block.columns.is_empty() {
        return Ok(vec![row(block, block.id.clone(), Vec::new())?]);
    }
    let mut out = Vec::new();
    for case in &block.cases {
        let values: Vec<_> = block.columns.iter().cloned().zip(case.iter().cloned()).collect();
        let name = case.first().map_or("", String::as_str);
        out.push(row(block, format!("{}/{name}", block.id), values)?);
    }
    Ok(out)
}

fn row(block: &Block, id: String, values: Vec<(String, String)>) -> Result<Row, ListError> {
    let value = |name: &str| values.iter().find(|(key, _)| key == name).map(|(_, value)| value);
    let mark = value("mark").unwrap_or(&block.mark);
    let Some(provenance) = Provenance::of(mark) else {
        let why = format!("{id}: no provenance is {mark}");
        return Err(ListError { place: block.place.clone(), why });
    };
    let mut about = value("about").unwrap_or(&block.about).clone();
    for (name, text) in &values {
        about = about.replace(&format!("${{{name}}}"), text);
    }
    Ok(Row {
        id,
        section: block.section.clone(),
        provenance,
        about,
        needs: block.needs.clone(),
        test: block.test.clone().unwrap_or_else(|| TEST.to_owned()),
        place: block.place.clone(),
        values,
        steps: block.steps.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::rows;
    use crate::parse::blocks;

    #[test]
    fn each_case_is_a_row() {
        let text =
            "== a | R | takes ${n}\n| case | n | mark |\n| x | 1 | D |\n| y | 2 | K |\nGET /\n";
        let blocks = blocks("f", text).expect("a list");
        let rows = rows(&blocks[0]).expect("rows");
        let told: Vec<_> =
            rows.iter().map(|row| format!("{} {} {}", row.id, row.provenance, row.about)).collect();
        assert_eq!(told, ["a/x D takes 1", "a/y K takes 2"]);
    }

    #[test]
    fn an_unknown_mark_is_refused() {
        let blocks = blocks("f", "== a | Q | b\nGET /\n").expect("a list");
        assert!(rows(&blocks[0]).is_err());
    }
}
