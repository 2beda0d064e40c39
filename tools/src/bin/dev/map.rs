//! The map of imports: every file in the order of the house, with what it uses.

use crate::modules;
use crate::repo::Repo;
use std::collections::BTreeSet;
use std::fmt::Write;

/// One line per file and the files it imports; `^` before a name marks an upward arrow.
pub(crate) fn draw(repo: &Repo) -> String {
    let mut out = String::new();
    for house in modules::houses(repo) {
        let arrows = house.arrows(repo);
        let _ = writeln!(out, "{}", house.dir);
        for (i, _) in house.modules.iter().enumerate().filter(|(_, module)| !module.is_folder) {
            let targets: BTreeSet<usize> =
                arrows.iter().filter(|a| a.from == i && a.to != i).map(|a| a.to).collect();
            let names: Vec<_> = targets
                .iter()
                .map(|to| format!("{}{}", if *to > i { "^" } else { "" }, house.name(*to)))
                .collect();
            let line = format!("  {:<24} {}", house.name(i), names.join(" "));
            let _ = writeln!(out, "{}", line.trim_end());
        }
        out.push('\n');
    }
    out
}
