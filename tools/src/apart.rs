//! Folders of which one must not lie in the other, by whatever way it is named.

use crate::exit::Failure;
use anyhow::Result;
use std::path::{Path, PathBuf};

/// The whole path, without links as far as it exists: before a folder is made it is what it is
/// afterwards.
pub(crate) fn whole(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let resolved: Option<PathBuf> = path.ancestors().find_map(|above| {
        let rest = path.strip_prefix(above).ok()?;
        // Joined by components: an empty rest adds no slash.
        Some(above.canonicalize().ok()?.components().chain(rest.components()).collect())
    });
    resolved.unwrap_or(path)
}

/// Refuses a folder to be made that lies in `dir`, or is it.
pub(crate) fn check(dir: &Path, target: &Path) -> Result<()> {
    match whole(target).starts_with(whole(dir)) {
        true => {
            let what = format!("{} is or lies in {}", target.display(), dir.display());
            Err(Failure::usage(what).into())
        }
        false => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_folder_lies_in_another_by_any_way() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("data");
        std::fs::create_dir(&dir).unwrap();
        for inside in ["data", "data/a", "data/a/b", "./data/../data/a"] {
            assert!(check(&dir, &place.path().join(inside)).is_err(), "{inside}");
        }
        for beside in ["data2", "a/data", "data/../b", ""] {
            assert!(check(&dir, &place.path().join(beside)).is_ok(), "{beside}");
        }
    }
}
