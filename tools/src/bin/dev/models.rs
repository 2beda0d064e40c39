//! `cargo dev loom` and `cargo dev shuttle`: the engine with a model checker's locks and atomics, in a
//! target folder of its own.

use crate::repo;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the engine for `checker` and runs its models; `names` are parts of the names of those that
/// are to be run.
pub(crate) fn run(checker: &str, names: &[String]) -> Result<()> {
    let root = repo::root()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // Compiled for minutes, to run for one: what is below the engine is optimized where it pays.
    for package in optimized(checker) {
        command.arg("--config").arg(format!("profile.dev.package.{package}.opt-level=1"));
    }
    command.args(["test", "--quiet", "--locked", "--package", "tabulith", "--lib"]);
    command.arg("--target-dir").arg(target(&root, checker)).arg("--");
    match names {
        [] => command.arg("models::"),
        names => command.args(names),
    };
    let status = command
        .arg("--nocapture")
        .current_dir(&root)
        .env("RUSTFLAGS", flags(checker))
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "0")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_INCREMENTAL", "0")
        .status()
        .context("cargo does not start")?;
    if !status.success() {
        bail!("a model of {checker} failed");
    }
    Ok(())
}

/// Which crates: of loom its own, with shuttle all, since it draws and keeps its sets by those of others.
fn optimized(checker: &str) -> &'static [&'static str] {
    match checker {
        "loom" => &["loom", "generator"],
        _ => &["\"*\""],
    }
}

/// The target folder of its builds.
pub(crate) fn target(root: &Path, checker: &str) -> PathBuf {
    repo::target(root).join(checker)
}

/// What the compiler is told for them.
pub(crate) fn flags(checker: &str) -> String {
    format!("--cfg model=\"{checker}\"")
}
