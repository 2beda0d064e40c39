//! The files of the repository, read once.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// A text file: its path from the root with `/`, and what it says.
pub(crate) struct TextFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// All text files of the repository by path; what .gitignore names is left out.
pub(crate) struct Repo {
    pub(crate) root: PathBuf,
    pub(crate) files: Vec<TextFile>,
}

impl Repo {
    /// Reads the repository that this program was built from.
    pub(crate) fn read() -> Result<Repo> {
        let root = root()?;
        let ignored = ignored(&root)?;
        let mut files = Vec::new();
        collect(&root, "", &ignored, &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Repo { root, files })
    }

    /// The file at `path`.
    pub(crate) fn get(&self, path: &str) -> Option<&TextFile> {
        let found = self.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok()?;
        self.files.get(found)
    }

    /// What the file at `path` says; an error that names it where there is none.
    pub(crate) fn text(&self, path: &str) -> Result<&str> {
        let file = self.get(path).with_context(|| format!("{path} is missing"))?;
        Ok(&file.text)
    }

    /// The Rust files.
    pub(crate) fn rust(&self) -> impl Iterator<Item = &TextFile> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }
}

/// The root of the repository.
pub(crate) fn root() -> Result<PathBuf> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(tools.parent().context("tools has no parent folder")?.to_owned())
}

/// Where cargo builds.
pub(crate) fn target(root: &Path) -> PathBuf {
    root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Names that .gitignore lists as plain lines, slashes and patterns stripped.
fn ignored(root: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(root.join(".gitignore")).context(".gitignore")?;
    let names = text.lines().map(|line| line.trim().trim_matches('/').to_owned());
    Ok(names.filter(|name| !name.is_empty() && !name.starts_with('#')).collect())
}

fn collect(dir: &Path, prefix: &str, ignored: &[String], out: &mut Vec<TextFile>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == ".git" || ignored.iter().any(|pattern| names(pattern, &name)) {
            continue;
        }
        let path = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), &format!("{path}/"), ignored, out)?;
        } else if let Ok(text) = fs::read_to_string(entry.path()) {
            out.push(TextFile { path, text }); // What is not UTF-8 is data, not text.
        }
    }
    Ok(())
}

fn names(pattern: &str, name: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(end) => name.ends_with(end),
        None => name == pattern,
    }
}
