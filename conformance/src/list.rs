//! The list itself: the files of `rows`, in the order of the specification.

use crate::parse::{self, ListError};
use crate::row::Row;
use crate::unfold;
use std::collections::BTreeSet;

/// Each file of the list with its text.
const FILES: &[(&str, &str)] = &[
    ("rows/uri.txt", include_str!("../rows/uri.txt")),
    ("rows/tables.txt", include_str!("../rows/tables.txt")),
    ("rows/entities.txt", include_str!("../rows/entities.txt")),
    ("rows/service.txt", include_str!("../rows/service.txt")),
    ("rows/batch.txt", include_str!("../rows/batch.txt")),
    ("rows/model.txt", include_str!("../rows/model.txt")),
    ("rows/query.txt", include_str!("../rows/query.txt")),
    ("rows/auth.txt", include_str!("../rows/auth.txt")),
    ("rows/cors.txt", include_str!("../rows/cors.txt")),
    ("rows/errors.txt", include_str!("../rows/errors.txt")),
    ("rows/limits.txt", include_str!("../rows/limits.txt")),
    ("rows/sdks.txt", include_str!("../rows/sdks.txt")),
];

/// Every row, ids unique.
pub fn rows() -> Result<Vec<Row>, ListError> {
    let mut out: Vec<Row> = Vec::new();
    let mut ids = BTreeSet::new();
    for (name, text) in FILES {
        for block in parse::blocks(name, text)? {
            for row in unfold::rows(&block)? {
                if !ids.insert(row.id.clone()) {
                    let why = format!("the id {} is taken", row.id);
                    return Err(ListError { place: row.place, why });
                }
                out.push(row);
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_list_is_whole() {
        let rows = super::rows().expect("a list");
        assert!(rows.iter().all(|row| !row.section.number.is_empty()), "rows without a section");
    }
}
