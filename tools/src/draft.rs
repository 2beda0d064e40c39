//! A file that is written beside the place of its name, which it takes once it is whole.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the file is the user's, not the engine's"
)]

use anyhow::{Context, Result};
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Such a file. One that is given up is removed.
pub(crate) struct Draft {
    path: PathBuf,
    pub(crate) file: File,
}

impl Draft {
    /// For a file that is to be at `path`.
    pub(crate) fn create(path: &Path) -> Result<Draft> {
        let mut name = OsString::from(path);
        name.push(format!(".{}.part", std::process::id()));
        let draft = PathBuf::from(name);
        let file = File::create(&draft).with_context(|| format!("{}", draft.display()))?;
        Ok(Draft { path: draft, file })
    }

    /// Gives it its name, with all that was written to it.
    pub(crate) fn finish(self, path: &Path) -> Result<()> {
        let named = || format!("{}", path.display());
        self.file.sync_data().with_context(named)?;
        fs::rename(&self.path, path).with_context(named)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // It has its name by then, or it is not wanted.
        let _ = fs::remove_file(&self.path);
    }
}
