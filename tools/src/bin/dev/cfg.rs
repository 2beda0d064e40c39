//! Builds in which the workspace's own crates have one `cfg` more; all others are those of every
//! build.

use crate::repo;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Has `cargo` compile the workspace's crates with `cfg`, such as `bug="any"`: through a program
/// around the compiler, since RUSTFLAGS are for all crates and build every one of them anew.
pub(crate) fn set(cargo: &mut Command, root: &Path, cfg: &str) -> Result<()> {
    let dir = repo::target(root).join("cfg");
    fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
    let name: String = cfg.chars().filter(char::is_ascii_alphanumeric).collect();
    let compiler = dir.canonicalize()?.join(name);
    fs::write(&compiler, format!("#!/bin/sh\nexec \"$@\" --cfg '{cfg}'\n"))?;
    let status = Command::new("chmod").arg("+x").arg(&compiler).status()?;
    ensure!(status.success(), "chmod of {} failed", compiler.display());
    cargo.env("RUSTC_WORKSPACE_WRAPPER", &compiler);
    Ok(())
}
