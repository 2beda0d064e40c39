//! A file that is written beside the place of its name, which it takes once it is whole.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the file is the user's, not the engine's"
)]

use anyhow::{Context, Result};
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

/// Such a file. One that is given up is removed.
pub(crate) struct Draft {
    path: PathBuf,
    pub(crate) file: File,
}

impl Draft {
    /// For a file that is to be at `path`. Where there is one, it is as readable as that.
    pub(crate) fn create(path: &Path) -> Result<Draft> {
        let mut name = OsString::from(path);
        name.push(format!(".{}.part", std::process::id()));
        let draft = PathBuf::from(name);
        let old = fs::metadata(path).ok();
        let file = make(&draft, old.as_ref()).with_context(|| format!("{}", draft.display()))?;
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

/// Makes the file, from the beginning with the permissions of the one that it is to replace.
#[cfg(unix)]
fn make(draft: &Path, old: Option<&Metadata>) -> io::Result<File> {
    use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
    let Some(old) = old else { return File::create(draft) };
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(old.permissions().mode() & 0o777);
    let file = options.open(draft)?;
    // The umask has taken some away.
    file.set_permissions(old.permissions())?;
    Ok(file)
}

#[cfg(not(unix))]
fn make(draft: &Path, _: Option<&Metadata>) -> io::Result<File> {
    File::create(draft)
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    /// Writes the file at `path` by a draft of it.
    fn write(path: &Path, text: &str) {
        let mut draft = Draft::create(path).unwrap();
        draft.file.write_all(text.as_bytes()).unwrap();
        draft.finish(path).unwrap();
    }

    #[test]
    fn a_file_that_is_replaced_stays_as_readable_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("file"), folder.path().join("other"));
        for mode in [0o600, 0o666, 0o444] {
            let _ = fs::remove_file(&path);
            write(&path, "old");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let draft = Draft::create(&path).unwrap();
            let of_draft = draft.file.metadata().unwrap().permissions().mode();
            assert_eq!(of_draft & 0o777, mode, "{of_draft:o} while it is written");
            draft.finish(&path).unwrap();
            let after = path.metadata().unwrap().permissions().mode();
            assert_eq!(after & 0o777, mode, "{after:o}");
        }
        // A new one is as the umask has it.
        write(&path.with_extension("new"), "");
        File::create(&other).unwrap();
        let modes = [path.with_extension("new"), other].map(|path| path.metadata().unwrap());
        assert_eq!(modes[0].permissions(), modes[1].permissions());
    }
}
