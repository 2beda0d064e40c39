//! The order of the house: each crate's files as its `mod` lines list them, and who imports whom.

use crate::repo::Repo;
use crate::source;

/// One file of a crate, at its place in the order.
pub(crate) struct Module {
    /// From the crate's root, such as `["wal", "format"]`; empty for the root itself.
    pub(crate) name: Vec<String>,
    /// From the repository's root.
    pub(crate) path: String,
    /// Whether it is a folder's `mod.rs`.
    pub(crate) is_folder: bool,
}

/// A crate: its modules from the ground up, the root last.
pub(crate) struct House {
    /// The folder of the root file, such as `engine/src`.
    pub(crate) dir: String,
    pub(crate) modules: Vec<Module>,
    /// Every file that a `mod` line reaches, those under `#[cfg(test)]` included.
    pub(crate) reached: Vec<String>,
}

/// An import from one module to another, or to something that no file's name answers.
pub(crate) struct Arrow {
    pub(crate) from: usize,
    pub(crate) line: usize,
    pub(crate) to: usize,
}

/// Every crate that the repository holds, by the folder of its `lib.rs` or `main.rs`.
pub(crate) fn houses(repo: &Repo) -> Vec<House> {
    let is_root = |path: &str| path.ends_with("src/lib.rs") || path.ends_with("/main.rs");
    repo.rust().filter(|file| is_root(&file.path)).map(|file| house(repo, &file.path)).collect()
}

fn house(repo: &Repo, root: &str) -> House {
    let dir = root.rsplit_once('/').map_or("", |(dir, _)| dir);
    let mut modules = Vec::new();
    add_children(repo, root, dir, &[], Tests::Out, &mut modules);
    modules.push(Module { name: Vec::new(), path: root.to_owned(), is_folder: false });
    let mut all = Vec::new();
    add_children(repo, root, dir, &[], Tests::In, &mut all);
    let reached = all.into_iter().map(|module| module.path).chain([root.to_owned()]).collect();
    House { dir: dir.to_owned(), modules, reached }
}

/// Whether modules under `#[cfg(test)]` count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tests {
    In,
    Out,
}

fn add_children(
    repo: &Repo,
    path: &str,
    dir: &str,
    name: &[String],
    tests: Tests,
    out: &mut Vec<Module>,
) {
    let Some(file) = repo.get(path) else { return };
    let blanked = source::blank(&file.text);
    let code = if tests == Tests::In { blanked } else { source::without_tests(&blanked) };
    for child in source::modules(&code) {
        let name = [name, std::slice::from_ref(&child)].concat();
        let below = format!("{dir}/{child}");
        let folder = format!("{below}/mod.rs");
        let is_folder = repo.get(&folder).is_some();
        let path = if is_folder { folder } else { format!("{below}.rs") };
        // What a file's children offer stands before the file that uses them.
        add_children(repo, &path, &below, &name, tests, out);
        out.push(Module { name, path, is_folder });
    }
}

impl House {
    /// The module whose name is the longest start of `path`.
    fn resolve(&self, path: &[String]) -> usize {
        let fits = |module: &&(usize, &Module)| path.starts_with(&module.1.name);
        let all: Vec<_> = self.modules.iter().enumerate().collect();
        let best = all.iter().filter(fits).max_by_key(|(_, module)| module.name.len());
        best.map_or(self.modules.len() - 1, |(i, _)| *i)
    }

    /// Every import of every module, tests left out.
    pub(crate) fn arrows(&self, repo: &Repo) -> Vec<Arrow> {
        let mut out = Vec::new();
        for (from, module) in self.modules.iter().enumerate() {
            let Some(file) = repo.get(&module.path) else { continue };
            for import in source::imports(&source::without_tests(&source::blank(&file.text))) {
                let to = self.resolve(&absolute(&module.name, &import.path));
                out.push(Arrow { from, line: import.line, to });
            }
        }
        out
    }

    /// The module's name as a path, such as `wal::format`; `crate` for the root.
    pub(crate) fn name(&self, module: usize) -> String {
        match &self.modules[module].name[..] {
            [] => "crate".to_owned(),
            name => name.join("::"),
        }
    }
}

/// `path` from the crate's root, `crate` and `super` resolved from `module`.
fn absolute(module: &[String], path: &[String]) -> Vec<String> {
    let ups = path.iter().take_while(|part| *part == "super").count();
    if ups > 0 {
        let kept = module.len().saturating_sub(ups);
        return [&module[..kept], &path[ups..]].concat();
    }
    path[1..].to_vec()
}
